# How long things are there, and that nothing is taken for another of its name.
bats_require_minimum_version 1.5.0
load helper

@test "a workflow's number is its own from the first, and stays with its first record" {
	mkdir "$m/workflows/new"
	[ "$(ls -i "$m/workflows" | awk '$2 == "new" { print $1 }')" = \
		"$(stat -c %i "$m/workflows/new")" ]
	was=$(stat -c %i "$m/workflows/new")
	(
		cd "$m/workflows/new"
		epd-prefill -q -w new -p hello >/dev/null
		[ "$(cat states/s1/version)" = 1 ]
		[ "$(/bin/pwd)" = "$m/workflows/new" ]
	)
	[ "$(stat -c %i "$m/workflows/new")" = "$was" ]
	down
	up
	[ "$(ls -i "$m/workflows" | awk '$2 == "new" { print $1 }')" = "$was" ]
	[ "$(stat -c %i "$m/workflows/new")" = "$was" ]
}

@test "workflows that change names take what they are with them" {
	epd-prefill -q -w w2 -p 'of the second' >/dev/null
	grep -q second "$m/workflows/w2/states/s1/text"
	[ "$(wc -l <"$m/workflows/w2/log")" -eq 1 ]
	epd-fork -q "$s" >/dev/null
	[ "$(wc -l <"$m/workflows/w1/log")" -eq 2 ]
	cd "$m/workflows/w1/states"
	mv "$EPD_STORE/w/w1" "$EPD_STORE/w/x"
	mv "$EPD_STORE/w/w2" "$EPD_STORE/w/w1"
	mv "$EPD_STORE/w/x" "$EPD_STORE/w/w2"
	[ "$(wc -l <"$m/workflows/w1/log")" -eq 1 ]
	[ "$(wc -l <"$m/workflows/w2/log")" -eq 2 ]
	[ "$(ls "$m/workflows/w2/states")" = $'s1\ns2' ]
	# Where somebody is is no more where its name leads.
	run ! mkdir s1/forks/wrong
	run ! rmdir s1
	run ! ls
	cd "$BATS_TEST_TMPDIR"
	mv "$EPD_STORE/w/w1" "$EPD_STORE/w/x"
	mv "$EPD_STORE/w/w2" "$EPD_STORE/w/w1"
	mv "$EPD_STORE/w/x" "$EPD_STORE/w/w2"
	[ "$(epd-state ls -w w1)$(epd-state ls -w w2)" = $'w1/s1\nw1/s2w2/s1' ]
}

@test "who is in a workflow that was made anew acts on none" {
	echo 'say hello' >"$S/s1/ctl"
	cd "$S"
	# The job may be writing there.
	for _ in $(seq 50); do
		rm -r "$EPD_STORE/w/w1" && break
		sleep 0.1
	done
	[ ! -e "$EPD_STORE/w/w1" ]
	[ "$(epd-prefill -w w1 -p 'another one')" = w1/s1 ]
	epd-fork -q w1/s1 >/dev/null
	run ! mkdir s1/forks/wrong
	run ! rmdir s2
	run ! bash -c 'echo fork >s1/ctl'
	run ! cat s1/text
	cd "$BATS_TEST_TMPDIR"
	[ "$(epd-state ls -w w1)" = $'w1/s1\nw1/s2' ]
	[[ "$(cat "$S/s1/text")" = *another* ]]
	[ "$(cat "$S/s1/reason")" = - ]
}

@test "a fork, and the end of the last branch, are changes of the state to who copies it" {
	command -v rsync >/dev/null || skip 'no rsync'
	last=$(stat -c %Y "$S/s1/versions/1/text")
	rsync -a "$S/s1" out 2>err
	for verb in fork release; do
		was=$(stat -c %Y "$S/s1/status")
		sleep 1.1			# rsync looks at seconds
		case $verb in
		fork) mkdir "$S/s1/forks/x" ;;
		release) epd-state release -q w1/s2 ;;
		esac
		[ "$(stat -c %Y "$S/s1/status")" -gt "$was" ]
		[ "$(stat -c %Y "$S/s1/state.json")" -gt "$was" ]
		[ "$(($(jq .changed_ms "$S/s1/state.json") / 1000))" -eq \
			"$(stat -c %Y "$S/s1/state.json")" ]
		rsync -a "$S/s1" out 2>err
		cmp "$S/s1/status" out/s1/status
		cmp "$S/s1/epoch" out/s1/epoch
		echo "$(cat out/s1/status) $(cat out/s1/epoch)" >>seen
	done
	[ "$(cat seen)" = $'SHARED 2\nACTIVE 2' ]
	[ "$(stat -c %Y "$S/s1/versions/1/text")" -eq "$last" ]
}

@test "a state's messages are a prompt again where they lie, and a picture is not taken from elsewhere" {
	ids=$(epd-state show --tokens "$s")
	for file in "$S/s1/messages.json" "$m/workflows/../workflows/w1/states/s1/messages.json"; do
		t=$(epd-prefill -q -w again --messages "$file")
		[ "$(epd-state show --tokens "$t")" = "$ids" ]
		[ "$(epd-state show -j "$t" | jq -c '[.feature_bundles[].feature_bundle_id]')" = \
			"$(epd-state show -j "$s" | jq -c '[.feature_bundles[].feature_bundle_id]')" ]
		cmp "$S/s1/text" "$m/workflows/again/states/${t#*/}/text"
	done
	t=$(cd "$S/s1" && epd-prefill -q -w again --messages messages.json)
	[ "$(epd-state show --tokens "$t")" = "$ids" ]
	# The same folder, but of an ordinary file system.
	mkdir copy
	cp "$S/s1/messages.json" copy
	mkdir copy/features
	ln -s "$(readlink -f "$S/s1/features/0")" copy/features/0
	run -1 epd-prefill -w again --messages copy/messages.json
	[[ "$output" = *'not beneath'* ]]
}

@test "what is open outlives its state" {
	p=$(readlink -f "$S/s1/pages/0000")
	cat "$S/s1/text" >text
	cat "$p" >page
	bytes=$(stat -c %s "$p")
	exec 7<"$S/s1/text" 8<"$p" 9<"$S/s1/state.json"
	rmdir "$S/s1"
	cat <&7 | cmp - text
	cat <&8 | cmp - page
	[ "$(jq .version_id <&9)" -eq 1 ]
	[ "$(stat -L -c '%h %s' /dev/fd/7)" = "0 $(stat -c %s text)" ]
	[ "$(stat -L -c '%h %s' /dev/fd/8)" = "0 $bytes" ]
	exec 7<&- 8<&- 9<&-
	soon eval '! stat "$p" 2>/dev/null'
}

@test "with its state goes all that was seen of it" {
	epd-fork -q "$s" >/dev/null
	find "$S/" -ls >/dev/null
	cat "$S/s2/versions/1/text" >/dev/null
	epd-state release -q w1/s2
	run ! stat "$S/s2/versions/1/text"
	run ! stat "$S/s2/versions/1"
	run ! stat "$S/s2/status"
	stat "$S/s1/versions/1/text" >/dev/null
	rmdir "$S/s1"
	run ! cat "$S/s1/versions/1/tokens"
	[ -z "$(ls "$S")" ]
}

@test "a feature that goes is there no more, and what of it is not kept has no bytes" {
	f=$(readlink -f "$S/s1/features/0")
	rm "$EPD_STORE"/features/??/*.blob
	[ "$(stat -c %s "$f/blob")" -eq 0 ]
	run ! cat "$f/blob"
	ls -l "$f/" >/dev/null
	rm -r "$EPD_STORE"/features/*
	sleep 1.1		# nobody says when one goes
	run ! stat "$f/image.png"
	run ! ls "$f/"
}

@test "a mount is not hidden by another" {
	run ! epd-mount "$m"
	[[ "$output" = *'a store is mounted there'* ]]
	[ "$(grep -c " $m fuse.epd" /proc/self/mounts)" -eq 1 ]
	mkdir other
	run -2 epd-mount -o '\suid' other
}

@test "who holds one workflow up holds up no other, and no reader" {
	mkdir "$m/workflows/w2"
	perl -e 'open my $f, "+<", shift or die;
		# A write lock of the open file, F_OFD_SETLKW, on all of it.
		my $lock = pack("s s x4 q q l x4", 1, 0, 0, 0, 0);
		fcntl($f, 38, $lock) or die;
		print "held\n"; close STDOUT; sleep 4' "$EPD_STORE/w/w1/lock" >held 3>&- &
	holder=$!
	soon test -s held
	writers=
	for _ in $(seq 24); do
		bash -c 'echo "fork" 2>/dev/null >"$1"' - "$S/s1/ctl" 3>&- &
		writers="$writers $!"
	done
	sleep 0.3
	[ -e /proc/$holder ]
	mkdir "$m/workflows/w3"
	epd-prefill -q -w w2 -p hello >/dev/null
	echo fork >"$m/workflows/w2/states/s1/ctl"
	cat "$S/s1/text" "$m/workflows/w2/check" >/dev/null
	[ -e /proc/$holder ]
	wait $holder $writers
	[ "$(ls "$S" | wc -l)" -eq 25 ]
}

@test "children write one turn with who opened it" {
	{
		echo one
		/bin/echo two
		echo three | cat
	} >"$S/s1/say"
	exec 8<>"$S/s1/ctl"
	echo wait >&8
	cat <&8
	echo jobs >&8
	[ "$(cat <&8 | wc -l)" -eq 1 ]
	exec 8>&-
	[[ "$(cat "$S/s1/text")" = *$'user: one\ntwo\nthree\n'* ]]
	# The last that was closed ends what its opener did not.
	bash -c 'exec 7>"$1"; (sleep 0.3; echo four; echo five) >&7 & exit 0' - "$S/s1/say"
	soon grep -q 'four' "$S/s1/text"
	soon grep -q '^five' "$S/s1/text"
}

@test "a state with a job is not let go of" {
	down
	EPD_ISA=scalar EPD_THREADS=1 up
	exec 8<>"$S/s1/ctl"
	echo decode n 200 ignore-eos >&8
	run ! rmdir "$S/s1"
	[[ "$output" = *busy* ]]
	run ! bash -c 'echo release >&8'
	run ! bash -c 'echo abort why >&8'
	cat <&8 >answers
	grep -q 'release: j1 is not over: wait for it or cancel it' answers
	echo cancel j1 >&8
	echo wait j1 >&8
	cat <&8
	echo release >&8
	exec 8>&-
	[ ! -e "$S/s1" ]
}

@test "words that no verb takes are refused" {
	exec 8<>"$S/s1/ctl"
	for line in 'fork 1 2 3' 'fork @1 @1' 'fork seed' 'fork seed x' 'jobs all' 'help me' 'handoff to here' \
		'handoff plan to'; do
		run ! bash -c "echo $line >&8"
	done
	[ "$(cat <&8 | wc -l)" -eq 8 ]
	exec 8>&-
	[ "$(epd-state ls)" = w1/s1 ]
}

@test "branches of one seed draw the same, here and by the command" {
	[ "$(printf 'fork 2 seed 7\n' | tee "$S/s1/ctl" >/dev/null; ls "$S" | wc -l)" -eq 3 ]
	epd-fork -q -s 7 "$s" >/dev/null
	for n in 2 3 4; do
		epd-decode -q -n 16 --temp 2 --top-k 0 --top-p 1 --ignore-eos -s 5 w1/s$n
	done >/dev/null
	[ "$(cat "$S/s2/tokens")" = "$(cat "$S/s4/tokens")" ]
	[ "$(cat "$S/s2/tokens")" != "$(cat "$S/s3/tokens")" ]
}

@test "answers that nobody reads are kept up to a bound" {
	exec 8<>"$S/s1/ctl"
	for _ in $(seq 40); do
		printf 'jobs\nhelp\n%.0s' $(seq 500) >&8
	done
	cat <&8 >answers
	exec 8>&-
	[ "$(stat -c %s answers)" -le $((9 << 20)) ]
	tail -1 answers | grep -q '^help'
}

@test "inotify hears of the first change, and of many at once" {
	command -v inotifywait >/dev/null || skip 'no inotifywait'
	timeout 20 inotifywait -e modify "$S/s1/epoch" >heard 2>ready 3>&- &
	p=$!
	soon grep -q established ready
	epd-fork -q -n 99 "$s" >/dev/null
	wait $p
	grep -q MODIFY heard
	timeout 60 inotifywait -m -r -e modify --include '/status$' "$S/" \
		>heard2 2>ready2 3>&- &
	p=$!
	soon grep -q established ready2
	for i in $(seq 100); do echo "w1/s$i"; done | xargs epd-state abort -q --reason why
	soon eval '[ "$(sort -u heard2 | wc -l)" -eq 100 ]'
	kill $p
	wait $p || true
}

@test "where inotify cannot be had changes are seen all the same" {
	unshare -Urm true 2>/dev/null || skip 'no namespaces of users'
	down
	cat >deaf <<-'END'
		echo "$2" >/proc/sys/user/max_inotify_instances &&
			echo "$3" >/proc/sys/user/max_inotify_watches || exit 9
		epd-mount "$1" || exit 8
		cd "$1/workflows/w1" || exit
		exec 7<events
		timeout 20 tail -n +1 -f events >../../../heard &
		mkdir states/s1/forks/one || exit
		ls states
		epd-fork -q w1/s1 >/dev/null
		ls states
		epd-prefill -q -w w2 -p more >/dev/null
		cat ../w2/states/s1/version
		for i in $(seq 100); do
			grep -c '"fork"' ../../../heard | grep -qx 2 && break
			sleep 0.1
		done
		grep -c '"fork"' ../../../heard
		kill %1
		exec 7<&-
		cd /
		epd-mount -u "$1"
	END
	k=2
	for limits in '0 99' '9 0' '9 2'; do
		rc=0
		# shellcheck disable=SC2086
		got=$(unshare -Urm bash deaf "$m" $limits 3>&- | tr '\n' ' ') || rc=$?
		[ $rc -ne 9 ] || skip 'no limits to set'
		[ "$got" = "s1 s$k s1 s$k s$((k + 1)) 1 2 " ]
		epd-state release -q w1/s$k w1/s$((k + 1)) w2/s1
		rm -r "$EPD_STORE/w/w2"
		k=$((k + 2))
	done
}

@test "each model's words are told by its own tokenizer" {
	cp -r "$model" a
	cp -r "$model" b
	EPD_MODEL=$PWD/a epd-prefill -q -w wa -p 'zebra quiz' >/dev/null
	EPD_MODEL=$PWD/b epd-prefill -q -w wb -p 'zebra quiz' >/dev/null
	# Of b letters mean others.
	jq -c '.model.vocab as $v | .model.vocab.z = $v.q | .model.vocab.q = $v.z |
		.model.vocab.e = $v.u | .model.vocab.u = $v.e' b/tokenizer.json >new
	mv new b/tokenizer.json
	cat "$m/workflows/wa/states/s1/text" >wa
	grep -q 'zebra quiz' wa
	cat "$m/workflows/wb/states/s1/text" >wb
	run ! cmp wa wb
	touch a/tokenizer.json
	cat "$m/workflows/wa/states/s1/versions/1/text" | cmp - wa
	cat "$m/workflows/wb/states/s1/versions/1/text" | cmp - wb
}

@test "a model beneath the mount point is out of reach, and nothing waits for it" {
	down
	mkdir work
	cp -r "$model" work/tiny
	EPD_MODEL=$PWD/work/tiny epd-prefill -q -w under -p hello >/dev/null
	up=$m m=$PWD/work
	up
	run ! timeout 5 cat work/workflows/under/states/s1/text
	[[ "$output" = *'No data available'* ]]
	timeout 5 ls -lR work >/dev/null
	timeout 5 jq -e .version_id work/workflows/under/states/s1/state.json
	down
	rm -r work
	m=$up
}

@test "a mount lies neither in the store or its memory nor over them" {
	memory=$(echo "$BATS_TEST_TMPDIR"/memory/epd-*)
	mkdir "$EPD_STORE/w/w1/x" "$memory/w/w1/x"
	for at in "$EPD_STORE/w/w1/x" "$memory/w/w1/x" "$memory/.." \
		"$BATS_TEST_TMPDIR"; do
		run -1 epd-mount --store "$EPD_STORE" "$at"
		[[ "$output" = *'lies in'* || "$output" = *'would be hidden'* ]]
	done
	rmdir "$EPD_STORE/w/w1/x" "$memory/w/w1/x"
}

@test "links to branches and hand-offs go with what they are of" {
	epd-fork -q "$s" >/dev/null
	h=$(epd-handoff -q --prepare w1/s2 w2)
	[ -L "$S/s1/children/s2" ]
	[ "$(ls "$m/workflows/w1/handoffs")" = "$h" ]
	stat "$m/workflows/w1/handoffs/$h/"* >/dev/null
	epd-handoff -q --abort "$h"
	[ -z "$(ls "$m/workflows/w1/handoffs")" ]
	run ! stat "$m/workflows/w1/handoffs/$h"
	epd-state release -q w1/s2
	run ! test -L "$S/s1/children/s2"
}

@test "who has a file open keeps nobody from seeing that its state is gone" {
	epd-fork -q -n 2 "$s" >/dev/null
	exec 7<"$S/s2/text" 9<"$S/s3/text"
	epd-state release -q w1/s2
	soon eval '! test -e "$S/s2/text"'
	rmdir "$S/s3"
	run ! test -e "$S/s3/text"
	cat <&7 >/dev/null
	cat <&9 >/dev/null
	exec 7<&- 9<&-
}

@test "an empty workflow is whole, and as old as it is" {
	sleep 1
	mkdir "$m/workflows/new"
	[ "$(ls -t "$m/workflows" | head -1)" = new ]
	[[ "$(cat "$m/workflows/new/check")" = '0 faults; 0 records'* ]]
	cp -r "$m/workflows/new" copy
	grep -r . "$m/workflows/new" >/dev/null
	down
	rm -r "$EPD_STORE"
	epd-state ls 2>/dev/null || true
	epd-prefill -q -w one -p hello >/dev/null
	rm -r "$EPD_STORE/w/one"
	up
	epd-prefill -q -w one -p hello >/dev/null
	[ "$(wc -l <"$m/events")" -eq 1 ]
}

@test "what jobs tell is seen at once, by inotify too" {
	ls -l "$m/workflows/w1" "$m" >/dev/null
	echo 'decode temp hot' >"$S/s1/ctl"
	exec 8<>"$S/s1/ctl"
	echo prefill more >&8
	cat <&8
	sleep 0.5
	echo wait >&8
	cat <&8 >answers
	grep -q '^j1 failed' answers
	grep -q '^j2 done' answers
	echo wait >&8
	[ "$(cat <&8)" = "$(tail -1 answers)" ]
	[ "$(stat -c %s "$m/workflows/w1/events")" = "$(wc -c <"$m/workflows/w1/events")" ]
	command -v inotifywait >/dev/null || return 0
	timeout 20 inotifywait -e modify "$m/workflows/w1/events" >heard 2>ready 3>&- &
	p=$!
	soon grep -q established ready
	echo decode temp hot >&8
	exec 8>&-
	wait $p
	grep -q MODIFY heard
}

@test "nine workflows held up hold up no tenth, and who waits can be killed" {
	for i in $(seq 9); do mkdir "$m/workflows/v$i"; done
	for i in $(seq 9); do epd-prefill -q -w v$i -p hello; done >/dev/null
	perl -e 'for (@ARGV) { open my $f, "+<", $_ or die;
			my $lock = pack("s s x4 q q l x4", 1, 0, 0, 0, 0);
			fcntl($f, 38, $lock) or die; push @f, $f; }
		print "held\n"; close STDOUT; sleep 6' "$EPD_STORE"/w/v*/lock >held 3>&- &
	holder=$!
	soon test -s held
	mkdir "$m/workflows/v1/states/s1/forks/a" 3>&- &
	writers=$!
	for i in $(seq 2 9); do
		bash -c 'exec 3<>"$1"; echo fork >&3' - "$m/workflows/v$i/states/s1/ctl" 3>&- &
		writers="$writers $!"
	done
	sleep 0.3
	mkdir "$m/workflows/v10"
	exec 8<>"$m/workflows/v1/states/s1/ctl"
	echo help >&8
	[ "$(cat <&8 | wc -l)" -gt 9 ]
	exec 8>&-
	# shellcheck disable=SC2086
	set -- $writers
	kill -9 "$1"
	sleep 0.5
	run ! kill -0 "$1"
	[ -e /proc/$holder ]
	kill $holder
	shift
	wait "$@"
	[ "$(ls "$m/workflows/v2/states")" = $'s1\ns2' ]
	[ "$(ls "$m/workflows/v1/states")" = s1 ]
}

@test "a job that was stopped can be cancelled" {
	down
	EPD_ISA=scalar EPD_THREADS=1 up
	exec 8<>"$S/s1/ctl"
	echo decode n 500 ignore-eos >&8
	soon eval 'p=$(pgrep -P "$daemon" -x epd-decode)'
	kill -STOP "$p"
	echo cancel j1 >&8
	echo wait j1 >&8
	[[ "$(timeout 10 cat <&8 | tail -1)" = 'j1 cancelled'* ]]
	exec 8>&-
	[ "$(jq -c 'select(.status == "cancelled") | .error' "$m/events")" = null ]
	echo '  ' >"$S/s1/say"
	exec 8<>"$S/s1/ctl"
	echo jobs >&8
	[ "$(cat <&8 | wc -l)" -eq 1 ]
	exec 8>&-
}
