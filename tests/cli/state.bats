#!/usr/bin/env bats
# epd-state: looking at a store and keeping house.

load helper

@test "ls: states in natural order, of all or of those named" {
	for i in 1 2 3; do
		epd-prefill -w w2 -p hello
	done
	epd-prefill -w w10 -p hello
	run epd-state ls
	[ "$output" = $'w2/s1\nw2/s2\nw2/s3\nw10/s1' ]
	[ "$(epd-state ls w10)" = w10/s1 ]
	[ "$(epd-state ls -w w10)" = w10/s1 ]
	[ "$(epd-state ls w2/s2)" = w2/s2 ]
	run --separate-stderr -4 epd-state ls w10 w9 w2/s7
	[ "$output" = w10/s1 ]
	[ "$stderr" = 'epd-state: w9: no such workflow
epd-state: w2/s7: no such state' ]
}

@test "ls -l and -j tell what a state weighs, and the sum is what memory holds" {
	ask
	ask
	epd-decode -n 3 w1/s1 w2/s1
	run epd-state ls -l
	[ "${#lines[@]}" -eq 3 ]
	[[ ${lines[1]} =~ ^w1/s1\ +2\ ACTIVE\ +34\ +1\ +3\ +0\  ]]
	sum=$(epd-state ls -j | jq -s 'map(.proportional_bytes) | add')
	[ "$sum" -gt 0 ]
	[ "$sum" -eq "$(epd-state metrics -j | jq .state.memory_bytes)" ]
}

@test "ls -f lists features" {
	f=$(epd-encode "$pictures/000_0.png")
	[ "$(epd-state ls -f)" = "$f" ]
	[ "$(epd-state ls -fj | jq -r .feature_bundle_id)" = "$f" ]
	run -2 epd-state ls -f w1
}

@test "show -j has every field of the RFC's state, feature and page" {
	s=$(ask)
	epd-state show -j "$s" >out
	jq -e '[has("state_id", "workflow_id", "version_id", "epoch",
		"parent_state_id", "parent_version_id", "feature_bundles",
		"kv_pages", "status", "owner_shard", "ttl_deadline_ms",
		"metadata")] | all' out
	jq -e '.feature_bundles[0] | [has("feature_bundle_id", "image_id",
		"model_revision", "dtype", "compression", "location_hint",
		"refcount", "ttl_deadline_ms")] | all' out
	jq -e '.kv_pages | length == 2 and all(.[]; [has("kv_page_id",
		"logical_index", "page_version", "owner_worker", "dtype",
		"compression", "refcount", "sealed")] | all)' out
	jq -e '.schema_version == 1 and .status == "ACTIVE" and .tokens == 31 and
		.feature_bundles[0].refcount == 1 and .kv_pages[0].refcount == 1
		and .kv_pages[0].sealed and (.kv_pages[1].sealed | not)' out
}

@test "show: versions, workflows, features, for people too" {
	s=$(ask)
	epd-decode "$s"
	[ "$(epd-state show -j "$s@1" | jq -c '[.version_id, .tokens]')" = '[1,31]' ]
	[ "$(epd-state show -j "$s" | jq -c '[.version_id, .tokens]')" = '[2,34]' ]
	[ "$(epd-state show -j w1 | jq -c '[.kind, .states, .versions]')" = '["workflow",1,2]' ]
	f=$(epd-state ls -f)
	[ "$(epd-state show -j "$f" | jq -c '[.kind, .grid]')" = '["feature",[1,6,10]]' ]
	run epd-state show "$s"
	[[ $output == *$'\nstatus: ACTIVE\n'* ]]
	run --separate-stderr -4 epd-state show "$s@9" "${f:0:8}" w7 f:0123456789
	[[ $stderr == *"epd-state: $s@9: no such version"* ]]
	[[ $stderr == *'epd-state: w7: no such workflow'* ]]
	[ "$(epd-state show --tokens "$s" | wc -l)" -eq 34 ]
	run -2 epd-state show --tokens w1
	run -2 epd-state show --tokens --text "$s"
}

@test "show -j --tokens and --text are an object each" {
	s=$(ask)
	epd-decode "$s"
	epd-state show --tokens "$s@1" | jq -s . >ids
	epd-state show -j --tokens "$s@1" >out
	[ "$(wc -l <out)" -eq 1 ]
	jq -e --slurpfile ids ids '.schema_version == 1 and .state == "w1/s1" and
		.version == 1 and .tokens == $ids[0]' out
	epd-state show -j --text "$s" >out
	[ "$(wc -l <out)" -eq 1 ]
	jq -e '.schema_version == 1 and .state == "w1/s1" and .version == 2' out
	[ "$(jq -r .text out)" = "$(epd-state show --text "$s")" ]
	[ "$(epd-state show -j --tokens "$s" "$s@1" | jq -c .version)" = $'2\n1' ]
	run -2 epd-state show -j --tokens w1
}

@test "a salt keeps its digits in JSON" {
	s=$(epd-fork "$(epd-prefill -p hello)")
	epd-state show "$s" >out
	salt=$(sed -n 's/^sampler: .* salt \([0-9]*\)$/\1/p' out)
	[ "$salt" != 0 ]
	[ "$(epd-state show -j "$s" | jq -r .sampling.salt)" = "$salt" ]
}

@test "what is for programs is not shown to people" {
	epd-prefill -p hello
	for c in 'epd-state show w1' 'epd doctor'; do
		$c | run -1 grep schema_version
		$c -j | jq -e '.schema_version == 1'
	done
}

@test "gc and metrics are of the whole store, and know no -w" {
	epd-prefill -p hello
	for v in gc metrics; do
		run --separate-stderr -2 epd-state $v -w w1
		[[ $stderr == *'-w: no such option'* ]]
		run --separate-stderr -2 epd-state -w w1 $v
		[[ $stderr == *"-w: $v is of the whole store"* ]]
		epd-state $v --help | run -1 grep -e --workflow
	done
	epd-state check --help | grep -e --workflow
	run -4 epd-state check -w none
	epd-state --help | grep -F '  tree [W ...] '
}

@test "show is a summary for people, each page of it with -j only" {
	export EPD_TENANT=$'a\e[31mb'
	s=$(ask)
	epd-decode "$s"
	epd-state show "$s" >out
	[ "$(head -2 out)" = $'state: w1/s1\nversion: 2 of 2' ]
	for line in 'status: ACTIVE' 'parent: -' 'expires: -' \
		'turn: closed, finish eos' 'features: 1' "model: $model" \
		'tenant: a?[31mb' 'metadata:' \
		'tiers: 3 in memory, 0 to be computed again'; do
		grep -Fx "$line" out
	done
	grep -Ex 'tokens: 34, next position [0-9]+, rope delta -?[0-9]+' out
	grep -Ex 'pages: 3 of 16 tokens, bf16, [0-9.]+ KiB each' out
	grep -Ex 'memory: [0-9.]+ KiB private, 0 B shared, [0-9.]+ KiB its share' out
	grep -Ex '  f:[0-9a-f]{64} at [0-9]+, grid 1x[0-9]+x[0-9]+, [0-9.]+ KiB' out
	grep -Ex 'sampler: temp 0, top-k .*, seed [0-9]+, salt [0-9]+' out
	[ "$(wc -l <out)" -lt 32 ]
	run -1 grep -e kv_page -e checksum out
	epd-state show "$s@1" | grep -Fx 'version: 1 of 2'
	epd-state show "$s@1" | grep -Fx 'turn: prompt, finish none'
	epd-state rm "$(epd-state ls -f)"
	find memory -path '*/w/w1/*' -type f -delete
	epd-state show "$s" | grep -Fx 'tiers: 0 in memory, 3 to be computed again'
	epd-state show "$s" | grep -E '  f:.*, not in the store$'
	# Two of them, an empty line between.
	run --separate-stderr -4 epd-state show "$s" "$s@1" w1/s9
	[[ $output == *$'\n\nstate: w1/s1\nversion: 1 of 2\n'* ]]
}

@test "tree draws the states of a workflow" {
	epd-prefill -w w1 -p hello
	epd-prefill -w w1 -p hello
	run epd-state tree w1
	[ "${lines[0]}" = w1 ]
	[[ ${lines[1]} == '|-- s1@1 ACTIVE, '*' tokens' ]]
	[[ ${lines[2]} == '`-- s2@1 ACTIVE, '*' tokens' ]]
	[ "$(epd-state tree -j w1 | jq -r .state)" = $'w1/s1\nw1/s2' ]
}

@test "log tells every change, --verify replays it" {
	s=$(ask)
	epd-decode "$s"
	epd-state release --reason done "$s"
	run epd-state log --verify w1
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 5 ]
	[[ ${lines[4]} == *release*w1/s1*done ]]
	[ "$(epd-state log -j w1 | jq -r .record)" = \
		$'create\nlease\nadvance\ndrop\nrelease' ]
	[ "$(epd-state log -j w1 | jq -c .lsn)" = $'1\n2\n3\n4\n5' ]
}

@test "a reason's control characters reach no terminal and break no line" {
	s=$(epd-prefill -p hello)
	epd-state rm --reason $'a\e[31mb\nc\xc2\x9bd' "$s"
	epd-state log >out
	[ "$(wc -l <out)" -eq 2 ]
	run -1 grep -q $'\e' out
	grep -F 'a?[31mb?c??d' out
	[ "$(epd-state log -j | jq -r 'select(.record == "release").reason')" = \
		$'a\e[31mb\nc\u009bd' ]
}

@test "log --verify -v says that all is well" {
	epd-prefill -p hello
	epd-prefill -p more w1/s1
	run --separate-stderr -0 epd-state log --verify -v
	[ "$stderr" = 'w1: 2 records, all obey' ]
}

@test "-w and another workflow's operand are wrong use" {
	epd-prefill -w a -p x
	epd-prefill -w b -p x
	run --separate-stderr -2 epd-state show -w a b/s1
	[[ $stderr == *'b/s1: not of the workflow that -w names' ]]
	run -2 epd-state ls -w a b
	run -2 epd-decode -w a b/s1
	run -2 epd-prefill -w a -p x b/s1
	run -0 epd-state show -w a a/s1
	run -0 epd-state ls -w a a s1
}

@test "gc counts one thing as one" {
	epd-prefill --ttl 10ms -p hello
	sleep 0.1
	run --separate-stderr epd-state gc -v
	[[ $stderr == '1 state expired, 1 run ('* ]]
}

@test "release frees pages; twice is no error, never was is" {
	s=$(ask)
	t=$(ask)
	epd-state release "$s"
	[ "$(epd-state ls)" = "$t" ]
	[ -z "$(find "$BATS_TEST_TMPDIR/memory" -path '*/w/w1/*' -type f)" ]
	epd-state rm "$s"
	run --separate-stderr -4 epd-state rm w1/s5
	[ "$stderr" = 'epd-state: w1/s5: no such state' ]
	run -4 epd-decode "$s"
	# Its number is not given again.
	[ "$(epd-prefill -w w1 -p x)" = w1/s2 ]
}

@test "release -r takes a workflow, and a feature goes too" {
	epd-prefill -w w1 -p a
	epd-prefill -w w1 -p b
	run --separate-stderr -2 epd-state rm w1
	[[ $stderr == *'w1: a workflow; -r'* ]]
	epd-state rm -r w1
	[ -z "$(epd-state ls)" ]
	f=$(epd-encode "$pictures/000_0.png")
	epd-state rm "$f"
	[ -z "$(epd-state ls -f)" ]
	run -4 epd-state rm "$f"
}

@test "a state whose feature was removed still answers from the kept picture" {
	f=$(epd-encode "$pictures/008_0.jpg")
	s=$(epd-prefill -p 'What does the sign say?' "$f")
	find "$EPD_STORE/features" -type f -name "${f:4}*" ! -name '*pix*' -delete
	find "$BATS_TEST_TMPDIR/memory" -type f -path '*/w/*' -delete
	[ "$(epd-decode "$s")" = ON ]
}

@test "check finds a flipped bit in a page, and a repair by use" {
	s=$(ask)
	run=$(find "$BATS_TEST_TMPDIR/memory" -path '*/w/w1/*' -type f)
	chmod u+w "$run"
	printf '\377' | dd of="$run" bs=1 seek=9000 conv=notrunc 2>/dev/null
	run --separate-stderr -5 epd-state check
	[[ $output == *'w1: run '*page* ]]
	run -5 epd-state check w1
	[ "$(epd-state metrics -j | jq .state.pages_corrupt)" -eq 2 ]
	[ "$(epd-state check -j w1 | jq -s '.[-1].faults')" -eq 1 ] || true
	[ "$(epd-decode "$s")" = ON ]
	epd-state check
}

@test "check refuses a log with a flipped byte, and says where" {
	s=$(ask)
	epd-decode "$s"
	epd-state check
	log=$(find "$EPD_STORE/w/w1" -type f -size +1k | head -1)
	cp "$log" saved
	printf '\377' | dd of="$log" bs=1 seek=300 conv=notrunc 2>/dev/null
	run -5 epd-state check
	run -5 epd-decode "$s"
	cp saved "$log"
	epd-state check
}

@test "gc takes orphans and what has expired, and nothing else" {
	s=$(ask)
	epd-prefill -w w1 --ttl 10ms -p hello
	sleep 0.1
	run=$(find "$BATS_TEST_TMPDIR/memory" -path '*/w/w1/*' -type f | head -1)
	cp -p "$run" "${run%/*}/0123456789abcdef"
	run epd-state gc -j
	[ "$(jq .states <<<"$output")" -eq 1 ]
	[ "$(jq .runs <<<"$output")" -eq 2 ]
	[ "$(epd-state ls)" = "$s" ]
	[ "$(epd-state ls -j | jq .pages_missing)" -eq 0 ]
	run epd-state gc -j
	[ "$(jq -c '[.states, .runs, .orphans]' <<<"$output")" = '[0,0,0]' ]
	[ "$(epd-decode "$s")" = ON ]
}

@test "gc takes the memory of workflows and stores that are gone" {
	ask
	mv "$EPD_STORE/w/w1" gone
	[ -n "$(find "$BATS_TEST_TMPDIR/memory" -path '*/w/w1/*' -type f)" ]
	epd-state gc
	[ -z "$(find "$BATS_TEST_TMPDIR/memory" -path '*/w/w1/*' -type f)" ]
	EPD_STORE=$BATS_TEST_TMPDIR/other epd-prefill -p hello
	[ "$(ls "$BATS_TEST_TMPDIR/memory" | wc -l)" -eq 2 ]
	rm -rf other
	epd-state gc
	[ "$(ls "$BATS_TEST_TMPDIR/memory" | wc -l)" -eq 1 ]
}

@test "metrics: Prometheus text, JSON, reset" {
	ask
	ask
	epd-state metrics >out
	run -1 grep -Ev '^(# TYPE [a-z0-9_]+ (counter|gauge)|[a-z0-9_]+ [0-9.]+)$' out
	grep -x 'epd_feature_mm_hit 1' out
	[ "$(epd-state metrics -j | jq -c '[.feature.mm_miss, .feature.mm_store_readback,
		.state.states_created, .state.states]')" = '[1,1,2,2]' ]
	epd-state metrics --reset
	[ "$(epd-state metrics -j | jq .feature.mm_hit)" -eq 0 ]
}

@test "a store that is not there is not made by looking" {
	for verb in ls check gc metrics 'show w1' 'rm w1/s1' 'tree w1'; do
		run --separate-stderr -4 epd-state $verb
		[[ $stderr == *"$EPD_STORE: no such store"* ]]
	done
	[ ! -e "$EPD_STORE" ]
	mkdir plain && touch plain/file
	run --separate-stderr -1 epd-prefill --store plain -p x
	[[ $stderr == *'holds other files'* ]]
}

@test "a lost tip is restored by whoever comes first, and nothing else changes" {
	s=$(ask)
	epd-decode -n 2 "$s"
	cp -a "$EPD_STORE" kept
	for how in 'rm -f' 'truncate -s 10' 'truncate -s 0'; do
		for verb in 'epd-decode -n 1' 'epd-state show' 'epd-prefill -p x'; do
			rm -rf "$EPD_STORE"
			cp -a kept "$EPD_STORE"
			$how "$EPD_STORE/w/w1/tip"
			$verb "$s"
			epd-state check
		done
	done
}

@test "a log that is gone is damage, not an empty workflow" {
	ask
	mv "$EPD_STORE/w/w1/log.00000001" .
	for verb in ls check 'show w1/s1' 'log w1' tree; do
		run -5 --separate-stderr epd-state $verb
		[[ $stderr$output == *"tip: speaks of record 1, but there is no log"* ]]
	done
	run -5 epd-prefill -p x w1/s1
	run -5 epd-state gc
	mv log.00000001 "$EPD_STORE/w/w1"
	epd-state show w1/s1
}

@test "few descriptors are no damage" {
	ask
	ask
	for n in 6 7 8 9 10 11 12 13 14 16 18 20; do
		status=0
		(ulimit -n $n; epd-state check) >out 2>err || status=$?
		[ "$status" -ne 5 ] && [ "$status" -lt 128 ]
	done
}

@test "a hole of terabytes behind a log costs nothing" {
	s=$(ask)
	truncate -s 4T "$EPD_STORE/w/w1/log.00000001" ||
		skip 'the file system has no such large files'
	run -0 timeout 20 epd-state ls
	run -0 timeout 20 epd-state check
	run -0 timeout 20 epd-prefill -q -p more "$s"
	[ "$(stat -c %s "$EPD_STORE/w/w1/log.00000001")" -lt 1000000 ]
}
