#!/usr/bin/env bats
# Each call that changes or opens a file fails, and all after it.

load ../cli/helper
load ../cli/faults

@test "ENOSPC, for ever" {
	all_fail ENOSPC ever
}

@test "EIO, for ever" {
	all_fail EIO ever
}

@test "SHORT, for ever" {
	all_fail SHORT ever
}

@test "EMFILE, for ever" {
	all_fail EMFILE ever
}
