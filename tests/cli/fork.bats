#!/usr/bin/env bats
# epd-fork: branches of a state, which share what is there and copy nothing.

load helper

# How often each page of a state is held.
counts() {
	epd-state show -j "$1" | jq -c '[.kv_pages[].refcount]'
}

runs() {
	find "$BATS_TEST_TMPDIR/memory" -path '*/w/*/*' -type f | wc -l
}

# A decode of $1 that has begun and goes on; its process is $pid.
busy() {
	epd-decode --isa scalar -t 1 -n 1900 --ignore-eos "$1" >out 2>err &
	pid=$!
	for i in $(seq 500); do
		[ -s out ] && return
		sleep 0.01
	done
	return 1
}

@test "prints one state a branch, oldest first" {
	s=$(ask)
	run --separate-stderr epd-fork -n 3 "$s"
	[ "$status" -eq 0 ]
	[ "$output" = $'w1/s2\nw1/s3\nw1/s4' ]
	[ -z "$stderr" ]
	[ "$(epd-fork "$s")" = w1/s5 ]
	[ "$(epd-fork --branches 1 -w w1 s2)" = w1/s6 ]
	[ "$(epd-state ls w1 | wc -l)" -eq 6 ]
}

@test "a branch answers as its parent does, and neither minds the other" {
	s=$(ask)
	epd-fork -n 2 "$s"
	[ "$(epd-decode w1/s2)" = ON ]
	epd-prefill -p 'And what colour is it?' w1/s3
	[ "$(epd-decode "$s")" = ON ]
	[ "$(epd-state show -j "$s" | jq .versions)" -eq 2 ]
	[ "$(epd-state show -j w1/s3 | jq .versions)" -eq 2 ]
	diff <(epd-state show --tokens "$s") <(epd-state show --tokens w1/s2)
}

@test "of several operands each is branched, and - reads them" {
	s=$(ask)
	t=$(epd-prefill -w other -p hello)
	run epd-fork -n 2 "$s" "$t"
	[ "$output" = $'w1/s2\nw1/s3\nother/s2\nother/s3' ]
	run epd-fork - <<<"$s"$'\n'"$t"
	[ "$output" = $'w1/s4\nother/s4' ]
	run --separate-stderr -2 epd-fork - </dev/null
	[ -z "$output" ]
}

@test "-j: an object a branch" {
	s=$(ask)
	epd-decode -n 2 "$s"
	epd-fork -j -n 2 --replace "$s" >out
	[ "$(jq -r .state out)" = $'w1/s2\nw1/s3' ]
	jq -es 'length == 2 and all(.[]; .schema_version == 1 and
		.version == 1 and .parent == "w1/s1@2" and .replaced and
		.ms > 0)' out
	epd-fork -j w1/s2 | jq -e '.parent == "w1/s2@1" and (.replaced | not)'
}

@test "-v says how many, and from where" {
	s=$(ask)
	run --separate-stderr epd-fork -v "$s"
	[[ $stderr =~ ^"w1/s1: 1 branch from @1, "[0-9.]+' ms'$ ]]
	run --separate-stderr epd-fork -v -n 3 --replace "$s@1"
	[[ $stderr =~ ^"w1/s1@1: 3 branches from @1, itself released, " ]]
}

@test "@V goes back: the branch knows nothing of what came later" {
	s=$(ask)
	epd-decode "$s"
	epd-prefill -p 'And what colour is it?' "$s"
	b=$(epd-fork "$s@1")
	[ "$(epd-state show -j "$b" | jq -c '[.tokens, .parent_state_id,
		.parent_version_id]')" = '[31,"w1/s1",1]' ]
	[ "$(epd-decode "$b")" = ON ]
	diff <(epd-state show --tokens "$s@2") <(epd-state show --tokens "$b")
	[ "$(epd-state show -j "$s" | jq .versions)" -eq 3 ]
	c=$(epd-fork "$s@2")
	[ "$(epd-state show -j "$c" | jq -r .turn)" = closed ]
	run -2 epd-decode "$c"
}

@test "--replace turns four pages' holder into eight: each page is held 8 times" {
	s=$(epd-prefill --raw -p "$(seq -s ' ' 1 22)")
	while [ "$(epd-state show -j "$s" | jq '.kv_pages | length')" -lt 4 ]; do
		epd-prefill --raw -p ' 23 24 25' "$s"
	done
	[ "$(counts "$s")" = '[1,1,1,1]' ]
	held=$(runs)
	mapfile -t b < <(epd-fork --replace -n 8 "$s")
	[ "${#b[@]}" -eq 8 ]
	for i in "${b[@]}"; do
		[ "$(counts "$i")" = '[8,8,8,8]' ]
	done
	run -4 epd-state show "$s"
	[ "$(runs)" -le "$held" ]
	epd-state rm "${b[@]:1}"
	[ "$(counts "${b[0]}")" = '[1,1,1,1]' ]
	epd-state rm "${b[0]}"
	[ "$(runs)" -eq 0 ]
}

@test "beside a live parent three branches make four, and all released none" {
	s=$(ask)
	mapfile -t b < <(epd-fork -n 3 "$s")
	[ "$(counts "$s")" = '[4,4]' ]
	[ "$(counts "${b[2]}")" = '[4,4]' ]
	[ "$(epd-state show -j "$s" | jq -r .status)" = SHARED ]
	held=$(runs)
	epd-state rm "$s" "${b[0]}"
	[ "$(counts "${b[1]}")" = '[2,2]' ]
	[ "$(runs)" -eq "$held" ]
	[ "$(epd-decode "${b[1]}")" = ON ]
	epd-state rm "${b[1]}" "${b[2]}"
	[ "$(runs)" -eq 0 ]
	[ -z "$(epd-state ls)" ]
}

@test "nothing is copied, and the shares come to what memory holds" {
	s=$(ask)
	was=$(epd-state metrics -j | jq .state.memory_bytes)
	epd-fork -n 7 "$s"
	[ "$(epd-state metrics -j | jq .state.memory_bytes)" -eq "$was" ]
	[ "$(epd-state ls -j | jq -s 'map(.proportional_bytes) | add')" -eq "$was" ]
	epd-decode -n 2 w1/s2 w1/s3
	sum=$(epd-state ls -j | jq -s 'map(.proportional_bytes) | add')
	[ "$sum" -eq "$(epd-state metrics -j | jq .state.memory_bytes)" ]
	[ "$sum" -gt "$was" ]
}

@test "a pipe: branches of a question, decoded as one batch" {
	s=$(ask)
	epd-fork -n 4 "$s" | epd-decode -j - >out
	[ "$(jq -r 'select(.finish).text' out)" = $'ON\nON\nON\nON' ]
	[ "$(jq -r 'select(.finish).state' out | sort)" = $'w1/s2\nw1/s3\nw1/s4\nw1/s5' ]
	epd-fork -n 2 "$s" | epd-decode - >out
	grep -Fx '==> w1/s6 <==' out
	grep -Fx '==> w1/s7 <==' out
}

@test "branches draw otherwise than each other, and --seed gives them again" {
	o='-n 16 --temp 2 --top-k 0 --top-p 1 --ignore-eos -s 5'
	for w in a b c; do
		s=$(ask 'Describe the picture.' -w $w)
		epd-fork -n 3 -s "$([ $w = c ] && echo 2 || echo 1)" "$s" |
			epd-decode $o -j - | jq -r 'select(.finish).text' >$w
		[ "$(sort -u $w | wc -l)" -eq 3 ]
	done
	diff a b
	run -1 diff a c
	# Drawn one by one they are the same.
	s=$(ask 'Describe the picture.' -w d)
	for b in $(epd-fork -n 3 -s 1 "$s"); do
		epd-decode $o -t 1 "$b"
	done >d
	diff a d
}

@test "--ttl is the branches', not the parent's" {
	s=$(ask)
	b=$(epd-fork --ttl 100ms "$s")
	epd-fork "$s"
	sleep 0.3
	run -4 epd-decode "$b"
	[ "$(epd-state ls)" = $'w1/s1\nw1/s3' ]
	run -2 epd-fork --ttl soon "$s"
}

@test "the log tells of it, and why" {
	s=$(ask)
	epd-fork "$s"
	epd-fork -n 2 --reason 'two "ways"' "$s"
	epd-state log -j w1 >out
	[ "$(jq -r 'select(.record == "fork").reason' out)" = $'agent_branch\ntwo "ways"' ]
	jq -es '.[-1] | .state == "w1/s1@1" and .branches == 2 and
		.first_branch == "w1/s3"' out
	epd-state log --verify w1
}

@test "tree draws branches beneath what they came from" {
	s=$(ask)
	epd-fork -n 2 "$s"
	epd-fork w1/s3
	run epd-state tree w1
	[ "${#lines[@]}" -eq 5 ]
	[[ ${lines[1]} == '`-- s1@1 SHARED, 31 tokens, 1 image' ]]
	[[ ${lines[2]} == '    |-- s2@1 '*', from s1@1' ]]
	[[ ${lines[3]} == '    `-- s3@1 '*', from s1@1' ]]
	[[ ${lines[4]} == '        `-- s4@1 '*', from s3@1' ]]
}

@test "--expect: not if somebody went on meanwhile" {
	s=$(ask)
	epd-decode -n 1 --ignore-eos "$s" >/dev/null
	for cow in true false; do
		printf 'page:\n  memory_dir: %s\nstate:\n  enable_cow: %s\n' \
			"$PWD/memory" $cow >cow.yaml
		run --separate-stderr -3 epd-fork --config cow.yaml --expect 1 --replace "$s"
		[[ $stderr == *'is at @2, not @1' ]]
		run -3 epd-fork --config cow.yaml --expect 1 "$s@1"
		run -0 epd-fork --config cow.yaml --expect 2 "$s@1"
	done
	[ "$(epd-state ls | wc -l)" -eq 3 ]
	run -2 epd-fork --expect 0 "$s"
}

@test "output that cannot be written is exit 1, and the branches stay" {
	[ -c /dev/full ] || skip 'no /dev/full'
	s=$(ask)
	run --separate-stderr -1 bash -c "epd-fork -n 2 $s >/dev/full"
	[ "$stderr" = 'epd-fork: standard output: No space left on device' ]
	[ "$(epd-state ls)" = $'w1/s1\nw1/s2\nw1/s3' ]
}

@test "sentences do not say the operand twice" {
	s=$(ask)
	epd-prefill -p more "$s"
	said() {
		run --separate-stderr "$@"
		echo "${stderr#epd-}"
	}
	for c in 'fork --expect 1' 'prefill -p x --expect 1'; do
		[ "$(said epd-$c w1/s1)" = "${c%% *}: w1/s1: it is at @2, not @1" ]
	done
	[ "$(said epd-fork --expect 1 -w w1 s1)" = 'fork: s1: it is at @2, not @1' ]
	[ "$(said epd-fork w1/s1@9)" = 'fork: w1/s1@9: it has no version @9' ]
	[ "$(said epd-fork -w w1 s1@9)" = 'fork: s1@9: it has no version @9' ]
	[[ $(said epd-decode w1/s1@1) == 'decode: w1/s1: it is at @2; '* ]]
	[[ $(EPD_TENANT=x said epd-decode w1/s1) == \
		'decode: w1/s1: it belongs to another tenant' ]]
}

@test "what is not there exits 4, the others go on" {
	s=$(ask)
	run --separate-stderr -4 epd-fork -n 2 w1/s9 "$s"
	[ "$output" = $'w1/s2\nw1/s3' ]
	[ "$stderr" = 'epd-fork: w1/s9: no such state' ]
	run --separate-stderr -4 epd-fork "$s@2"
	[ -z "$output" ]
	[[ $stderr == "epd-fork: $s@2: "*'version'* ]]
	run --separate-stderr -4 epd-fork w7/s1
	[[ $stderr == *'no such workflow'* ]]
	epd-state rm w1/s2
	run -4 epd-fork w1/s2
	[ "$(epd-state ls)" = $'w1/s1\nw1/s3' ]
}

@test "wrong use exits 2" {
	s=$(ask)
	for o in '-n 0' '-n 65537' '-n x' '-n -1' '-s x' '--ttl 5'; do
		run --separate-stderr -2 epd-fork $o "$s"
		[ -z "$output" ]
	done
	run -2 epd-fork
	run -2 epd-fork w1
	run -2 epd-fork x
	# No state, whether there is such a feature or not.
	for c in epd-fork epd-decode epd-handoff 'epd-state abort --reason x'; do
		run --separate-stderr -2 $c f:abcd
		[ "$stderr" = "${c%% *}: f:abcd: not a state" ]
	done
	run --separate-stderr -2 epd-state tree f:abcd
	[ "$stderr" = 'epd-state: f:abcd: not a workflow' ]
	run -2 epd-fork -w other "$s"
	run -2 epd-fork --no-such "$s"
	[ "$(epd-state ls)" = "$s" ]
}

@test "not while it is decoded: exit 3, and the process is named" {
	s=$(ask)
	busy "$s"
	status=0
	epd-fork -n 2 "$s" >forked 2>said || status=$?
	epd-fork "$s@1" >>forked 2>>said || status=$status$?
	other=$(epd-prefill -w w1 -p hello)
	epd-fork "$other"
	kill -INT "$pid"
	wait "$pid" || true
	[ "$status" = 33 ]
	[ ! -s forked ]
	grep -F "process $pid" said
	[ "$(wc -l <said)" -eq 2 ]
	epd-fork "$s"
}

@test "a second decoder is refused at once: exit 3, and the process is named" {
	s=$(ask)
	busy "$s"
	status=0
	epd-decode "$s" >second 2>said || status=$?
	kill -INT "$pid"
	wait "$pid" || true
	[ "$status" -eq 3 ]
	[ ! -s second ]
	grep -F "process $pid" said
	epd-decode -n 1 "$s"
}

@test "a decoder that was killed stands in nobody's way" {
	s=$(ask)
	busy "$s"
	kill -KILL "$pid"
	wait "$pid" || true
	[ "$(epd-fork -n 2 "$s")" = $'w1/s2\nw1/s3' ]
	[ "$(epd-decode "$s")" = ON ]
}

@test "with sharing switched off each branch is prefilled by itself, to the same bits" {
	s=$(epd-prefill -w w1 -p 'Say something about the number seven.')
	a=$(epd-fork -s 5 "$s")
	epd-decode --temp 0.9 -n 8 "$a"
	printf 'state:\n  enable_cow: false\ndebug:\n  exact_prefix: false\n' >off.yaml
	run --separate-stderr epd-fork --config off.yaml -v -n 3 -s 5 "$s"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 3 ]
	[[ $stderr == *'each to be prefilled by itself'* ]]
	epd-decode --temp 0.9 -n 8 "${lines[@]}" >/dev/null
	run epd-state show -j "${lines[0]}"
	[ "$(jq -c '[.parent_state_id, .parent_version_id]' <<<"$output")" = \
		"$(epd-state show -j "$a" | jq -c '[.parent_state_id, .parent_version_id]')" ]
	# Pages computed anew have the bits of those that were shared.
	[ "$(jq -c '[.kv_pages[:1][].checksum]' <<<"$output")" = \
		"$(epd-state show -j "$s" | jq -c '[.kv_pages[:1][].checksum]')" ]
	[ "$(jq -c '[.kv_pages[].refcount] | max' <<<"$output")" -eq 1 ]
	[ "$(epd-state metrics -j | jq .state.fork_fallbacks)" -eq 1 ]
	epd-fork --config off.yaml --replace -n 2 "$s"
	run -4 epd-state show "$s"
	[ "$(epd-prefill -j --config off.yaml -p 'Say something about the number seven.' |
		jq .reused)" -eq 0 ]
}

@test "what only a released parent's older versions had goes with gc" {
	s=$(epd-prefill -w w1 -p 'hello there, who are you?')
	for _ in 1 2 3 4 5 6 7 8; do
		epd-decode --ignore-eos --temp 0 -n 1 "$s" >/dev/null
	done
	b=$(epd-fork "$s")
	want=$(epd-state show -j "$b" | jq -c '[.kv_pages[].checksum]')
	epd-state rm "$s"
	epd-state gc
	runs=$(epd-state show -j "$b" | jq '[.kv_pages[].run] | unique | length')
	[ "$(find memory/*/w/w1 -type f | wc -l)" -eq "$runs" ]
	[ "$(epd-state check -j | jq -s 'map(.pages_missing // 0) | add')" -eq 0 ]
	[ "$(epd-state show -j "$b" | jq -c '[.kv_pages[].checksum]')" = "$want" ]
	epd-decode --ignore-eos --temp 0 -n 4 "$b"
	# While the parent lives its versions can be branched, and keep theirs.
	c=$(epd-fork "$b@1")
	epd-state gc
	[ "$(epd-state show -j "$c" | jq '[.kv_pages[] | select(.in_memory | not)] | length')" -eq 0 ]
}
