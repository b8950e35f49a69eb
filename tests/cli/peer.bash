# peer.bash - stores that serve peers, for files here and in torture.

# serve STORE [OPTION ...]: a data server; its address in $address, its pid in $served.
# $in goes before it: "ip netns exec NAME".
serve() {
	local store=$1
	shift
	rm -f address
	# shellcheck disable=SC2086
	${in:-} epd-serve --role data --store "$store" "$@" >address 2>serve.err 7>&- 8>&- &
	served=$!
	for _ in $(seq 200); do
		[ -s address ] && break
		kill -0 $served 2>/dev/null || break
		sleep 0.05
	done
	address=$(head -1 address)
	[ -n "$address" ]
}

# End a server, and see that it went as it should.
unserve() {
	kill "${1:-$served}"
	wait "${1:-$served}"
}

# Pages of a state as their sums, in order.
sums() {
	epd-state show -j "$@" | jq -c '[.kv_pages[].sum]'
}

# What a state says, each token with its logprob; $in goes before it.
drawn() {
	# shellcheck disable=SC2086
	${in:-} epd-decode -j "$@" | jq -ce 'select(.id != null) | [.id, .logprob]'
}

# What a branch of a state would say.
says() {
	local b
	b=$(epd-fork "$@")
	shift
	drawn "$@" "$b"
	epd-state release "$@" "$b"
}

# Two network namespaces that stand for two machines, 10.99.0.1 and 10.99.0.2.
machines() {
	command -v ip >/dev/null || skip 'ip is absent'
	local why='no network namespaces here'
	ip netns add "epd-a-$$-$BATS_TEST_NUMBER" 2>/dev/null || skip "$why"
	near=epd-a-$$-$BATS_TEST_NUMBER
	ip netns add "epd-b-$$-$BATS_TEST_NUMBER" 2>/dev/null || skip "$why"
	far=epd-b-$$-$BATS_TEST_NUMBER
	# Within a root that is no mount of its own they cannot be entered.
	ip netns exec "$near" true 2>/dev/null || skip "$why"
	ip -n "$near" link add v0 type veth peer name v0 netns "$far"
	ip -n "$near" addr add 10.99.0.1/24 dev v0
	ip -n "$far" addr add 10.99.0.2/24 dev v0
	for n in "$near" "$far"; do
		ip -n "$n" link set lo up
		ip -n "$n" link set v0 up
	done
}

no_machines() {
	[ -z "${near:-}" ] || ip netns del "$near"
	[ -z "${far:-}" ] || ip netns del "$far"
}

# A counter of a store's.
metric() {
	epd-state metrics "${@:2}" | sed -n "s/^epd_$1 //p"
}
