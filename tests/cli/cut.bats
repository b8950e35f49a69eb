#!/usr/bin/env bats
# Memory that somebody else takes away: files cut short or punched while a command is
# at them, and a tmpfs that is too small.  A selection; all of it is in tests/torture.

load helper
load peer
load faults
load cut
eval "cut_$(declare -f teardown)"

teardown() {
	! mountpoint -q m || epd-mount -u m || epd-mount -u --lazy m || true
	! mountpoint -q memory || umount memory
	[ -z "${served:-}" ] || kill -9 "$served" 2>/dev/null || true
	cut_teardown
}

teardown_file() {
	row_7
}

# some VERB: each of the files that hold pages in each way, the others in one.
some() {
	local thing
	mkfifo room
	exec 9<>room
	begin_cut "$1"
	held "$1"
	turn=$((${#1} * 131))
	for thing in $things; do
		case $thing in
		run|pack) cuts "$1" "$thing" $ways ;;
		*) cuts "$1" "$thing" half ;;
		esac
	done
}

@test "cut short under a decode" {
	some decode
}

@test "cut short under a turn" {
	some turn
}

@test "cut short under an encode" {
	some encode
}

@test "cut short under an offload" {
	some offload
}

@test "cut short under a restore" {
	some restore
}

@test "cut short while a state is brought back by who goes on with it" {
	some wake
}

@test "cut short while pages are computed again" {
	some mend
}

@test "a tmpfs of each size that is too small" {
	small_tmpfs
	for kib in 4 16 32 48 64 80 96 112 128 160 192 256 320 512; do
		sweep $kib
	done
}

# The server is at any place within a branch's pull; it lives on.
@test "cut short while it is served to a peer" {
	local rc try way
	config
	learn
	do_prefill
	serve "$EPD_STORE"
	mkfifo room
	exec 9<>room
	for try in 1 2 3 4 5; do
		for way in $ways; do
			rc=0
			rm -rf peer
			epd-fork --store peer --from "$address" w1/s1 >out 2>err 9>&- &
			read -rt "0.0$try" -u 9 || true
			kill -STOP $served
			damage run "$way"
			kill -CONT $served
			wait $! || rc=$?
			kill -0 $served
			[ "$rc" -eq 0 ] || [ -s err ]
			[ "$rc" -ne 0 ] || EPD_STORE=$PWD/peer says "$(cat out)" "$on"
			[ "$(utter_cut)" = "$on" ]
			echo row7 >>"$BATS_FILE_TMPDIR/figures"
		done
	done
	unserve
	served=
}

# A page that is read through the mount is there, or an error; the daemon lives on.
@test "cut short under a mount" {
	local all page way
	[ -e /dev/fuse ] && [ -x "$build/bin/epd-mount" ] ||
		skip 'nothing can be mounted here'
	config
	learn
	do_prefill
	mkdir m
	epd-mount m 3>&- 9>&-
	for way in $ways; do
		exec 8<m/workflows/w1/states/s1/pages/0000
		damage run "$way"
		for page in /proc/$BASHPID/fd/8 m/workflows/w1/states/s1/pages/*; do
			rc=0
			timeout 10 cat "$page" >out 2>err || rc=$?
			[ "$rc" -le 1 ]
			echo row7 >>"$BATS_FILE_TMPDIR/figures"
		done
		exec 8<&-
		damage metrics "$way"
		damage index "$way"
		cat m/metrics m/workflows/w1/states/s1/text >/dev/null || true
		[ "$(utter_cut)" = "$on" ]
		mountpoint -q m
	done
	epd-mount -u m
}
