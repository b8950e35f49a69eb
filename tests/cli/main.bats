#!/usr/bin/env bats
# The main job: a picture, a question, an answer.

load helper

@test "three processes that share nothing but the store answer" {
	s=$(epd-encode "$pictures/008_0.jpg" |
		epd-prefill -p 'What does the sign say?' -)
	[ "$s" = w1/s1 ]
	run --separate-stderr epd-decode "$s"
	[ "$status" -eq 0 ]
	[ "$output" = ON ]
	[ -z "$stderr" ]
}

@test "one process answers with the same bits" {
	a=$(epd-encode "$pictures/008_0.jpg" |
		epd-prefill -w three -p 'What does the sign say?' -)
	b=$(ask 'What does the sign say?' -w one)
	epd-decode "$a" >three
	epd-decode "$b" >one
	cmp one three
	for s in "$a" "$b"; do
		epd-state show -j "$s" |
			jq -c '[.kv_pages[] | {kv_page_id, checksum, rows}]'
	done >pages
	[ "$(sort -u pages | wc -l)" -eq 1 ]
}

@test "threads and instructions leave no trace in the pages" {
	for how in '-t 1' '-t 2' '--isa scalar'; do
		s=$(ask 'Describe it.' $how)
		epd-decode -n 8 $how "$s" >/dev/null
		epd-state show -j "$s" | jq -c '[.kv_pages[].checksum]'
	done >pages
	[ "$(sort -u pages | wc -l)" -eq 1 ]
}

@test "every shipped sample is answered as the reference answers it" {
	n=0
	while IFS= read -r line; do
		jq -c .messages <<<"$line" >"$BATS_TEST_TMPDIR/chat.json"
		# Paths in a chat lie beneath its folder.
		[ -e sample-images ] || cp -r "$pictures" sample-images
		s=$(epd-prefill -j --messages chat.json)
		[ "$(jq .tokens <<<"$s")" -eq "$(jq .prompt_tokens <<<"$line")" ]
		jq -r .state <<<"$s" >>states
		jq -r .hf_float32 <<<"$line" >>wanted
		n=$((n + 1))
	done <"$samples/samples.jsonl"
	[ "$n" -eq 24 ]
	epd-decode -n 64 -j - <states |
		jq -r 'select(.finish) | [.state, .text] | @tsv' |
		sort -V | cut -f2- >given
	sort -V states | diff - states
	# jq's @tsv writes a backslash twice, and nothing else here.
	sed 's/\\\\/\\/g' given | diff - wanted
}

@test "two pictures and what stands between them" {
	run epd-prefill -p 'Image 1:' -i "$pictures/012_0.png" \
		-p $'\nImage 2:' -i "$pictures/012_1.png" -p $'\n' \
		-p 'What changed?'
	[ "$status" -eq 0 ]
	run epd-decode "$output"
	[ "$output" = "$(sample 12 .hf_float32)" ]
}

@test "features come before the text, in the order they came" {
	a=$(epd-encode "$pictures/011_0.png" "$pictures/011_1.jpg" |
		epd-prefill -p 'Where do you see the triangle in the second image?' -)
	[ "$(epd-decode "$a")" = "$(sample 11 .hf_float32)" ]
}

@test "a conversation goes on, and computes only what is new" {
	s=$(epd-prefill -i "$pictures/018_0.png" -p 'What number is shown?')
	epd-decode "$s"
	run --separate-stderr epd-prefill -v -i "$pictures/018_1.png" \
		-p 'What shape is this?' "$s"
	[ "$output" = "$s" ]
	[[ $stderr =~ reused\ ([0-9]+)\ of\ ([0-9]+)\ tokens,\ ([0-9]+)\ computed ]]
	[ "${BASH_REMATCH[2]}" -eq 51 ]
	[ "${BASH_REMATCH[1]}" -gt 20 ]
	[ $((BASH_REMATCH[1] + BASH_REMATCH[3])) -lt 52 ]
	[ "$(epd-decode "$s")" = star ]
	[ "$(epd-state show -j "$s" | jq .version_id)" -eq 4 ]
}

@test "a second turn has the bits of the whole conversation computed at once" {
	s=$(epd-prefill -w turns -i "$pictures/018_0.png" -p 'What number is shown?')
	epd-decode "$s" >/dev/null
	epd-prefill -i "$pictures/018_1.png" -p 'What shape is this?' "$s"
	cp -r "$pictures" sample-images
	sample 18 .messages >chat.json
	t=$(epd-prefill -w whole --messages chat.json)
	diff <(epd-state show --tokens "$s") <(epd-state show --tokens "$t")
	diff <(epd-state show -j "$s" | jq '[.kv_pages[] | .kv_page_id, .checksum]') \
		<(epd-state show -j "$t" | jq '[.kv_pages[] | .kv_page_id, .checksum]')
}

@test "lost pages are computed again, and it is said" {
	s=$(ask)
	want=$(epd-state show -j "$s" | jq -c '[.kv_pages[].checksum]')
	find "$BATS_TEST_TMPDIR/memory" -type f -path '*/w/*' -delete
	[ "$(epd-state ls -j | jq .pages_missing)" -eq 2 ]
	epd-state check
	run --separate-stderr epd-decode -v "$s"
	[ "$output" = ON ]
	[[ $stderr == *"pages had been lost and were computed again"* ]]
	[ "$(epd-state show -j "$s@1" | jq -c '[.kv_pages[].checksum]')" = "$want" ]
}

@test "many processes at once in one workflow" {
	for i in 1 2 3 4 5 6 7 8; do
		ask "Question $i?" -w busy >s$i 2>err$i &
	done
	wait
	cat err? s? >all
	[ "$(sort -V all)" = "$(printf 'busy/s%d\n' 1 2 3 4 5 6 7 8)" ]
	epd-decode -n 4 - <all >/dev/null
	epd-state check busy
}

@test "killed at any moment, the next run draws the same text" {
	want=$(epd-decode -n 60 --temp 1 -s 4 --ignore-eos "$(ask 'Describe it.')")
	for ms in 5 10 15 20 30 40 60 80 120; do
		s=$(ask 'Describe it.')
		epd-decode -n 60 --temp 1 -s 4 --ignore-eos "$s" >/dev/null &
		pid=$!
		sleep "$(printf '0.%03d' $ms)"
		kill -9 $pid 2>/dev/null || true
		wait $pid || true
		[ "$(epd-state show -j "$s" | jq .versions)" -eq 1 ] || continue
		[ "$(epd-decode -n 60 --temp 1 -s 4 --ignore-eos "$s")" = "$want" ]
	done
	epd-state gc
	epd-state check
	[ "$(epd-state gc -j | jq '.runs + .orphans')" -eq 0 ]
}

@test "commands that only look load no codecs and no arithmetic" {
	for c in epd-state epd-handoff; do
		run -0 ldd "$build/bin/$c"
		[[ $output != *lib@(jpeg|spng|webp|png|m).so* ]]
		[[ $output == *libjson-c* ]]
	done
}
