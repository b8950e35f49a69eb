# nodes.bash - nodes in network namespaces of a test's own, which one etcd knows.
#
# `hub` has the bridge, 10.98.0.1 and etcd; node i of a test, a letter, is 10.98.0.1i and
# has a store, a memory folder and a configuration that are called like it.

declare -gA at pid

# nodes a b c: their namespaces and configurations; etcd runs.
nodes() {
	command -v ip >/dev/null || skip 'ip is absent'
	command -v etcd >/dev/null || skip 'etcd is absent'
	local why='no network namespaces here' n i=10
	stem=epd-$$-$BATS_TEST_NUMBER
	space hub 1
	ip -n "$stem-hub" link add br0 type bridge 2>/dev/null || skip 'no bridges here'
	ip -n "$stem-hub" addr add 10.98.0.1/24 dev br0
	ip -n "$stem-hub" link set br0 up
	head -c 32 /dev/urandom | base64 >key
	chmod 600 key
	for n; do
		i=$((i + 1))
		space "$n"
		ip -n "$stem-hub" link add "v-$n" type veth peer name v0 netns "$stem-$n"
		ip -n "$stem-hub" link set "v-$n" master br0 up
		ip -n "$stem-$n" addr add 10.98.0.$i/24 dev v0
		ip -n "$stem-$n" link set v0 up
		at[$n]=tcp://10.98.0.$i:7070
		configure "$n"
	done
	etcd_up
}

# A namespace that can be entered: within a root that is no mount of its own none can.
space() {
	local why='no network namespaces here'
	ip netns add "$stem-$1" 2>/dev/null || skip "$why"
	ip netns exec "$stem-$1" true 2>/dev/null || skip "$why"
	ip -n "$stem-$1" link set lo up
}

# configure NODE [LINE ...]: what a node's commands and its server go by.
configure() {
	local n=$1
	shift
	mkdir -p "memory-$n"
	cat >"$n.yaml" <<-Y
	page: { memory_dir: $PWD/memory-$n }
	tier: { restore: always }
	transfer: { key_file: $PWD/key, timeout_ms: ${timeout_ms:-10000} }
	directory:
	  backend: etcd
	  endpoints: http://10.98.0.1:2379
	  node: $n
	  lease_ms: ${lease_ms:-2000}
	  timeout_ms: 500
	Y
	[ $# -eq 0 ] || printf '  %s\n' "$@" >>"$n.yaml"
}

# on NODE COMMAND ...: on its machine, with its store.
on() {
	local n=$1
	shift
	EPD_STORE=$PWD/${store:-$n} EPD_CONFIG=$PWD/$n.yaml ip netns exec "$stem-$n" "$@"
}

# The node's server, of $store or its own; what it said is in NODE.err.
up() {
	local n=$1
	shift
	rm -f "$n.address"
	EPD_STORE=$PWD/${store:-$n} EPD_CONFIG=$PWD/$n.yaml ip netns exec "$stem-$n" \
		epd-serve --role data --listen "${at[$n]}" --key-file key "$@" \
		>"$n.address" 2>>"$n.err" 7>&- 8>&- &
	pid[$n]=$!
	till 100 test -s "$n.address" || { cat "$n.err" >&2; false; }
}

down() {
	kill "${pid[$1]}"
	wait "${pid[$1]}" || true
	unset "pid[$1]"
}

cut_off() {
	kill -9 "${pid[$1]}"
	wait "${pid[$1]}" 2>/dev/null || true
	unset "pid[$1]"
}

etcd_up() {
	ip netns exec "$stem-hub" etcd --name n0 --data-dir etcd \
		--listen-client-urls http://10.98.0.1:2379 \
		--advertise-client-urls http://10.98.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380 \
		--initial-advertise-peer-urls http://127.0.0.1:2380 \
		--initial-cluster n0=http://127.0.0.1:2380 \
		--logger zap --log-level error >etcd.log 2>&1 7>&- 8>&- &
	pid[etcd]=$!
	till 300 asked /v3/maintenance/status "{}" >/dev/null
}

# asked PATH [BODY]: what etcd says; no program but the shell is needed for it.
asked() {
	# shellcheck disable=SC2016
	timeout 2 ip netns exec "$stem-hub" bash -c '
		exec 9<>/dev/tcp/10.98.0.1/2379 || exit 1
		printf "POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" "$1" ${#2} "$2" >&9
		read -r _ status _ <&9
		sed "1,/^\r\$/d" <&9
		[ "$status" = 200 ]' _ "$1" "${2-}" 2>/dev/null
}

# Keys under the prefix, one a line; it fails where etcd does not say.
keys() {
	local answer
	answer=$(asked /v3/kv/range "{\"key\": \"$(printf /epd/ | base64)\", \"range_end\":
		\"$(printf /epd0 | base64)\", \"keys_only\": true}") || return 1
	jq -er '.header.revision' <<<"$answer" >/dev/null || return 1
	jq -r '.kvs[]?.key | @base64d' <<<"$answer"
}

# How many keys look so.
keys_of() {
	local all
	all=$(keys) || return 1
	grep -c -- "$1" <<<"$all" || true
}

# How many hints a node's store told of.
hints() {
	keys_of "/hints/.*/$(uuid "$1")"
}

has_hints() {
	local n
	n=$(hints "$1") && [ "$n" -gt 0 ]
}

has_none() {
	local n
	n=$(hints "$1") && [ "$n" -eq 0 ]
}

# Whether so many workflows, or more, have an owner.
owned() {
	local n
	n=$(keys_of /shards/) && [ "$n" -ge "$1" ]
}

uuid() {
	sed -n 's/^uuid //p' "$1/store"
}

# A counter of a node's.
counted() {
	on "$1" epd-state metrics | sed -n "s/^epd_$2 //p"
}

# All that the node has in memory is lost.
lose() {
	find "memory-$1" -path '*/w/*' -type f -delete
}

no_nodes() {
	local n p
	for p in "${pid[@]}"; do
		kill -CONT "$p" 2>/dev/null || continue
		kill -9 "$p" 2>/dev/null || true
		wait "$p" 2>/dev/null || true
	done
	for n in $(ip netns list 2>/dev/null | sed -n "s/^\(${stem:-none}-[a-z]*\).*/\1/p"); do
		ip netns del "$n"
	done
}

# What a node's state says from here on: tokens with their logprobs.
text() {
	local n=$1 s=$2
	shift 2
	on "$n" epd-decode -n 8 --ignore-eos -j "$@" "$(on "$n" epd-fork "$s")" |
		jq -c 'select(.id != null) | [.id, .logprob]'
}
