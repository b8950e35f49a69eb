#!/bin/sh
# config.sh PKG... - what was found, and what each absence turns off.
row() { printf '%-14s %-10s %s\n' "$1" "$2" "$3"; }
printf '%-14s %-10s %s\n' part found 'without it'
for p in "$@"; do
	v=$(pkg-config --modversion "$p" 2>/dev/null) || v=no
	row "$p" "$v" 'nothing builds'
done
opt() {
	v=$(pkg-config --modversion "$2" 2>/dev/null) || v=no
	row "$1" "$v" "$3"
}
opt fuse3 fuse3 'epd-mount is not built'
opt ibverbs libibverbs 'no RDMA transport; tcp and shm remain'
opt rdmacm librdmacm 'no RDMA transport; tcp and shm remain'
nvcc=$(command -v nvcc >/dev/null && nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
row cuda "${nvcc:-no}" 'the GPU plug-in is not built; the CPU engine remains'
dnnl=no
[ -f /usr/include/dnnl.h ] && dnnl=yes
row onednn "$dnnl" 'bench: no matrix product to compare with'
qemu=no
command -v qemu-system-x86_64 >/dev/null && qemu=yes
row qemu $qemu 'tests of the RDMA transport'
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
	row $t $v "$w"
done
