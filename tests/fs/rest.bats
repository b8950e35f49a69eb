#!/usr/bin/env bats
# States that rest, as files: told, moved by a word, and brought back by who reads.

load helper

rest_setup() {
	mkdir -p disk
	printf 'tier:\n  nvme_dir: %s\n' "$PWD/disk" >>"$EPD_CONFIG"
	down
	up "$@"
}

need() {
	command -v "$1" >/dev/null || skip "no $1 here"
}

# A line to a file of the state s1, its answer, and the end of its job.
ask_of() {
	local n
	exec 8<>"$S/s1/$1"
	echo "$2" >&8
	n=$(cat <&8)
	exec 8>&-
	[[ $n == j* ]]
	exec 8<>"$S/s1/ctl"
	echo "wait $n" >&8
	cat <&8
	exec 8>&-
}

@test "a word written to tier moves the state, and reading it says where it is" {
	rest_setup
	[ "$(cat "$S/s1/tier")" = memory ]
	[ "$(cat "$S/s1/tool")" = - ]
	[ "$(ls "$m/tiers" | tr '\n' ' ')" = 'cpu nvme ' ]
	[ "$(cat "$m/tiers/nvme/used")" -eq 0 ]
	n=$(cat "$m/tiers/cpu/pages")
	[[ $(ask_of tier nvme) == 'j1 done w1/s1@'* ]]
	[ "$(cat "$S/s1/tier")" = nvme ]
	[ "$(cat "$S/s1/status")" = OFFLOADED ]
	[ "$(stat -c %s "$S/s1/tier")" -eq 5 ]
	[ "$(stat -c %s "$S/s1/status")" -eq 10 ]
	[ "$(cat "$m/tiers/cpu/pages")" -eq 0 ]
	[ "$(cat "$m/tiers/nvme/pages")" -eq "$n" ]
	[ "$(cat "$m/tiers/nvme/used")" -gt 0 ]
	[ "$(cat "$m/tiers/nvme/capacity")" -eq 68719476736 ]
	jq -e --argjson n "$n" '.tier == "nvme" and .pages_missing == $n and
		.pages_nvme == $n' "$S/s1/state.json"
	[[ $(ask_of tier memory) == 'j2 done '* ]]
	[ "$(cat "$S/s1/tier")" = memory ]
	[ "$(cat "$S/s1/status")" = ACTIVE ]
	[[ $(ask_of ctl 'offload nvme') == 'j3 done '* ]]
	[[ $(ask_of ctl 'restore pages 0') == 'j4 done '* ]]
	[[ $(ask_of ctl offload) == 'j5 done '* ]]
	[[ $(ask_of tier ACTIVE) == 'j6 done '* ]]
	[[ $(ask_of tier cpu) == 'j7 done '* ]]
	[ "$(cat "$S/s1/tier")" = cpu ]
	grep -q '"verb": "offload"' "$m/events"
	run -1 bash -c 'echo tape >"$1"' - "$S/s1/tier"
	[[ "$output" = *'Invalid argument'* ]]
	echo >"$S/s1/tier"
	for tier in mooncake_store gpu; do
		run -1 bash -c 'echo "$2" >"$1"' - "$S/s1/tier" $tier
		[[ "$output" = *'Operation not supported'* ]]
		run -1 bash -c 'echo "offload $2" >"$1"' - "$S/s1/ctl" $tier
		[[ "$output" = *'Operation not supported'* ]]
	done
	[ "$(cat "$S/s1/tier")" = cpu ]
	[ "$(stat -c %a "$S/s1/tier")" = 644 ]
}

@test "what another process moves is so at once" {
	rest_setup
	ls -l "$S/s1" >/dev/null
	epd-state wait --tool look "$s"
	[ "$(cat "$S/s1/tool")" = look ]
	for i in 1 2 3; do
		epd-offload -q "$s"
		[ "$(stat -c %s "$S/s1/status")" -eq 10 ]
		[ "$(cat "$S/s1/status") $(cat "$S/s1/tier")" = 'OFFLOADED nvme' ]
		[ "$(stat -c %s "$S/s1/tier")" -eq 5 ]
		epd-restore -q "$s"
		[ "$(stat -c %s "$S/s1/status")" -eq 7 ]
		[ "$(cat "$S/s1/status") $(cat "$S/s1/tier")" = 'ACTIVE memory' ]
		[ "$(stat -c %s "$S/s1/tier")" -eq 7 ]
	done
	# A store to which a tier comes later is seen to have it.
	grep -q '"status": "OFFLOADED"' "$m/workflows/w1/log"
}

@test "reading a page that rests brings it back, and the state rests on" {
	need getfattr
	rest_setup
	sha256sum "$S"/s1/pages/* >sums
	p=$(readlink -f "$S/s1/pages/0000")
	epd-offload -q "$s"
	[ "$(getfattr --only-values -n user.epd.tier "$p")" = nvme ]
	run -1 getfattr --only-values -n user.epd.error "$p"
	sha256sum --quiet -c sums
	[ "$(getfattr --only-values -n user.epd.tier "$p")" = cpu ]
	[ "$(cat "$S/s1/status")" = OFFLOADED ]
	# Many at once, of which one moves it.
	for i in 1 2 3; do
		find memory -type f -path '*/w/w1/*' -delete
		for k in $(seq 12); do
			{ sha256sum --quiet -c sums || touch wrong; } 3>&- &
		done
		wait $(jobs -p | grep -v "^$daemon\$")
	done
	[ ! -e wrong ]
	[ -z "$(find memory -name '.tmp.fill*')" ]
	# What is in no tier any more is not to be had by looking.
	find memory disk -type f -path '*/w/w1/*' -delete
	run -1 cat "$p"
	[[ "$output" = *'No data available'* ]]
	[ "$(getfattr --only-values -n user.epd.tier "$p")" = none ]
	[[ "$(getfattr --only-values -n user.epd.error "$p")" = *'in no tier'* ]]
	epd-decode -q -n 1 "$s" >/dev/null
	head -n 1 sums | sha256sum --quiet -c
}

@test "a mount that is read-only brings nothing back" {
	need getfattr
	rest_setup
	p=$(readlink "$S/s1/pages/0000")
	epd-offload -q "$s"
	down
	up --read-only
	[ "$(cat "$S/s1/tier")" = nvme ]
	[ "$(stat -c %a "$S/s1/tier")" = 444 ]
	run ! bash -c 'echo memory >"$1"' - "$S/s1/tier"
	[[ "$output" = *'Read-only'* ]]
	run -1 cat "$S/s1/pages/0000"
	[[ "$output" = *'No data available'* ]]
	[ -z "$(find memory -type f -path '*/w/w1/*')" ]
}

@test "who is killed while a page comes back is let go at once" {
	rest_setup
	epd-offload -q "$s"
	# Somebody else is at it, and takes long.
	dir=$(echo memory/epd-*/w/w1)
	run=$(basename "$(find disk -type f -path '*/w/w1/*' | head -n 1)")
	cat >hold.py <<-'END'
	import fcntl, os, struct, sys, time
	fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
	fcntl.fcntl(fd, 37, struct.pack('hhqqi4x', 1, 0, 0, 0, 0))
	open('held', 'w').close()
	time.sleep(60)
	END
	python3 hold.py "$dir/.tmp.fill.$run" 3>&- &
	holder=$!
	soon test -e held
	cat "$S"/s1/pages/0000 >got 2>err 3>&- &
	reader=$!
	sleep 0.5
	kill -0 $reader
	# All else is answered meanwhile.
	[ "$(cat "$S/s1/status")" = OFFLOADED ]
	from=$(date +%s%N)
	kill -9 $reader
	wait $reader || true
	[ $((($(date +%s%N) - from) / 1000000)) -lt 1000 ]
	kill $holder
	wait $holder || true
	rm -f "$dir/.tmp.fill.$run"
	cat "$S/s1/pages/0000" >got
	[ -s got ]
}
