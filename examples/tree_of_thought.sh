#!/bin/sh
# tree_of_thought.sh - several thoughts at each step, a vote, and on with the best.
#
# The question is computed once and forked; the branches think as one batch, at a
# temperature, each otherwise.  Each thought's answer is a vote, and among those
# that answered as most did the one the model was surest of (its mean log
# probability) goes on.  The others are released, with all that was theirs.
# shellcheck source=examples/here.sh
. "$(dirname "$0")/here.sh"

thoughts=thoughts$tag
workflows=$thoughts
width=4

# Thoughts from a state: "STATE VOTES SCORE TEXT" a line, the best one last.
propose() {
	epd-fork -n $width -s "$2" "$1" |
		epd-decode -j --temp 1.3 -s 1 - |
		jq -rs '[group_by(.state)[] | {
			state: .[0].state,
			score: ([.[] | select(.id) | .logprob] | add / length),
			text: (.[] | select(.finish) | .text)
		} | .answer = (.text | split(" ") | last)] |
		[group_by(.answer)[] | length as $votes | .[] | .votes = $votes] |
		sort_by(.votes, .score)[] |
		"\(.state) \(.votes) \(.score * 1000 | round / 1000) \(.text)"'
}

# Keep the last line's state, let go of the others'.
prune() {
	sed '$d' "$1" | cut -d' ' -f1 | epd-state rm -
	sed -n '$s/ .*//p' "$1"
}

step() {
	propose "$1" "$2" >"$tmp/step$2"
	printf 'step %d, from %s:\n' "$2" "$1"
	sed 's/^/    /' "$tmp/step$2"
	best=$(prune "$tmp/step$2")
	path="$path -> $best"
}

root=$(epd-prefill -w "$thoughts" -i "$pictures/001_0.png" \
	-p 'How many circles are there? Think, then answer.')
path=$root
step "$root" 1
first=$(sed -n '$p' "$tmp/step1")

# Deeper: the next question onto the best thought, and its branches.
epd-prefill -q -p 'Is any shape red? Think, then answer.' "$best" >"$tmp/out"
step "$best" 2
second=$(sed -n '$p' "$tmp/step2")

printf 'path: %s\n' "$path"
epd-state tree "$thoughts"

want 'the first answer' "${first##* }" 1
want 'the second answer' "${second##* }" no
want 'states left' "$(epd-state ls "$thoughts" | wc -l | tr -d ' ')" 3
want 'the path by the parents' "$(epd-state ls -j "$thoughts" | jq -rs '
	[.[0].state, (.[1:][] | .parent | split("@")[0])] + [.[-1].state] |
	.[1:] | join(" -> ")')" "$path"
