#!/usr/bin/env bats
# epd-plan: which way bytes would go, told and never gone.

load helper

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
	grep -q '^primary   direct  rdma ' before
	epd-plan --scenario "$plans/rdma.yaml" \
		--scenario "$plans/rdma-down.yaml" >after
	grep -q '^primary   staged  tcp ' after
	grep -q '^not rdma: is down$' after
	# All but its health is as it was.
	[ "$(of '.stages | map(.bytes) | max' --scenario "$plans/rdma.yaml" \
		--scenario "$plans/rdma-down.yaml")" -eq 1048576 ]
}

@test "without a scenario it goes by what is here" {
	run --separate-stderr epd-plan --from host@a --to host@b --bytes 1M
	[ "$status" -eq 0 ]
	[[ $output == *'primary   direct  tcp '* ]]
	[[ $output == *'not shm: the target is not on the same machine'* ]]
	[ -z "$stderr" ]
	# Within a node, and between its memories.
	[ "$(of '.stages[0].backend' --from host --to host --bytes 64K)" = shm ]
	[ "$(of '.stages[0].backend' --from cuda:0 --to host --bytes 64K)" = copy ]
	# The same question has the same answer, to the byte.
	epd-plan -j --from cuda:0@a --to host@b --bytes 1M >one
	epd-plan -j --from cuda:0@a --to host@b --bytes 1M | cmp - one
}

@test "op says who acts" {
	[ "$(of '[.stages[].type] | join(" ")' --from cuda@a --to host@b \
		--bytes 1M --op write)" = 'local_copy transfer' ]
	[ "$(of '[.stages[].type] | join(" ")' --from cuda@a --to host@b \
		--bytes 1M --op read)" = 'remote_delegate transfer' ]
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
	epd-plan --scenario "$plans/shm.yaml" --mode shadow |
		grep -q '^the planner decides otherwise: plan 1'
}

@test "hints, policies, index, strict" {
	shm="--scenario $plans/shm.yaml"
	[ "$(of '.stages[0].backend' $shm --hint tcp)" = tcp ]
	[ "$(of '.role, .stages[0].backend' $shm --index 1 | xargs)" = \
		'fallback copy' ]
	run --separate-stderr -6 epd-plan $shm --hint rdma
	[[ $output == 'no plan, policy default'* ]]
	[[ $output == *'not shm: another one was asked for by hint'* ]]
	[ "$stderr" = 'epd-plan: no path is allowed and there' ]
	run --separate-stderr -6 epd-plan $shm --strict
	[[ $output == *'not shm: the policy does not authorise it'* ]]
	run --separate-stderr -2 epd-plan $shm --hint gds
	[[ $stderr == *'not loaded here'* ]]
	run --separate-stderr -4 epd-plan $shm --policy nobody
	[ "$stderr" = 'epd-plan: nobody: no such thing' ]
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
	# To another machine by TCP, or computed again at the rate that was measured.
	epd-plan -j --to tcp://10.1.2.3:7070 "$s" >out
	jq -e --argjson b "$bytes" '.state == "w1/s1" and
		([.stages[0].backend, .fallbacks[].backend] | sort) ==
		["recompute", "tcp"] and .stages[0].bytes == $b' out || {
		cat out show
		false
	}
	[ "$(of '.stages[0].backend' --to "unix://$PWD/socket" --hint shm "$s")" = shm ]
	# Several, and from standard input; one that is not there goes last.
	epd-fork "$s"
	printf '%s\nw1/s2\n' "$s" | epd-plan -j --to tcp://h:1 - >out
	[ "$(jq -r .state out | xargs)" = 'w1/s1 w1/s2' ]
	run --separate-stderr -4 epd-plan --to . w1/s9
	[ "$stderr" = 'epd-plan: w1/s9: no such state' ]
	# Looking changes nothing.
	[ "$(epd-state log w1 | wc -l)" -eq 2 ]
}

@test "a state without pages in memory has nothing to move" {
	s=$(ask)
	rm -rf "$BATS_TEST_TMPDIR"/memory/*
	run --separate-stderr -6 epd-plan --to tcp://h:1 "$s"
	[[ $stderr == "epd-plan: $s: none of its "*' in memory'* ]]
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
