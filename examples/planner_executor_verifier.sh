#!/bin/sh
# planner_executor_verifier.sh - one task through three workflows, and back once.
#
# The planner looks at the picture and hands its state over; the executor goes on
# from there and gives the verifier a branch of what it has.  The verifier trusts
# only its own look: it describes the picture itself, and refuses what does not
# agree.  Then the executor goes back, by a branch of the version it was given,
# and takes another way.  The picture is encoded once.
# shellcheck source=examples/here.sh
. "$(dirname "$0")/here.sh"

planner=planner$tag
executor=executor$tag
verifier=verifier$tag
workflows="$planner $executor $verifier"
encoded=$(figure stage.encode_count)

say() {
	printf '%-26s %s\n' "$1:" "$2"
}

# The next turn of a state, question and answer.
turn() {
	epd-prefill -q -p "$2" "$1" | epd-decode -q -
}

# Whether the picture shows what is claimed, by the verifier's own words.
verify() {
	epd-fork "$1" >"$tmp/branch"
	v=$(epd-handoff "$(cat "$tmp/branch")" "$verifier")
	seen=$(turn "$v" 'Describe the picture.')
	say "$v sees" "$seen"
	epd-state rm "$v"
	case $seen in *"$2"*) return 0 ;; esac
	return 1
}

p=$(epd-prefill -w "$planner" -i "$pictures/005_0.png" \
	-p 'How many shapes are there?')
say "$p plans" "$(epd-decode "$p") shapes to look at"
e=$(epd-handoff "$p" "$executor")
say 'handed over' "$p -> $e"

colour=$(turn "$e" 'What colour is the star?')
say "$e@$(epd-state ls -j "$e" | jq .version)" "the star is $colour"
tries=1
if ! verify "$e" "$colour star"; then
	# Back to what the planner gave, and another question.
	say "no $colour star" "back to $e@1"
	e=$(epd-fork --reason 'verification failed' "$e@1")
	shape=$(turn "$e" 'What shape is red?')
	colour=red
	say "$e@$(epd-state ls -j "$e" | jq .version)" "what is red is a $shape"
	tries=2
	verify "$e" "$colour $shape" || want "a $colour $shape" no yes
fi
say 'verified' "the star is $colour, in $tries tries"

for w in $workflows; do
	epd-state tree "$w"
done
epd-handoff --status >"$tmp/status"

want 'the colour' "$colour" red
want 'tries' $tries 2
want 'encoder calls' $(($(figure stage.encode_count) - encoded)) 1
want 'hand-offs under way' "$(wc -l <"$tmp/status" | tr -d ' ')" 0
want 'what the planner has' "$(epd-state ls "$planner")" ''
want 'where the second way began' \
	"$(epd-state ls -j "$e" | jq -r .parent)" "$executor/s1@1"
