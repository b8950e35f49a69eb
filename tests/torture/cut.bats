#!/usr/bin/env bats
# All files in all ways at many calls, and a tmpfs of many sizes: what cli/cut.bats has
# a selection of.

load ../cli/helper
load ../cli/faults
load ../cli/cut
eval "cut_$(declare -f teardown)"

teardown() {
	! mountpoint -q memory || umount memory
	cut_teardown
}

teardown_file() {
	row_7
}

all() {
	local thing i
	mkfifo room
	exec 9<>room
	begin_cut "$1"
	held "$1"
	turn=0
	for ((i = 0; i < ${EPD_ROUNDS:-6}; i++)); do
		for thing in $things; do
			cuts "$1" "$thing" $ways
		done
	done
}

@test "cut short: decode" {
	all decode
}

@test "cut short: turn" {
	all turn
}

@test "cut short: encode" {
	all encode
}

@test "cut short: offload" {
	all offload
}

@test "cut short: restore" {
	all restore
}

@test "cut short: wake" {
	all wake
}

@test "cut short: mend" {
	all mend
}

@test "a tmpfs of each size that is too small" {
	small_tmpfs
	for ((kib = 4; kib <= 600; kib += 4)); do
		sweep $kib
	done
}
