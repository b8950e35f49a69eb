#!/bin/sh
# arrows.sh - an include points down, through a room's door, and never round.
# tests/lint/floors is the house; every header of base is a door.
cd "${1:-.}" || exit 2
edges=$(grep -rHo --include='*.[ch]' --include='*.cu' '^#include "[^"]*"' \
	libepd transport fs cmd 2>/dev/null |
	sed 's|^libepd/||; s|:#include "| |; s|"$||')

printf '%s\n' "$edges" | awk '
	function room(path) { sub("/.*", "", path); return path }
	NR == FNR { floor[$2] = $1; next }
	NF == 2 && index($2, "/") {
		from = room($1); to = room($2)
		if (to == from || !(to in floor) || !(from in floor)) next
		if (floor[to] >= floor[from]) why = "arrow"
		else if (to != "base" && $2 != to "/" to ".h") why = "door"
		else next
		print why ": " $1 " -> " $2; bad = 1
	}
	END { exit bad }' tests/lint/floors - || exit 1

# Headers form no loop: tsort complains of one.
printf '%s\n' "$edges" | awk 'NF == 2 && $1 ~ /[.]h$/ {
	if (!index($2, "/")) { d = $1; sub("[^/]*$", "", d); $2 = d $2 }
	if ($1 != $2) print $1, $2 }' | tsort >/dev/null
