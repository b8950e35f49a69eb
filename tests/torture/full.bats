#!/usr/bin/env bats
# Store and memory tier on file systems of every size that is too small.

load ../cli/helper
load ../cli/faults

setup_file() {
	[ "$(id -u)" -eq 0 ] || skip 'mounting a small tmpfs takes root'
	mkdir -p "$BATS_FILE_TMPDIR/probe"
	mount -t tmpfs -o size=64k tmpfs "$BATS_FILE_TMPDIR/probe" 2>/dev/null ||
		skip 'a tmpfs cannot be mounted here'
	umount "$BATS_FILE_TMPDIR/probe"
}

@test "the store" {
	for ((kib = 4; kib <= 400; kib += 4)); do
		full store $kib
	done
}

@test "the memory tier" {
	for ((kib = 4; kib <= 400; kib += 4)); do
		full memory $kib
	done
}
