# helper.bash - loaded by every file here: each test has a store of its own, its
# books are checked when it ends, and nothing stays in /dev/shm.

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
build=${B:-$root/build}
case $build in /*) ;; *) build=$root/$build ;; esac
PATH=$build/bin:$PATH
samples=$root/examples/tiny-vlm/samples
pictures=$samples/sample-images
model=$root/examples/tiny-vlm/model

# A pipe whose first command fails is a failure: two that say nothing are not the same.
set -o pipefail

setup() {
	bats_require_minimum_version 1.5.0
	unset EPD_THREADS EPD_ISA EPD_TENANT EPD_LOG NO_COLOR XDG_STATE_HOME
	unset XDG_CONFIG_HOME
	export HOME=$BATS_TEST_TMPDIR/home
	export EPD_STORE=$BATS_TEST_TMPDIR/store
	export EPD_CONFIG=$BATS_TEST_TMPDIR/config.yaml
	export EPD_MODEL=$model
	mkdir -p "$HOME" "$BATS_TEST_TMPDIR/memory"
	printf 'page:\n  memory_dir: %s\n' "$BATS_TEST_TMPDIR/memory" >"$EPD_CONFIG"
	cd "$BATS_TEST_TMPDIR"
}

teardown() {
	# Whatever a test did, the books must balance.
	if [ -e "$EPD_STORE/store" ]; then
		epd-state check
	fi
	rm -rf "$EPD_STORE" "$BATS_TEST_TMPDIR/memory"
}

# till TENTHS COMMAND ...: again until it is so.
till() {
	local i n=$1
	shift
	for i in $(seq "$n"); do
		"$@" && return
		sleep 0.1
	done
	echo "not so in time: $*" >&2
	return 1
}

status_of() {
	epd-state show -j "$1" | jq -r .status
}

# w1/s1, of three versions.
make_state() {
	epd-prefill -q -w w1 -p 'A long text, so that there are some pages of it to move.'
	epd-decode -q -n 4 --ignore-eos w1/s1
	epd-prefill -q -p 'And a little more of it, to go on from.' w1/s1
} >/dev/null

# What a state says next, to the last digit; $in goes before it.
next() {
	# shellcheck disable=SC2086
	${in:-} epd-decode -j --temp 0 -n 4 --ignore-eos --logprobs 3 "$1" |
		jq -c 'select(.id) | [.id, .logprob, .top]'
}

# A state about the picture of a sign.
ask() {
	epd-prefill -i "$pictures/008_0.jpg" -p "${1:-What does the sign say?}" \
		"${@:2}"
}

# Field $2 of sample $1, as JSON.
sample() {
	sed -n "$(($1 + 1))p" "$samples/samples.jsonl" | jq -r "$2"
}
