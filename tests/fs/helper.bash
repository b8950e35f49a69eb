# helper.bash - as tests/cli's, with a store that has one state, $s, mounted at $m
# while a test runs.  What the daemon says goes to daemon.err and fails the test.

load ../cli/helper
eval "store_$(declare -f setup)"
eval "store_$(declare -f teardown)"

setup() {
	store_setup
	m=$BATS_TEST_TMPDIR/m daemon=
	if [ ! -e /dev/fuse ]; then
		skip 'no /dev/fuse here'
	elif [ ! -x "$build/bin/epd-mount" ]; then
		skip 'epd-mount is not built: no fuse3'
	elif [ "$(id -u)" -ne 0 ] && ! command -v fusermount3; then
		skip 'nobody may mount: not root, and no fusermount3'
	fi
	mkdir "$m"
	s=$(ask)
	up
	S=$m/workflows/w1/states
}

teardown() {
	local rc=0

	down || rc=1
	store_teardown || rc=1
	[ ! -d "$m" ] || rmdir "$m" || rc=1
	return $rc
}

# Mount, with what options are given; its process is $daemon.
up() {
	epd-mount -f "$@" "$m" >daemon.out 2>daemon.err 3>&- &
	daemon=$!
	soon mountpoint -q "$m"
}

# Unmount, and its process has ended.
down() {
	local rc=0

	[ -n "$daemon" ] || return 0
	exec 7>&- 8>&- 9>&-		# what tests open there
	! mountpoint -q "$m" || epd-mount -u "$m" || epd-mount -u --lazy "$m"
	if ! gone "$daemon"; then
		echo 'the daemon does not end'
		kill -9 "$daemon"
		epd-mount -u --lazy "$m" || true
	fi
	wait "$daemon" || rc=$?
	daemon=
	cat daemon.out daemon.err
	[ "$rc" -eq 0 ] && [ ! -s daemon.err ]
}

# Until a command succeeds, 20 s at most.
soon() {
	for _ in $(seq 1000); do
		"$@" && return 0
		sleep 0.02
	done
	return 1
}

gone() {
	soon eval "! kill -0 $1 2>/dev/null"
}
