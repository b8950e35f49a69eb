#!/usr/bin/env bats
# What is written to a mounted store: mkdir, rmdir, say and ctl.

load helper

# A line to the ctl of a state (s1), and the answer.
ctl() {
	local answer rc=0

	exec 8<>"$S/$1/ctl"
	echo "$2" >&8 2>/dev/null || rc=1
	cat <&8
	exec 8>&-
	return $rc
}

# Mounted so that what is decoded takes a while.
slow() {
	down
	EPD_ISA=scalar EPD_THREADS=1 up
}

# The child of the daemon that decodes.
decoding() {
	for c in $(cat "/proc/$daemon/task/"*/children 2>/dev/null); do
		grep -qx epd-decode "/proc/$c/comm" && echo "$c" && return
	done
	return 1
}

speaks() {
	[ "$(stat -c %s "$S/$1/text")" -gt "$2" ]
}

@test "mkdir makes a workflow, and rmdir takes one to which nothing was written" {
	mkdir "$m/workflows/chat"
	[ -d "$EPD_STORE/w/chat" ]
	[ -d "$m/workflows/chat/states" ]
	run -1 mkdir "$m/workflows/chat"
	[[ "$output" = *'File exists'* ]]
	run -1 mkdir "$m/workflows/a b"
	[[ "$output" = *'Invalid argument'* ]]
	rmdir "$m/workflows/chat"
	[ ! -e "$EPD_STORE/w/chat" ]
	[ ! -e "$m/workflows/chat" ]
	run -1 rmdir "$m/workflows/w1"
	[[ "$output" = *'not empty'* ]]
	rmdir "$S/s1"
	run -1 rmdir "$m/workflows/w1"
	[[ "$output" = *'not permitted'* ]]
	[ "$(ls "$m/workflows")" = w1 ]
}

@test "nothing else can be made, moved or removed" {
	for d in "$m" "$m/pages" "$m/workflows/w1" "$S" "$S/s1"; do
		run -1 mkdir "$d/x"
		[[ "$output" = *'not permitted'* ]]
		run -1 touch "$d/x"
		[[ "$output" = *'not permitted'* ]]
	done
	for d in "$m/pages" "$m/workflows/w1/states" "$S/s1/forks"; do
		run -1 rmdir "$d"
		[[ "$output" = *'not permitted'* ]]
	done
	run -1 mv "$S/s1" "$S/s2"
	run -1 ln -s x "$S/x"
	run -1 rm "$S/s1/text"
	[ "$(epd-state ls w1 | wc -l)" -eq 1 ]
}

@test "forks/NAME and sM are two directories on one state" {
	mkdir "$S/s1/forks/alice"
	[ "$(ls "$S")" = $'s1\ns2' ]
	[ "$(ls "$S/s1/forks")" = alice ]
	diff "$S/s1/forks/alice/state.json" "$S/s2/state.json"
	[ "$(readlink -f "$S/s1/forks/alice/parent")" = "$S/s1" ]
	mkdir "$S/s1/forks/alice/forks/bob"
	[ "$(readlink -f "$S/s1/forks/alice/forks/bob/parent")" = "$S/s2" ]
	[ "$(readlink -f "$S/s1/forks/alice/children/s3")" = "$S/s3" ]
	run -1 mkdir "$S/s1/forks/alice"
	[[ "$output" = *'File exists'* ]]
	for n in s7 s0 -x .x 'a b'; do
		run -1 mkdir -- "$S/s1/forks/$n"
		[[ "$output" = *'Invalid argument'* ]]
	done
	mkdir "$S/s1/forks/s" "$S/s1/forks/s1x"
	# Released by one name it is gone by both.
	rmdir "$S/s2"
	[ "$(ls "$S/s1/forks")" = $'s\ns1x' ]
	mkdir "$S/s1/forks/alice"
	diff "$S/s1/forks/alice/state.json" "$S/s6/state.json"
	rmdir "$S/s1/forks/alice"
	[ ! -e "$S/s6" ]
	[ "$(epd-state ls w1 | wc -l)" -eq 4 ]
}

@test "rmdir releases a state as it stands, rm -r is refused and loses nothing" {
	mkdir "$S/s1/forks/a"
	run -1 rm -r "$S/s1"
	run -1 rm -rf "$S" "$S/s1/forks/a"
	[ "$(epd-state ls w1 | wc -l)" -eq 2 ]
	epd-state check
	rmdir "$S/s1"
	[ "$(ls "$S")" = s2 ]
	run -1 rmdir "$S/s1"
	[[ "$output" = *'No such file'* ]]
	[ "$(epd-state log w1 | grep -c 'by rmdir')" -eq 1 ]
}

@test "ctl answers on the descriptor it was asked on" {
	exec 7<>"$S/s1/ctl"
	echo fork 4 >&7
	[ "$(cat <&7)" = $'w1/s2\nw1/s3\nw1/s4\nw1/s5' ]
	[ -z "$(cat <&7)" ]
	echo fork >&7
	echo fork 2 @1 >&7
	[ "$(head -c 6 <&7)" = w1/s6 ]
	[ "$(cat <&7)" = $'w1/s7\nw1/s8' ]
	exec 9<>"$S/s1/ctl"
	echo rollback @1 >&7
	[ -z "$(cat <&9)" ]
	[ "$(cat <&7)" = w1/s9 ]
	echo help >&7
	[[ "$(cat <&7)" = *'fork [N]'*'rollback V'*'wait [JOB]'* ]]
	exec 9>&-
	echo fork 2 replace >&7
	[ "$(cat <&7)" = $'w1/s10\nw1/s11' ]
	[ ! -e "$S/s1" ]
	run -1 bash -c 'echo fork >&7'
	[[ "$output" = *'No such file'* ]]
	[[ "$(cat <&7)" = 'fork: no such state'* ]]
	exec 7>&-
}

@test "a line is a line however it is written" {
	echo fork 2 >"$S/s1/ctl"
	[ "$(ls "$S" | wc -l)" -eq 3 ]
	printf 'fork\nfork\n\n  \n fork 2 ' >"$S/s1/ctl"
	[ "$(ls "$S" | wc -l)" -eq 7 ]
	printf 'fork 2\nfork\n' | dd bs=1 of="$S/s1/ctl" 2>/dev/null
	[ "$(ls "$S" | wc -l)" -eq 10 ]
	echo fork >>"$S/s1/ctl"
	[ "$(ls "$S" | wc -l)" -eq 11 ]
	: >"$S/s1/ctl"
	[ "$(ls "$S" | wc -l)" -eq 11 ]
	echo release enough of it >"$S/s11/ctl"
	[ ! -e "$S/s11" ]
	[ "$(epd-state log w1 | grep -c 'enough of it')" -eq 1 ]
	# Though it was listed a moment ago.
	for n in $(seq 2 10); do
		ls -l "$S" >list
		echo release >"$S/s$n/ctl"
		[ ! -e "$S/s$n" ]
	done
}

@test "a verb that is refused fails the write, and says why" {
	while IFS='|' read -r verb errno why; do
		exec 7<>"$S/s1/ctl"
		run -1 bash -c 'echo "$1" >&7' - "$verb"
		[[ "$output" = *"$errno"* ]] || { echo "$verb: $output"; false; }
		answer=$(cat <&7)
		[[ "$answer" = $why ]] || { echo "$verb: $answer"; false; }
		exec 7>&-
	done <<-'END'
	frok|Invalid argument|frok: no such verb; help*
	fork x|Invalid argument|fork: 'x' is none of*
	fork 0|Invalid argument|fork: 0 branches*
	fork @9|No such file|fork: s1: it has no version @9
	rollback|Invalid argument|rollback: to which version?
	abort|Invalid argument|abort: why?
	say|Invalid argument|say: what?
	decode warmth 1|Invalid argument|decode: 'warmth' is none of*
	decode temp|Invalid argument|decode: temp: a value is missing
	cancel|Invalid argument|cancel: which job?
	cancel j7|No such file|cancel: j7: no job*
	wait 7|Invalid argument|wait: '7' is no name of a job
	offload tape|Invalid argument|offload: 'tape' is none of*
	offload nvme x|Invalid argument|offload: 'nvme x' is none of*
	restore all|Invalid argument|restore: pages LIST*
	restore pages|Invalid argument|restore: pages: a value is missing
	restore pages 1 2|Invalid argument|restore: pages LIST*
	END
	exec 7<>"$S/s1/ctl"
	run -1 bash -c 'printf "fork\0\n" >&7'
	[[ "$output" = *'Invalid argument'* ]]
	[ "$(cat <&7)" = 'a line with a NUL in it' ]
	exec 7>&-
	run -1 bash -c '{ printf "abort "; head -c 70000 /dev/zero | tr "\0" x
		echo; } | dd bs=80000 iflag=fullblock of="$1"' - "$S/s1/ctl"
	[[ "$output" = *'Message too long'* ]]
	[ "$(epd-state ls w1 | wc -l)" -eq 1 ]
	echo abort it went wrong >"$S/s1/ctl"
	[ "$(cat "$S/s1/status")" = ABORTED ]
	run -1 bash -c 'echo fork >"$1"' - "$S/s1/ctl"
	[[ "$output" = *'not permitted'* ]]
}

@test "of several lines those before the refused one are done, each once" {
	run -1 bash -c 'printf "fork\nfork\nfrok\nfork\n" | dd bs=99 of="$1"' - \
		"$S/s1/ctl"
	[[ "$output" = *'Invalid argument'* ]]
	[ "$(ls "$S" | wc -l)" -eq 3 ]
}

@test "decode and prefill are jobs" {
	[ "$(ctl s1 'decode n 1 temp 0')" = j1 ]
	[ "$(ctl s1 wait)" = 'j1 done w1/s1@2' ]
	exec 7<>"$S/s1/ctl"
	echo 'prefill  And its colour?' >&7
	echo wait >&7
	echo decode >&7
	echo fork >&7
	[ "$(cat <&7)" = $'j2\nj2 done w1/s1@3\nj3\nw1/s2' ]
	echo wait j1 >&7
	echo wait j3 >&7
	[ "$(cat <&7)" = $'j1 done w1/s1@2\nj3 done w1/s1@4' ]
	exec 7>&-
	[ "$(ctl s1 jobs)" = $'j1 decode done w1/s1@2
j2 prefill done w1/s1@3
j3 decode done w1/s1@4' ]
	[ -z "$(ctl s2 jobs)" ]
	[ "$(ctl s1 'decode temp warm')" = j4 ]
	[[ "$(ctl s1 wait)" = "j4 failed 2: epd-decode: --temp: 'warm' is not a number"* ]]
	ctl s2 'decode stop X seed 3 top-k 5 top-p 0.5 repeat-penalty 1.1 ignore-eos n 3'
	[ "$(ctl s2 wait)" = 'j5 done w1/s2@2' ]
	[ "$(ctl s1 decode)" = j6 ]
	[ "$(ctl s1 wait)" = 'j6 failed 2: epd-decode: w1/s1: its turn is finished; add one with epd-prefill' ]
	run -1 ctl s1 'wait j9'
	run -1 ctl s2 'wait j1'
}

@test "a hand-off is a job whose result is where the state is now" {
	exec 7<>"$S/s1/ctl"
	echo handoff other >&7
	echo wait >&7
	[ "$(cat <&7)" = $'j1\nj1 done other/s1' ]
	exec 7>&-
	[ ! -e "$S/s1" ]
	[[ "$(cat "$m/workflows/other/states/s1/text")" = user:* ]]
	exec 7<>"$m/workflows/other/states/s1/ctl"
	echo handoff a b >&7 || true
	[[ "$(cat <&7)" = 'handoff: one workflow'* ]]
	echo "handoff to $EPD_CONFIG" >&7
	echo wait >&7
	[[ "$(cat <&7)" = *'j2 failed '*': epd-handoff: '* ]]
	# What ends the state is answered all the same.
	echo release >&7
	[ -z "$(cat <&7)" ]
	echo jobs >&7
	[[ "$(cat <&7)" = 'j2 handoff failed '* ]]
	exec 7>&-
}

@test "say is a turn, answered" {
	before=$(cat "$S/s1/text")
	printf 'What\n-is- it?\n' >"$S/s1/say"
	[ "$(ctl s1 wait)" = 'j1 done w1/s1@3' ]
	[[ "$(cat "$S/s1/text")" = "$before"*'user: What'$'\n''-is- it?'*'assistant: '?* ]]
}

@test "what is answered streams into text" {
	slow
	ctl s1 decode
	ctl s1 'prefill Go on.'
	ctl s1 'decode temp 4 top-k 0 top-p 1 seed 8'
	ctl s1 'wait j2'
	cat "$S/s1/text" >old
	grew=0
	while [[ "$(ctl s1 jobs)" = *'j3 decode '[qr]* ]]; do
		cat "$S/s1/text" >new
		cmp -n "$(stat -c %s old)" old new
		[ "$(stat -c %s new)" -eq "$(stat -c %s old)" ] || grew=$((grew + 1))
		mv new old
	done
	[ "$grew" -gt 3 ]
	[ "$(ctl s1 wait)" = $'j1 done w1/s1@2\nj3 done w1/s1@4' ]
	cmp -n "$(stat -c %s old)" old "$S/s1/text"
}

@test "who opened a say ends a turn with each copy he closes, if it has a text" {
	exec 7>"$S/s1/say"
	true <&-		# nothing was written
	echo one >&7
	echo two >&7
	exec 7>&-
	[ "$(ctl s1 jobs | wc -l)" -eq 2 ]
	ctl s1 wait
	[[ "$(cat "$S/s1/text")" = *'user: one'*'user: two'* ]]
	: >"$S/s1/say"
	[ "$(ctl s1 jobs | wc -l)" -eq 2 ]
	[ -z "$(cat "$S/s1/say")" ]
}

@test "jobs tell of themselves in events" {
	exec 9<"$m/events"
	cat <&9 >/dev/null
	echo hello >"$S/s1/say"
	ctl s1 'wait j1'
	want='queued null null
running null null
done 0 w1/s1@3'
	[ "$(jq -r 'select(.event == "job") | "\(.status) \(.exit) \(.result)"' <&9)" = "$want" ]
	exec 9<&-
	[ "$(jq -r 'select(.job == "j1") | .verb + .state + .workflow' \
		"$m/workflows/w1/events" | sort -u)" = sayw1/s1w1 ]
	ctl s1 'decode n x'
	ctl s1 wait
	tail -1 "$m/events" | jq -e '.status == "failed" and .exit == 2 and
		(.error | startswith("epd-decode: "))'
}

@test "of one state one job at a time, in order, and over all two" {
	slow
	epd-fork -n 2 "$s"
	exec 7<>"$S/s1/ctl"
	echo decode n 60 ignore-eos >&7
	echo say more >&7
	[ "$(cat <&7)" = $'j1\nj2' ]
	[ "$(ctl s2 'decode n 60 ignore-eos')" = j3 ]
	[ "$(ctl s3 'decode n 60 ignore-eos')" = j4 ]
	[ "$(ctl s1 jobs)" = $'j1 decode running\nj2 say queued' ]
	[ "$(ctl s3 jobs)" = 'j4 decode queued' ]
	echo wait >&7
	[ "$(cat <&7)" = $'j1 done w1/s1@2\nj2 done w1/s1@4' ]
	exec 7>&-
	[ "$(ctl s2 wait)" = 'j3 done w1/s2@2' ]
	[ "$(ctl s3 wait)" = 'j4 done w1/s3@2' ]
	# From the first say of running to the second there is an end.
	jq -r 'select(.event == "job" and .state == "w1/s1") | .job + .status' \
		"$m/events" >got
	printf 'j1%s\n' queued running >want
	[ "$(sort got)" = "$(printf 'j%s\n' 1done 1queued 1running 2done \
		2queued 2running)" ]
	[ "$(grep -n j1done got | cut -d: -f1)" -lt "$(grep -n j2running got |
		cut -d: -f1)" ]
}

@test "who waits keeps nobody, not even on his descriptor, and may leave" {
	slow
	epd-fork "$s"
	exec 7<>"$S/s1/ctl"
	echo decode ignore-eos >&7
	cat <&7
	soon decoding
	echo wait >&7
	run -124 timeout 0.2 cat <&7
	for _ in $(seq 20); do
		cat <&7 >>waited 3>&- &
	done
	for _ in $(seq 20); do
		echo fork >"$S/s2/ctl"
	done
	[ "$(ls "$S" | wc -l)" -eq 22 ]
	[ ! -s waited ]
	timeout 5 bash -c 'echo jobs >&7'
	timeout 5 bash -c 'echo cancel j1 >&7'
	wait $(jobs -p | grep -vx "$daemon")
	exec 7>&-
	[ "$(cat waited)" = $'j1 cancelled w1/s1@2\nj1 decode running' ]
	# What was drawn is kept, and the next has its turn.
	[ "$(ctl s1 jobs)" = 'j1 decode cancelled w1/s1@2' ]
	run -1 ctl s1 'cancel j1'
	[[ "$output" = 'cancel: j1 is over' ]]
	[ "$(ctl s1 'say Go on.')" = j2 ]
	[ "$(ctl s1 wait)" = 'j2 done w1/s1@4' ]
}

@test "what is queued is cancelled without having begun" {
	slow
	ctl s1 'decode ignore-eos'
	[ "$(ctl s1 'say too late')" = j2 ]
	[ "$(ctl s1 'prefill Go on.')" = j3 ]
	ctl s1 'cancel j2'
	[ "$(ctl s1 'wait j2')" = 'j2 cancelled' ]
	ctl s1 'cancel j1'
	[[ "$(ctl s1 wait)" = *'j3 done '* ]]
	! grep -q 'too late' "$S/s1/text"
}

@test "a say of 1 MiB is taken, more is not said at all" {
	epd-fork "$s"
	head -c 1048576 < <(yes 'four by two') >big
	cat big >"$S/s1/say"
	[[ "$(ctl s1 wait)" = 'j1 failed '*'epd-prefill: '* ]]
	echo x >>big
	run -1 cp big "$S/s1/say"
	[[ "$output" = *'File too large'* ]]
	[ "$(ctl s1 jobs | wc -l)" -eq 1 ]
	[ "$(cat "$S/s1/version")" -eq 1 ]
	# What it is given as is nothing a shell or an option would take up.
	printf -- '--raw $(reboot) "%%s" \\\n' >"$S/s1/say"
	ctl s1 wait
	[[ "$(cat "$S/s1/text")" = *'user: --raw $(reboot) "%s" \'* ]]
	printf 'half \xe2\x82' >"$S/s1/say"
	[[ "$(ctl s1 wait)" = *'not UTF-8' ]]
}

@test "nobody speaks to a state that is gone, or to one that took its name" {
	exec 7>"$S/s1/say" 8<>"$S/s1/ctl"
	rmdir "$S/s1"
	run -1 bash -c 'echo hello >&7'
	[[ "$output" = *'No such file'* ]]
	run -1 bash -c 'echo hello >"$1"' - "$S/s1/say"
	[[ "$output" = *'No such file'* ]]
	rm -r "$EPD_STORE/w/w1"
	[ "$(epd-prefill -w w1 -p 'another one')" = w1/s1 ]
	[ -e "$S/s1/say" ]
	run -1 bash -c 'echo hello >&7'
	run -1 bash -c 'echo fork >&8'
	[ "$(ls "$S")" = s1 ]
	exec 7>&- 8>&-
}

@test "ctl of one state by many at once" {
	for _ in 1 2 3 4 5 6 7 8; do
		( for _ in 1 2 3 4 5; do
			ctl s1 fork >>"out.$BASHPID" || exit 1
		done ) 3>&- &
	done
	wait $(jobs -p | grep -vx "$daemon")
	[ "$(ls "$S" | wc -l)" -eq 41 ]
	[ "$(sort -u out.* | wc -l)" -eq 40 ]
	[ "$(epd-state ls w1 | wc -l)" -eq 41 ]
}

@test "a read-only mount takes nothing" {
	down
	up --read-only
	[ ! -e "$S/s1/say" ]
	[ ! -e "$S/s1/ctl" ]
	for d in "$m/workflows/x" "$S/s1/forks/x"; do
		run -1 mkdir "$d"
		[[ "$output" = *'Read-only file system'* ]]
	done
	run -1 rmdir "$S/s1"
	[[ "$output" = *'Read-only file system'* ]]
	run -1 rm -r "$S/s1"
	[ "$(epd-state ls w1 | wc -l)" -eq 1 ]
}

@test "jobs have the mount's store, configuration and tenant" {
	down
	mkdir other
	mv config.yaml other
	( cd other; unset EPD_STORE EPD_CONFIG EPD_MODEL
		exec epd-mount -f --store ../store --config config.yaml \
			--tenant '' "$m" ) >daemon.out 2>daemon.err 3>&- &
	daemon=$!
	soon mountpoint -q "$m"
	EPD_CONFIG=$PWD/other/config.yaml
	echo hello >"$S/s1/say"
	[ "$(ctl s1 wait)" = 'j1 done w1/s1@3' ]
	[ ! -e "$HOME/.local" ]
}

@test "a job has no descriptor of the daemon's" {
	slow
	ctl s1 'decode ignore-eos'
	soon decoding
	pid=$(decoding)
	soon grep -q . "$S/s1/text"
	fds=$(ls -l "/proc/$pid/fd")
	[[ "$fds" = *' 0 -> /dev/null'* ]]
	[[ "$fds" != *fuse* ]]
	[[ "$fds" != *eventfd* ]]
	[[ "$fds" != *inotify* ]]
	# A daemon that is killed leaves a mount that can be cleared.
	kill -9 "$daemon"
	wait "$daemon" || true
	daemon=
	epd-mount -u "$m"
	gone "$pid"
}

@test "unmounting ends what runs, keeps what was drawn, and leaves no process" {
	slow
	ctl s1 'decode ignore-eos'
	ctl s1 'say not any more'
	soon decoding
	pid=$(decoding)
	before=$(stat -c %s "$S/s1/text")
	soon speaks s1 "$((before + 8))"
	down
	run ! kill -0 "$pid"
	[ "$(epd-state show -j "$s" | jq .versions)" -eq 2 ]
	[ -z "$(find memory -name '*draft*')" ]
}

@test "stopped while somebody waits it ends all the same" {
	# What is open then is not given back, the process ends.
	export ASAN_OPTIONS=detect_leaks=0
	slow
	exec 7<>"$S/s1/ctl"
	echo decode ignore-eos >&7
	cat <&7
	soon decoding
	pid=$(decoding)
	echo wait >&7
	cat <&7 >waited 2>&1 3>&- &
	reader=$!
	sleep 0.2
	kill -TERM "$daemon"
	gone "$daemon"
	gone "$pid"
	gone "$reader"
	exec 7>&-
}

@test "nothing of a line that is refused is a verb" {
	{
		printf 'say %070000d' 1
		sleep 0.1
		printf 'release me\nfork\n'
	} | dd of="$S/s1/ctl" bs=65536 conv=notrunc 2>err || true
	[ -d "$S/s1" ]
	exec 8<>"$S/s1/ctl"
	perl -e 'syswrite STDOUT, "say " . "x" x 70000;
		syswrite STDOUT, "\nabort\0 it\n"; syswrite STDOUT, "release me\0\n";' >&8
	cat <&8 >answers
	exec 8>&-
	[ "$(cat "$S/s1/status")" = ACTIVE ]
	run ! truncate -s 100 "$S/s1/ctl"
}

@test "a store that another has taken the place of is not written to" {
	mv "$EPD_STORE" old
	t=$(epd-prefill -q -p 'a stranger')
	[ "$t" = w1/s1 ]
	exec 8<>"$S/s1/ctl"
	run ! bash -c 'echo fork >&8'
	run ! bash -c "mkdir '$m/workflows/new'"
	run ! bash -c "rmdir '$S/s1'"
	echo 'say hello' >&8
	echo wait >&8
	cat <&8 >answers
	exec 8>&-
	grep -q failed answers
	[ "$(epd-state ls)" = w1/s1 ]
	[ "$(epd-state show -j "$t" | jq .version_id)" -eq 1 ]
	[ ! -e "$EPD_STORE/w/new" ]
	rm -rf "$EPD_STORE"
	mv old "$EPD_STORE"
	[ "$(ctl s1 fork)" = w1/s2 ]
}

@test "a line of too many words is refused whole" {
	line=handoff
	for _ in $(seq 70); do line="$line timeout 60s"; done
	run ! ctl s1 "$line plan"
	[[ "$output" = *'more than'*words* ]]
	[ "$(epd-state ls)" = w1/s1 ]
}

@test "unmounting when a thousand jobs are over, and one is not" {
	slow
	epd-fork -q "$s" >/dev/null
	ctl s1 'decode n 900 ignore-eos'
	ctl s1 'say not any more'
	soon eval 'p=$(decoding)'
	kill -STOP "$p"
	exec 8<>"$S/s2/ctl"
	for _ in 1 2; do
		head -505 < <(yes 'decode temp hot') >&8
		echo wait >&8
		cat <&8 >answers
		grep -q '^j10.* failed' answers
	done
	exec 8>&-
	down
	run ! kill -0 "$p"
}
