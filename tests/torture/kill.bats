#!/usr/bin/env bats
# SIGKILL instead of each call that changes or opens a file.

load ../cli/helper
load ../cli/faults

@test "a picture encoded into no store yet" {
	kills encode KILL 1 1
}

@test "a prompt with a picture into no store yet" {
	kills prefill KILL 1 1
}

@test "a prompt into a workflow that has a name" {
	kills named KILL 1 1
}

@test "a turn onto a state" {
	kills turn KILL 1 1
}

@test "an answer" {
	kills decode KILL 1 1
}

@test "two answers at once" {
	kills batch KILL 1 1
}

@test "pages that were lost" {
	kills mend KILL 1 1
}

@test "a memory tier that is full" {
	kills evict KILL 1 1
}

@test "a log that goes on in a new segment" {
	kills checkpoint KILL 1 1
}

@test "a state let go" {
	kills release KILL 1 1
}

@test "a feature let go" {
	kills forget KILL 1 1
}

@test "all that gc may meet" {
	kills gc KILL 1 1
}
