#!/usr/bin/env bats
# Each call that changes or opens a file finds no room.

load ../cli/helper
load ../cli/faults

@test "ENOSPC, once" {
	all_fail ENOSPC once
}

@test "ENOSPC, for ever" {
	all_fail ENOSPC ever
}
