#!/bin/sh
# install.sh - the reference implementation, by package name, in a virtual
# environment.
#
#	install.sh VENV
#
# Versions are those of requirements.txt and torch.txt; torch comes without the
# packages it asks for (torch.txt says why), some 1.6 GB in all.  VENV/ready is
# made last.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=$1
want=$(cat "$here/requirements.txt" "$here/torch.txt" "$here/nocuda.sh" | cksum)
if [ -f "$venv/ready" ] && [ "$(cat "$venv/ready")" = "$want" ]; then
	exit 0
fi

if ! command -v python3 >/dev/null || ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
	if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
		echo "missing: python3 with venv (Debian: apt-get install python3-venv)" >&2
		exit 1
	fi
	echo "installing: python3-venv" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y -qq --no-install-recommends python3-venv >/dev/null 2>&1 || {
		apt-get update -qq &&
		apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
	}
fi

mkdir -p "$venv"
log=$venv/log
run() {
	"$@" >>"$log" 2>&1 || { tail -20 "$log" >&2; echo "see $log" >&2; exit 1; }
}
echo "installing the reference (some 600 MB to fetch) into $venv" >&2
: >"$log"
run python3 -m venv "$venv"
pip="$venv/bin/python -m pip --disable-pip-version-check --no-input install"
run $pip --no-deps -r "$here/torch.txt"
run $pip -r "$here/requirements.txt"
lib=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch/lib
run "$here/nocuda.sh" "$lib"
run "$venv/bin/python" -c 'import torch, torchvision, transformers'
printf '%s\n' "$want" >"$venv/ready"
