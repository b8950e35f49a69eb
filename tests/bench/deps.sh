#!/bin/sh
# deps.sh - install what packages of a list are missing, if that can be done.
#
#	deps.sh PACKAGE ...
#
# What is missing and stays so is named, and whoever needs it skips its rows or
# fails by itself.
set -u
command -v dpkg-query >/dev/null || exit 0
missing=
for p in "$@"; do
	dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null |
		grep -q '^install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "missing packages:$missing" >&2
	exit 0
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
	apt-get update -qq &&
	apt-get install -y -qq --no-install-recommends $missing >/dev/null
} || echo "could not install:$missing" >&2
exit 0
