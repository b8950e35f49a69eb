#!/bin/sh
# config.sh PKG... - what was found; of what was not, what is turned off.
row() {
	if [ "$2" = no ]; then
		printf '%-14s %-10s %s\n' "$1" no "$4"
	else
		printf '%-14s %-10s %s\n' "$1" "$2" "$3"
	fi
}
printf '%-14s %-10s %s\n' part found 'what it gives, or what is off without it'
for p in "$@"; do
	v=$(pkg-config --modversion "$p" 2>/dev/null) || v=no
	row "$p" "$v" 'needed by all' 'OFF: all, nothing builds'
done
opt() {
	v=$(pkg-config --modversion "$2" 2>/dev/null) || v=no
	row "$1" "$v" "$3" "OFF: ${4:-$3}"
}
opt fuse3 fuse3 epd-mount
# The one without the other builds nothing.
rdma=no
pkg-config --exists libibverbs librdmacm &&
	rdma=$(pkg-config --modversion libibverbs)
row rdma "$rdma" 'transport rdma is built' \
	'OFF: transport rdma (libibverbs, librdmacm); tcp and shm are built'
opt uring liburing 'transport io_uring is built' \
	'transport io_uring'
opt curl libcurl 'etcd and Mooncake Store can be asked' 'the directory in etcd, the tier mooncake_store'
nvcc=$(command -v nvcc >/dev/null && nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
row cuda "${nvcc:-no}" 'the GPU plug-in' 'OFF: the GPU plug-in; the CPU engine is built'
dnnl=no
[ -f /usr/include/dnnl.h ] && dnnl=yes
row onednn "$dnnl" 'bench: a matrix product to compare with' \
	'OFF: bench: a matrix product to compare with'
qemu=no
command -v qemu-system-x86_64 >/dev/null && qemu=yes
row qemu "$qemu" 'tests of the RDMA transport' 'OFF: tests of the RDMA transport'
for t in clang bats spin valgrind strace mandoc; do
	v=no
	command -v $t >/dev/null && v=yes
	case $t in
	clang) w='make fuzz, half of make lint' ;;
	bats) w='tests of the commands' ;;
	spin) w='the model check of the life cycles' ;;
	valgrind) w='instruction counts' ;;
	strace) w='tests that inject faults into calls' ;;
	mandoc) w='the lint of man pages' ;;
	esac
	row $t $v "$w" "OFF: $w"
done
