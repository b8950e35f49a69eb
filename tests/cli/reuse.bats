#!/usr/bin/env bats
# Exact-prefix reuse: what any state of the store has is not computed again.

load helper

@test "the same question again is taken up to the token" {
	ask
	run --separate-stderr ask 'What does the sign say?' -v -w w1
	[[ $stderr =~ ^w1/s2:\ reused\ 30\ of\ 31\ tokens,\ 0\ computed,\ 1\ image\  ]]
	[ "$(epd-decode w1/s2)" = ON ]
	[ "$(epd-decode w1/s1)" = ON ]
	diff <(epd-state show -j w1/s1 | jq '.kv_pages[].checksum') \
		<(epd-state show -j w1/s2 | jq '.kv_pages[].checksum')
}

@test "in another workflow by whole pages, which are links to one file" {
	ask
	run --separate-stderr ask 'What does the sign say?' -v
	[[ $stderr =~ ^w2/s1:\ reused\ 16\ of\ 31\ tokens,\ 14\ computed, ]]
	[ "$(find memory -path '*/w/w1/*' -type f -links 2 | wc -l)" -eq 1 ]
	[ "$(find memory -path '*/w/w2/*' -type f -links 2 | wc -l)" -eq 1 ]
	epd-state rm w1/s1
	[ "$(find memory -path '*/w/*' -type f -links 2 | wc -l)" -eq 0 ]
	[ "$(epd-state ls -j | jq .pages_missing)" -eq 0 ]
	[ "$(epd-decode w2/s1)" = ON ]
	epd-state rm w2/s1
	[ -z "$(find memory -path '*/w/*' -type f)" ]
}

@test "-j tells of it: reused, of that borrowed" {
	ask
	ask 'What does the sign say?' -j -w w1 >out
	jq -e '.reused == 30 and .computed == 0' out
}

@test "--reuse none computes all, and so does the configuration" {
	ask
	run --separate-stderr ask 'What does the sign say?' -v -w w1 --reuse none
	[[ $stderr =~ ^w1/s2:\ reused\ 0\ of\ 31\ tokens,\ 30\ computed, ]]
	printf 'reuse:\n  default_policy: none\n' >>"$EPD_CONFIG"
	run --separate-stderr ask 'What does the sign say?' -v -w w1
	[[ $stderr =~ ^w1/s3:\ reused\ 0\ of\ 31\ tokens, ]]
	run --separate-stderr ask 'What does the sign say?' -v -w w1 \
		--reuse exact_prefix
	[[ $stderr =~ ^w1/s4:\ reused\ 30\ of\ 31\ tokens, ]]
	[ "$(for i in 1 2 3 4; do
		epd-state show -j w1/s$i | jq -c '[.kv_pages[].checksum]'
	done | sort -u | wc -l)" -eq 1 ]
	[ "$(epd-state metrics -j | jq -c '[.reuse.exact_reuse_attempts,
		.reuse.exact_reuse_hits, .reuse.exact_reuse_tokens]')" = '[2,1,30]' ]
	run --separate-stderr -2 ask x --reuse perhaps
	[[ $stderr == *perhaps* ]]
}

@test "another picture, another store, another tenant: nothing" {
	ask
	run --separate-stderr epd-prefill -v -w w1 -i "$pictures/000_0.png" \
		-p 'What does the sign say?'
	[[ $stderr =~ ^w1/s2:\ reused\ 0\ of\  ]]
	EPD_STORE=$PWD/other run --separate-stderr ask 'What does the sign say?' -v
	[[ $stderr =~ ^w1/s1:\ reused\ 0\ of\ 31\  ]]
	EPD_TENANT=other run --separate-stderr ask 'What does the sign say?' -v
	[[ $stderr =~ ^w2/s1:\ reused\ 0\ of\ 31\  ]]
	EPD_STORE=$PWD/other epd-state rm -r w1
	rm -r other
}

@test "pages that are gone or damaged are a miss, and the answer is the same" {
	ask
	find memory -path '*/w/*' -type f -delete
	run --separate-stderr ask 'What does the sign say?' -v
	[[ $stderr =~ ^w2/s1:\ reused\ 0\ of\ 31\  ]]
	for f in $(find memory -path '*/w/*' -type f); do
		chmod u+w "$f"
		printf '\377' | dd of="$f" bs=1 seek=4200 conv=notrunc status=none
	done
	run --separate-stderr ask 'What does the sign say?' -v
	[[ $stderr =~ ^w3/s1:\ reused\ 0\ of\ 31\  ]]
	[ "$(epd-state metrics -j | jq '.state.pages_corrupt > 0')" = true ]
	for w in 1 2 3; do
		[ "$(epd-decode w$w/s1)" = ON ]
	done
}

@test "a lost index is made again" {
	ask
	rm memory/epd-*/pages
	run --separate-stderr ask 'What does the sign say?' -v
	[[ $stderr =~ ^w2/s1:\ reused\ 16\ of\ 31\  ]]
	printf rubbish >"$(echo memory/epd-*/pages)"
	run --separate-stderr ask 'What does the sign say?' -v
	[[ $stderr =~ ^w3/s1:\ reused\ 16\ of\ 31\  ]]
}

@test "a turn told to branches is computed by the first of them" {
	s=$(epd-prefill -p 'Here is a list of things to do, one after another.')
	epd-decode -n 3 "$s"
	for b in $(epd-fork -n 8 "$s"); do
		epd-prefill -j --role tool -p 'The result is 42, as it was.' "$b"
	done >out
	jq -es '[.[].computed] | .[0] > 0 and (.[1:] | all(. == 0))' out
	[ "$(for b in $(jq -r .state out); do
		epd-state show -j "$b" | jq -c '[.kv_pages[].checksum]'
	done | sort -u | wc -l)" -eq 1 ]
}

@test "what is taken up from elsewhere is shared, and nobody's alone" {
	s=$(ask)
	alone=$(epd-state show -j "$s" | jq .bytes.private)
	t=$(ask)
	for x in "$s" "$t"; do
		epd-state show -j "$x" |
			jq -e ".bytes | .shared > 0 and .private < $alone and
			.proportional < .private + .shared"
	done
	[ "$(epd-state ls -j | jq -s 'map(.shared_bytes) | unique | length')" -eq 1 ]
	epd-state rm "$t"
	epd-state show -j "$s" |
		jq -e ".bytes | .shared == 0 and .private == $alone"
}

@test "the shares of states come to what memory holds, odd bytes too" {
	for w in a b c d e f g; do
		ask 'What does the sign say?' -w $w
		sum=$(epd-state ls -j | jq -s 'map(.proportional_bytes) | add')
		[ "$sum" -eq "$(epd-state metrics -j | jq .state.memory_bytes)" ]
	done
	epd-state rm -r c
	sum=$(epd-state ls -j | jq -s 'map(.proportional_bytes) | add')
	[ "$sum" -eq "$(epd-state metrics -j | jq .state.memory_bytes)" ]
}
