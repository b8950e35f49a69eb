#!/usr/bin/env bats
# Every file of a store spoiled in every way, and the commands in any order.

load ../cli/helper
load ../cli/hostile
load ../cli/faults
load ../cli/damage

@test "files cut, emptied, replaced: right or refused, never wrong" {
	hurt_base >/dev/null
	hurts 0 1 2 3
	settled
}
