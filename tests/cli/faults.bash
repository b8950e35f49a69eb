# faults.bash - commands that are killed at their nth call, or whose calls fail,
# and what must hold afterwards.  Loaded behind helper.bash.
#
# A case NAME is functions: base_NAME makes what a round begins with, do_NAME is
# the command, and then_NAME says what must be true after it was struck: $rc is
# how it ended, the files out and err what it printed.  then_NAME runs do_NAME
# again, which must work.  truth_NAME, where there is one, notes what an
# undisturbed run says.  Every case is first tried undisturbed.

# What fails here is looked at by itself.
set +o pipefail

shim=$build/faults.so
sign=$pictures/008_0.jpg
question='What does the sign say?'

none() {
	[ -z "$1" ] || { printf 'left: %s\n' "$1"; return 1; }
}

# How many of each kind there were in this file.
teardown_file() {
	[ ! -e "$BATS_FILE_TMPDIR/figures" ] ||
		sort "$BATS_FILE_TMPDIR/figures" | uniq -c |
		while read -r n what; do echo "# figure $what $n" >&3; done
}

# ---- rounds ----

save() {
	rm -rf base
	mkdir base
	cp -a memory base/
	if [ -e store ]; then
		cp -a store base/
	fi
}

restore() {
	rm -rf store memory
	cp -a base/. .
}

# strike ACT NTH EVER COMMAND...: what it printed is in out and err.
strike() {
	local act=$1 nth=$2 ever=$3
	shift 3
	rc=0
	{ (
		export EPD_FAULT_CALL=${calls_of:-any} EPD_FAULT_NTH=$nth
		export EPD_FAULT_DO=$act
		[ "$ever" = once ] || export EPD_FAULT_EVER=1
		ulimit -t 60
		LD_PRELOAD=$shim "$@"
	) >out 2>err </dev/null || rc=$?; } 2>/dev/null
}

# How many calls there are to strike.
count() {
	rm -f calls
	( export EPD_FAULT_CALL=${calls_of:-any} EPD_FAULT_COUNT=$PWD/calls
	LD_PRELOAD=$shim "$@" ) >out 2>err </dev/null
	cat calls
}

# What a round of a case begins with, kept, and what an undisturbed run says.
prepare() {
	"base_$1" >/dev/null
	save
	if declare -F "truth_$1" >/dev/null; then
		"truth_$1"
		restore
	fi
}

begin() {
	rm -rf store memory base
	mkdir memory
	config
	learn
	prepare "$1"
	total=$(count "do_$1")
	rc=0
	[ "$total" -gt 10 ]
	"then_$1"
	swept
}

config() {
	printf 'page:\n  memory_dir: %s\n' "$PWD/memory" >"$EPD_CONFIG"
	[ $# -eq 0 ] || printf '%s\n' "$@" >>"$EPD_CONFIG"
}

# kills NAME ACT FIRST STRIDE: every STRIDE-th call from FIRST on.
kills() {
	begin "$1"
	for ((nth = $3; nth <= total; nth += $4)); do
		restore
		strike "$2" "$nth" once "do_$1"
		[ "$rc" -eq 137 ] && "then_$1" && swept || {
			echo "$1: $2 at call $nth of $total, status $rc"
			cat out err
			return 1
		}
		echo kills >>"$BATS_FILE_TMPDIR/figures"
	done
}

# fails NAME ACT EVER FIRST STRIDE: it says so in a line, or succeeds.
fails() {
	begin "$1"
	for ((nth = $4; nth <= total; nth += $5)); do
		restore
		strike "$2" "$nth" "$3" "do_$1"
		said && "then_$1" && { ((nth % 4)) || swept; } || {
			echo "$1: $2 at call $nth of $total, $3, status $rc"
			cat out err
			return 1
		}
		echo failed_calls >>"$BATS_FILE_TMPDIR/figures"
	done
}

cases='encode prefill named turn decode batch mend evict checkpoint release forget gc'

# all_fail ACT EVER: every call of every case; gc opens 256 folders that are alike.
all_fail() {
	local c
	for c in $cases; do
		fails "$c" "$1" "$2" 1 $(("${#c}" == 2 ? 5 : 1)) || return
	done
}

# A failure is a sentence and a status that fits.
said() {
	case $rc in
	0) return ;;
	1|3|5) ;;
	*) return 1 ;;
	esac
	[ -s err ]
}

# ---- what must hold whatever was struck ----

balanced() {
	[ ! -e store/store ] || epd-state check
}

# With all leftovers old, gc leaves what states and features need and no more.
swept() {
	local run w held
	balanced || return
	[ -e store/store ] || return 0
	find store memory -exec touch -h -d '2 hours ago' {} +
	epd-state gc || return
	none "$(find store memory -name '.tmp.*' -o -name unsure)" || return
	for w in store/w/*/; do
		[ ! -d "$w" ] || [ -n "$(epd-state log "$(basename "$w")")" ] ||
			{ echo "left: $w"; return 1; }
	done
	for w in memory/*/w/*/; do
		w=${w%/}
		[ ! -d "$w" ] || [ -d "store/w/${w##*/}" ] ||
			{ echo "left: $w"; return 1; }
	done
	[ "$(ls memory | wc -l)" -eq 1 ] || return
	# A file of several names counts once.
	run=$(find memory/*/w -type f -printf '%i %b\n' | sort -u |
		awk '{ n += $2 * 512 } END { print n + 0 }')
	held=$(epd-state ls -j | jq -s 'map(.proportional_bytes) | add // 0')
	[ "$run" -eq "$held" ] || { echo "runs: $run bytes, states: $held"; return 1; }
	for w in store/features/*/*.blob store/features/*/*.meta; do
		[ ! -e "$w" ] || { [ -e "${w%.*}.blob" ] && [ -e "${w%.*}.meta" ]; } ||
			{ echo "left: $w"; return 1; }
	done
}

# A record that was written whole but not yet published is taken up by the next
# who writes; gc is one.
version() {
	epd-state gc && epd-state show -j "$1" | jq .version_id
}

states() {
	epd-state ls 2>/dev/null || true
}

# The next tokens of a state with their weights, to the last digit: pages or
# features that are wrong by a bit show here.
utter() {
	local all
	all=$(epd-decode -j --temp 0 -n 4 --ignore-eos --logprobs 3 "$1") ||
		return
	jq -c 'select(.id) | [.id, .logprob, .top]' <<<"$all"
}

says() {
	local got
	got=$(utter "$1") || return
	[ "$got" = "$2" ] || { echo "$1 says $got, not $2"; return 1; }
}

# What the question about the sign is answered with, in a store of its own.
learn() {
	on=$(EPD_STORE=$PWD/truth; s=$(do_prefill) && utter "$s")
	rm -rf truth memory
	[ "$(wc -l <<<"$on")" -eq 4 ]
	mkdir memory
}

# ---- the cases ----

base_encode() { :; }
do_encode() { epd-encode "$sign"; }
then_encode() {
	local had feature=f:cb64cbfd8e2297a1354330d0fb430d6f9c7bd3071b6502cb8f95c7b068e7a432
	had=$(epd-state ls -f 2>/dev/null || true)
	balanced || return
	[ -z "$had" ] || [ "$had" = "$feature" ] || return
	# What was printed is there.
	[ ! -s out ] || [ "$(cat out)" = "$had" ] || return
	[ "$(do_encode)" = "$feature" ] || return
	[[ $(epd-encode -v "$sign" 2>&1) == *': hit'* ]] || return
	says "$(epd-prefill -p "$question" "$feature")" "$on"
}

base_prefill() { :; }
do_prefill() { epd-prefill -i "$sign" -p "$question"; }
then_prefill() {
	local had s
	had=$(states)
	balanced || return
	[ ! -s out ] || grep -qxF "$(cat out)" <<<"$had" || return
	for s in $had; do
		says "$s" "$on" || return
	done
	s=$("${1:-do_prefill}") || return
	says "$s" "$on"
}

# The name of a workflow whose maker was killed in the middle is free to go on.
base_named() { do_encode; }
do_named() { epd-prefill -w agent -i "$sign" -p "$question"; }
then_named() { then_prefill do_named && grep -q '^agent/s' <<<"$(states)"; }

base_turn() {
	do_prefill
	epd-decode w1/s1
}
do_turn() { epd-prefill -p 'What is in the picture?' w1/s1; }
truth_turn() {
	do_turn >/dev/null
	once=$(utter w1/s1)
}
then_turn() {
	local v
	v=$(version w1/s1)
	balanced || return
	[ ! -s out ] || [ "$v" -eq 3 ] || return
	case $v in
	2) ;;
	3) says w1/s1 "$once" || return ;;
	*) return 1 ;;
	esac
	[ "$(do_turn)" = w1/s1 ] || return
	[ "$v" -ne 2 ] || says w1/s1 "$once"
}

# A token that was drawn and not logged is drawn again.
base_decode() { do_prefill; }
do_decode() { epd-decode --temp 1 -s 7 -n 6 --ignore-eos w1/s1; }
truth_decode() {
	drawn=$(do_decode)
	rest=$(utter w1/s1)
}
then_decode() {
	local v
	v=$(version w1/s1)
	balanced || return
	case $v in
	1) [ "$(do_decode)" = "$drawn" ] || return ;;
	2) ;;
	*) return 1 ;;
	esac
	[[ $drawn == "$(cat out)"* ]] || return
	# The line of a decode that does not fail ends when the answer is kept.
	[[ $rc == [1-6] ]] || [ "$(wc -l <out)" -eq 0 ] || [ "$v" -eq 2 ] ||
		return
	says w1/s1 "$rest"
}

base_batch() {
	do_prefill
	epd-prefill -w w1 -p hello
}
do_batch() { epd-decode --temp 1 -s 7 -n 6 --ignore-eos w1/s1 w1/s2; }
truth_batch() { drawn=$(do_batch); }
then_batch() {
	local one two s
	one=$(version w1/s1)
	two=$(version w1/s2)
	balanced || return
	[[ $one$two == [12][12] ]] || return
	[ "$one$two" != 11 ] || [ "$(do_batch)" = "$drawn" ] || return
	for s in w1/s1 w1/s2; do
		epd-prefill -p more "$s" >/dev/null || return
	done
}

# The pages are lost, so a decode computes them again and puts them back.
base_mend() {
	do_prefill
	find memory -type f -path '*/w/w1/*' -delete
}
do_mend() { epd-decode --temp 0 -n 12 w1/s1; }
then_mend() {
	balanced || return
	case $(version w1/s1) in
	1) says w1/s1 "$on" ;;
	2) epd-prefill -p more w1/s1 >/dev/null ;;
	*) return 1 ;;
	esac
}

# A memory tier that is full: the oldest run goes, and is made again on use.
base_evict() {
	config '  memory_cap: 1048576'
	for i in 1 2 3 4 5 6 7 8 9; do
		do_prefill
	done
}
do_evict() { do_prefill; }
then_evict() {
	local had s
	had=$(states)
	balanced || return
	[ ! -s out ] || grep -qxF "$(cat out)" <<<"$had" || return
	for s in w1/s1 $(tail -n 1 <<<"$had"); do
		says "$s" "$on" || return
	done
	s=$(do_evict) || return
	says "$s" "$on"
}

# The record that makes a log long enough to begin a new segment.
base_checkpoint() {
	config 'state:' '  checkpoint_bytes: 4096'
	while
		save
		do_checkpoint
		[ ! -e store/w/w1/checkpoint ]
	do :; done
	restore
	states >known
}
do_checkpoint() { epd-prefill -w w1 -p hello; }
truth_checkpoint() { once=$(utter "$(do_checkpoint)"); }
then_checkpoint() {
	local had s
	had=$(states)
	balanced || return
	[ -z "$(comm -23 known <(sort <<<"$had"))" ] || return
	[ ! -s out ] || grep -qxF "$(cat out)" <<<"$had" || return
	s=$(do_checkpoint) || return
	says "$s" "$once" || return
	[ "$(tail -n 1 <<<"$had")" = "$s" ] ||
		says "$(tail -n 1 <<<"$had")" "$once"
}

base_release() {
	do_prefill
	do_prefill
	epd-prefill -w w1 -p hello
}
do_release() { epd-state rm w1/s1; }
then_release() {
	local had
	had=$(states)
	balanced || return
	case $had in
	$'w1/s1\nw1/s2\nw2/s1') [ "$rc" -ne 0 ] || return ;;
	$'w1/s2\nw2/s1') ;;
	*) return 1 ;;
	esac
	do_release || return
	[ "$(states)" = $'w1/s2\nw2/s1' ] || return
	says w2/s1 "$on"
}

# A feature that goes, under a state that was made from it.
base_forget() { do_prefill; }
do_forget() { epd-state rm f:cb64; }
then_forget() {
	balanced || return
	case $(epd-state ls -f) in
	f:cb64*) do_forget || return ;;
	'') ;;
	*) return 1 ;;
	esac
	do_encode >/dev/null || return
	find memory -type f -path '*/w/w1/*' -delete
	says w1/s1 "$on"
}

# All that a gc may meet.
base_gc() {
	local run blob dead=memory/epd-00000000000000000000000000000001
	do_prefill
	epd-prefill -w w2 --ttl 1ms -p hello
	run=$(find memory -type f -path '*/w/w1/*')
	cp "$run" "${run%/*}/0123456789abcdef"
	blob=$(find store/features -name '*.blob')
	mkdir store/features/00
	cp "$blob" "store/features/00/00${blob##*/cb}"
	cp -a memory/epd-*/ $dead
	echo /nowhere/store >$dead/store
	mkdir store/w/w3
	touch store/w/w3/lock
	for run in store store/cache store/w store/w/w1 store/features/cb; do
		echo x >"$run/.tmp.0123456789abcdef"
	done
	find store memory -exec touch -h -d '5 minutes ago' {} +
}
do_gc() { epd-state gc; }
then_gc() {
	balanced || return
	[ "$(states)" = w1/s1 ] || return
	do_gc || return
	says w1/s1 "$on"
}

# ---- file systems that are really full ----

# full WHAT KIB: a tmpfs of that size for the store or the memory tier.  The
# commands succeed or say that there is no room; with room again all is well.
full() {
	local rc=0
	rm -rf store memory
	mkdir store memory
	config
	[ -n "$on" ] || learn
	mount -t tmpfs -o "size=$2k,mode=700" tmpfs "$1" || return
	( fill "$1" "$2" ) || rc=$?
	umount "$1"
	echo full_sizes >>"$BATS_FILE_TMPDIR/figures"
	return $rc
}

fill() {
	local i rc one said=0
	for i in 1 2 3 4 5 6; do
		rc=0
		do_prefill >>made 2>err || rc=$?
		[ "$rc" -eq 0 ] && continue
		said=1
		[ "$rc" -eq 3 ] && grep -q 'space\|larger\|memory tier' err ||
			{ echo "$1 of $2 KiB: status $rc: $(cat err)"; return 1; }
	done
	mount -o "remount,size=64m" "$1" || return
	do_prefill >/dev/null || return
	balanced || return
	for one in $(states); do
		says "$one" "$on" || return
	done
	# What was printed while it was full is there.
	[ -z "$(comm -23 <(sort made) <(states | sort))" ] || return
	rm made
}

picture() {
	local all=("$pictures"/*)

	echo "${all[RANDOM % ${#all[@]}]}"
}

# ---- one store, struck again and again ----

# residue N: N commands of all kinds on one store, each killed somewhere.  Then
# gc leaves what the states need, and when they are let go, nothing; with the
# store its memory folder goes too.
residue() {
	local i=0 s
	rm -rf store memory
	mkdir memory
	config
	do_prefill >made
	: >gone
	while ((i < $1)); do
		s=$(shuf -n 1 made)
		case $((RANDOM % 7)) in
		0) set -- "$1" epd-encode "$(picture)" ;;
		1) set -- "$1" epd-prefill -i "$sign" -p "$question" ;;
		2) set -- "$1" epd-prefill -w w1 -i "$(picture)" -p x ;;
		3) set -- "$1" epd-prefill -p more "$s" ;;
		4) set -- "$1" epd-decode -n 3 --ignore-eos "$s" ;;
		5) [ "$s" != w1/s1 ] || continue
		   echo "$s" >>gone
		   set -- "$1" epd-state rm "$s" ;;
		6) set -- "$1" epd-state gc ;;
		esac
		strike KILL $((RANDOM % 120 + 1)) once "${@:2}"
		if [ "$2" = epd-prefill ] && [ -s out ]; then
			cat out >>made
		fi
		case $rc in
		137) : $((i += 1)) ;;
		0|2) ;;
		*) echo "${*:2}: status $rc"; cat err; return 1 ;;
		esac
		sort -u made | comm -23 - <(sort -u gone) >left
		mv left made
	done
	balanced || return
	[ -z "$(comm -23 made <(states | sort))" ] || return
	swept || return
	for s in $(ls store/w); do
		epd-state rm -r "$s" || return
	done
	epd-state ls -f | xargs -r epd-state rm || return
	swept || return
	none "$(find memory -path '*/w/*' -type f)" || return
	rm -rf store
	EPD_STORE=$PWD/other epd-prefill --raw -p x || return
	EPD_STORE=$PWD/other epd-state gc || return
	[ "$(ls memory | wc -l)" -eq 1 ] || return
	for ((; i > 0; i--)); do
		echo kills
	done >>"$BATS_FILE_TMPDIR/figures"
}

# ---- many at once ----

# A worker on the store the others use too: what it was told is in made.ID, what
# it let go, perhaps in vain, in gone.ID.
worker() {
	local id=$1 n s rc
	cd "$2" || return
	epd-prefill -w "a$id" -p hello >made || return
	: >gone
	for ((n = 0; n < $3; n++)); do
		s=$(shuf -n 1 made)
		set -- "$1" "$2" "$3"
		case $((RANDOM % 8)) in
		0) set -- "$@" epd-encode "$(picture)" ;;
		1|2) set -- "$@" epd-prefill -w "a$((RANDOM % 4))" -i "$(picture)" -p "$question" ;;
		3) set -- "$@" epd-prefill -p more "$s" ;;
		4) set -- "$@" epd-decode -n 3 --ignore-eos "$s" ;;
		5) [ "$(wc -l <made)" -gt 3 ] || continue
		   echo "$s" >>gone
		   grep -vxF "$s" made >left
		   mv left made
		   set -- "$@" epd-state rm "$s" ;;
		6) set -- "$@" epd-state gc ;;
		7) set -- "$@" epd-state check ;;
		esac
		rc=0
		timeout -s KILL "0.$(printf %03d $((RANDOM % 150 + 3)))" "${@:4}" >out 2>err || rc=$?
		if [ "$4" = epd-prefill ] && [ -s out ] && [[ $(cat out) != "$s" ]]; then
			cat out >>made
		fi
		case $rc in
		137) echo kills >>figures ;;
		0|2|3) ;;
		*) echo "${*:4}: status $rc: $(cat out err)" >>wrong ;;
		esac
	done
}

# crowd WORKERS ROUNDS
crowd() {
	local i s
	rm -rf store memory
	mkdir memory
	config
	for ((i = 0; i < $1; i++)); do
		mkdir "at$i"
		{ worker "$i" "$PWD/at$i" "$2" 2>/dev/null 3>&-; } &
	done
	wait
	cat at*/figures >>"$BATS_FILE_TMPDIR/figures"
	none "$(cat at*/wrong 2>/dev/null)" || return
	balanced || return
	none "$(sort -u at*/made | comm -23 - <(states | sort))" || return
	for s in $(sort -u at*/made | shuf -n 20); do
		epd-prefill -p more "$s" >/dev/null || return
		epd-decode -n 2 --ignore-eos "$s" >/dev/null || return
	done
	swept
}
