#!/usr/bin/env bats
# A store whose files are not what was written; at length in tests/torture.

load helper
load hostile
load faults
load damage

@test "bytes turned over: right or refused, never wrong" {
	hurt_base >/dev/null
	flips 2
	settled
}

@test "files cut, emptied, replaced: right or refused, never wrong" {
	hurt_base >/dev/null
	ways='emptied halved zeroed pipe'
	hurts 0
	settled
}
