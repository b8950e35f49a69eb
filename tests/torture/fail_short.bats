#!/usr/bin/env bats
# Each call is interrupted, or each write falls short.

load ../cli/helper
load ../cli/faults

@test "EINTR, once" {
	all_fail EINTR once
}

@test "SHORT, once" {
	all_fail SHORT once
}

@test "SHORT, for ever" {
	all_fail SHORT ever
}
