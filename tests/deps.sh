#!/bin/sh
# deps.sh - see that the packages a target needs are there.
#
#	deps.sh build|check STAMP
#
# With root on a Debian machine what is missing is installed; otherwise it is
# named and nothing is done.  STAMP is touched when all is there.
set -u
build='gcc libc6-dev make pkg-config libb2-dev libxxhash-dev libjson-c-dev
	libyaml-dev libzstd-dev libutf8proc-dev libpcre2-dev
	libjpeg-dev libspng-dev libwebp-dev'
check="$build bats jq procps util-linux strace mandoc bash-completion shellcheck zstd"
# What epd-mount is built of, and left out without.
mount='libfuse3-dev zlib1g-dev'
# What two of the transports are built of.
wire='libibverbs-dev librdmacm-dev liburing-dev libcurl4-openssl-dev'
# The guest in which rdma is tested.
guest='qemu-system-x86 busybox-static cpio kmod xz-utils ibverbs-providers'
case $1 in
build) want=$build extra="$mount $wire" lack='epd-mount, or a transport, is not built' ;;
# Tests that want these are skipped, aloud, where they cannot be had.
check) want=$check extra="$mount $wire $guest etcd-server iproute2 fuse3 spin valgrind rsync tree inotify-tools attr python3-venv nbdkit libnbd-bin e2fsprogs xfsprogs"
	lack='some tests are skipped' ;;
*) echo "deps.sh: build or check" >&2; exit 2 ;;
esac
mkdir -p "$(dirname "$2")"

if ! command -v dpkg-query >/dev/null; then
	echo "not a Debian machine: needed are the likes of $want" >&2
	touch "$2"
	exit 0
fi
there() {
	dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed'
}
install() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 || {
		apt-get update -qq &&
		apt-get install -y -qq --no-install-recommends "$@" >/dev/null
	}
}
missing=
for p in $want; do
	there "$p" || missing="$missing $p"
done
if [ -n "$missing" ]; then
	if [ "$(id -u)" -ne 0 ]; then
		echo "missing packages:$missing" >&2
		echo "install them as root: apt-get install$missing" >&2
		exit 1
	fi
	echo "installing:$missing" >&2
	# shellcheck disable=SC2086
	install $missing || { echo "could not install:$missing" >&2; exit 1; }
fi
for p in $extra; do
	there "$p" || { [ "$(id -u)" -eq 0 ] && install "$p"; } ||
		echo "without $p $lack" >&2
done
touch "$2"
