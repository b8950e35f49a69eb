#!/usr/bin/env bats
# epd-handoff killed at random moments.

load ../cli/helper
load ../cli/handoff

@test "five hundred kills of a hand-off" {
	handoff_kills 500
}
