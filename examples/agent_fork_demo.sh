#!/bin/sh
# agent_fork_demo.sh - branches share pages, and nothing stays of them.
#
# A state of two pages and three branches beside it: each page is held by four.
# --replace makes the state itself into its branches: eight of them, eight holds.
# When all are released no page is left; a page is counted by the memory it
# takes, so that nothing the books have forgotten goes unseen.
# shellcheck source=examples/here.sh
. "$(dirname "$0")/here.sh"

agent=agent$tag
workflows=$agent
memory=$(figure state.memory_bytes)

s=$(epd-prefill -w "$agent" -i "$pictures/008_0.jpg" -p 'What does the sign say?')
epd-fork -n 3 "$s" >"$tmp/branches"
beside=$(refcounts "$s")
page=$(epd-state show -j "$s" | jq .page_bytes)

# Four pages and eight branches, in place of the state.
long=$(epd-prefill -w "$agent" -i "$pictures/005_0.png" -p 'Describe the picture:
every shape there is, what colour it has, where it is, at the left or the right.')
first=$(epd-fork --replace -n 8 "$long" | tee "$tmp/eight" | head -1)
replaced=$(refcounts "$first")
parent=$(epd-state show "$long" 2>&1 || true)

# The branches go their ways; what they add is theirs alone.
cat "$tmp/branches" "$tmp/eight" | epd-decode -q --temp 0.8 - >"$tmp/said"

epd-state rm -r "$agent"
epd-state gc
bytes=$(($(figure state.memory_bytes) - memory))
left=$(((bytes + page - 1) / page))

printf '{"shared_refcounts_after_fork": %s, "remaining_blocks": %d}\n' \
	"$beside" "$left"
printf '{"shared_refcounts_after_replace": %s}\n' "$replaced"
want 'the count of each page' "$beside" '{"0":4,"1":4}'
want 'the count of each page' "$replaced" '{"0":8,"1":8,"2":8,"3":8}'
want 'the parent' "$parent" "epd-state: $long: no such state"
want 'what is left' "$left" 0
want 'texts' "$(grep -c '^==> ' "$tmp/said")" 11
