#!/usr/bin/env bats
# Kills at random: one store for long, and eight processes at once.

load ../cli/helper
load ../cli/faults

@test "five hundred kills leave nothing" {
	residue 500
}

@test "eight processes killed at any time lose nothing that was printed" {
	crowd 8 800
}
