#!/usr/bin/env bats
# The whole product of settings; unit tries each pair of them.

@test "the same bits under every setting" {
	"$B/unit/same_bits" all
}
