#!/usr/bin/env bats
# Every file of a store with bytes turned over.

load ../cli/helper
load ../cli/hostile
load ../cli/faults
load ../cli/damage

@test "bytes turned over: right or refused, never wrong" {
	hurt_base >/dev/null
	flips 60
	settled
}
