#!/bin/sh
# browse.sh - a store as files, looked at with the programs one has.
#
# A picture, a question, a branch and a second turn; then the store is mounted and
# looked through by ls, cat, find, du, jq, grep and tail.  A page's link count is
# the states that stand on it.  Every command is shown as it is typed.
# shellcheck source=examples/here.sh
. "$(dirname "$0")/here.sh"
# shellcheck source=examples/mount.sh
. "$here/mount.sh"

signs=signs$tag
workflows=$signs

s=$(epd-prefill -w "$signs" -i "$pictures/008_0.jpg" -p 'What does the sign say?')
epd-fork "$s" >"$tmp/branch"
epd-decode "$s" >"$tmp/said"
epd-prefill -q -p 'And its colour?' "$s" >"$tmp/second"
up
cd "$mount/workflows/$signs/states"

# What is typed, and what it prints.
show() {
	printf '$ %s\n' "$1"
	eval "$1"
}

show 'ls'
show 'ls s1'
show 'cat s1/text'
show 'cat s2/text'
show 'readlink s2/parent'
show 'ls s1/versions'
show 'find s1/pages/ s2/pages/ -type l | wc -l'
show 'find -L s1/pages s2/pages -links 2 | sort'
show 'du -bL s1/pages | cut -f1'
show "jq -c '[.tokens, .images, .turn]' s1/state.json"
show 'grep -l colour s*/text'
show "tail -n 1 ../log | jq -r .record"
show 'file -bL s1/features/0/image.png 2>/dev/null || head -c 4 s1/features/0/image.png'
show 'cat ../check'

want 'what the sign says' "$(sed -n 's/^assistant: //p' s1/text | head -n 1)" \
	"$(cat "$tmp/said")"
want 'pages that both states use' "$(find -L s1/pages -type f -links 2 | wc -l)" 1
want 'files with the second question' "$(grep -l colour s*/text)" s1/text
cd "$here"
down
