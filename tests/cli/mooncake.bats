#!/usr/bin/env bats
# epd-offload, epd-restore and epd-encode with a real Mooncake Store: what rests there
# comes back with the same bits, whatever becomes of the store.

load helper
load mooncake

teardown() {
	local failed=0
	moon_down KILL
	if [ -e "$EPD_STORE/store" ]; then
		epd-state check || failed=1
	fi
	ip netns del "${stem:-none}" 2>/dev/null || true
	rm -rf "$EPD_STORE" "$BATS_TEST_TMPDIR/memory" memory-b b
	return "$failed"
}

# settle [LINE ...]: the configuration, with more lines for `tier`.
settle() {
	mkdir -p disk
	cat >"$EPD_CONFIG" <<-Y
	page: { memory_dir: $BATS_TEST_TMPDIR/memory }
	feature: { store: ${features:-none} }
	transfer: { timeout_ms: 5000 }
	tier:
	  restore: always
	  nvme_dir: $PWD/disk
	  mooncake_url: http://127.0.0.1:8081
	  mooncake_admin: http://127.0.0.1:9003
	  mooncake_timeout_ms: 1000
	Y
	[ $# -eq 0 ] || printf '  %s\n' "$@" >>"$EPD_CONFIG"
}

# A state, $s, of $n pages that says $said next.
begin() {
	moon
	settle
	make_state
	s=w1/s1
	n=$(epd-state show -j "$s" | jq .pages)
	said=$(next "$(epd-fork "$s")")
	[ -n "$said" ]
	epd-state release w1/s2
}

count() {
	epd-state metrics | sed -n "s/^epd_$1 //p"
}

@test "a state rests there and comes back, and its pages are there once" {
	begin
	[ "$(in_net epd-offload -t mooncake_store "$s")" = w1/s1 ]
	[ "$(status_of "$s")" = OFFLOADED ]
	[ -z "$(find memory -type f -path '*/w/w1/*')" ]
	had=$(count_keys)
	[ "$had" -gt 0 ]
	hits=$(count tier_page_hits)
	in_net epd-restore -j "$s" >out
	[ "$(count tier_page_hits)" -eq $((hits + $(jq .pages_restored out))) ]
	jq -e --argjson n "$n" '.rested and
		.pages_restored >= $n and .pages_missing == 0 and
		.tiers == ["mooncake_store"]' out
	# Who has the same pages puts nothing.
	in_net epd-offload -q -t mooncake_store "$s"
	[ "$(count_keys)" -eq "$had" ]
	[ "$(next "$s")" = "$said" ]
	epd-state log -j w1 | jq -se 'map(select(.record == "offload" and
		.status == "OFFLOADED")) | all(.tier == "mooncake_store")'
}

@test "from the disk to there, and the other way" {
	begin
	epd-offload -q -t nvme "$s"
	[ -n "$(find disk -type f -path '*/w/w1/*')" ]
	[ "$(count_keys)" -eq 0 ]
	in_net epd-offload -j -t mooncake_store "$s" | jq -e '.pages_missing == 0 and
		.bytes > 0 and .tier == "mooncake_store"'
	[ "$(count_keys)" -gt 0 ]
	[ -z "$(find memory -type f -path '*/w/w1/*')" ]
	# It is there, and needs no disk.
	find disk -type f -path '*/w/w1/*' -delete
	in_net epd-offload -j -t nvme "$s" | jq -e '.pages_missing == 0 and .bytes > 0'
	[ -n "$(find disk -type f -path '*/w/w1/*')" ]
	moon_down KILL
	[ "$(next "$s")" = "$said" ]
}

@test "a store that is away: nothing rests there, a sentence, and the state is as it was" {
	begin
	kill -STOP "$master" "$rest"
	for k in 1 2; do
		run --separate-stderr in_net timeout 30 epd-offload -t mooncake_store "$s"
		[ "$status" -eq 3 ]
		[ -z "$output" ]
		[[ $stderr == 'epd-offload: w1/s1: the Mooncake Store'* ]] ||
			{ echo "$stderr"; return 1; }
		[ "$(status_of "$s")" = ACTIVE ]
		# On a disk it is there and stays.
		epd-offload -q -t nvme "$s"
	done
	run in_net timeout 30 epd-offload -t mooncake_store "$s"
	[ "$status" -eq 3 ]
	[ "$(status_of "$s")" = ACTIVE ]
	[ "$(next "$s")" = "$said" ]
	[ "$(count tier_errors)" -gt 0 ]
}

@test "a master that is killed and comes again: what it forgot is computed, and counted" {
	begin
	epd-fork -q -n 3 "$s" >branches
	in_net epd-offload -q -t mooncake_store "$s" - <branches
	moon_down KILL
	moon_up
	[ "$(count_keys)" -eq 0 ]
	in_net epd-restore -j "$s" | jq -e '.pages_restored == 0 and .pages_missing > 0'
	[ "$(next "$s")" = "$said" ]
	[ "$(count tier_page_misses)" -gt 0 ]
	# What rested and was forgotten rests again.
	b=$(head -1 branches)
	[ "$(in_net epd-offload -t mooncake_store "$b")" = "$b" ]
	[ "$(next "$b")" = "$said" ]
	# In the middle: of ten offloads some are told done, and those are.
	begin_ten
	in_net epd-offload -t mooncake_store - <ten >done 2>err & run=$!
	till 100 test -s done
	kill -9 "$master" "$rest"
	wait "$run" || true
	while read -r t; do
		[ "$(status_of "$t")" = OFFLOADED ]
	done <done
	wait "$master" "$rest" 2>/dev/null || true
	moon_up
	while read -r t; do
		[ "$(next "$t")" = "$(cat "said.${t#w2/}")" ]
	done <ten
}

# Ten states in w2, and what each says next.
begin_ten() {
	for i in {1..10}; do
		epd-prefill -q -w w2 -p "State $i is made of some words of its own."
	done >ten
	while read -r t; do
		b=$(epd-fork "$t")
		next "$b" >"said.${t#w2/}"
		epd-state release -q "$b"
	done <ten
	[ "$(wc -l <ten)" -eq 10 ]
} >/dev/null

@test "memory that is full gives its pages there, and has them back" {
	begin
	cap=$((1 << 20))
	cat >>"$EPD_CONFIG" <<-Y
	  evict_to: mooncake_store
	  high_water: 0.6
	  low_water: 0.3
	Y
	sed -i "s|^page: {|page: { memory_cap: $cap,|" "$EPD_CONFIG"
	for i in {1..12}; do
		in_net epd-prefill -q -w w3 -p "$(printf "$i words %.0s" {1..60})"
	done
	[ "$(du -sb memory | cut -f1)" -le "$cap" ]
	[ "$(count_keys)" -gt 0 ]
	[ "$(next "$s")" = "$said" ]
	[ "$(count tier_page_hits)" -gt 0 ]
}

@test "sealed by a key: who has another one finds nothing, and says so by computing" {
	begin
	head -c 32 /dev/urandom | base64 >key
	chmod 600 key
	settle "key_file: $PWD/key"
	in_net epd-offload -q -t mooncake_store "$s"
	head -c 32 /dev/urandom | base64 >key
	in_net epd-restore -j "$s" | jq -e '.pages_restored == 0 and .pages_missing > 0'
	[ "$(next "$s")" = "$said" ]
}

@test "an image that one store has encoded the other reads" {
	moon
	features=mooncake_store settle
	run --separate-stderr -2 in_net epd-encode "$pictures/008_0.jpg"
	[[ $stderr == *tier.key_file* ]]
	head -c 32 /dev/urandom | base64 >key
	chmod 600 key
	features=mooncake_store settle "key_file: $PWD/key"
	one=$(in_net epd-encode "$pictures/008_0.jpg")
	[ "$(count_keys)" -eq 2 ]
	[ "$(count feature_mm_tier_put)" -eq 1 ]
	cp "$EPD_CONFIG" b.yaml
	mkdir -p memory-b
	sed -i "s|/memory }|/memory-b }|" b.yaml
	in_b() { EPD_STORE=$PWD/b EPD_CONFIG=$PWD/b.yaml "$@"; }
	[ "$(in_b in_net epd-encode "$pictures/008_0.jpg")" = "$one" ]
	[ "$(in_b count feature_mm_tier_hit)" -eq 1 ]
	[ "$(in_b count stage_encode_count)" -eq 0 ]
	in_b epd-state check
	# The same rows, to the byte.
	cmp <(cd "$EPD_STORE" && find features -name '*.blob' -exec cat {} +) \
		<(cd b && find features -name '*.blob' -exec cat {} +)
	# Lost here, it is there still; the store away, it is encoded.
	find b/features -name '*.meta' -delete
	[ "$(in_b in_net epd-encode "$pictures/008_0.jpg")" = "$one" ]
	[ "$(in_b count feature_mm_tier_hit)" -eq 2 ]
	moon_down KILL
	find b/features -name '*.meta' -delete
	[ "$(in_b in_net epd-encode "$pictures/008_0.jpg")" = "$one" ]
	[ "$(in_b count stage_encode_count)" -eq 1 ]
}
