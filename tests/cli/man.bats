#!/usr/bin/env bats
# The manual says what the commands do.

load helper

pages='epd epd-encode epd-prefill epd-decode epd-fork epd-handoff epd-plan epd-state'
[ ! -x "$build/bin/epd-mount" ] || pages="$pages epd-mount"

can_mount() {
	epd doctor -j | jq -e .mount.possible >/dev/null
}

# A page as plain text; mdoc escapes and macros are enough for a grep.
page() {
	cat "$root/cmd/$1"
}

@test "every option of --help is in the page" {
	for c in $pages; do
		if [ "$c" = epd-state ]; then
			for v in ls show tree log release abort check gc metrics; do
				epd-state $v --help
			done
		else
			$c --help
		fi >help
		grep -oE '^  (-[a-z], |    )--[a-z-]+' help |
			sed 's/[-,]*\([a-z]\), --/\1 /; s/^ *--/- /; s/^ *//' |
			sort -u >options
		[ -s options ]
		while read -r letter long; do
			if [ "$letter" = - ]; then
				page "$c.1" | grep -qE "^\.It Fl -$long( |$)"
			else
				page "$c.1" | grep -qE "^\.It Fl $letter , -$long( |$)"
			fi || { echo "$c: --$long" >&2; false; }
		done <options
	done
}

@test "every page has its sections" {
	for c in $pages; do
		for s in NAME SYNOPSIS DESCRIPTION ENVIRONMENT 'EXIT STATUS' EXAMPLES; do
			page "$c.1" | grep -qx ".Sh $s"
		done
	done
	for s in NAME DESCRIPTION ENVIRONMENT 'EXIT STATUS' EXAMPLES; do
		page epd.yaml.5 | grep -qx ".Sh $s"
	done
}

@test "every verb of epd-state is in its page" {
	epd-state --help | sed -n '/^verbs:/,$s/^  \([a-z]*\).*/\1/p' >verbs
	[ -s verbs ]
	while read -r v; do
		page epd-state.1 | grep -qE "^\.It Cm $v( |$)"
	done <verbs
}

@test "every configuration key is in epd.yaml(5), with its default" {
	sed -n 's/^	X("\([a-z]*\)", *"\([a-z_]*\)", *\(.\), *[a-z_]*, *\([^,]*\),.*/\1 \2 \3 \4/p' \
		"$root/libepd/base/config_keys.h" >keys
	[ "$(wc -l <keys)" -gt 40 ]
	while read -r section key kind default; do
		case $kind$default in
		B0) default=false ;;
		B1) default=true ;;
		S'""') default=empty ;;
		*) default=${default//\"/} ;;
		esac
		page epd.yaml.5 | sed -n "/^\.Ss $section\$/,/^\.S[sh] /p" |
			grep -qE "^\.It Cm $key No \[$default\]\*?\$" ||
			{ echo "$section.$key [$default]" >&2; false; }
	done <keys
	page epd.yaml.5 | grep -q '^\.It Cm queues '
}

# As a person would, who pastes them one after another: each must work.
paste() {
	[ -s "$1" ]
	(
		set -o pipefail
		while IFS= read -r line; do
			eval "$line" >>out || { echo "$1: $line" >&2; exit 1; }
		done <"$1"
	)
}

# The lines of a page's examples.
examples_of() {
	sed -n '/^\.Sh EXAMPLES/,/^\.Sh SEE/p' "$root/cmd/$1.1" |
		sed -n '/^\.Bd /,/^\.Ed/{ /^\./d; s/\\e/\\/g; p; }' >$1.lines
	sed -i "s|/srv/epd|$PWD/srv|" $1.lines
}

@test "what the README says to do works, in order" {
	cp "$pictures/008_0.jpg" sign.jpg
	cp "$pictures/000_0.png" cat.png
	echo '[{"role": "user", "content": "hello"}]' >chat.json
	# Blocks, but for those of make and those that show what is printed.
	awk '/^    / { if (!in_it) skip = /^    (make|\$) /; in_it = 1
			if (!skip) print substr($0, 5); next }
		{ in_it = 0 }' "$root/README.md" >readme
	grep -q '^epd-handoff ' readme
	paste readme
	# What it says they print.
	[ "$(epd-state ls w1)" = $'w1/s5\nw1/s6\nw1/s7\nw1/s8\nw1/s9' ]
	epd-state check --store DIR
	rm -rf DIR
}

@test "the examples of the pages work, in order" {
	for p in $pages; do
		[ $p != epd-mount ] || can_mount || continue
		rm -rf "$EPD_STORE" work
		mkdir work
		cd work
		examples_of $p
		cp "$pictures/008_0.jpg" sign.jpg
		for f in a b cat; do
			cp "$pictures/000_0.png" $f.png
		done
		mkdir pictures
		cp a.png pictures
		case $p in
		epd-decode) ask; epd-fork w1/s1 ;;
		epd-state|epd-mount) ask ;;
		epd-plan) ask; cp "$root"/examples/plan/*.yaml . ;;
		epd-fork) ask; epd-decode w1/s1; epd-prefill -p 'And now?' w1/s1 ;;
		epd-handoff) for i in 1 2 3 4; do ask 'What is it?' -w plan; done ;;
		esac
		paste $p.lines || { ! mountpoint -q mnt || epd-mount -u mnt; false; }
		rm -rf srv
		cd ..
	done
}

@test "mandoc finds nothing to complain of" {
	command -v mandoc >/dev/null || skip 'no mandoc'
	for f in "$root"/cmd/*.[15]; do
		mandoc -T lint -W style "$f" |
			grep -v 'referenced manual not found\|outdated mandoc.db' || continue
		false
	done
}

@test "epd help shows the page, or --help where there is no man" {
	command -v man >/dev/null || skip 'no man'
	mkdir -p tree/bin tree/share/man/man1 tree/share/man/man5
	cp "$build"/bin/* tree/bin
	cp "$root"/cmd/*.1 tree/share/man/man1
	cp "$root"/cmd/*.5 tree/share/man/man5
	MANPAGER=cat tree/bin/epd help decode | grep -qi 'draw the text'
	MANPAGER=cat tree/bin/epd help config | grep -qi 'configuration of epd'
	MANPAGER=cat tree/bin/epd help epd-decode | grep -qi 'draw the text'
	MANPAGER=cat tree/bin/epd help epd.yaml | grep -qi 'configuration of epd'
	MANPAGER=cat tree/bin/epd help epd | grep -qi 'pictures and questions'
	MANPAGER=cat tree/bin/epd help | grep -qi 'pictures and questions'
	PATH=/nonexistent tree/bin/epd help decode | grep -q '^usage: epd-decode'
	run --separate-stderr -2 tree/bin/epd help decod
	[[ $stderr == *'did you mean decode?'* ]]
}
