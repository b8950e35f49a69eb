#!/usr/bin/env bats
# A state whose image or model is out of reach: SUSPECT, exit 5, and as it was.

load helper

# A model and a picture of its own, to be taken away and brought back.
begin() {
	cp -r "$model" m
	cp "$pictures/008_0.jpg" sign.jpg
	s=$(epd-prefill -m m -w w1 -i sign.jpg -p 'What does the sign say?')
	unset EPD_MODEL
}

@test "its model is away: SUSPECT till it is back" {
	begin
	want=$(epd-decode "$(epd-fork "$s")")
	mv m away
	run --separate-stderr -5 epd-decode "$s"
	[[ $stderr == *"w1/s1: "*"/m: No such file or directory" ]]
	[ -z "$output" ]
	[ "$(status_of "$s")" = SUSPECT ]
	epd-state log w1 | grep -E ' suspect +w1/s1 .*/m: No such file'
	run --separate-stderr -5 epd-prefill -p more "$s"
	run -5 epd-decode -j "$s"
	[ "$(epd-state log w1 | grep -c ' suspect ')" -eq 1 ]
	run --separate-stderr -5 epd-fork "$s"
	[[ $stderr == *"it is SUSPECT"* ]]
	run -5 epd-handoff "$s" w2
	epd-state check
	mv away m
	[ "$(epd-decode "$s")" = "$want" ]
	[ "$(status_of "$s")" != SUSPECT ]
	epd-state log --verify w1
	epd-fork "$s"
}

@test "a model that a person named and is not there is no fault of the state" {
	begin
	run -4 epd-decode -m nowhere "$s"
	[ "$(status_of "$s")" = ACTIVE ]
	mkdir empty
	run -4 epd-prefill -m empty -p more "$s"
	[ "$(status_of "$s")" = ACTIVE ]
}

@test "its image is away: SUSPECT till it is encoded again" {
	begin
	want=$(epd-decode "$(epd-fork "$s")")
	rm -r "$EPD_STORE"/features/??
	find memory -path '*/w/w1/*' -type f -delete
	mv sign.jpg away.jpg
	run --separate-stderr -5 epd-decode "$s"
	[[ $stderr == *"encode the image again"* ]]
	[ "$(status_of "$s")" = SUSPECT ]
	run -5 epd-prefill -p more "$s"
	epd-state check
	epd-encode -m m away.jpg
	[ "$(epd-decode "$s")" = "$want" ]
	[ "$(status_of "$s")" != SUSPECT ]
	run -0 epd-state log --verify w1
}

@test "several at once: those that can go on do" {
	begin
	t=$(epd-prefill -m "$model" -w w2 -p 'hello there')
	mv m away
	run --separate-stderr -5 epd-decode -n 2 "$s" "$t"
	[[ $output == *"==> $t <=="* ]]
	[ "$(status_of "$s")" = SUSPECT ]
	[ "$(status_of "$t")" = ACTIVE ]
}

@test "one that is SUSPECT can be given up, released, and expires" {
	begin
	t=$(epd-prefill -m m -w w1 --ttl 1h -p 'hello there')
	u=$(epd-prefill -m m -w w1 -p 'and another')
	mv m away
	run -5 epd-decode "$s" "$t" "$u"
	[ "$(epd-state ls -j w1 | jq -s 'map(select(.status == "SUSPECT")) | length')" -eq 3 ]
	epd-state rm "$s"
	epd-state rm "$s"
	run -4 epd-state show "$s"
	epd-state abort --reason "gone for good" "$u"
	[ "$(status_of "$u")" = ABORTED ]
	epd-state rm -r w1
	[ -z "$(epd-state ls)" ]
	epd-state gc
	[ -z "$(find memory -path '*/w/*' -type f)" ]
}

@test "mid-hand-off it takes no mark, and the error says so all the same" {
	begin
	id=$(epd-handoff --prepare "$s" w2)
	mv m away
	run --separate-stderr -5 epd-decode "$s"
	[[ $stderr == *"/m: No such file or directory" ]]
	[ "$(status_of "$s")" = ACTIVE ]
	epd-handoff --commit "$id"
	[ "$(status_of w2/s1)" = ACTIVE ]
}

# Whoever decodes the state dies over it, past its first token.
die_over() {
	local pid
	epd-decode --isa scalar -t 1 -n 1900 --ignore-eos "$1" >tokens 2>/dev/null 7>&- 8>&- &
	pid=$!
	for _ in $(seq 200); do
		[ ! -s tokens ] || break
		sleep 0.02
	done
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
}

@test "whose decoder died is SUSPECT till it is seen that it can go on" {
	begin
	want=$(epd-decode -m m "$(epd-fork "$s")")
	die_over "$s"
	run --separate-stderr -0 epd-state gc
	[[ $stderr == *'w1/s1: process '*', which decoded it, died or was too late; it is ACTIVE, at version 1'* ]]
	epd-state log -j w1 | jq -se 'map(select(.record == "suspect")) | length == 1 and
		(.[0].reason | test("^process [0-9]+, which decoded it, died"))'
	epd-state log --verify w1
	[ "$(epd-decode -m m "$s")" = "$want" ]
	# What cannot go on stays so, in a sentence; nobody is told twice.
	s=$(epd-prefill -m m -w w2 -i sign.jpg -p 'What does the sign say?')
	die_over "$s"
	rm -r "$EPD_STORE"/features/??
	find memory -path '*/w/w2/*' -type f -delete
	mv sign.jpg away.jpg
	run --separate-stderr -0 epd-state gc
	[[ $stderr == *'w2/s1: process '*'; it is SUSPECT, at version 1'* ]]
	run --separate-stderr -0 epd-state gc
	[[ $stderr != *w2/s1* ]]
	run -5 epd-decode -m m "$s"
	epd-encode -m m away.jpg
	[ "$(epd-decode -m m "$s")" = "$want" ]
}
