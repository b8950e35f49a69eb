#!/bin/sh
# mount_tree_of_thought.sh - a tree of thought with nothing but files.
#
# The task of tree_of_thought.sh, done by mkdir, echo, cat, grep and rmdir on a
# mounted store: a branch is a directory that is made, a question a line that is
# written, a thought a file that is read, and the losers are directories that are
# removed.  Each thought's answer is a vote, and the first of those that answered as
# most did goes on.
# shellcheck source=examples/here.sh
. "$(dirname "$0")/here.sh"
# shellcheck source=examples/mount.sh
. "$here/mount.sh"

thoughts=thoughts$tag
workflows=$thoughts
width=4

# One line to a state's ctl, and its answer.
ask() {
	exec 4<>"$1/ctl"
	echo "$2" >&4
	cat <&4
	exec 4>&-
}

# Branches of a state, each set to think; "ANSWER NAME" a line when all have.
think() {
	for n in $(seq $width); do
		mkdir "$1/forks/t$n"
		ask "$1/forks/t$n" "decode temp 1.3 seed $2" >"$tmp/job"
	done
	for n in $(seq $width); do
		case $(ask "$1/forks/t$n" wait) in
		*' done '*) ;;
		*) echo "$name: t$n did not end well" >&2; exit 1 ;;
		esac
		thought=$(grep '^assistant:' "$1/forks/t$n/text" | tail -n 1)
		echo "$(echo "${thought##* }" | tr -cd '[:alnum:]') t$n"
		printf '    t%d: %s\n' "$n" "${thought#assistant: }" >>"$tmp/told"
	done
}

# The first that said what most said is best; the others go.
step() {
	: >"$tmp/told"
	think "$1" "$2" >"$tmp/votes"
	printf 'step %d:\n' "$2"
	cat "$tmp/told"
	answer=$(cut -d' ' -f1 "$tmp/votes" | sort | uniq -c | sort -k1,1nr -k2 |
		sed -n '1s/^ *[0-9]* //p')
	best=$(grep "^$answer " "$tmp/votes" | sed -n '1s/.* //p')
	votes=$(grep -c "^$answer " "$tmp/votes")
	printf '    votes for %s: %d; on from %s\n' "$answer" "$votes" "$best"
	for n in $(seq $width); do
		[ "t$n" = "$best" ] || rmdir "$1/forks/t$n"
	done
	best=$1/forks/$best
}

# The picture comes by a command: what is written to a mount is words.
epd-prefill -q -w "$thoughts" -i "$pictures/001_0.png" \
	-p 'How many circles are there? Think, then answer.' >"$tmp/root"
up
root=$mount/workflows/$thoughts/states/s1
step "$root" 1
first=$answer

# Deeper: the next question onto the best thought, and its branches.
ask "$best" 'prefill Is any shape red? Think, then answer.' >"$tmp/job"
ask "$best" wait >"$tmp/job"
step "$best" 2

sed 's/^/    /' "$best/text"
# Up from there by its parents.
at=$best path=
while :; do
	id=$(grep -o '"state_id": "[^"]*"' "$at/state.json" | cut -d'"' -f4)
	path="$id${path:+ -> $path}"
	[ -e "$at/parent" ] || break
	at=$(readlink -f "$at/parent")
done
echo "path: $path"

want 'the first answer' "$first" 1
want 'the second answer' "$answer" no
want 'states left' "$(find "$mount/workflows/$thoughts/states" -mindepth 1 \
	-maxdepth 1 | wc -l | tr -d ' ')" 3
want 'faults' "$(sed -n '$s/ faults.*//p' "$mount/workflows/$thoughts/check")" 0
down
