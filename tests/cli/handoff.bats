#!/usr/bin/env bats
# epd-handoff: a state to another workflow or store, whole or by phases, and what
# people are told when it does not go.

load helper
load handoff

states() {
	epd-state ls "$@" 2>/dev/null | wc -l
}

@test "a state goes to another workflow and goes on there" {
	s=$(ask)
	t=$(ask)
	want=$(epd-decode "$t")
	before=$(runs)
	run --separate-stderr epd-handoff "$s" plan
	[ "$status" -eq 0 ]
	[ "$output" = plan/s1 ]
	[ -z "$stderr" ]
	[ "$(runs)" -eq "$before" ]
	[ "$(epd-decode plan/s1)" = "$want" ]
	run -4 epd-decode "$s"
	[ "$(epd-handoff "$t")" = w3/s1 ]
	[ "$(epd-handoff -w w3 s1 plan)" = plan/s2 ]
	[ -z "$(epd-handoff --status)" ]
}

@test "its branches stay" {
	s=$(ask)
	epd-fork -n 2 "$s"
	epd-handoff -v "$s" plan 2>err
	grep -qE '^[0-9]+ pages linked, 0 copied \(0 B\), 0 to be computed$' err
	[ "$(states w1)" -eq 2 ]
	[ "$(epd-decode w1/s2)" = "$(epd-decode plan/s1)" ]
}

@test "into another store, with all it needs" {
	s=$(ask)
	want=$(epd-decode "$(epd-fork "$s")")
	[ "$(epd-handoff --to other "$s")" = w1/s1 ]
	mv "$EPD_STORE" away
	[ "$(epd-decode --store other w1/s1)" = "$want" ]
	rm -rf memory/*/w
	t=$(epd-prefill --store other -p 'And now?' w1/s1)
	epd-decode --store other -n 3 "$t"
	epd-state check --store other
	mv away "$EPD_STORE"
	rm -rf other
}

@test "what is missing is missing there, and comes back" {
	s=$(ask)
	epd-decode -n 1 "$s" >/dev/null
	b=$(epd-fork "$s")
	want=$(epd-decode -n 2 "$b")
	pages=$(epd-state show -j "$s" | jq .pages)
	[ "$(runs)" -ge 3 ]
	rm "$(find memory -path "*/w/w1/$(epd-state show -j "$s" |
		jq -r '.kv_pages[0].run')" -type f)"
	missing=$(epd-state show -j "$s" | jq .pages_missing)
	[ "$missing" -gt 0 ]
	[ "$missing" -lt "$pages" ]
	epd-handoff -v "$s" plan 2>err
	grep -qE "^$((pages - missing)) pages linked, 0 copied \(0 B\), \
$missing to be computed$" err
	epd-state show -j plan/s1 |
		jq -e ".pages == $pages and .pages_missing == $missing"
	epd-state check
	epd-state gc
	[ "$(epd-decode -n 2 plan/s1)" = "$want" ]
	epd-state show -j plan/s1 | jq -e '.pages_missing == 0'
}

@test "its time to live goes along" {
	s=$(ask 'What is it?' --ttl 1h)
	want=$(epd-state show -j "$s" | jq .ttl_deadline_ms)
	[ "$want" -gt 0 ]
	[ "$(epd-handoff "$s" plan)" = plan/s1 ]
	[ "$(epd-state show -j plan/s1 | jq .ttl_deadline_ms)" = "$want" ]
}

@test "what is refused leaves no store behind" {
	s=$(ask)
	id=$(epd-handoff --prepare "$s" plan)
	run -3 epd-handoff --to new "$s"
	[ ! -e new ]
	epd-handoff --abort "$id"
	epd-state abort --reason 'not now' "$s"
	run -1 epd-handoff --to new "$s"
	[ ! -e new ]
}

@test "- reads states, each to the target named or to one of its own" {
	s=$(ask)
	want=$(epd-decode "$(epd-fork "$s")")
	run --separate-stderr -0 bash -c "epd-fork -n 3 $s | epd-handoff - check"
	[ "$output" = $'check/s1\ncheck/s2\ncheck/s3' ]
	[ -z "$stderr" ]
	[ "$(epd-decode check/s2)" = "$want" ]
	run --separate-stderr -4 epd-handoff - plan <<<$'check/s1\ncheck/s9\ncheck/s3'
	[ "$output" = $'plan/s1\nplan/s2' ]
	[ "$stderr" = 'epd-handoff: check/s9: no such state' ]
	[ "$(epd-state ls plan | epd-handoff -)" = $'w2/s1\nw3/s1' ]
	run -2 epd-handoff - plan </dev/null
	run -2 epd-handoff plan - </dev/null
	# Where an ID is due, IDs.
	epd-fork -n 2 "$s" | epd-handoff --prepare - plan >ids
	[ "$(wc -l <ids)" -eq 2 ]
	epd-handoff --status - <ids | cut -d' ' -f1 | cmp - ids
	[ "$(head -1 ids | epd-handoff --commit -)" = plan/s3 ]
	[ "$(tail -1 ids | epd-handoff --abort -)" = "$(epd-state ls w1 | tail -1)" ]
	[ -z "$(epd-handoff --status)" ]
}

@test "one that is only prepared is not known at its target, and that is said" {
	s=$(ask)
	id=$(epd-handoff --prepare --to other "$s" plan)
	for phase in --commit --abort --status --adopt; do
		run --separate-stderr -4 epd-handoff --store other $phase "$id"
		[[ $stderr == *"no such hand-off: "*"only prepared, and known in its source's store alone" ]]
	done
	[ "$(epd-handoff --commit "$id")" = plan/s1 ]
	rm -rf other
}

@test "a time to live that ends meanwhile" {
	s=$(epd-prefill -w w1 --ttl 1s -p hello)
	id=$(epd-handoff --prepare "$s" plan)
	sleep 1.1
	run --separate-stderr -4 epd-handoff --commit "$id"
	[[ $stderr == *'w1/s1: no such state' ]]
	[ -z "$(epd-handoff --status)" ]
	# One that is ready is carried through, and ends there.
	s=$(epd-prefill -w w1 --ttl 2s -p hello)
	id=$(epd-handoff --prepare "$s" plan)
	EPD_FAULT_CALL=pwrite EPD_FAULT_PATH="$EPD_STORE/w/w1/log" EPD_FAULT_NTH=1 \
		LD_PRELOAD=$build/faults.so run -137 epd-handoff --commit "$id"
	[[ $(epd-handoff --status) == *' PREPARED -> plan/s1 READY' ]]
	sleep 2
	[ "$(epd-handoff --commit "$id")" = plan/s1 ]
	[ -z "$(epd-state ls)" ]
	[ -z "$(epd-handoff --status)" ]
}

@test "a target whose workflow is gone is not waited for" {
	s=$(ask)
	id=$(epd-handoff --prepare --to other "$s")
	rm -rf other/w/*
	run -3 epd-handoff --commit "$id"
	epd-decode -n 2 "$s"
	id=$(epd-handoff --prepare --timeout 1ms --to other "$s")
	rm -rf other/w/*
	epd-state gc
	[ -z "$(epd-handoff --status)" ]
	epd-decode -n 2 "$s"
	rm -rf other
}

@test "by phases" {
	s=$(ask)
	id=$(epd-handoff --prepare "$s" plan)
	[[ $id =~ ^[0-9a-f]{32}$ ]]
	[ "$(epd-handoff --status)" = "$id w1/s1@1 PREPARED -> plan -" ]
	[ "$(epd-handoff --status "${id:0:6}")" = "$(epd-handoff --status)" ]
	[ "$(epd-handoff --commit "${id:0:8}")" = plan/s1 ]
	run --separate-stderr -4 epd-handoff --commit "$id"
	[[ $stderr == *'no such hand-off: it ended, or was never begun'* ]]
	id=$(epd-handoff --prepare plan/s1 w1)
	[ "$(epd-handoff --abort --reason 'not now' "$id")" = plan/s1 ]
	epd-state log plan | grep -q 'not now'
	[ -z "$(epd-handoff --status)" ]
	[ "$(states)" -eq 1 ]
}

@test "JSON has every field" {
	s=$(ask)
	epd-handoff --prepare -j "$s" plan >out
	id=$(jq -r .handoff out)
	jq -e '.schema_version and .from == "w1/s1@1" and .to == "plan" and
		.source == "PREPARED" and .target == null and
		(.unreachable or .expired | not)' out
	[ "$(jq -r .from_store out)" = "$(realpath "$EPD_STORE")" ]
	[ "$(jq -r .to_store out)" = "$(realpath "$EPD_STORE")" ]
	epd-handoff --status -j | jq -e ".handoff == \"$id\""
	epd-handoff --commit -j "$id" >out
	jq -e '.to == "plan/s1" and .source == null and .target == null and
		.pages_linked > 0 and .pages_copied == 0 and
		.pages_missing == 0 and .bytes_copied == 0' out
	epd-handoff --prepare plan/s1 >out
	epd-handoff --abort -j "$(cat out)" | jq -e '.from == "plan/s1@1"'
}

@test "what is being handed over is nobody's to use" {
	s=$(ask)
	id=$(epd-handoff --prepare "$s" plan)
	for c in "epd-decode $s" "epd-prefill -p x $s" "epd-fork $s" \
		"epd-state release $s" "epd-handoff $s other"; do
		run --separate-stderr -3 $c
		[ -z "$output" ]
		[[ $stderr == *'mid-hand-off'* ]]
	done
	epd-state show "$s"
	epd-state ls w1
	epd-handoff --abort "$id"
	epd-decode "$s"
}

@test "its time over, the next command has it back" {
	s=$(ask)
	id=$(epd-handoff --prepare --timeout 1ms "$s" plan)
	sleep 0.01
	[[ $(epd-handoff --status) == *', expired' ]]
	run --separate-stderr -3 epd-handoff --commit "$id"
	[[ $stderr == *'rolled back'* ]]
	epd-handoff --prepare --timeout 1ms "$s" plan
	sleep 0.01
	epd-state gc
	[ -z "$(epd-handoff --status)" ]
	epd-handoff --prepare --timeout 1ms "$s" plan
	sleep 0.01
	epd-decode "$s"
	[ "$(states)" -eq 1 ]
}

@test "a target that is away is waited for" {
	s=$(ask)
	id=$(epd-handoff --prepare --to other "$s" plan)
	mv other away
	run --separate-stderr -3 epd-handoff --commit "$id"
	[[ $stderr == *'it waits for plan of '*'/other, which cannot be reached: '* ]]
	[[ $(epd-handoff --status) == *', unreachable' ]]
	mv away other
	[ "$(epd-handoff --commit "$id")" = plan/s1 ]
	[ "$(epd-handoff --store other plan/s1 back)" = back/s1 ]
	rm -rf other
}

@test "a source that is away is waited for, or a person adopts" {
	s=$(ask)
	id=$(epd-handoff --prepare --to other "$s" plan)
	# A driver that dies between the target's word and the source's.
	EPD_FAULT_CALL=pwrite EPD_FAULT_PATH="$EPD_STORE/w/w1/log" EPD_FAULT_NTH=1 \
		LD_PRELOAD=$build/faults.so run -137 epd-handoff --commit "$id"
	run --separate-stderr -3 epd-handoff --store other --adopt "$id"
	[[ $stderr == *'can be reached: --commit asks it'* ]]
	mv "$EPD_STORE" away
	run --separate-stderr -3 epd-handoff --store other --commit "$id"
	[[ $stderr == *'it waits for w1 of '* ]]
	run -3 epd-handoff --store other --abort "$id"
	[ "$(epd-handoff --store other --adopt --reason 'it burnt' "$id")" = plan/s1 ]
	[[ $(epd-handoff --store other --status) == *' ADOPTED, unreachable' ]]
	epd-decode --store other -n 2 plan/s1
	mv away "$EPD_STORE"
	# A source that comes back has it no more.
	epd-state gc --store other
	[ "$(states)" -eq 0 ]
	[ -z "$(epd-handoff --status)" ]
	[ -z "$(epd-handoff --store other --status)" ]
	epd-state check --store other
	rm -rf other
}

@test "another store where one of the two was is a stranger: nobody decides by it" {
	s=$(ask)
	id=$(epd-handoff --prepare --to other "$s" plan)
	EPD_FAULT_CALL=pwrite EPD_FAULT_PATH="$EPD_STORE/w/w1/log" EPD_FAULT_NTH=1 \
		LD_PRELOAD=$build/faults.so run -137 epd-handoff --commit "$id"
	mv "$EPD_STORE" source
	[ "$(epd-handoff --store other --adopt --reason 'it burnt' "$id")" = plan/s1 ]
	mv source "$EPD_STORE"
	# The target's place is taken; with a workflow of the same name, too.
	mv other real
	epd-prefill --store other -w else -p hello
	for _ in 1 2; do
		run --separate-stderr -3 epd-handoff --commit "$id"
		[[ $stderr == *'another store is there now' ]]
		epd-state gc
		[[ $(epd-handoff --status) == *' PREPARED '*', unreachable' ]]
		epd-prefill --store other -w plan -p hello
	done
	mv "$EPD_STORE" source
	epd-prefill -w w1 -p hello
	run -0 epd-state gc --store real
	[ "$(epd-state ls --store real)" = plan/s1 ]
	epd-handoff --store real --status | grep ' ADOPTED, unreachable'
	# Each in its place again: one has it.
	rm -rf other "$EPD_STORE"
	mv real other
	mv source "$EPD_STORE"
	epd-state gc --store other
	[ -z "$(epd-state ls)" ]
	[ "$(epd-state ls --store other)" = plan/s1 ]
	epd-state check --store other
	rm -rf other
}

@test "what is refused, and how" {
	s=$(ask)
	run --separate-stderr -4 epd-handoff w1/s9 plan
	[ "$stderr" = 'epd-handoff: w1/s9: no such state' ]
	run --separate-stderr -4 epd-handoff w1/s1@9 plan
	[ "$stderr" = 'epd-handoff: w1/s1@9: it has no version @9' ]
	run --separate-stderr -2 epd-handoff f:abcd plan
	[ "$stderr" = 'epd-handoff: f:abcd: not a state' ]
	run --separate-stderr -4 epd-handoff w7/s1 plan
	[ ! -e "$EPD_STORE/w/plan" ]
	run --separate-stderr -2 epd-handoff "$s" w1
	[ "$stderr" = 'epd-handoff: w1/s1: it is in that workflow' ]
	run -2 epd-handoff "$s" no/name
	run -2 epd-handoff w1 plan
	run -4 epd-handoff --commit 0123
	run -2 epd-handoff --commit 012
	run -2 epd-handoff --commit xyzw
	mkdir else
	touch else/file
	run --separate-stderr -1 epd-handoff --to else "$s"
	[[ $stderr == *'is not a store'* ]]
	[ "$(states)" -eq 1 ]
	[ -z "$(epd-handoff --status)" ]
}

@test "many at once" {
	s=$(ask)
	for i in $(seq 20); do
		b=$(epd-fork "$s")
		epd-handoff --prepare "$b" plan
	done >ids
	epd-handoff --status | cut -d' ' -f1 | sort >told
	sort ids | cmp - told
	epd-handoff --status $(cat ids) | cut -d' ' -f1 | cmp - ids
	# One that is none hides none of the others.
	run --separate-stderr -4 epd-handoff --abort 00000000 $(cat ids)
	[ "${#lines[@]}" -eq 20 ]
	[ -z "$(epd-handoff --status)" ]
}

@test "a decision that may not have been kept" {
	s=$(ask)
	EPD_FAULT_CALL=fdatasync EPD_FAULT_PATH=/w/w1/log EPD_FAULT_NTH=2 \
		EPD_FAULT_DO=EIO LD_PRELOAD=$build/faults.so \
		run --separate-stderr -5 epd-handoff "$s" plan
	[ -z "$output" ]
	id=$(epd-handoff --status | cut -d' ' -f1)
	[[ $stderr == *"hand-off $id stands: --commit or --abort ends it"* ]]
	[ "$(epd-handoff --commit "$id")" = plan/s1 ]
	[ "$(states)" -eq 1 ]
}

@test "wrong use" {
	s=$(ask)
	run -2 epd-handoff
	run -2 epd-handoff --commit
	run -2 epd-handoff --commit --abort 0123
	run -2 epd-handoff "$s" a b
	run -2 epd-handoff --commit --to other 0123
	run -2 epd-handoff --status --timeout 5s
	run -2 epd-handoff --timeout 0s "$s"
	run -2 epd-handoff --timeout soon "$s"
	run -2 epd-handoff --reason x "$s"
	run -2 epd-handoff --bogus "$s"
	run --separate-stderr -2 epd-handoff w1/s6 w1/s7
	[[ $stderr == *'w1/s7: no name of a workflow'* ]]
	[ "$(states)" -eq 1 ]
}

@test "killed at any moment, one has it and nothing is left" {
	handoff_kills 50
}

@test "once it is decided no failure says that nothing happened" {
	unsure=0
	for nth in {1..12}; do
		for log in w1 plan; do
			s=$(ask 'What is it?' -w w1)
			id=$(epd-handoff --prepare "$s" plan)
			status=0
			EPD_FAULT_CALL=pwrite EPD_FAULT_PATH=/w/$log/log \
				EPD_FAULT_NTH=$nth EPD_FAULT_DO=ENOSPC \
				EPD_FAULT_EVER=1 LD_PRELOAD=$build/faults.so \
				epd-handoff --commit "$id" >out 2>err || status=$?
			case $status in
			0) t=$(cat out) ;;
			3) t=$s ;;
			5) grep -q 'committed, but not yet' err
				run -4 epd-state show "$s"
				unsure=$((unsure + 1))
				t=$(epd-handoff --commit "$id") ;;
			*) cat err; false ;;
			esac
			epd-state show "$t" >/dev/null
			[ "$status" -ne 3 ] || epd-handoff --abort "$id"
			epd-state gc
			[ -z "$(epd-handoff --status)" ]
			epd-state rm "$t"
		done
	done
	[ "$unsure" -gt 0 ]
}
