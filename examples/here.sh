# here.sh - read by the examples: the commands, the shipped model, and a store
# that goes when the example ends, unless EPD_STORE names one; from that the states
# and features go that the example made, and its workflows stay, without states.
# The commands are those of the build, else those in PATH.
# shellcheck shell=sh disable=SC2034
set -eu
name=$(basename "$0")
# --help is the words at an example's head.
case ${1-} in
'') ;;
-h|--help)
	printf 'usage: %s\n\n' "$name"
	sed -n '2,/^[^#]/s/^#$/# /; 2,/^[^#]/s/^# //p' "$0" | grep -v shellcheck
	exit 0 ;;
*)
	echo "usage: $name" >&2
	exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
case ${B:-build} in /*) bin=$B/bin ;; *) bin=$here/../${B:-build}/bin ;; esac
[ ! -x "$bin/epd-fork" ] || PATH=$(cd "$bin" && pwd):$PATH
for c in epd-fork jq; do
	command -v $c >/dev/null || { echo "$name: no $c in PATH" >&2; exit 1; }
done
pictures=$here/tiny-vlm/samples/sample-images
export EPD_MODEL="$here/tiny-vlm/model"

# Everything here is of a tenant of its own, so that no cache knows it before.
export EPD_TENANT="example-$$"
tmp=$(mktemp -d)
if [ -z "${EPD_STORE:-}" ]; then
	tag=
	export EPD_STORE="$tmp/store" EPD_CONFIG="$tmp/config.yaml"
	printf 'page:\n  memory_dir: %s\ntier:\n  restore: always\n  nvme_dir: %s\n' "$tmp" \
		"$tmp/disk" >"$EPD_CONFIG"
else
	tag=-$$
fi

# Called with the status to end with; an example adds the workflows it makes.
workflows=
clean() {
	trap - EXIT
	if [ -n "$tag" ]; then
		for w in $workflows; do epd-state rm -r "$w" || true; done
		epd-state ls -f -j | jq -r "select(.tenant == \"$EPD_TENANT\")
			.feature_bundle_id" | while read -r f; do
			epd-state rm "$f"
		done
	fi
	rm -rf "$tmp"
	exit "$1"
}
trap 'clean $?' EXIT
trap 'clean 130' INT
trap 'clean 143' TERM

# want WHAT HAVE WANTED: the example's own checks.
want() {
	[ "$2" = "$3" ] || { echo "$name: $1 is $2, not $3" >&2; exit 1; }
}

# One figure of the store, group.name; 0 before there is a store.
figure() {
	epd-state metrics -j 2>/dev/null | jq ".$1 // 0"
}

# How often the pages of a state are held, by their place: {"0":4,"1":4}.
refcounts() {
	epd-state show -j "$1" |
		jq -c '[.kv_pages[] | {(.logical_index | tostring): .refcount}] | add'
}
