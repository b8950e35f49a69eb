#!/usr/bin/env bats
# What concerns a store as a whole: lost tips, damaged neighbours, copies, keys.

load helper

@test "a state whose tip was lost is listed, shown and decoded" {
	run epd-prefill -w w1 -p hello
	[ "$output" = w1/s1 ]
	cp "$EPD_STORE/w/w1/tip" "$BATS_TEST_TMPDIR/tip"
	run epd-prefill -w w1 -p 'hello again'
	[ "$output" = w1/s2 ]
	cp "$BATS_TEST_TMPDIR/tip" "$EPD_STORE/w/w1/tip"
	run epd-state ls w1
	[ "$output" = $'w1/s1\nw1/s2' ]
	cp "$BATS_TEST_TMPDIR/tip" "$EPD_STORE/w/w1/tip"
	run epd-decode -n 1 w1/s2
	[ "$status" -eq 0 ]
}

@test "a damaged workflow hides no other from ls and metrics" {
	epd-prefill -w bad -p hello
	epd-prefill -w good -p hello
	printf XXXX | dd of="$EPD_STORE/w/bad/log.00000001" bs=1 seek=100 conv=notrunc status=none
	run epd-state ls
	[ "$status" -eq 5 ]
	[[ $output == *good/s1* ]]
	[[ $output == *bad* ]]
	run epd-state metrics
	[[ $output == *'epd_state_workflows_unreadable 1'* ]]
	rm -r "$EPD_STORE/w/bad"
}

@test "a copy of a store keeps its hands off the pages of the other" {
	epd-prefill -w w1 -p hello
	cp -r "$EPD_STORE" copy
	epd-state rm --store copy w1/s1
	epd-state gc --store copy
	[ "$(epd-state ls -j w1 | jq .pages_missing)" -eq 0 ]
	epd-state ls --store copy
	rm -r copy
	epd-state gc
	[ "$(epd-state ls -j w1 | jq .pages_missing)" -eq 0 ]
	[ "$(find memory -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ]
}

@test "rm of a feature leaves the picture that a live state needs" {
	s=$(ask)
	f=$(epd-state show -j "$s" | jq -r '.feature_bundles[0].feature_bundle_id')
	want=$(epd-decode -n 4 --ignore-eos "$s")
	epd-state rm "$f"
	rm -rf memory/*
	s=$(ask)
	run epd-decode -n 4 --ignore-eos "$s"
	[ "$output" = "$want" ]
}

@test "a key stands for one request" {
	s=$(epd-prefill -w w1 -p hello)
	epd-prefill --key 7 -p more "$s"
	run epd-prefill --key 7 -p more "$s"
	[ "$output" = "$s" ]
	run -2 epd-prefill --key 7 -p other "$s"
	[[ $output == *'another request'* ]]
}

@test "a request that fails makes no workflow" {
	printf 'page:\n  memory_dir: %s\nimage:\n  max_pixels: 10\n' "$PWD/memory" >config.yaml
	run -2 epd-prefill -p hello -i "$pictures/005_0.png"
	[ -z "$(ls "$EPD_STORE/w")" ]
}
