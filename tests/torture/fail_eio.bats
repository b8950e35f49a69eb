#!/usr/bin/env bats
# Each call that changes or opens a file meets a broken disk.

load ../cli/helper
load ../cli/faults

@test "EIO, once" {
	all_fail EIO once
}

@test "EIO, for ever" {
	all_fail EIO ever
}
