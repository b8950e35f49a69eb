#!/usr/bin/env bats
# Each call that changes or opens a file fails once.

load ../cli/helper
load ../cli/faults

@test "ENOSPC, once" {
	all_fail ENOSPC once
}

@test "EIO, once" {
	all_fail EIO once
}

@test "EINTR, once" {
	all_fail EINTR once
}

@test "SHORT, once" {
	all_fail SHORT once
}
