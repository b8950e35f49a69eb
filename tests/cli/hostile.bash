# hostile.bash - input that lies, and what a refusal is.  Loaded behind helper.bash.
#
# A refusal is one line that begins with the program's name, holds the words
# asked for and no control characters; the right status; nothing on standard
# output; all within a bound of time and memory.  A test goes on after a wrong
# one, and settled, its last line, tells them all.

# Much here is the begin of something endless, whose writer fails.
set +o pipefail

figures=$BATS_FILE_TMPDIR/figures

teardown_file() {
	[ ! -e "$figures" ] || sort "$figures" | uniq -c |
		while read -r n what; do echo "# row 15: $n $what" >&3; done
}

# What a folder or file holds, and when it was changed.
prints() {
	find "$1" -printf '%p %y %m %T@ %s\n' | sort
	find "$1" -type f -exec sha256sum {} + | sort
}

# bounded COMMAND...: standard output in out, error in err, status in $rc.
bounded() {
	rc=0
	{ (
		ulimit -v "${kib:-1500000}"
		exec timeout -s KILL "${seconds:-30}" "$@"
	) >out 2>err || rc=$?; } 2>/dev/null
}

wrong() {
	{
		printf '%s\n' "$*"
		head -c 600 out
		head -c 600 err
	} >>wrong
}

# refused STATUS WORDS COMMAND...
refused() {
	local status=$1 words=$2 line
	shift 2
	bounded "$@"
	IFS= read -r line <err || true
	if [ "$rc" -ne "$status" ]; then
		wrong "status $rc, not $status: $*"
	elif [ "$(wc -l <err)" -ne 1 ] || [[ $line != epd*': '* ]]; then
		wrong "not one sentence: $*"
	elif [[ $line != *"$words"* ]]; then
		wrong "does not say $words: $*"
	elif grep -q '[[:cntrl:]]' err; then
		wrong "control characters: $*"
	elif [ -s out ]; then
		wrong "printed something: $*"
	else
		echo refused >>"$figures"
	fi
}

# Right or refused, whatever the status: WANT is what standard output may be.
right_or_refused() {
	local want=$1
	shift
	bounded "$@"
	if [ "$rc" -eq 0 ]; then
		[ "$(cat out)" = "$want" ] || wrong "a wrong answer: $*"
		echo right >>"$figures"
	elif [ "$rc" -gt 6 ] || ! [ -s err ]; then
		wrong "status $rc: $*"
	else
		echo refused >>"$figures"
	fi
}

# What the refused left in the store: nothing.
empty() {
	local left
	left=$(epd-state ls; epd-state ls -f
		find "$EPD_STORE" "$BATS_TEST_TMPDIR/memory" -name '.tmp.*'
		find "$EPD_STORE/features" -mindepth 2 -type f
		find "$BATS_TEST_TMPDIR/memory" -path '*/w/*' -type f)
	[ -z "$left" ] || wrong "left behind: $left"
}

settled() {
	[ ! -e wrong ] || { cat wrong; return 1; }
}

# ---- making things ----

# bytes TEXT with \xHH
bytes() { printf -- "$1"; }

# be32 N: four bytes, most significant first.
be32() {
	printf "\\x$(printf %02x $(($1 >> 24 & 255)))\\x$(printf %02x $(($1 >> 16 & 255)))\\x$(printf %02x $(($1 >> 8 & 255)))\\x$(printf %02x $(($1 & 255)))"
}

# chunk TYPE: one of a PNG, its data from standard input, the CRC right.
chunk() {
	{ printf %s "$1"; cat; } >chunk.body
	be32 $(($(stat -c %s chunk.body) - 4))
	cat chunk.body
	gzip -c <chunk.body | tail -c 8 | head -c 4 | perl -0777 -ne 'print scalar reverse $_'
}

# zlib: standard input as a zlib stream.
zlib() {
	perl -0777 -e 'my $d = <STDIN>; my ($a, $b) = (1, 0);
		for (unpack "C*", $d) { $a = ($a + $_) % 65521; $b = ($b + $a) % 65521 }
		open my $f, ">", "zlib.raw"; print $f $d; close $f;
		print "\x78\x9c"; my $z = `gzip -nc9 zlib.raw`;
		print substr($z, 10, length($z) - 18), pack("N", $b << 16 | $a)'
}

# png WIDTH HEIGHT [DEPTH COLOUR [METHODS]]: its scan lines from standard input.
png() {
	bytes '\x89PNG\r\n\x1a\n'
	{ be32 "$1"; be32 "$2"; bytes "\\x${3:-08}\\x${4:-02}${5:-\\x00\\x00\\x00}"; } | chunk IHDR
	zlib | chunk IDAT
	: | chunk IEND
}

# patch FILE OFFSET BYTES: over what is there.
patch_at() {
	bytes "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

zeros() { head -c "$1" /dev/zero; }
