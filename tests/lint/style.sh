#!/bin/sh
# style.sh - sizes and words: what style rules can be counted.
cd "${1:-.}" || exit 2
bad=0
say() { printf '%s\n' "$*"; bad=1; }

for f in $(git ls-files '*.c' '*.h' 2>/dev/null); do
	[ -f "$f" ] || continue
	n=$(wc -l <"$f")
	case $f in
	tests/*) continue ;;
	*.h) [ "$n" -le 120 ] || say "$f: $n lines, headers stay at or under 120" ;;
	*.c) [ "$n" -le 600 ] || say "$f: $n lines, sources stay at or under 600" ;;
	esac
	awk -v f="$f" '
		/^[a-z_].*\)$|^[a-z_]+\(.*\)$/ { name = $0 }
		/^\{/ { start = NR }
		/^\}/ && start { if (NR - start > 62) {
			print f ":" start ": function of " NR - start - 1 " lines"; bad = 1 }
			start = 0 }
		END { exit bad }' "$f" || bad=1
	case $f in
	libepd/base/alloc.c) ;;
	libepd/*.c) grep -nE '[^_a-z](malloc|calloc|realloc|strdup)\(' "$f" |
		grep -v epd_ | sed "s|^|$f:|" | grep . && bad=1 ;;
	esac
done
git grep -nIE '\b(TODO|FIXME|XXX|HACK)\b' -- '*.c' '*.h' '*.sh' '*.bats' '*.mk' ':!tests/lint' && bad=1
git grep -nE '^(typedef|.*;[[:space:]]*typedef)' -- 'libepd/*.h' 'cmd/*.h' |
	grep -vE '\(|typedef (float|__m)' && bad=1
exit $bad
