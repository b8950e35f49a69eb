#!/usr/bin/env bats
# A disk that fails a flush: nothing that was acknowledged is lost, and what was not is
# told, by the real thing and not by a call that is made to fail.

load helper
load faults
load tier
load eio

teardown() {
	disk_down
}

cases_of_flushes='encode prefill named turn decode batch mend checkpoint release handed
	offload restore resume wait gc'

# below FS SIZE MOST: so many flushes of each.
below() {
	local c n
	disk_up "$1" "$2"
	learn
	for c in $cases_of_flushes; do
		broken_flushes "$c" "$3"
	done
	n=$(wc -l <cases)
	[ "$n" -ge 20 ]
	# Most are told, and none that was told done is not there.
	[ "$(grep -cv ' 0$' cases)" -ge 10 ]
	echo "# row 6: $n flushes that a disk failed below $1, 0 acknowledged and lost" >&3
}

@test "ext4 whose disk fails a flush: no command says done of what is not there" {
	below ext4 96M 3
}

@test "xfs whose disk fails a flush: no command says done of what is not there" {
	below xfs 320M 2
}

# A state that goes to another workflow.
base_handed() { do_prefill; }
do_handed() { epd-handoff w1/s1 there; }
then_handed() {
	local had
	epd-state gc 2>/dev/null || return
	had=$(states)
	balanced || return
	case $had in
	w1/s1) [ ! -s out ] && [ "$(do_handed)" = there/s1 ] || return ;;
	there/s1) ;;
	*) echo "has: $had"; return 1 ;;
	esac
	says there/s1 "$on"
}
