# mount.sh - read by the examples that mount, behind here.sh: up mounts the store at
# $mount, down unmounts it, and so does the end, however it comes.  Where nothing can
# be mounted the example says so and ends well.
# shellcheck shell=sh disable=SC2154
mount=$tmp/mnt
mkdir "$mount"
why=$(epd doctor -j | jq -r '.mount.error // empty')
if [ -n "$why" ]; then
	echo "$name: nothing can be mounted here: $why"
	exit 0
fi

up() {
	epd-mount "$mount"
}

down() {
	epd-mount -u "$mount"
}

unmount() {
	cd /
	! mountpoint -q "$mount" || epd-mount -u "$mount" ||
		epd-mount -u --lazy "$mount"
	clean "$1"
}
trap 'unmount $?' EXIT
trap 'unmount 130' INT
trap 'unmount 143' TERM
