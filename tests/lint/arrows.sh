#!/bin/sh
# arrows.sh - an include points down, through a room's door, and never round.
# tests/lint/floors is the house; cmd/ may include what it wants of base.
cd "${1:-.}" || exit 2
edges=$(find libepd transport fs cmd -name '*.[ch]' -o -name '*.cu' 2>/dev/null |
	xargs grep -Ho '^#include "[^"]*"' 2>/dev/null |
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

# x.c and x.h are one module; tsort complains of any loop among modules.
printf '%s\n' "$edges" | awk 'NF == 2 {
	if (!index($2, "/")) { d = $1; sub("[^/]*$", "", d); $2 = d $2 }
	sub("[.][a-z]*$", "", $1); sub("[.][a-z]*$", "", $2)
	if ($1 != $2) print $1, $2 }' | tsort >/dev/null
