#!/bin/sh
# multi_image_agent.sh - an agent looks at its pictures twice; each is encoded once.
#
# First run: three pictures in a request, and the request twice, are six uses;
# three encoder calls serve them.  A feature is two objects, its rows and, written
# last, what makes them valid.  One picture was only passing and is let go of, so
# four objects stay: those of two pictures.  (The figures 3 and 4 also come of
# the pictures A, B, A asked for twice by a cache that does not see the second A
# before the first is stored.  Here that request takes two calls: the line
# "same_in_one_request".)
#
# Second run: two passes over sixteen pictures, all misses, then all hits.  What
# was encoded is read back from the store by the way hits take; those sixteen
# are counted apart, as mm_store_readback.
# shellcheck source=examples/here.sh
. "$(dirname "$0")/here.sh"

agent=agent$tag
workflows=$agent

# Rows and commit markers of this example's features.
objects() {
	epd-state ls -f -j | jq -r "select(.tenant == \"$EPD_TENANT\")
		.image_id" | while read -r id; do
		find "$EPD_STORE/features" -name "$id.blob" -o -name "$id.meta"
	done | wc -l | tr -d ' '
}

ask() {
	epd-prefill -q -w "$agent" -p "$question" "$@" >"$tmp/state"
}

# ---- three pictures, twice ----

question='Which image has the most shapes?'
cd "$pictures"
before=$(figure stage.encode_count)
for pass in 1 2; do
	ask -i 014_0.png -i 014_1.png -i 014_2.png
done
calls=$(($(figure stage.encode_count) - before))
epd-state rm -r "$agent"
epd-state rm "$(epd-encode 014_2.png)"
kept=$(objects)
printf '{"encoder_calls": %d, "without_a_cache": 6, "cache_objects": %d}\n' \
	"$calls" "$kept"
want 'encoder calls' "$calls" 3
want 'cache objects' "$kept" 4

# ---- a picture twice in one request, and the request twice ----

question='What changed?'
before=$(figure stage.encode_count)
folded=$(figure feature.mm_dedup)
for pass in 1 2; do
	ask -i 013_0.png -i 013_1.png -i 013_0.png
done
calls=$(($(figure stage.encode_count) - before))
folded=$(($(figure feature.mm_dedup) - folded))
printf '{"same_in_one_request": {"encoder_calls": %d, "folded": %d}}\n' \
	"$calls" "$folded"
want 'encoder calls' "$calls" 2

# ---- sixteen pictures, twice ----

set -- 00[0-9]_0.* 01[0-2]_0.* 015_0.png 016_0.png 018_0.png
want pictures $# 16
epd-state metrics -j >"$tmp/before"
for pass in 1 2; do
	epd-encode -q "$@" >"$tmp/pass$pass"
done
cmp "$tmp/pass1" "$tmp/pass2"
epd-state metrics -j | jq -c --slurpfile was "$tmp/before" '
	[.feature, $was[0].feature] |
	def more(f): (.[0] | f) - (.[1] | f);
	{ mm_hit: more(.mm_hit), mm_miss: more(.mm_miss),
	  mm_store_readback: more(.mm_store_readback),
	  mm_hit_rate: (more(.mm_hit) / (more(.mm_hit) + more(.mm_miss))),
	  first_pass_ms: more(.first_pass_ms),
	  second_pass_ms: more(.second_pass_ms) }' >"$tmp/line"
cat "$tmp/line"
want 'hits, misses, readbacks, rate' "$(jq -c '[.mm_hit, .mm_miss,
	.mm_store_readback, .mm_hit_rate]' "$tmp/line")" '[16,16,16,0.5]'
want 'second pass below the first' "$(jq '.second_pass_ms < .first_pass_ms' \
	"$tmp/line")" true
