#!/usr/bin/env bats
# States on their way to a tier and back: killed at each call, and each call fails.

load ../cli/helper
load ../cli/faults
load ../cli/tier

@test "killed while it is moved out" {
	kills offload KILL 1 1
	kills offload TORN 1 1
}

@test "killed while it comes back" {
	kills restore KILL 1 1
	kills restore TORN 1 1
}

@test "killed in a turn onto what rests" {
	kills resume KILL 1 1
}

@test "killed while it is said to wait" {
	kills wait KILL 1 1
}

@test "killed in the gc that meets all of it" {
	kills below KILL 1 7
}

@test "each call fails, once and from then on" {
	for how in EIO ENOSPC; do
		for ever in once ever; do
			fails offload $how $ever 1 2
			fails restore $how $ever 1 2
			fails resume $how $ever 1 5
			fails wait $how $ever 1 3
		done
	done
	fails below EIO once 1 13
}

@test "each read fails" {
	calls_of=read,pread fails offload EIO once 1 1
	calls_of=read,pread fails restore EIO once 1 1
	calls_of=read,pread fails resume EIO once 1 1
	calls_of=read,pread fails restore SHORT ever 1 1
}
