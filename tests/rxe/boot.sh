#!/bin/sh
# boot.sh - run test programs where there is RDMA, whatever this machine has: in a
# guest that is booted for it and thrown away.
#
#	tests/rxe/boot.sh PROGRAM ...
#
# The guest is emulated (its processor stops at AVX2), sees this machine's files
# and writes none of them, and has two Soft-RoCE devices on one wire: rxe0 at
# 10.77.0.1, rxe1 at 10.77.0.2.  Each program has GUEST_LIMIT seconds (300), and
# RXE_LONG if this has, and as $TOP and $B where the source is and what was built.
# One TAP stream comes out, a test as PROGRAM: name.  Where the guest cannot be had
# all is skipped, aloud.  Its kernel is a Debian package, fetched once and kept in
# $XDG_CACHE_HOME/epd or, without that, in $B.
set -u
limit=${GUEST_LIMIT:-300}
keep=${XDG_CACHE_HOME:+$XDG_CACHE_HOME/epd}
keep=${keep:-${B:-build}}/rxe-guest
boot='' job=''

skip() {
	echo "# skipped: $*"
	echo 'ok 1 - rxe # SKIP'
	echo '1..1'
	exit 0
}

qemu=
finish() {
	[ -z "$qemu" ] || kill "$qemu" 2>/dev/null
	[ -z "$job" ] || rm -rf "$job"
}
trap finish EXIT
trap 'exit 143' TERM INT HUP

[ $# -gt 0 ] || { echo 'usage: boot.sh PROGRAM ...' >&2; exit 2; }
[ "$(uname -m)" = x86_64 ] || skip 'the guest is for x86-64'
lack=
for c in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio \
	modprobe:kmod xz:xz-utils rdma:iproute2 dpkg-deb:dpkg setpriv:util-linux \
	flock:util-linux; do
	PATH=$PATH:/usr/sbin:/sbin command -v "${c%%:*}" >/dev/null ||
		lack="$lack ${c#*:}"
done
[ -z "$lack" ] || skip "no RDMA guest without$lack"
PATH=$PATH:/usr/sbin:/sbin

# The kernel package's name: of the full flavour, for the cloud's has no rdma_rxe.
newest() {
	apt-cache depends linux-image-amd64 2>/dev/null |
		sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1
}

# Payload of a bzImage, unpacked: booted as ELF it spares the guest unpacking.
unpack_kernel() {
	sects=$(od -An -tu1 -j 497 -N 1 "$1" | tr -d ' ')
	at=$(od -An -tu4 -j 584 -N 4 "$1" | tr -d ' ')
	n=$(od -An -tu4 -j 588 -N 4 "$1" | tr -d ' ')
	at=$(((sects + 1) * 512 + at))
	case $(od -An -tx1 -j "$at" -N 2 "$1" | tr -d ' ') in
	fd37) with='xz -dc --single-stream' ;;
	28b5) with='zstd -dcq' ;;
	1f8b) with='gzip -dcq' ;;
	*) return 1 ;;
	esac
	tail -c "+$((at + 1))" "$1" | head -c "$n" | $with >"$2" 2>/dev/null
	[ -s "$2" ]
}

# What runs until the guest has this machine's files.
write_init() {
	cat <<-'E'
	#!/bin/busybox sh
	/bin/busybox --install -s /bin
	mount -t proc none /proc
	mount -t sysfs none /sys
	mount -t devtmpfs none /dev
	for m in $(cat /order); do insmod "/ko/$m"; done
	share() { mount -t 9p -o "trans=virtio,version=9p2000.L,msize=262144,$3" "$1" "$2"; }
	share files /top ro,cache=loose || poweroff -f
	for d in proc sys dev; do mount --move "/$d" "/top/$d"; done
	for d in run dev/shm; do
		mkdir -p "/top/$d"
		mount -t tmpfs none "/top/$d"
	done
	mkdir /top/run/job /top/run/tmp
	share job /top/run/job cache=none || poweroff -f
	chroot /top /bin/sh /run/job/go >/top/run/job/log 2>&1
	sync
	echo o >/top/proc/sysrq-trigger
	sleep 60
	E
}

# Fill the folder $1 from the package $2: vmlinux, initrd.
make_boot() (
	cd "$1" || exit 1
	have=$keep/$2.deb
	if [ ! -s "$have" ]; then
		apt-get download -qq "$2" >/dev/null 2>&1 || {
			[ "$(id -u)" -eq 0 ] && apt-get update -qq &&
			apt-get download -qq "$2"
		} >/dev/null 2>&1 || exit 1
		mv "$2"_*.deb "$have" || exit 1
	fi
	v=${2#linux-image-}
	mkdir -p pkg root/bin root/ko root/top root/proc root/sys root/dev
	dpkg-deb -x "$have" pkg && depmod -b pkg "$v" || exit 1
	unpack_kernel "pkg/boot/vmlinuz-$v" vmlinux || exit 1
	cp "$(command -v busybox)" root/bin/busybox
	for m in virtio_pci 9pnet_virtio 9p veth crc32_generic rdma_rxe \
		rdma_ucm ib_uverbs; do
		modprobe -d pkg -S "$v" --show-depends "$m" || exit 1
	done >deps || exit 1
	awk '$1 == "insmod" && !seen[$2]++ { print $2 }' deps |
	while read -r f; do
		n=${f##*/}
		case $n in
		*.xz) n=${n%.xz}; xz -dc "$f" >"root/ko/$n" ;;
		*) cp "$f" "root/ko/$n" ;;
		esac
		echo "$n" >>root/order
	done
	write_init >root/init
	chmod +x root/init
	(cd root && find . | cpio -o -H newc -R 0:0 --quiet) >initrd || exit 1
	rm -rf pkg root deps
)

# The kernel and the first files, made anew when this script or the kernel is
# another.  The lock is for two who come at once.
prepare() {
	pkg=$(newest)
	if [ -z "$pkg" ] && [ "$(id -u)" -eq 0 ]; then
		apt-get update -qq >/dev/null 2>&1
		pkg=$(newest)
	fi
	[ -n "$pkg" ] || return 1
	mkdir -p "$keep" && keep=$(cd "$keep" && pwd) || return 1
	boot=$keep/boot-$pkg-$(cksum <"$0" | tr ' ' -)
	(
		flock 9
		[ ! -s "$boot/initrd" ] || exit 0
		find "$keep" -maxdepth 1 -name 'boot-*' -mtime +1 -exec rm -rf {} +
		rm -rf "$keep/new"
		mkdir "$keep/new" || exit 1
		if make_boot "$keep/new" "$pkg" && mv "$keep/new" "$boot"; then
			exit 0
		fi
		rm -rf "$keep/new"
		exit 1
	) 9>"$keep/lock"
}
prepare || skip 'the package of the kernel for the RDMA guest cannot be had'

# What the guest does.  Both ends of the wire are its own, so the kernel would
# send by lo what is for the other end, where rxe never sees it: the rules have it
# look at the wire first, and take what comes in from there.
write_go() {
	cat <<-'E'
	export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run/tmp LC_ALL=C
	ulimit -l unlimited
	ip link set lo up
	ip link add e0 mtu 9000 type veth peer name e1 mtu 9000
	for i in 0 1; do
		ip addr add "10.77.0.$((i + 1))/24" dev "e$i"
		ip link set "e$i" up
	done
	# Soft-RoCE trusts its wire: nothing is to be dropped where packets queue, and
	# none is to overtake another on the other processor.
	echo 100000 >/proc/sys/net/core/netdev_max_backlog
	for i in 0 1; do
		echo $((i + 1)) >"/sys/class/net/e$i/queues/rx-0/rps_cpus"
	done
	for d in all e0 e1; do
		echo 1 >"/proc/sys/net/ipv4/conf/$d/accept_local"
		echo 0 >"/proc/sys/net/ipv4/conf/$d/rp_filter"
	done
	for i in 0 1; do
		here=10.77.0.$((i + 1)) there=10.77.0.$((2 - i))
		ip rule add pref "1$i" iif "e$i" lookup local
		ip rule add pref "2$i" from "$here" to "$there" lookup "10$i"
		ip route add "$there" dev "e$i" src "$here" table "10$i"
		ip neigh replace "$there" dev "e$i" nud permanent \
			lladdr "$(cat "/sys/class/net/e$((1 - i))/address")"
	done
	ip rule add pref 99 lookup local
	ip rule del pref 0
	for i in 0 1; do rdma link add "rxe$i" type rxe netdev "e$i"; done
	cd /run/job || exit
	. ./env
	[ ! -e long ] || export RXE_LONG=1
	for p in p.*; do
		n=${p#p.}
		TMPDIR=/run/tmp timeout -k 5 "$(cat limit)" "./$p" >"out.$n" 2>&1
		echo $? >"rc.$n"
	done
	echo done >done
	E
}

job=$(mktemp -d) || exit 2
write_go >"$job/go"
echo "$limit" >"$job/limit"
printf "export TOP='%s' B='%s'\n" "$PWD" "$(cd "${B:-build}" && pwd)" >"$job/env"
[ -z "${RXE_LONG:-}" ] || : >"$job/long"
for p; do cp "$p" "$job/p.$(basename "$p")" || exit 2; done

# Whoever kills this script ends the guest.
setpriv --pdeathsig KILL timeout -k 5 $((60 + limit * $#)) \
	setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg,thread=multi -cpu max \
	-M pc -smp 2 -m 1024 -nodefaults -display none -no-reboot \
	-kernel "$boot/vmlinux" -initrd "$boot/initrd" \
	-append 'console=ttyS0 quiet panic=-1 random.trust_cpu=on' \
	-fsdev local,id=f,path=/,security_model=none,readonly=on,multidevs=remap \
	-device virtio-9p-pci,fsdev=f,mount_tag=files \
	-fsdev local,id=j,path="$job",security_model=none \
	-device virtio-9p-pci,fsdev=j,mount_tag=job \
	-serial "file:$job/console" </dev/null >"$job/qemu" 2>&1 &
qemu=$!
wait "$qemu"
qemu=

if [ ! -e "$job/done" ]; then
	echo '# the guest did not come to its end'
	tail -n 20 "$job/qemu" "$job/console" "$job/log" 2>/dev/null | sed 's/^/# /'
fi
# One stream of all: numbers anew, the plan at the end, a failure for each program
# that did not tell all it had planned or ended otherwise than it told.
for p; do
	n=$(basename "$p")
	cat "$job/out.$n" 2>/dev/null
	echo "=end $n $(cat "$job/rc.$n" 2>/dev/null || echo none)"
done | awk -v only=$# '
	function told(ok, name) { print ok "ok " ++n " - " name; bad += ok != "" }
	/^1\.\.[0-9]+$/ { plan = substr($0, 4); next }
	/^(not )?ok [0-9]+/ {
		ok = /^not/ ? "not " : ""
		sub(/^(not )?ok [0-9]+ *-? */, "")
		line[++k] = $0; res[k] = ok; fell += ok != ""
		note[k] = notes; notes = ""
		next
	}
	/^=end / {
		for (i = 1; i <= k; i++) {
			printf "%s", note[i]
			told(res[i], $2 ": " line[i])
		}
		printf "%s", notes
		if (plan != k || ($3 != 0 && !fell))
			told("not ", $2 ": ended with status " $3 " after " k \
			    " of " (plan == "" ? "?" : plan))
		k = fell = 0; notes = plan = ""
		next
	}
	{ notes = notes (/^#/ ? "" : "# ") $0 "\n" }
	END { print "1.." n; exit bad > 0 }'
