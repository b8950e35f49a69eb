#!/usr/bin/env bats
# epd-decode: the text that follows states.

load helper

# What a state's last turn holds, as decode would have written it.
said() {
	epd-state show --text "$1" |
		sed '1,/^<|im_start|>assistant$/d; s/<|[a-z_]*|>//g'
}

@test "bare text and one line break" {
	s=$(ask)
	epd-decode "$s" >out
	printf 'ON\n' | cmp - out
}

@test "several states: whole texts in order, each under its name" {
	a=$(ask)
	b=$(epd-prefill -i "$pictures/000_0.png" -p 'What shape is black?')
	run epd-decode "$b" "$a"
	[ "$output" = "==> $b <==
circle

==> $a <==
ON" ]
}

@test "a batch draws what each state would have drawn alone" {
	for q in 'What does the sign say?' 'Describe the picture.' 'Is it red?'; do
		ask "$q" -w batch
		ask "$q" -w single >/dev/null
	done >states
	options='-n 12 --temp 0.8 --top-k 50 -s 3 --ignore-eos'
	epd-decode -j $options - <states | jq -c 'select(.finish) | .text' >batch
	for i in 1 2 3; do
		epd-decode -j $options single/s$i | jq -c 'select(.finish) | .text'
	done >single
	sort batch >a
	sort single >b
	diff a b
	for i in 1 2 3; do
		diff <(epd-state show -j batch/s$i | jq '[.kv_pages[].checksum]') \
			<(epd-state show -j single/s$i | jq '[.kv_pages[].checksum]')
	done
}

@test "one bad state among good ones" {
	a=$(ask)
	f=$(epd-encode "$pictures/008_0.jpg")
	run --separate-stderr -2 epd-decode w1/s9 "$a" "$f" "$a" rubbish!
	[ "$output" = "==> $a <==
ON" ]
	[[ $stderr == *'epd-decode: w1/s9: no such state'* ]]
	[[ $stderr == *"epd-decode: $f: not a state"* ]]
	[[ $stderr == *"epd-decode: $a: given twice"* ]]
	run -4 epd-decode w1/s9
	run -4 epd-decode w9/s1
}

@test "-n 0 draws nothing, -n leaves the turn open" {
	s=$(ask)
	run epd-decode -n 1 -j "$s"
	jq -es '.[-1] | .finish == "length" and .drawn == 1' <<<"$output"
	[ "$(epd-state show -j "$s" | jq -r .turn)" = open ]
	epd-decode "$s"
	[ "$(epd-state show -j "$s" | jq -r .turn)" = closed ]
}

@test "-v and -j tell what was reused and what was computed" {
	s=$(ask)
	n=$(epd-state show -j "$s" | jq .tokens)
	run --separate-stderr epd-decode -v -n 1 "$s"
	[[ $stderr == *"$s@2: reused $((n - 1)) of $((n + 1)) tokens, 0 computed, 1 drawn, length, "* ]]
	epd-decode -j -n 1 --ignore-eos "$s" >out
	jq -es ".[-1] | .reused == $n and .computed == 0" out
	find "$BATS_TEST_TMPDIR/memory" -type f -path '*/w/*' -delete
	epd-decode -j -n 1 --ignore-eos "$s" >out
	jq -es ".[-1] | .reused == 0 and .computed == $((n + 1)) and .lost_pages > 0" out
}

@test "-j: an object a token, and one at the end" {
	s=$(ask 'Describe the picture.')
	epd-decode -j --logprobs 3 -n 5 "$s" >out
	jq -es 'all(.[]; .schema_version == 1 and .state == "'"$s"'")' out
	jq -es '[.[] | select(.id)] | length == 5 and
		all(.[]; .logprob <= 0 and (.top | length) == 3) and
		([.[].index] | . == [range(.[0]; .[0] + 5)])' out
	jq -es '.[0].top[0].id == .[0].id' out
	jq -es '.[-1] | .version == 2 and .finish == "length" and
		(.text | length) > 0' out
	text=$(jq -rs '[.[] | select(.id) | .text] | add' out)
	[ "$text" = "$(jq -rs '.[-1].text' out)" ]
	run -2 epd-decode --logprobs 3 "$s"
}

@test "the same seed draws the same, another another" {
	for i in 1 2 3 4; do
		ask 'Describe the picture.' -w same >/dev/null
	done
	o='-n 20 --temp 2 --top-k 0 --top-p 1 --ignore-eos'
	a=$(epd-decode $o -s 5 same/s1)
	b=$(epd-decode $o -s 5 -t 1 same/s2)
	c=$(epd-decode $o -s 6 same/s3)
	[ "$a" = "$b" ]
	[ "$a" != "$c" ]
	run --separate-stderr epd-decode -v $o -s random same/s4
	[[ $stderr =~ epd-decode:\ seed\ ([0-9]+) ]]
	# Whole as a number of JSON.
	[ "$(epd-state show -j same/s4 | jq -c .sampling.seed)" = "${BASH_REMATCH[1]}" ]
	[ "${BASH_REMATCH[1]}" -lt $((1 << 53)) ]
}

@test "drawing in two halves gives what one draw gives" {
	ask 'Describe the picture.' -w halves >/dev/null
	ask 'Describe the picture.' -w halves >/dev/null
	o='--temp 1 -s 9 --ignore-eos'
	epd-decode $o -n 12 halves/s1 >/dev/null
	epd-decode $o -n 5 halves/s2 >/dev/null
	epd-decode $o -n 7 halves/s2 >/dev/null
	diff <(epd-state show --tokens halves/s1) <(epd-state show --tokens halves/s2)
}

@test "a stop string ends the text before it" {
	s=$(epd-prefill -i "$pictures/005_0.png" -p 'Describe the picture.')
	run epd-decode --stop ' at the' -j "$s"
	jq -es '.[-1] | .finish == "stop" and .text == "a yellow square"' <<<"$output"
	run -2 epd-decode --stop '' "$s"
}

@test "text arrives as it is drawn: a reader that leaves stops it, and it is kept" {
	s=$(ask)
	set +o pipefail
	epd-decode -n 1900 --ignore-eos "$s" 2>err | head -c 8 >got
	[ "${PIPESTATUS[0]}" -eq 1 ]
	[ ! -s err ]
	n=$(epd-state show -j "$s" | jq .tokens)
	[ "$n" -gt 31 ]
	[ "$n" -lt 1000 ]
	[[ "$(said "$s")" == "$(cat got)"* ]]
}

@test "SIGINT keeps what was drawn and exits 130, SIGTERM 143" {
	for sig in INT:130 TERM:143; do
		s=$(ask)
		env --default-signal=INT \
			epd-decode -n 1900 --ignore-eos "$s" >out &
		pid=$!
		for i in $(seq 500); do
			[ -s out ] && break
			sleep 0.01
		done
		kill -"${sig%:*}" $pid
		status=0
		wait $pid || status=$?
		[ "$status" -eq "${sig#*:}" ]
		n=$(epd-state show -j "$s" | jq .tokens)
		[ "$n" -gt 31 ]
		[ "$n" -lt 1900 ]
		[ "$(epd-state show -j "$s" | jq -r .finish)" = interrupt ]
		[ "$(said "$s")" = "$(cat out)" ]
	done
}

@test "a state given up while it is decoded: exit 1, and nothing is kept" {
	s=$(ask)
	epd-decode --isa scalar -t 1 -n 1900 --ignore-eos "$s" >out 2>err &
	pid=$!
	for i in $(seq 500); do
		[ -s out ] && break
		sleep 0.01
	done
	epd-state abort --reason 'not this' "$s"
	status=0
	wait $pid || status=$?
	[ "$status" -eq 1 ]
	[ "$(cat err)" = "epd-decode: $s: it is ABORTED, and can only be released" ]
	[ "$(epd-state show -j "$s" | jq .versions)" -eq 1 ]
}

@test "on a terminal control characters do no harm" {
	command -v script >/dev/null || skip 'no script(1)'
	s=$(epd-prefill --raw -p $'\e[31mred\e[0m')
	TERM=dumb script -qec "epd-state show --text $s" /dev/null >out
	run -1 grep -c $'\e' out
	grep -F '?[31mred' out
	epd-state show --text "$s" | grep -F $'\e[31mred'
	s=$(epd-prefill --raw -p $'a\u009b31mb\u0085c\td')
	TERM=dumb script -qec "epd-state show --text $s" /dev/null >out
	grep -F $'a??31mb??c\td' out
	epd-state show --text "$s" | grep -F $'a\u009b31mb'
}

@test "a version that is not there yet is no such thing" {
	s=$(ask)
	run --separate-stderr -4 epd-decode "$s@9"
	[ "$stderr" = "epd-decode: $s@9: no such version" ]
	epd-prefill -p more "$s"
	run -2 epd-decode -n 1 "$s@1"
	run -0 epd-decode -n 1 "$s@2"
}

@test "the tokens of a stop string stay in the state" {
	s=$(epd-prefill -i "$pictures/005_0.png" -p 'Describe the picture.')
	[ "$(epd-decode --stop ' at the' "$s")" = 'a yellow square' ]
	[[ "$(epd-state show --text "$s")" == *'a yellow square at the' ]]
	[ "$(epd-state show -j "$s" | jq -r .turn)" = open ]
}

@test "sampling options out of range are wrong use" {
	for o in '--temp -1' '--temp x' '--temp nan' '--top-p 2' '--top-k -1' \
		'-n -2' '-n 1x' '-s -1' '--repeat-penalty 0' '--logprobs 21'; do
		run -2 epd-decode $o w1/s1
	done
	run -2 epd-decode
}
