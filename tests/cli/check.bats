#!/usr/bin/env bats
# epd-state check: what lies about in a store, and which of it is damage.

load helper

# A store of one workflow, with a picture, a branch and some versions.
fill() {
	s=$(ask)
	epd-decode "$s" >/dev/null
	b=$(epd-fork "$s")
	tier=$(echo memory/epd-*)
	log=$EPD_STORE/w/w1/log.00000001
}

# litter WORDS: check tells that, and all is well; gc takes it.
litter() {
	run --separate-stderr -0 epd-state check
	[ -z "$output" ]
	[[ $stderr == *"$1"*'; gc takes it' ]] || { echo "$stderr"; return 1; }
	run --separate-stderr -0 epd-state check -q
	[ -z "$output$stderr" ]
	run --separate-stderr -0 epd-state check -j
	jq -se --arg what "$1" '(map(select(.litter | type == "string"))
		| map(select(.litter | contains($what))) | length > 0) and
		.[-1].litter > 0 and .[-1].faults == 0' <<<"$output"
	epd-state gc
	clean
}

clean() {
	run --separate-stderr -0 epd-state check
	[ -z "$output$stderr" ] || { echo "$output$stderr"; return 1; }
}

# damage WORDS: check names it, and goes on being unhappy.
damage() {
	run --separate-stderr -5 epd-state check
	[[ $output == *"$1"* ]] || { echo "$output"; return 1; }
	epd-state gc || true
	run --separate-stderr -5 epd-state check
	[[ $output == *"$1"* ]]
}

# Make of $1 what $2 says.
become() {
	rm -rf "$1"
	case $2 in
	folder) mkdir "$1" ;;
	pipe) mkfifo "$1" ;;
	link) ln -s /etc/passwd "$1" ;;
	esac
}

@test "a store in order has no litter" {
	fill
	clean
	epd-state rm "$b"
	epd-prefill -p more "$s"
	sleep 1.1
	epd-state gc
	clean
}

@test "bytes behind the log's end that are no record's are litter" {
	fill
	for what in 'half a frame' "$(head -c 3000 /dev/zero | tr '\0' x)"; do
		size=$(stat -c %s "$log")
		printf '%s' "$what" >>"$log"
		litter "w1: log.00000001: byte $size: ${#what} bytes"
		[ "$(stat -c %s "$log")" -eq "$size" ]
	done
	[ "$(epd-state ls)" = "$s"$'\n'"$b" ]
}

@test "what a crash leaves of a record is nothing" {
	fill
	size=$(stat -c %s "$log")
	cp -a "$EPD_STORE" kept
	epd-state abort --reason x "$b"
	cp "$log" longer
	rm -rf "$EPD_STORE"
	cp -a kept "$EPD_STORE"
	for n in 1 5 30 60; do
		head -c $((size + n)) longer >"$log"
		clean
	done
	head -c $((size + 4000)) /dev/zero | cat kept/w/w1/log.00000001 - |
		head -c $((size + 4000)) >"$log"
	clean
	[ "$(epd-prefill -w w1 -p x)" = w1/s3 ]
}

@test "what a writer would refuse is damage, though all that is shown is whole" {
	fill
	cp "$log" before
	size=$(stat -c %s "$log")
	cp "$EPD_STORE/w/w1/tip" tip
	epd-state abort --reason x "$b"
	epd-prefill -w w1 -p hello
	# The first of the two is gone from the middle; the tip is as it was.
	cp tip "$EPD_STORE/w/w1/tip"
	printf 'XXXX' | dd of="$log" bs=1 seek="$size" conv=notrunc status=none
	run --separate-stderr -5 epd-state check
	[[ $output == "w1: log.00000001: byte $size: damaged, and a whole frame lies behind" ]]
	run -5 epd-prefill -w w1 -p x
	run -5 epd-state check w1
	cp before "$log"
	clean
}

@test "a lock that is no file shuts writers out" {
	fill
	for how in folder pipe link; do
		become "$EPD_STORE/w/w1/lock" $how
		damage 'w1: lock: no plain file'
		run -5 epd-state check w1
	done
	rm -rf "$EPD_STORE/w/w1/lock"
	clean
	touch "$EPD_STORE/w/w1/lock"
	chmod 666 "$EPD_STORE/w/w1/lock"
	damage 'w1: lock: mode 666 lets others hold it'
	chmod 400 "$EPD_STORE/w/w1/lock"
	run --separate-stderr -5 epd-state check
	[[ $output == *'w1: lock: mode 400 shuts its owner out' ]]
	chmod 600 "$EPD_STORE/w/w1/lock"
	clean
	head -c 5000 /dev/urandom >"$EPD_STORE/w/w1/lock"
	litter 'w1: lock: 5000 bytes, of at most 11'
}

@test "procs and busy have no bytes, and are files" {
	fill
	for f in procs features/busy; do
		for how in folder pipe link; do
			become "$EPD_STORE/$f" $how
			damage "$f: no plain file"
		done
		rm -rf "${EPD_STORE:?}/$f"
		touch "$EPD_STORE/$f"
		chmod 622 "$EPD_STORE/$f"
		damage "$f: mode 622"
		chmod 600 "$EPD_STORE/$f"
		echo something >"$EPD_STORE/$f"
		litter "$f: 10 bytes, of at most 0"
		[ ! -s "$EPD_STORE/$f" ]
	done
	# Of one workflow alone they are no matter.
	echo something >"$EPD_STORE/procs"
	run --separate-stderr -0 epd-state check w1
	[ -z "$stderr" ]
	mv "$EPD_STORE/cache" kept
	touch "$EPD_STORE/cache"
	damage 'cache: no folder'
	rm "$EPD_STORE/cache"
	mv kept "$EPD_STORE/cache"
	epd-state gc
}

@test "caches that are no files are taken, and made again" {
	fill
	for f in features/memo metrics; do
		for how in folder pipe link; do
			become "$EPD_STORE/$f" $how
			mkdir -p "$EPD_STORE/$f/x" 2>/dev/null || true
			litter "$f: no plain file"
		done
	done
	truncate -s 2M "$EPD_STORE/features/memo"
	litter 'features/memo: 2097152 bytes'
	epd-encode "$pictures/000_0.png" "$pictures/000_0.png" >/dev/null
	[ "$(epd-state metrics -j | jq .feature.mm_miss)" -eq 1 ]
}

@test "a damaged index is made anew" {
	fill
	for how in folder pipe link; do
		become "$tier/pages" $how
		litter 'memory folder: pages: '
	done
	printf X | dd of="$tier/pages" bs=1 seek=20 conv=notrunc status=none
	litter 'memory folder: pages: '
	run --separate-stderr -0 epd-prefill -v -w w2 -i "$pictures/008_0.jpg" \
		-p 'What does the sign say?'
	[[ $stderr == *'reused 16 of '* ]]
	# None at all is none.
	rm "$tier/pages"
	clean
}

@test "what is no run in the memory folder is litter" {
	fill
	echo x >"$tier/w/w1/notes"
	litter 'memory folder: w1/notes: no run'
	mkdir -p "$tier/w/w1/folder/in/it"
	echo x >"$tier/w/w1/folder/in/it/file"
	run -0 --separate-stderr epd-state check w1
	[[ $stderr == *'w1/folder: no run'* ]]
	litter 'memory folder: w1/folder: no run'
	mkfifo "$tier/w/w1/0123456789abcdef"
	litter 'memory folder: w1/0123456789abcdef: no run'
	ln -s / "$tier/w/w1/fedcba9876543210"
	litter 'memory folder: w1/fedcba9876543210: no run'
	echo x >"$tier/stranger"
	litter 'memory folder: stranger: no run'
	echo x >"$tier/w/.hidden"
	litter 'memory folder: w/.hidden: no run'
	mkdir "$tier/w/w9"
	litter 'memory folder: w9: of no workflow'
	[ "$(epd-state ls -j "$s" | jq .pages_missing)" -eq 0 ]
	[ "$(ls "$tier")" = $'pages\nstore\nw' ]
}

@test "a run that nobody names is litter once its record is not to be awaited" {
	fill
	run=$(find "$tier/w/w1" -type f | head -1)
	cp "$run" "$tier/w/w1/0123456789abcdef"
	clean
	sleep 1.1
	litter 'w1: 1 run that no version shows, '
	ln "$run" "$tier/w/w1/0123456789abcdef"
	sleep 1.1
	litter 'w1: 1 run that no version shows, 0 bytes: 0123456789abcdef'
	[ "$(epd-state ls -j "$s" | jq .pages_missing)" -eq 0 ]
}

@test "something in the place of a workflow's folder goes by the next who writes" {
	fill
	for how in pipe link; do
		rm -rf "$tier/w/w1"
		become "$tier/w/w1" $how
		run --separate-stderr -0 epd-state check
		[[ $stderr == *'memory folder: w/w1: no run'* ]]
		run --separate-stderr -0 epd-state check w1
		[[ $stderr == *'memory folder: w/w1: no run'* ]]
		epd-prefill -w w1 -p hello
		clean
	done
	rm -rf "$tier/w"
	touch "$tier/w"
	epd-prefill -w w1 -p hello
	clean
}

@test "one that is no file where a log should be hides no other workflow's faults" {
	fill
	epd-prefill -w w2 -p hello
	mv "$EPD_STORE/w/w1/tip" tip
	mkdir "$EPD_STORE/w/w1/tip"
	printf 'half a frame' >>"$EPD_STORE/w/w2/log.00000001"
	run --separate-stderr -5 epd-state check
	[ "$output" = 'w1: tip: Is a directory' ]
	[[ $stderr == *'w2: log.00000001: byte'* ]]
	rmdir "$EPD_STORE/w/w1/tip"
	mv tip "$EPD_STORE/w/w1/tip"
	epd-state gc
	clean
}

@test "killed at any call, a store has neither faults nor what a crash cannot leave" {
	fill
	cp -a "$EPD_STORE" kept
	cp -a memory kept_memory
	for how in KILL TORN; do
		for nth in {1..500}; do
			rm -rf "$EPD_STORE" memory
			cp -a kept "$EPD_STORE"
			cp -a kept_memory memory
			status=0
			EPD_FAULT_CALL=any EPD_FAULT_NTH=$nth EPD_FAULT_DO=$how \
				EPD_FAULT_PATH=$BATS_TEST_TMPDIR \
				LD_PRELOAD=$build/faults.so \
				epd-prefill -p more "$s" >out 2>err ||
				status=$?
			[ "$status" -eq 137 ] || break
			run --separate-stderr -0 epd-state check
			[ -z "$output" ]
			# A run may lie there, of a record that never came.
			[ -z "$(grep -v 'no version shows' <<<"$stderr")" ]
		done
		[ "$status" -eq 0 ]
		[ "$nth" -gt 5 ]
	done
}
