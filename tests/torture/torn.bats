#!/usr/bin/env bats
# SIGKILL behind each call, writes half done.

load ../cli/helper
load ../cli/faults

@test "a picture encoded into no store yet" {
	kills encode TORN 1 1
}

@test "a prompt with a picture into no store yet" {
	kills prefill TORN 1 1
}

@test "a prompt into a workflow that has a name" {
	kills named TORN 1 1
}

@test "a turn onto a state" {
	kills turn TORN 1 1
}

@test "an answer" {
	kills decode TORN 1 1
}

@test "two answers at once" {
	kills batch TORN 1 1
}

@test "pages that were lost" {
	kills mend TORN 1 1
}

@test "a memory tier that is full" {
	kills evict TORN 1 1
}

@test "a log that goes on in a new segment" {
	kills checkpoint TORN 1 1
}

@test "a state let go" {
	kills release TORN 1 1
}

@test "a feature let go" {
	kills forget TORN 1 1
}

@test "all that gc may meet" {
	kills gc TORN 1 1
}
