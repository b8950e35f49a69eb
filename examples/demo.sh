#!/bin/sh
# demo.sh - the main job on a shipped picture with the shipped model: three
# processes that share nothing but a store.  Each command is printed as it runs.
# shellcheck disable=SC2016
set -eu
case ${1-} in
'') ;;
-h|--help) echo 'usage: [B=DIR] demo.sh'; exit 0 ;;
*) echo 'usage: [B=DIR] demo.sh' >&2; exit 2 ;;
esac
B=${B:-build}
PATH=$(cd "$B/bin" && pwd):$PATH
dir=$(cd "$(dirname "$0")/tiny-vlm" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
printf 'page:\n  memory_dir: %s\n' "$tmp" >"$tmp/config.yaml"
export EPD_STORE="$tmp/store" EPD_MODEL="$dir/model" EPD_CONFIG="$tmp/config.yaml"
cd "$dir/samples/sample-images"

run() { printf '\n$ %s\n' "$1"; eval "$1"; }

run 'epd-encode -v 005_0.png'
run "s=\$(epd-encode 005_0.png | epd-prefill -v -p 'Describe the picture.' -)"
run 'echo $s'
run 'epd-decode $s'
run "epd-prefill -v -p 'How many circles are there?' \$s && epd-decode \$s"
run 'epd-state ls'
echo
