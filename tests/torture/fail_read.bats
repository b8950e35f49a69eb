#!/usr/bin/env bats
# Each read fails or falls short.

load ../cli/helper
load ../cli/faults

@test "EIO, once" {
	calls_of=read,pread all_fail EIO once
}

@test "EIO, for ever" {
	calls_of=read,pread all_fail EIO ever
}

@test "SHORT, for ever" {
	calls_of=read,pread all_fail SHORT ever
}

@test "EINTR, once" {
	calls_of=read,pread all_fail EINTR once
}
