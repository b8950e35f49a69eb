# cut.bash - files of a store that somebody else cuts short or punches while a command
# is at them.  Loaded behind helper.bash and faults.bash.
#
# The command is stopped at its nth call, the file is damaged, it goes on.  It may
# fail, in words; what it says it has done is right; nothing stays wrong.

ways='none half tail hole'
verbs='decode turn encode offload restore wake mend'
things='run pack draft blob pix memo index metrics tokenizer weights'

# A store with a state, once for all rounds of a verb; truths are learnt in it.
base_cut() {
	cp -a "$model" weights
	export EPD_MODEL=$PWD/weights
	do_prefill
	epd-fork w1/s1
	epd-offload -t nvme w1/s2
	epd-restore w1/s2
	case $1 in
	restore|wake)
		epd-state rm w1/s2
		epd-offload -t nvme w1/s1 ;;
	mend) find memory -type f -path '*/w/w1/*' -delete
		find disk -type f -path '*/w/w1/*' -delete ;;
	esac
}

victim() {
	case $1 in
	decode|wake|mend) v=(epd-decode --temp 1 -s 7 -n 6 --ignore-eos w1/s1) ;;
	turn) v=(epd-prefill -p 'What is in the picture?' w1/s1) ;;
	encode) v=(epd-encode "$sign" "$pictures/009_0.png") ;;
	offload) v=(epd-offload -t nvme w1/s1) ;;
	restore) v=(epd-restore w1/s1) ;;
	esac
}

# Files that a word stands for.
found() {
	case $1 in
	run) find memory -path '*/w/w1/*' -type f ! -name '*draft*' ;;
	draft) find memory -path '*/w/w1/*' -type f -name '*draft*' ;;
	pack) find disk -path '*/w/w1/*' -type f ;;
	blob|pix) find store/features -name "*.$1" ;;
	memo) echo store/features/memo ;;
	index) find memory -name pages ;;
	metrics) echo store/metrics ;;
	tokenizer) find store/cache -name 'tokenizer-*' ;;
	weights) find weights -name '*.safetensors' ;;
	esac
}

damage() {
	local f n
	for f in $(found "$1"); do
		n=$(stat -c %s "$f")
		case $2 in
		none) truncate -s 0 "$f" ;;
		half) truncate -s $((n / 2 + 1)) "$f" ;;
		tail) truncate -s $((n > 0 ? n - 1 : 0)) "$f" ;;
		hole) fallocate -p -o 0 -l $((n ? n : 1)) "$f" ;;
		esac || true
	done
}

# Wait until a process has stopped or ended.
stopped() {
	local st
	while read -r _ _ st _ <"/proc/$1/stat" && [[ $st != [TZ] ]]; do
		read -rt 0.002 -u 9 || true
	done 2>/dev/null
	return 0
}

# begin_cut VERB: the base, and what the verb says there undisturbed.
begin_cut() {
	cd "$BATS_TEST_TMPDIR" || return
	unset drawn once rest
	EPD_MODEL=$model
	rm -rf store memory disk base weights
	mkdir memory disk
	config 'tier:' "  nvme_dir: $PWD/disk" '  restore: always'
	[ -n "$on" ] || learn
	mkdir -p disk memory
	base_cut "$1" >/dev/null || return
	rm -rf base
	mkdir base
	cp -a store memory disk weights base/
	victim "$1"
	rm -f calls
	( export EPD_FAULT_CALL=any,read,pread EPD_FAULT_COUNT=$PWD/calls
	LD_PRELOAD=$shim "${v[@]}" ) >truth || return
	total=$(cat calls)
	rest=$(utter_cut) && [ -n "$rest" ]
}

# What the state goes on with, from a branch, so that it stays as it is.
utter_cut() {
	local b all
	b=$(epd-fork w1/s1) || return
	case $(epd-state show -j w1/s1 | jq .version_id) in
	2) all=$(epd-prefill -p more "$b" && utter "$b") ;;
	*) all=$(utter "$b") ;;
	esac || return
	epd-state rm "$b" && echo "$all"
}

# cut VERB THING WAY NTH [CALLS [PATH]]
cut() {
	local rc=0 pid had
	rm -rf store memory disk weights
	cp -a base/. .
	env EPD_FAULT_CALL="${5:-any,read,pread}" EPD_FAULT_NTH="$4" \
		EPD_FAULT_DO=STOP ${6:+"EPD_FAULT_PATH=$6"} \
		LD_PRELOAD="$shim" "${v[@]}" >out 2>err </dev/null 9>&- &
	pid=$!
	stopped $pid
	damage "$2" "$3"
	kill -CONT $pid 2>/dev/null
	{ wait $pid || rc=$?; } 2>/dev/null
	after_cut "$1" "$2" || {
		echo "$1: $2 $3 at call $4 of $total, status $rc"
		tail out err
		return 1
	}
	echo row7 >>"$BATS_FILE_TMPDIR/figures"
}

after_cut() {
	local n s
	case $rc in
	0) cmp -s out truth || return ;;
	1|3|5) [ -s err ] || return ;;
	# Cut before they were opened they are another model's.
	2) [ "$2" = weights ] && grep -q 'with another model' err || return ;;
	*) return 1 ;;
	esac
	# A checkpoint that is gone is nobody's of ours.
	if [ "$2" = weights ]; then
		rm -rf weights
		cp -a base/weights .
		touch -r base/weights weights
	fi
	n=$(epd-state show -j w1/s1 2>err2 | jq .version_id)
	[ "$rc" -ne 0 ] || [ "$(utter_cut)" = "$rest" ] || return
	# What it did not do it does now.
	if [ "$rc" -ne 0 ]; then
		"${v[@]}" >out2 2>>err2 || [ "$n" = 2 ] || return
		[ "$n" = 2 ] || [ "$(utter_cut)" = "$rest" ] || return
	fi
	# A feature that nobody has asked for since lies there as it is.
	if [[ $2 = blob || $2 = pix ]]; then
		epd-state ls -f | xargs -r epd-state rm &&
			do_encode >out2 || return
	fi
	epd-state gc && balanced
}

# Where the run is mapped and being computed with: a token is noted, room is made.
held() {
	local way nth
	for way in $ways; do
		case $1 in
		decode|wake) for nth in 1 4 6; do
				cut "$1" run "$way" $nth write,pwrite draft || return
			done ;;
		turn) cut "$1" run "$way" 1 fallocate || return ;;
		restore) cut "$1" pack "$way" 1 fallocate || return ;;
		esac
	done
}

# cuts VERB THING WAY ...: these ways, each at a call of its own.
cuts() {
	local verb=$1 thing=$2 way
	shift 2
	for way; do
		# The file of a checkpoint is named by its times, not by its bytes.
		[ "$thing $way" != 'weights hole' ] || continue
		turn=$(((turn + 7919) % total))
		cut "$verb" "$thing" "$way" $((turn + 1)) || return
	done
}

# ---- a tmpfs for memory that is too small ----

# It does what it says, or there is no room: what was done is noted.
try() {
	local rc=0
	"$@" >out 2>err || rc=$?
	echo row7 >>"$BATS_FILE_TMPDIR/figures"
	case $rc in
	0) echo "$*" >>done ;;
	3) grep -q 'space\|larger\|memory tier\|room' err ;;
	*) false ;;
	esac || {
		echo "$kib KiB: $*: status $rc: $(cat err)"
		return 1
	}
	[ "$rc" -eq 0 ]
}

# sweep KIB: all that needs memory, on a tmpfs of that size; then the same commands,
# less those that failed, with room, in another store.
sweep() {
	local kib=$1 rc=0
	rm -rf store memory disk other done
	mkdir memory disk
	: >done
	config 'tier:' "  nvme_dir: $PWD/disk" '  restore: always'
	mount -t tmpfs -o "size=${kib}k,mode=700" tmpfs memory || return
	( set +e; tried && compared ) || rc=$?
	umount memory
	return $rc
}

tried() {
	local bad=$PWD/bad
	rm -f "$bad"
	for step in 'do_prefill' \
		'epd-decode --temp 1 -s 7 -n 6 --ignore-eos w1/s1' \
		'epd-fork w1/s1' 'epd-prefill -p more w1/s2' \
		'epd-offload -t nvme w1/s1' 'epd-restore w1/s1' \
		'epd-offload -t nvme w1/s1 w1/s2' \
		'epd-decode --temp 1 -s 8 -n 3 --ignore-eos w1/s1'; do
		# What the first could not make the others have not.
		[ -n "$(states)" ] || [ "$step" = do_prefill ] || continue
		[[ $step != *w1/s2 ]] || grep -qx w1/s2 <<<"$(states)" || continue
		# shellcheck disable=SC2086
		try $step >>"$bad"
		[ ! -s "$bad" ] || { cat "$bad"; return 1; }
	done
}

compared() {
	local s all there
	mount -o remount,size=64m memory || return
	while read -r step; do
		# shellcheck disable=SC2086
		EPD_STORE=$PWD/other $step >/dev/null || return
	done <done
	all=$(states)
	there=$(EPD_STORE=$PWD/other states)
	[ "$all" = "$there" ] || { echo "$kib KiB: $all, not $there"; return 1; }
	for s in $all; do
		says "$s" "$(EPD_STORE=$PWD/other utter "$s")" || return
	done
	balanced
}

small_tmpfs() {
	[ "$(id -u)" -eq 0 ] || skip 'mounting a small tmpfs takes root'
	mkdir -p probe
	mount -t tmpfs -o size=64k tmpfs probe 2>/dev/null ||
		skip 'a tmpfs cannot be mounted here'
	umount probe
}

row_7() {
	local n
	n=$(grep -c row7 "$BATS_FILE_TMPDIR/figures" 2>/dev/null) || return 0
	echo "# row 7: $n cases of memory that is not there, 0 crashes" >&3
}
