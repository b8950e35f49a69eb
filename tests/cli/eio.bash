# eio.bash - a disk whose flushes fail, below a real file system: nbdkit's error filter,
# nbdfuse, a loop device, ext4 or xfs.  Loaded behind faults.bash and tier.bash, whose
# cases are struck.
#
# The disk takes every write into a cache and fails when it is told to keep them, which
# is when a program's fdatasync comes down to it.  The file system does with that what
# it does: it forgets the pages and goes read-only, or shuts itself down.

# disk_up FS SIZE: the store is a file system on such a disk.
disk_up() {
	local t i
	[ "$(id -u)" -eq 0 ] || skip 'mounting takes root'
	for t in nbdkit nbdfuse losetup "mkfs.$1"; do
		command -v "$t" >/dev/null || skip "$t is absent"
	done
	top=$PWD
	truncate -s "$2" img
	mkdir store
	: >device
	nbdkit -U "$top/sock" -P "$top/nbdkit.pid" --filter=cache --filter=error file img \
		cache=writeback error=EIO error-pwrite-rate=1 \
		error-pwrite-file="$top/broken" 2>nbdkit.log ||
		skip 'nbdkit does not start here'
	nbdfuse device --unix "$top/sock" >nbdfuse.log 2>&1 7>&- 8>&- &
	nbdfuse=$!
	for i in {1..100}; do
		[ "$(stat -c %s device)" -eq 0 ] || break
		sleep 0.05
	done
	loop=$(losetup -f --show device 2>/dev/null) || skip 'no loop devices here'
	"mkfs.$1" -q "$loop"
	mount "$loop" store 2>/dev/null || skip "no $1 here"
}

# As in faults.bash, but that the store is a mount.
save() {
	rm -rf base
	mkdir base
	cp -a memory store base/
}

restore() {
	clear
	cp -a base/. .
	sync -f store
}

clear() {
	find store -mindepth 1 -delete
	rm -rf memory
}

disk_down() {
	rm -f broken
	! mountpoint -q store || umount store
	[ -z "${loop:-}" ] || losetup -d "$loop"
	[ -z "${nbdfuse:-}" ] || { fusermount3 -u device; wait "$nbdfuse"; } || true
	[ ! -e nbdkit.pid ] || kill "$(cat nbdkit.pid)"
}

# What the disk has is all that is left.
remount() {
	umount store && mount "$loop" store
}

stopped() {
	ps -o pid=,stat= --ppid "$1" | awk '$2 ~ /^T/ { print $1 }'
}

# flush_fails NTH COMMAND...: the disk breaks right before its nth flush.
flush_fails() {
	local nth=$1 sub p
	shift
	(
		export EPD_FAULT_CALL=fdatasync,fsync EPD_FAULT_NTH=$nth EPD_FAULT_DO=STOP
		export LD_PRELOAD=$shim
		"$@"
	) >out 2>err </dev/null &
	sub=$!
	while kill -0 "$sub" 2>/dev/null; do
		for p in $(stopped "$sub"); do
			: >broken
			kill -CONT "$p"
		done
		sleep 0.01
	done
	rc=0
	wait "$sub" || rc=$?
}

# broken_flushes NAME MOST: a round for each flush of a case, MOST at most.
broken_flushes() {
	local flushes
	calls_of=fdatasync,fsync
	clear
	mkdir memory
	config
	prepare "$1"
	flushes=$(count "do_$1")
	[ "$flushes" -gt 0 ] || { echo "$1: flushes nothing"; return 1; }
	for ((nth = 1; nth <= flushes && nth <= $2; nth++)); do
		restore
		flush_fails "$nth" "do_$1"
		[ -e broken ] || { echo "$1: not struck at $nth"; return 1; }
		rm broken
		remount
		{ said && "then_$1" && balanced; } || {
			echo "$1: flush $nth of $flushes failed, status $rc"
			cat out err
			return 1
		}
		echo "$1 $nth $rc" >>cases
	done
}
