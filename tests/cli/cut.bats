#!/usr/bin/env bats
# Memory that somebody else takes away: files cut short or punched while a command is
# at them, and a tmpfs that is too small.  A selection; all of it is in tests/torture.

load helper
load faults
load cut

teardown_file() {
	row_7
}

# some VERB: each of the files that hold pages in each way, the others in one.
some() {
	local thing
	mkfifo room
	exec 9<>room
	begin_cut "$1"
	turn=$((${#1} * 131))
	for thing in $things; do
		case $thing in
		run|pack|draft|index) cuts "$1" "$thing" $ways ;;
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
