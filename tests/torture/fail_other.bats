#!/usr/bin/env bats
# Each call is refused: no descriptors, no writing.

load ../cli/helper
load ../cli/faults

@test "EMFILE, once" {
	all_fail EMFILE once
}

@test "EROFS, for ever" {
	all_fail EROFS ever
}
