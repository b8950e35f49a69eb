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
	become "$tier/pages" folder
	litter 'memory folder: pages: a folder, and no index'
	become "$tier/pages" pipe
	litter 'memory folder: pages: a pipe, and no index'
	become "$tier/pages" link
	litter 'memory folder: pages: a link, and no index'
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
	litter 'memory folder: w/w1/notes: no run'
	mkdir -p "$tier/w/w1/folder/in/it"
	echo x >"$tier/w/w1/folder/in/it/file"
	run -0 --separate-stderr epd-state check w1
	[[ $stderr == *'w/w1/folder: no run'* ]]
	litter 'memory folder: w/w1/folder: no run'
	mkfifo "$tier/w/w1/0123456789abcdef"
	litter 'memory folder: w/w1/0123456789abcdef: no run'
	ln -s / "$tier/w/w1/fedcba9876543210"
	litter 'memory folder: w/w1/fedcba9876543210: no run'
	echo x >"$tier/stranger"
	litter 'memory folder: stranger: no run'
	echo x >"$tier/w/.hidden"
	litter 'memory folder: w/.hidden: no run'
	mkdir "$tier/w/w9"
	litter 'memory folder: w/w9: of no workflow'
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

# as_nobody COMMAND...: as another user, whose store and memory are made his.
as_nobody() {
	setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \
		--reuid 65534 --regid 65534 --clear-groups "$@"
}

needs_nobody() {
	[ "$(id -u)" -eq 0 ] || skip 'changing user takes root'
	chmod o+rx "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "$BATS_TEST_TMPDIR"
	as_nobody "$build/bin/epd-state" --version || skip 'no other user to be had'
}

@test "a lock that shuts its owner out does not shut root out" {
	fill
	chmod 400 "$EPD_STORE/w/w1/lock"
	if [ "$(id -u)" -eq 0 ]; then
		clean
		epd-prefill -w w1 -p hello
	fi
	needs_nobody
	chown -R 65534 "$EPD_STORE" memory
	run --separate-stderr -5 as_nobody "$build/bin/epd-state" check
	[[ $output == *'w1: lock: mode 400 shuts its owner out' ]]
	[ -z "$stderr" ]
	chown -R 0 "$EPD_STORE" memory
	chmod 600 "$EPD_STORE/w/w1/lock"
	clean
}

@test "a store that cannot be written is not damaged by that" {
	fill
	printf 'half a frame' >>"$log"
	chmod -R a-w "$EPD_STORE"
	if [ "$(id -u)" -eq 0 ]; then
		run --separate-stderr -0 epd-state check
		[ -z "$output" ]
		[[ $stderr == *'that are no record'*'; gc takes it' ]]
	fi
	needs_nobody
	chown -R 65534 "$EPD_STORE" memory
	run --separate-stderr -0 as_nobody "$build/bin/epd-state" check
	[ -z "$output" ]
	# Nobody can take anything there.
	[[ $stderr == *'that are no record'* ]]
	[[ $stderr != *'gc takes'* ]]
	chown -R 0 "$EPD_STORE" memory
	chmod -R u+w "$EPD_STORE"
	epd-state gc
	clean
}

# foreign PATH WHAT: check tells it, and nothing else; it is no fault, and stays.
foreign() {
	local said="$1: $2 that is not the store's; left alone"
	for verb in check "check ${3-}"; do
		# shellcheck disable=SC2086
		run --separate-stderr -0 epd-state $verb
		[ -z "$output" ]
		[ "$stderr" = "$said" ] || { echo "$stderr"; return 1; }
	done
	run --separate-stderr -0 epd-state check -q
	[ -z "$output$stderr" ]
	run --separate-stderr -0 epd-state check -j
	jq -se --arg what "$said" 'map(select(.foreign == $what)) | length == 1' \
		<<<"$output"
	jq -se '.[-1] | .foreign == 1 and .litter == 0 and .faults == 0' <<<"$output"
	epd-state gc
	[ -e "$EPD_STORE/$1" ] || [ -L "$EPD_STORE/$1" ]
	# It hinders nobody.
	epd-state ls >/dev/null
	epd-state tree >/dev/null
	epd-prefill -w w1 -p hello
	rm -rf "${EPD_STORE:?}/$1"
	clean
}

@test "what is in a store and not the store's is told and left" {
	fill
	echo x >"$EPD_STORE/junk"
	foreign junk 'a plain file'
	mkdir "$EPD_STORE/junkdir"
	echo x >"$EPD_STORE/junkdir/more"
	foreign junkdir 'a folder'
	ln -s /etc "$EPD_STORE/away"
	foreign away 'a link'
	echo x >"$EPD_STORE/features/odd"
	foreign features/odd 'a plain file'
	fan=$(basename "$(find "$EPD_STORE/features" -mindepth 1 -type d)")
	echo x >"$EPD_STORE/features/$fan/odd"
	foreign "features/$fan/odd" 'a plain file'
	echo x >"$EPD_STORE/cache/odd"
	foreign cache/odd 'a plain file'
	echo x >"$EPD_STORE/cache/tokenizer-odd"
	foreign cache/tokenizer-odd 'a plain file'
	mkfifo "$EPD_STORE/w/w1/junk"
	foreign w/w1/junk 'a pipe' w1
	mkdir "$EPD_STORE/w/bad name"
	foreign 'w/bad name' 'a folder'
	mkdir "$EPD_STORE/w/.hidden"
	foreign w/.hidden 'a folder'
}

@test "a stray file among the workflows hinders nobody" {
	fill
	echo x >"$EPD_STORE/w/stray"
	run --separate-stderr -4 epd-state check stray
	foreign w/stray 'a plain file'
	ln -s w1 "$EPD_STORE/w/w7"
	foreign w/w7 'a link'
	echo x >"$EPD_STORE/w/stray"
	# Its memory is nobody's.
	mkdir "$tier/w/stray"
	run --separate-stderr -0 epd-state check
	[[ $stderr == *'memory folder: w/stray: of no workflow; gc takes it'* ]]
	epd-state gc
	[ ! -e "$tier/w/stray" ]
	[ -e "$EPD_STORE/w/stray" ]
	rm "$EPD_STORE/w/stray"
	# One that was never begun is none either; the next prefill takes it.
	mkdir "$EPD_STORE/w/emptywf"
	clean
	[ "$(epd-prefill -w emptywf -p hello)" = emptywf/s1 ]
	clean
}

@test "the memory tier may lie in the store" {
	printf 'page:\n  memory_dir: %s\n' "$EPD_STORE/deep/mem" >"$EPD_CONFIG"
	epd-prefill -p hello
	run --separate-stderr -0 epd-state check
	[ -z "$output$stderr" ]
}

@test "caches that are no files are taken, where they are the store's" {
	fill
	cache=$(cd "$EPD_STORE" && echo cache/tokenizer-*)
	for how in folder pipe link; do
		become "$EPD_STORE/$cache" $how
		mkdir -p "$EPD_STORE/$cache/x" 2>/dev/null || true
		litter "$cache: no plain file"
		[ ! -e "$EPD_STORE/$cache" ] && [ ! -L "$EPD_STORE/$cache" ]
	done
	epd-prefill -p more "$s"
	[ -f "$EPD_STORE/$cache" ]
}

@test "a cache that is no folder costs time and nothing else" {
	fill
	for how in file pipe link; do
		rm -rf "$EPD_STORE/cache"
		become "$EPD_STORE/cache" $how
		[ $how != file ] || touch "$EPD_STORE/cache"
		epd-state ls >/dev/null
		litter 'cache: a'
		rm -rf "$EPD_STORE/cache"
		become "$EPD_STORE/cache" $how
		[ $how != file ] || touch "$EPD_STORE/cache"
		epd-prefill -w w1 -p hello
		[ -n "$(ls "$EPD_STORE"/cache/tokenizer-*)" ]
		clean
	done
	[ "$(ls -A /etc | wc -l)" -gt 0 ]
}

@test "what keeps writers out of the memory folder is a fault" {
	fill
	mv "$tier" kept
	touch "$tier"
	run --separate-stderr -5 epd-state check
	[[ $output == "memory folder: ${tier##*/}: not a folder of ours; nobody can write here until that is gone" ]]
	run -1 epd-prefill -p hello
	rm "$tier"
	ln -s "$PWD/kept" "$tier"
	run -5 epd-state check
	rm "$tier"
	mv kept "$tier"
	chmod 755 "$tier"
	run --separate-stderr -5 epd-state check
	[[ $output == *'mode 755'* ]]
	chmod 700 "$tier"
	clean
	# What it says of its store is written again.
	rm "$tier/store"
	mkdir "$tier/store"
	litter "memory folder: store: a folder, and not the store's path"
	[ "$(cat "$tier/store")" = "$EPD_STORE" ]
}

@test "a folder that the store needs and is none is damage, by name" {
	fill
	for f in features w; do
		mv "$EPD_STORE/$f" kept
		touch "$EPD_STORE/$f"
		for verb in check ls gc; do
			run --separate-stderr -5 epd-state $verb
			[[ $output$stderr == *"$EPD_STORE/$f: no folder" ]]
		done
		run -5 epd-prefill -p x
		rm "$EPD_STORE/$f"
		mv kept "$EPD_STORE/$f"
	done
	fan=$(basename "$(find "$EPD_STORE/features" -mindepth 1 -type d)")
	mv "$EPD_STORE/features/$fan" kept
	touch "$EPD_STORE/features/$fan"
	run --separate-stderr -5 epd-state check
	[ "$output" = "features/$fan: a plain file where a folder should be" ]
	rm "$EPD_STORE/features/$fan"
	mv kept "$EPD_STORE/features/$fan"
	clean
}

@test "a damaged checkpoint is written again while the log suffices" {
	fill
	echo x >"$EPD_STORE/w/w1/checkpoint"
	run --separate-stderr -5 epd-state check
	[[ $output == 'w1: checkpoint: '* ]]
	epd-fork "$s"
	run --separate-stderr -0 epd-state gc -v
	[[ $stderr == *', 1 checkpoint written again, '* ]]
	clean
	[ "$(epd-state gc -j | jq .checkpoints)" -eq 0 ]
	# Now it is needed.
	rm -f "$EPD_STORE/w/w1/log.00000001"
	clean
	cp "$EPD_STORE/w/w1/checkpoint" kept
	echo x >"$EPD_STORE/w/w1/checkpoint"
	damage "the log's first records are gone"
	run --separate-stderr -5 epd-state gc
	[[ $stderr == *"the log's first records are gone" ]]
	cp kept "$EPD_STORE/w/w1/checkpoint"
	clean
}

@test "out of a log that is beyond use there is a way" {
	fill
	epd-prefill -w w2 -p hello
	printf '\377' | dd of="$log" bs=1 seek=300 conv=notrunc status=none
	for verb in check ls tree 'log w1' 'rm -r w1' gc; do
		# shellcheck disable=SC2086
		run -5 epd-state $verb
	done
	[ "$(epd-state ls w2)" = w2/s1 ]
	rm -r "$EPD_STORE/w/w1"
	run --separate-stderr -0 epd-state check
	[[ $stderr == *'memory folder: w/w1: of no workflow; gc takes it' ]]
	epd-state gc
	[ ! -e "$tier/w/w1" ]
	[ -e "$tier/w/w2" ]
	clean
	[ "$(epd-state ls)" = w2/s1 ]
	[ "$(epd-prefill -w w1 -p hello)" = w1/s1 ]
}

@test "gc sweeps all that can be, whatever cannot" {
	printf 'feature:\n  ttl_ms: 3000\n' >>"$EPD_CONFIG"
	fill
	epd-prefill -w w2 --ttl 10ms -p hello
	epd-prefill -w w3 -p hello
	echo x >"$tier/stranger"
	mkdir "$tier/w/w9"
	kept=$(find "$EPD_STORE/features" -name '*.pix')
	printf '\377' | dd of="$log" bs=1 seek=300 conv=notrunc status=none
	sleep 3.1
	run --separate-stderr -5 epd-state gc -v
	[ -z "$output" ]
	[[ ${stderr_lines[0]} == 'epd-state: w1: log.00000001: byte '* ]]
	[[ ${stderr_lines[1]} == '1 state expired, 1 run ('*', 1 memory folder ('*'), 1 leftover (4.0 KiB), 0 log tails (0 B), 0 hand-offs settled, '* ]] ||
		{ echo "$stderr"; return 1; }
	[ "${#stderr_lines[@]}" -eq 2 ]
	[ ! -e "$tier/stranger" ] && [ ! -e "$tier/w/w9" ]
	# Its states may show that picture.
	[ -e "$kept" ]
	run --separate-stderr -5 epd-state gc -j
	jq -e '.states == 0 and .leftovers == 0 and .leftover_bytes == 0' <<<"$output"
	rm -r "$EPD_STORE/w/w1"
	epd-state gc
	[ ! -e "$kept" ]
	clean
}

@test "gc goes on where somebody frozen has a lock" {
	fill
	printf 'state:\n  lock_timeout_ms: 200\n' >>"$EPD_CONFIG"
	epd-prefill -w w2 --ttl 10ms -p hello
	echo x >"$tier/stranger"
	cp "$(find "$tier/w/w1" -type f | head -1)" "$tier/w/w1/0123456789abcdef"
	sleep 0.1
	# F_OFD_SETLK of a write lock on all of it.
	perl -e '$| = 1; open(my $f, "+<", $ARGV[0]) or die;
		my $l = pack("ssx4qqlx4", 1, 0, 0, 0, 0);
		fcntl($f, 37, $l) or die;
		print "held\n"; sleep 60' "$EPD_STORE/w/w1/lock" >held 3>&- &
	holder=$!
	for _ in {1..200}; do
		[ ! -s held ] || break
		sleep 0.05
	done
	[ -s held ]
	run --separate-stderr -3 epd-state gc -v
	kill "$holder"
	wait "$holder" || true
	[[ ${stderr_lines[0]} == 'epd-state: w1: held by '* ]]
	[[ ${stderr_lines[1]} == '1 state expired, '*', 1 leftover '* ]]
	[ ! -e "$tier/stranger" ]
	# Who has the lock may be about to name that.
	[ -e "$tier/w/w1/0123456789abcdef" ]
	epd-state gc
	[ ! -e "$tier/w/w1/0123456789abcdef" ]
	clean
}

@test "gc counts log tails and hand-offs" {
	fill
	printf 'half a frame' >>"$log"
	run --separate-stderr -0 epd-state gc -v
	[[ $stderr == *', 0 leftovers (0 B), 1 log tail (12 B), 0 hand-offs settled, '* ]]
	printf 'half a frame' >>"$log"
	run --separate-stderr -0 epd-state gc -j
	jq -e '.log_tails == 1 and .log_tail_bytes == 12 and .handoffs == 0' <<<"$output"
	epd-handoff --prepare --timeout 100ms "$s" w2
	sleep 0.3
	run --separate-stderr -0 epd-state gc -j
	jq -e '.log_tails == 0 and .handoffs == 1' <<<"$output"
	clean
}

@test "of a memory folder each thing is told once, by its path" {
	fill
	mkdir -p "$tier/w/nowf" "$tier/w/w"
	echo x >"$tier/w/nowf/junk"
	echo x >"$tier/w/w/junk"
	echo x >"$tier/w/w1/junk"
	echo x >"$tier/w/l"
	echo x >"$tier/junk"
	run --separate-stderr -0 epd-state check
	[ "$(sort <<<"$stderr")" = "$(sed 's/.*/memory folder: &; gc takes it/' <<-'END' | sort
		junk: no run, nor a folder of runs
		w/l: no run, nor a folder of runs
		w/nowf: of no workflow
		w/w: of no workflow
		w/w1/junk: no run, nor a folder of runs
		END
	)" ] || { echo "$stderr"; return 1; }
	run -0 epd-state gc -j
	jq -e '.memory_folders == 2 and .leftovers == 3 and
		.leftover_bytes == 12288 and .memory_folder_bytes > 0' <<<"$output"
	clean
}

@test "rm -r lets go of all that may go, and names what may not" {
	s=$(epd-prefill -w w1 -p hello)
	epd-fork -n 9 "$s"
	id=$(epd-handoff --prepare w1/s3 w2)
	run --separate-stderr -3 epd-state rm -r w1
	[ "$stderr" = 'epd-state: w1: 9 of 10 states released; s3: mid-hand-off, until that is decided' ]
	[ "$(epd-state ls w1)" = w1/s3 ]
	run --separate-stderr -3 epd-state rm -r w1
	[ "$stderr" = 'epd-state: w1: s3: mid-hand-off, until that is decided' ]
	epd-handoff --abort "$id"
	epd-state rm -r w1
	[ -z "$(epd-state ls w1)" ]
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

@test "what a maker left in a workflow that has no log goes, the workflow does not" {
	fill
	mkdir -m 700 "$EPD_STORE/w/new"
	install -m 600 /dev/null "$EPD_STORE/w/new/lock"
	install -m 600 /dev/null "$EPD_STORE/w/new/.tmp.0123456789abcdef"
	epd-state gc
	[ ! -e "$EPD_STORE/w/new/.tmp.0123456789abcdef" ]
	[ "$(epd-prefill -w new -p hello)" = new/s1 ]
}
