#!/usr/bin/env bats
# stress-ng on a mount.  Its temporary folder there is a branch, which mkdir and
# rmdir make and release; files cannot be made in it, and most stressors say so
# and end.  Not among them: fanotify and those like it, which are at every mount
# of the machine.

load ../fs/helper

setup_file() {
	command -v stress-ng >/dev/null ||
		apt-get install -y -qq --no-install-recommends stress-ng \
			>/dev/null 2>&1 || skip 'stress-ng cannot be had'
}

# Stressor $1, $2 operations, two at once; what it says goes to stress.out.
stress() {
	timeout -k 5 120 stress-ng --temp-path "$S/s1/forks" "--$1" 2 \
		"--$1-ops" "$2" --timeout 60 --metrics "${@:3}" \
		>>stress.out 2>&1 3>&-
}

# All it counted, and that the daemon lives and has what it had.
settled() {
	local n

	kill -0 "$daemon"
	n=$(awk '/metrc/ && $5 ~ /^[0-9]+$/ { n += $5 } END { print n + 0 }' \
		stress.out)
	# What a stressor that gave up has left.
	rmdir "$S/s1/forks"/* 2>/dev/null || true
	[ "$(ls "$S")" = s1 ]
	[ "$(cat "$S/s1/status")" = ACTIVE ]
	[ "$n" -ge "$1" ]
	echo "# row 13: stress-ng: $n operations of $2 stressors" >&3
}

@test "those that work without making files" {
	stress fstat 4000 --fstat-dir "$m/pages"
	stress fstat 4000 --fstat-dir "$S/s1/versions/1"
	for x in dup touch dnotify dirdeep open getdent; do
		stress $x 2000 || [ $? -eq 2 ]
	done
	settled 20000 7
}

@test "those that would make files are told that they cannot" {
	for x in access chattr chdir chmod chown copy-file dentry dir dirmany \
		fallocate fcntl fiemap file-ioctl filename flock fpunch fsize \
		hdd inode-flags inotify iomix lease link locka lockf lockofd \
		mknod readahead rename seek sendfile symlink sync-file utime \
		verity xattr; do
		stress $x 20 --timeout 2 || [ $? -lt 124 ]
	done
	settled 0 35
}
