#!/bin/sh
# install-mooncake.sh - Mooncake's transfer engine, by its package for Python.
#
#	install-mooncake.sh DIR
#
# DIR gets mooncake/, an environment of its own; what is there is not made again.
set -eu
version=0.3.13.post1
mkdir -p "$1"
dir=$(cd "$1" && pwd)/mooncake
[ ! -e "$dir/bin/transfer_engine_bench" ] || exit 0
echo "fetching mooncake $version" >&2
python3 -m venv "$dir"
"$dir/bin/pip" install -q "mooncake-transfer-engine-non-cuda==$version" \
	>"$dir/log" 2>&1 || { tail -20 "$dir/log" >&2; exit 1; }
