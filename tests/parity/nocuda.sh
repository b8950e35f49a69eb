#!/bin/sh
# nocuda.sh - let the published torch run on a CPU alone.
#
#	nocuda.sh DIR	(site-packages/torch/lib)
#
# The published build names NVIDIA's libraries, some 3 GB, which only code on a
# device calls.  Here each gets a stand-in whose functions answer "no device"
# (100), and that nothing is being captured.  The loader wants a versioned
# function in the library of its version; the others go to the runtime's.
set -eu
export LC_ALL=C
cd "$1"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for so in ./*.so*; do
	readelf -d "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
done | sort -u | grep -E '^lib(cu|nccl|nvrtc|nvshmem|nvTools)' >"$tmp/needed" || exit 0

nm -D --defined-only ./*.so* | awk 'NF == 3 { sub(/@.*/, "", $3); print $3 }' |
	sort -u >"$tmp/there"
nm -D --undefined-only ./*.so* |
	awk 'NF == 2 { sub(/@+/, " ", $2); print $2 }' |
	grep -E '^(__cuda|cu|nccl|nvrtc|nvshmem)' | sort -u |
	join -v 1 - "$tmp/there" >"$tmp/asked"

while read -r so; do
	[ ! -e "$so" ] || continue
	case $so in
	libcudart.*) plain=1 version=$so ;;
	libnvshmem*) plain=0 version=NVSHMEM ;;
	*) plain=0 version=$so ;;
	esac
	awk -v v="$version" -v plain=$plain '
		$2 != v && !(NF == 1 && plain) { next }
		$1 == "cudaStreamIsCapturing" { print "int " $1 "(void *s, int *is) { return *is = 0; }"; next }
		$1 ~ /String$|ErrorName$/ { print "char *" $1 "(void) { return \"no device\"; }"; next }
		{ print "long " $1 "(void) { return 100; }" }
	' "$tmp/asked" >"$tmp/some.c"
	awk -v v="$version" 'BEGIN { print v " { global: no_such_name;" }
		$2 == v { print $1 ";" }
		END { print "};" }' "$tmp/asked" >"$tmp/some.map"
	cc -w -shared -fPIC -Wl,-soname,"$so" -Wl,--version-script="$tmp/some.map" \
		-o "$so" "$tmp/some.c"
done <"$tmp/needed"
