#!/usr/bin/env bats
# epd-plan: which way bytes would go, told and never gone.

load helper
load peer

teardown() {
	[ -z "${served:-}" ] || ! kill -0 "$served" 2>/dev/null || unserve || true
	[ ! -e "$EPD_STORE/store" ] || epd-state check
	rm -rf "$EPD_STORE" peer memory
}

plans=$root/examples/plan

# A field of the plan.
of() {
	epd-plan -j "${@:2}" | jq -r "$1"
}

@test "the five scenarios are decided as they say" {
	[ "$(of '.stages[0].backend' --scenario "$plans/rdma.yaml")" = rdma ]
	[ "$(of '.stages[0].backend' --scenario "$plans/shm.yaml")" = shm ]
	[ "$(of '.stages[0].backend' --scenario "$plans/tcp.yaml")" = tcp ]
	[ "$(of '.path_kind, .stages[1].backend' --scenario \
		"$plans/staged.yaml" | xargs)" = 'staged tcp' ]
	[ "$(of '.stages[0].type' --scenario "$plans/recompute.yaml")" = recompute ]
}

@test "what if rdma were down" {
	epd-plan --scenario "$plans/rdma.yaml" >before
	grep -q '^primary   direct    rdma ' before
	epd-plan --scenario "$plans/rdma.yaml" \
		--scenario "$plans/rdma-down.yaml" >after
	grep -q '^primary   staged    tcp ' after
	grep -q '^not rdma: is down$' after
	# All but its health is as it was.
	[ "$(of '.stages | map(.bytes) | max' --scenario "$plans/rdma.yaml" \
		--scenario "$plans/rdma-down.yaml")" -eq 1048576 ]
}

@test "without a scenario it goes by what is here" {
	run --separate-stderr epd-plan --from host@a --to host@b --bytes 1M
	[ "$status" -eq 0 ]
	[[ $output == *'primary   direct    tcp '* ]]
	[[ $output == *'not shm: the target is not on the same machine'* ]]
	[ -z "$stderr" ]
	# Within a node, and between its memories.
	[ "$(of '.stages[0].backend' --from host --to host --bytes 64K)" = shm ]
	# The same question has the same answer, to the byte.
	epd-plan -j --from host@a --to host@b --bytes 1M >one
	epd-plan -j --from host@a --to host@b --bytes 1M | cmp - one
	# By files where there is io_uring, and why not by the rest.
	run --separate-stderr epd-plan --from host --to file --bytes 1M
	[[ $output == *'not tcp: no policy lists backends, and files go by gds or io_uring'* ]]
}

@test "what reaches no device is planned only where it is supposed to" {
	for how in '--from cuda:0@a --to host@b' '--from host --to rocm' \
		'--from cuda --to cuda'; do
		run --separate-stderr -6 epd-plan $how --bytes 1M
		[[ $stderr == *': nothing is built here that reaches '*' memory; --scenario may suppose it' ]]
		[[ $output == 'no plan, policy default'* ]]
		[[ $output != *primary* ]]
	done
	printf 'backends: { tcp: , copy: }\n' >gpu.yaml
	[ "$(of '.stages[0].backend' --scenario gpu.yaml --from cuda:0 --to host \
		--bytes 64K)" = copy ]
	# Of a scenario's ways nothing is said but what they are.
	printf 'backends: { tcp: }\n' >none.yaml
	run --separate-stderr -6 epd-plan --scenario none.yaml --from cuda@a \
		--to host@b --bytes 1M
	[[ $output == *'not by device-host-net-host: nothing copies between'* ]]
	[[ $stderr != *supposes* ]]
}

@test "op says who acts" {
	printf 'backends: { tcp: , copy: }\n' >gpu.yaml
	gpu='--scenario gpu.yaml --from cuda@a --to host@b --bytes 1M'
	[ "$(of '[.stages[].type] | join(" ")' $gpu --op write)" = 'local_copy transfer' ]
	[ "$(of '[.stages[].type] | join(" ")' $gpu --op read)" = 'remote_delegate transfer' ]
}

@test "the object says all there is, and names nothing it should not" {
	cat >secret.yaml <<-Y
	backends: { tcp: { health: healthy, bandwidth: 1G } }
	policies:
	- { name: sk-4f9a2b7c8d1e0f, backends: [tcp] }
	from: host@tenant-acme
	to: host@10.9.8.7
	bytes: 4096
	Y
	epd-plan -j --scenario secret.yaml >out
	epd-plan --scenario secret.yaml >>out
	jq -e '.schema_version == 1 and .role == "primary" and .attempt == 1 and
		.matched_policy == "redacted" and .estimate.source == "observed" and
		(.dependencies | length) == 6 and .resource_charge.nic_bytes == 4096' \
		<<<"$(head -1 out)"
	run -1 grep -E '4f9a2b7c|acme|10\.9\.8\.7' out
}

@test "why not" {
	[ "$(epd-plan --why-not tcp --scenario "$plans/rdma.yaml")" = \
		'tcp: does not lead between these memories' ]
	[ "$(epd-plan --why-not gds --scenario "$plans/rdma.yaml")" = \
		'gds: is not loaded here' ]
	[[ "$(epd-plan --why-not rdma --scenario "$plans/rdma.yaml")" == \
		'rdma: it is what comes first, at '* ]]
	epd-plan -j --why-not shm --scenario "$plans/rdma.yaml" |
		jq -e '.backend == "shm" and .why == ["shm: the target is not on the same machine"]'
}

@test "modes: who decides, and in what they differ" {
	epd-plan -j --scenario "$plans/shm.yaml" --mode disabled |
		jq -e '.mode == "disabled" and (has("planned") | not) and
		(.reasons | index("chosen by the legacy selector"))'
	epd-plan -j --scenario "$plans/staged.yaml" --mode shadow >out
	# The selector goes by order, and minds no health.
	jq -e '.mode == "shadow" and .stages[0].backend == "rdma" and
		.differs == ["backend", "path_kind", "order"] and
		.planned.path_kind == "staged"' out
	epd-plan -j --scenario "$plans/shm.yaml" --mode shadow |
		jq -e '.stages[0].backend == "rdma" and
		.planned.stages[0].backend == "shm" and
		.differs == ["backend", "order"]'
	epd-plan --scenario "$plans/shm.yaml" --mode shadow >out
	grep -q '^the planner differs in backend, what comes next: plan 1' out
	# What is next in order is not also no way.
	grep -q '^fallback  direct    tcp ' out
	run -1 grep 'legacy selector does not choose' out
	# What is the same is not told again, nor called otherwise.
	run epd-plan --from host@a --to host@b --bytes 1M --mode shadow
	[ "${lines[-1]}" = 'the planner decides the same' ]
	[ "$(grep -c '^primary ' <<<"$output")" -eq 1 ]
	printf 'backends: { tcp: , rdma: , copy: }\nranked_by: order\n' >order.yaml
	printf 'contract: { allow: [] }\n' >>order.yaml
	run epd-plan --scenario order.yaml --from host@a --to host@b --bytes 1M \
		--mode shadow
	[[ $output == *$'\nthe planner differs in what comes next: plan 1'* ]]
}

@test "hints, policies, index, strict" {
	shm="--scenario $plans/shm.yaml"
	[ "$(of '.stages[0].backend' $shm --hint tcp)" = tcp ]
	[ "$(of '.role, .stages[0].backend' $shm --index 1 | xargs)" = \
		'fallback copy' ]
	run --separate-stderr -6 epd-plan $shm --hint rdma
	[[ $output == 'no plan, policy default'* ]]
	[[ $output == *'not shm: another one was asked for by hint'* ]]
	[ "$stderr" = 'epd-plan: no path is both allowed and there' ]
	run --separate-stderr -6 epd-plan $shm --strict
	[[ $output == *'not shm: strict, and no policy matches'* ]]
	[[ $output != *'the policy does'* ]]
	run --separate-stderr -2 epd-plan $shm --hint gds
	[[ $stderr == *'not loaded here'* ]]
	run --separate-stderr -4 epd-plan $shm --policy nobody
	[ "$stderr" = 'epd-plan: nobody: no policy is called so' ]
	cat >policy.yaml <<-Y
	policies:
	- { name: fast, backends: [shm], contract: { strict: true } }
	Y
	[ "$(of .matched_policy $shm --scenario policy.yaml --policy fast \
		--strict)" = fast ]
}

@test "a state's move" {
	s=$(ask)
	run --separate-stderr epd-plan -v --to "$BATS_TEST_TMPDIR/other" "$s"
	[ "$status" -eq 0 ]
	[[ $output == "$s: plan "* ]]
	[[ $output == *' shm '* ]]
	[[ $stderr == "$s: "*' pages, '*' tokens' ]]
	[ ! -e "$BATS_TEST_TMPDIR/other" ]
	epd-state show -j "$s" >show
	bytes=$(jq '(.pages - .pages_missing) * .page_bytes' show)
	# As it would go today; who sends has nothing computed again.
	epd-plan -j --to tcp://10.1.2.3:7070 "$s" >out
	jq -e --argjson b "$bytes" '.state == "w1/s1" and .mode == "disabled" and
		[.stages[0].backend, .fallbacks[].backend] == ["tcp"] and
		.stages[0].bytes == $b and .bytes == $b and .batches == 1' out || {
		cat out show
		false
	}
	jq -e '[.rejected_candidates[] | .backend, .reason] == ["recompute",
		"nothing tells what to compute again, or how fast"]' <<<"$(
		epd-plan -j --mode enforced --to tcp://10.1.2.3:7070 "$s")"
	[ "$(of '.stages[0].backend' --to "unix://$PWD/socket" --hint shm "$s")" = shm ]
	# Several, and from standard input; one that is not there goes last.
	epd-fork "$s"
	printf '%s\nw1/s2\n' "$s" | epd-plan -j --to tcp://h:1 - >out
	[ "$(jq -r .state out | xargs)" = 'w1/s1 w1/s2' ]
	run --separate-stderr -4 epd-plan --to other w1/s9
	[ "$stderr" = 'epd-plan: w1/s9: no such state' ]
	# Looking changes nothing.
	[ "$(epd-state log w1 | wc -l)" -eq 2 ]
}

# What a hand-off of $1 to $address is decided by: as foretold, and as it was.
foretold() {
	epd-plan -j --to "$address" "$1" 2>foretold.err |
		jq -r 'select(.stages) | "\(.stages[0].backend) \(.stages[0].bytes)"'
}
went() {
	EPD_LOG=debug epd-handoff --to "$address" "$1" 2>&1 >/dev/null |
		sed -n 's/.*op=transfer .* via=\([a-z]*\) .* bytes=\([0-9]*\) .*result=ok.*/\1 \2/p'
}

@test "what is told of a state's move is what the hand-off does, as configured" {
	cat >tcp.yaml <<-Y
	policies:
	- { name: other, backends: [rdma], intent: background }
	- { name: ours, backends: [tcp], intent: handoff }
	- { name: rest, backends: [rdma] }
	Y
	printf 'policies: [ { backends: [rdma] } ]\n' >rdma.yaml
	printf 'contract: { max_nic_bytes: 1K }\n' >cap.yaml
	cp "$EPD_CONFIG" plain
	while read -r moves config; do
		{ cat plain; printf 'transfer: { %s }\n' "$config"; } |
			sed 's/transfer: { \(.*\) }/transfer:\n\1/; s/; /\n/g' |
			sed '/^transfer:/,$ { /^transfer:/! s/^ */  / }' >"$EPD_CONFIG"
		s=$(epd-prefill -p "What is $moves and $config?")
		serve peer --listen tcp://127.0.0.1:0 --config plain
		told=$(foretold "$s") || [ $? -eq 6 ]
		did=$(went "$s") || [ "$moves" = no ]
		unserve
		rm -rf peer
		[ "$told" = "$did" ] && { [ "$moves" = no ] || [ -n "$did" ]; } &&
			{ [ "$moves" = yes ] || [ -z "$did" ]; } || {
			echo "$config: told $told, did $did"
			cat foretold.err
			false
		}
	done <<-C
	yes mode: disabled
	yes mode: shadow
	yes mode: enforced
	yes compression: fp8; mode: enforced
	yes compression: int8
	no strict: true; mode: enforced
	yes strict: true
	yes rules: $PWD/tcp.yaml; mode: enforced
	yes rules: $PWD/tcp.yaml
	no rules: $PWD/rdma.yaml; mode: enforced
	no rules: $PWD/cap.yaml; mode: enforced
	no prefetch: none
	yes priority: high; default_transport: rdma
	C
}

@test "a state's move: what is configured, supposed and said" {
	s=$(ask)
	to='--to tcp://10.1.2.3:7070'
	printf 'policies: [ { name: ours, backends: [tcp] } ]\n' >rules.yaml
	printf 'transfer:\n  rules: %s\n  mode: enforced\n  compression: fp8\n' \
		"$PWD/rules.yaml" >>"$EPD_CONFIG"
	epd-plan -j $to "$s" >out
	jq -e '.mode == "enforced" and .matched_policy == "ours" and
		.bytes < .pages * 24576 and .stages[0].bytes == .bytes' out
	# A scenario stands over the configuration, and the line over both.
	printf 'backends: { tcp: { health: down } }\n' >down.yaml
	run --separate-stderr -6 epd-plan $to --scenario down.yaml "$s"
	[[ $output == *'not tcp: is down'* ]]
	[[ $stderr == *'the hand-off would leave its pages, which are computed there'* ]]
	[ "$(of .mode $to --scenario down.yaml --mode disabled "$s")" = disabled ]
	run --separate-stderr -4 epd-plan $to --policy nobody "$s"
	run --separate-stderr -2 epd-plan $to --hint rdma "$s"
	[[ $stderr == *'rdma, which the hint asks for, is not loaded here' ]]
	# A contract of one's own is not widened.
	printf 'contract: { allow: [fallback] }\n' >rules.yaml
	run --separate-stderr epd-plan $to --why-not recompute "$s"
	[[ $output == *'the contract does not allow it'* ]]
	printf 'contract: { allow: [fallback, recompute] }\n' >rules.yaml
	run --separate-stderr epd-plan $to --why-not recompute "$s"
	[[ $output == *'nothing tells what to compute again, or how fast'* ]]
	# Rules that are none are no rules to go by.
	printf 'polices: []\n' >rules.yaml
	run --separate-stderr -2 epd-plan $to "$s"
	[[ $stderr == *'rules.yaml:1: unknown key polices' ]]
	# Into a folder they are linked, whatever is configured.
	[ "$(of '.stages[0].backend' --to other "$s")" = shm ]
}

@test "a state's move to who is unknown" {
	s=$(ask)
	run --separate-stderr epd-plan --to nonsuch "$s"
	[ "$status" -eq 0 ]
	[ "$stderr" = "$s: no store is in nonsuch yet; the hand-off would make one" ]
	run --separate-stderr epd-plan -q --to nonsuch "$s"
	[ -z "$stderr" ]
	for to in http://h:1 tcp:/h:1://; do
		run --separate-stderr -2 epd-plan --to $to "$s"
		[ "$stderr" = "epd-plan: $to: a peer is tcp://HOST:PORT or unix:///PATH" ]
		[ -z "$output" ]
	done
	: >file
	mkdir full && : >full/x
	for to in file full; do
		run --separate-stderr epd-plan --to $to "$s"
		[ "$status" -ne 0 ]
		[ -z "$output" ]
	done
	[ "$stderr" = 'epd-plan: full: holds other files and is not a store' ]
	[ ! -e nonsuch ]
}

@test "a state without pages in memory has nothing to move" {
	s=$(ask)
	rm -rf "$BATS_TEST_TMPDIR"/memory/*
	run --separate-stderr -6 epd-plan --to tcp://h:1 "$s"
	[[ $stderr == "epd-plan: $s: none of its "*' in memory'* ]]
}

@test "a scenario is a file or a pipe that is written" {
	mkfifo pipe
	run --separate-stderr -2 timeout 10 epd-plan --scenario pipe
	[[ $stderr == *'not both said'* ]]
	run --separate-stderr -2 timeout 10 epd-plan --scenario /dev/null
	[ "$stderr" = 'epd-plan: /dev/null: neither a file nor a pipe' ]
	want=$(epd-plan --scenario "$root/examples/plan/shm.yaml")
	[ "$(epd-plan --scenario <(sleep 0.3; cat "$root/examples/plan/shm.yaml"))" = "$want" ]
}

@test "wrong use" {
	for how in '' '--from host' '--from host --to host' \
		'--from gpu --to host --bytes 1' '--from host --to host --bytes x' \
		'--from host --to host --bytes 1 --op copy' \
		'--from host --to host --bytes 1 --hint pigeon' \
		'--from host --to host --bytes 1 --mode on' \
		'--from host --to host --bytes 1 --why-not pigeon' \
		'--from host --to host --bytes 1 --index -1' \
		'--from host --to host --bytes 1 --priority urgent' \
		'--from host --to host --bytes 1 --intent war' \
		'w1/s1' '--from host --to host w1/s1'; do
		run --separate-stderr -2 epd-plan $how
		[ -z "$output" ]
		[ "$(wc -l <<<"$stderr")" -eq 1 ]
	done
	# Each says what is wanted.
	h='--from host --to host'
	run --separate-stderr -2 epd-plan $h --bytes 0
	[[ $stderr == 'epd-plan: --bytes 0: wants a number from 1 on, '* ]]
	run --separate-stderr -2 epd-plan $h --bytes 1 --priority urgent
	[[ $stderr == 'epd-plan: --priority urgent: wants low, normal or high '* ]]
	run --separate-stderr -2 epd-plan --from file:/tmp/x --to host --bytes 1
	[[ $stderr == 'epd-plan: file:/tmp/x: file is said without a path '* ]]
	run --separate-stderr -2 epd-plan --from cuda:a --to host --bytes 1
	[[ $stderr == *'cuda:a: wants a device'"'"'s number, 0 to 63, behind the colon '* ]]
	run --separate-stderr -2 epd-plan --from host --to nonsuch --bytes 1
	[[ $stderr == *'nonsuch: wants host, cuda, rocm, tpu or file, and behind an @ the node '* ]]
	run --separate-stderr -2 epd-plan --from host@a@b --to host --bytes 1
	[[ $stderr == *'host@a@b: wants a node'* ]]
	run --separate-stderr -4 epd-plan --scenario nowhere.yaml
	printf 'from: host\nsped: 1\n' >bad.yaml
	run --separate-stderr -2 epd-plan --scenario bad.yaml
	[ "$stderr" = 'epd-plan: bad.yaml:2: unknown key sped' ]
	printf 'a: &x 1\n' >bad.yaml
	run --separate-stderr -2 epd-plan --scenario bad.yaml
	[[ $stderr == *'bad.yaml:1: aliases, anchors and tags are not taken'* ]]
	head -c 70000 /dev/zero | tr '\0' '#' >bad.yaml
	run --separate-stderr -2 epd-plan --scenario bad.yaml
	[[ $stderr == *'larger than 64 KiB'* ]]
	[ ! -e "$EPD_STORE" ]
}
