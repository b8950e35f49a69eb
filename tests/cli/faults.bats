#!/usr/bin/env bats
# A selection of kills and failed calls; all of them are in tests/torture.

load helper
load faults

@test "killed: what was printed is kept, the next command works, gc leaves nothing" {
	kills encode KILL 4 17
	kills prefill TORN 60 13
	kills named KILL 41 9
	kills turn KILL 40 5
	kills decode TORN 45 5
	kills batch KILL 60 9
	kills mend KILL 50 7
	kills evict TORN 60 11
	kills checkpoint KILL 30 7
	kills release TORN 14 6
	kills forget KILL 17 5
	kills gc KILL 9 97
}

@test "a call that fails: a sentence, a status, and nothing wrong is ever read" {
	fails encode ENOSPC once 7 13
	fails prefill EIO once 60 13
	fails turn SHORT ever 40 7
	fails decode EINTR once 40 5
	fails batch EDQUOT once 50 11
	fails mend EIO ever 45 9
	fails evict ENOSPC ever 50 13
	fails checkpoint EIO once 30 9
	fails release EROFS ever 12 7
	fails forget ENOMEM once 15 5
	fails gc EIO once 11 101
	calls_of=read,pread fails turn EIO once 1 4
}

@test "a file system that is full" {
	[ "$(id -u)" -eq 0 ] || skip 'mounting a small tmpfs takes root'
	mkdir -p probe
	mount -t tmpfs -o size=64k tmpfs probe 2>/dev/null ||
		skip 'a tmpfs cannot be mounted here'
	umount probe
	for kib in 4 20 60 128 300 700; do
		full store $kib
		full memory $kib
	done
}
