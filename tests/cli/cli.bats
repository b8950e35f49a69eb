#!/usr/bin/env bats
# What all commands have in common.

load helper

commands='epd epd-encode epd-prefill epd-decode epd-state'
verbs='ls show tree log release rm check gc metrics'

# Every --help there is, by a name fit for a message.
helps() {
	for c in $commands 'epd doctor' 'epd help'; do
		echo "$c"
	done
	for v in $verbs; do
		echo "epd-state $v"
	done
}

@test "--help fits 80 columns, goes to standard output and exits 0" {
	helps | while read -r c; do
		$c --help >out 2>err
		[ ! -s err ]
		grep -q '^usage: epd' out
		run -1 grep -nE '.{81}| $' out
		$c -h | cmp - out
	done
}

@test "every option of a command's own is in its usage" {
	for c in epd-encode epd-prefill epd-decode epd-fork epd-handoff epd-plan; do
		$c --help >out
		sed '/^$/q' out >usage
		sed -n '/^options:/,/ --json/p' out |
			sed -nE 's/^  (-.), --[a-z-]+.*/\1/p; s/^ {6}(--[a-z-]+).*/\1/p' >own
		while read -r o; do
			grep -qE -e "[[ ]$o[] ]|^usage: .*\[-[a-z]*${o#-}[a-z]*\]" usage ||
				{ echo "$c: $o" >&2; false; }
		done <own
	done
}

@test "--version" {
	for c in $commands; do
		[[ "$($c --version)" =~ ^$c\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
	done
}

@test "wrong use: one line on standard error that points to --help, exit 2" {
	for c in epd-encode epd-prefill epd-decode; do
		for o in --nonsense -X -t '-t 0' '-t x' --json=1 ''; do
			run --separate-stderr -2 $c $o
			[ -z "$output" ]
			[ "$(wc -l <<<"$stderr")" -eq 1 ]
			[[ $stderr == "$c: "*"(see $c --help)" ]]
		done
	done
	run --separate-stderr -2 epd-decode --seed 1 --tmp 1 w1/s1
	[[ $stderr == 'epd-decode: --tmp: no such option, did you mean --temp?'* ]]
}

@test "unknown verbs suggest the nearest" {
	run --separate-stderr -2 epd decod x
	[[ $stderr == 'epd: decod: no such verb, did you mean decode?'* ]]
	run --separate-stderr -2 epd-state lst
	[[ $stderr == 'epd-state: lst: no such verb, did you mean '* ]]
	run --separate-stderr -2 epd ../../bin/sh
	[[ $stderr == *'no such verb'* ]]
	run -2 epd
	run -2 epd-state
}

@test "epd VERB runs the one beside it, then one in PATH" {
	[ "$(epd prefill -p hello)" = w1/s1 ]
	mkdir bin
	printf '#!/bin/sh\necho "hello $*"\n' >bin/epd-hello
	chmod +x bin/epd-hello
	[ "$(PATH=$PATH:$PWD/bin epd hello a b)" = 'hello a b' ]
}

@test "operands: errors are program, operand, sentence; -v names the error" {
	run --separate-stderr -4 epd-decode w1/s9
	[[ $stderr == *'no such store'* ]]
	epd-prefill -p hello
	run --separate-stderr -4 epd-decode w1/s9
	[ "$stderr" = 'epd-decode: w1/s9: no such state' ]
	run --separate-stderr -4 epd-decode -v w1/s9
	[ "$stderr" = 'epd-decode: w1/s9: no such state [STATE_NOT_FOUND]' ]
	run --separate-stderr -4 epd-decode -j w1/s9
	jq -e '.schema_version == 1 and .operand == "w1/s9" and .status == 4 and
		.error == "STATE_NOT_FOUND"' <<<"$output"
}

@test "control characters in an operand do not reach the terminal" {
	run --separate-stderr -4 epd-encode $'\e[2Jx.png'
	[[ $stderr != *$'\e'* ]]
}

@test "a full disk behind standard output is said, exit 1" {
	[ -c /dev/full ] || skip 'no /dev/full'
	s=$(ask)
	for c in "epd-encode $pictures/000_0.png" "epd-prefill -p x" \
		"epd-decode $s" "epd-state ls" "epd-state show $s" \
		"epd-state metrics" "epd-decode --help" "epd --version" \
		"epd doctor"; do
		run --separate-stderr -1 bash -c "$c >/dev/full"
		[[ $stderr == *': standard output: No space left on device' ]]
	done
}

@test "a closed standard output is said, and no file is written into instead" {
	s=$(ask)
	for c in "epd-encode $pictures/001_0.png" "epd-prefill -p x" \
		"epd-decode $s" "epd-state ls"; do
		run -1 bash -c "$c >&- 2>err"
		grep -q 'standard output: Bad file descriptor' err
	done
	run -0 bash -c "epd-state ls <&- 2>&-"
	epd-state check
}

@test "the environment says what options do not" {
	EPD_STORE=$PWD/a epd-prefill -p x
	EPD_STORE=$PWD/a epd-prefill --store b -p x
	[ -e a/store ] && [ -e b/store ]
	(
		unset EPD_STORE
		XDG_STATE_HOME=$PWD/state epd-prefill -p x
		[ -e state/epd/store ]
		epd-prefill -p x
		[ -e "$HOME/.local/state/epd/store" ]
		unset HOME
		run --separate-stderr -2 epd-prefill -p x
		[[ $stderr == *'no store'* ]]
	)
	run -2 env EPD_THREADS=x epd-state ls
	run --separate-stderr -2 env EPD_ISA=mmx epd-encode "$pictures/000_0.png"
	[[ $stderr == *mmx* ]]
	run --separate-stderr env EPD_LOG=debug epd-prefill -p x
	[[ $stderr == *'epd-prefill: op='* ]]
	for log in bogus DEBUG debug2 $'x\x1b'; do
		run --separate-stderr -2 env EPD_LOG="$log" epd-state ls
		[[ $stderr == 'epd-state: EPD_LOG: '*'it is debug or empty'* ]]
	done
	EPD_LOG= epd-state ls >/dev/null
	run -4 env EPD_MODEL=/nonexistent epd-prefill -p x
}

@test "the shipped model is found beside the commands" {
	mkdir -p tree/bin tree/share/epd
	cp "$build/bin/epd-prefill" "$build/bin/epd" tree/bin
	ln -s "$root/examples" tree/share/epd/examples
	unset EPD_MODEL
	[ "$(tree/bin/epd-prefill -p hello)" = w1/s1 ]
	[[ "$(tree/bin/epd doctor -j | jq -r .model.path)" == */tiny-vlm/model ]]
	rm tree/share/epd/examples
	run --separate-stderr -2 tree/bin/epd-prefill -p hello
	[[ $stderr == *'no model'* ]]
	# A build that lies anywhere knows where the shipped one is.
	cp -a "$build/share/epd/examples" tree/share/epd
	[ "$(tree/bin/epd-prefill -p hello)" = w2/s1 ]
	[ -r "$build/share/man/man1/epd.1" ]
}

@test "where there is no model no store is made" {
	mkdir -p tree/bin
	cp "$build/bin/epd-prefill" "$build/bin/epd-encode" tree/bin
	for c in 'epd-prefill -p hello' "epd-encode $pictures/000_0.png"; do
		run --separate-stderr -2 env -u EPD_MODEL tree/bin/$c
		[ "$stderr" = "${c%% *}: no model: give -m or set EPD_MODEL" ]
		[ ! -e "$EPD_STORE" ]
		run --separate-stderr -4 env EPD_MODEL=/nonexistent $c
		[ "$stderr" = "${c%% *}: /nonexistent: No such file or directory" ]
		[ ! -e "$EPD_STORE" ]
	done
	# A state of a store that is there has its own.
	s=$(epd-prefill -p hello)
	[ "$(env -u EPD_MODEL tree/bin/epd-prefill -p more "$s")" = "$s" ]
}

@test "configuration: a mistake names file and line, exit 2" {
	printf 'page:\n  tokens: 16\n  tokenz: 3\n' >bad.yaml
	run --separate-stderr -2 epd-prefill --config bad.yaml -p x
	[[ $stderr == 'epd-prefill: bad.yaml:3: '* ]]
	run -4 epd-prefill --config none.yaml -p x
	(
		unset EPD_CONFIG
		mkdir -p conf/epd
		cp bad.yaml conf/epd/config.yaml
		run --separate-stderr -2 env XDG_CONFIG_HOME=$PWD/conf epd-prefill -p x
		[[ $stderr == *conf/epd/config.yaml:3:* ]]
	)
}

@test "doctor tells what this machine has, and makes nothing" {
	epd doctor | grep -q '^processor:$'
	epd doctor -j | jq -e '.schema_version == 1 and
		(.processor.instructions | index("scalar")) != null and
		.store.exists == false and .model.family == "qwen3_vl"'
	[ ! -e "$EPD_STORE" ]
	[ "$(EPD_ISA=scalar epd doctor -j | jq -r .processor.chosen)" = scalar ]
}

@test "doctor asks what is configured, and not for long" {
	epd doctor -j | jq -e '.tiers.nvme.exists == false and
		.tiers.mooncake_store.url == null and
		(.tiers.mooncake_store | has("answers") | not) and
		.directory == { backend: "local" }'
	mkdir disk
	cat >far.yaml <<-Y
	tier: { nvme_dir: $PWD/disk, nvme_cap: 1048576, mooncake_url: "http://127.0.0.1:9" }
	directory: { backend: etcd, endpoints: "http://127.0.0.1:9" }
	Y
	epd doctor -j --config far.yaml | jq -e '.tiers.nvme.writable and
		.tiers.nvme.cap == 1048576 and
		.tiers.mooncake_store.answers == false and
		(.tiers.mooncake_store.error | test("127.0.0.1")) and
		.directory.answers == false and (.directory.error | length > 0)'
	epd doctor --config far.yaml | grep -q '^directory:$'
	[ -z "$(ls disk)" ]
	# One that takes what is asked and says nothing.
	python3 -c '
import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(20)' >port 7>&- 8>&- &
	deaf=$!
	for _ in $(seq 100); do
		[ -s port ] && break
		sleep 0.05
	done
	sed -i "s/:9\"/:$(cat port)\"/g" far.yaml
	from=$SECONDS
	epd doctor -j --config far.yaml | jq -e '.directory.answers == false and
		.tiers.mooncake_store.answers == false'
	[ $((SECONDS - from)) -le 4 ]
	kill $deaf
	[ ! -e "$EPD_STORE" ]
}

@test "doctor says whether a store can be mounted, and if not why" {
	mkdir -p tree/bin empty
	cp "$build/bin/epd" tree/bin
	tree/bin/epd doctor -j | jq -e '.mount | .possible == false and
		.built == false and (.error | startswith("epd-mount is not built"))'
	[ -x "$build/bin/epd-mount" ] || return 0
	epd doctor -j | jq -e '.mount | .built and
		.possible == (.device and (.may_mount or .fusermount3)) and
		.possible == (.error == null)'
	PATH=$PWD/empty "$build/bin/epd" doctor -j | jq -e '.mount |
		.fusermount3 == false and .possible == (.device and .may_mount)'
	epd doctor | grep -q '^mount:$'
}

@test "doctor says that another user's store may not be looked at" {
	epd-prefill -p x
	chmod 0 "$EPD_STORE"
	as=
	if [ "$(id -u)" -eq 0 ]; then
		as='setpriv --bounding-set=-all --inh-caps=-all
			--no-new-privs --reuid 65534 --clear-groups'
		chmod o+rx "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*}" \
			"$BATS_TEST_TMPDIR"
		$as "$build/bin/epd" --version || skip 'no other user to be had'
	fi
	run --separate-stderr -1 $as env -u EPD_CONFIG "$build/bin/epd" doctor
	echo "$stderr"
	chmod 700 "$EPD_STORE"
	[[ $stderr == *"epd: $EPD_STORE: Permission denied"* ]]
	[[ $output == *'error: Permission denied'* ]]
	[[ $output != *'exists: '* ]]
}

@test "an empty value of -w, -m or --store is wrong use" {
	for o in -w -m --store --config; do
		run --separate-stderr -2 epd-prefill "$o" '' -p x
		[[ $stderr == "epd-prefill: $o: an empty value"* ]]
	done
}

@test "part of an option's name, or more than it, suggests it" {
	run --separate-stderr -2 epd-decode --top 2 w1/s1
	[[ $stderr == *'--top: no such option, did you mean --top-k, --top-p?'* ]]
	run --separate-stderr -2 epd-decode --temperature=1 w1/s1
	[[ $stderr == *'did you mean --temp?'* ]]
}

@test "errors of help and doctor point to what there is" {
	run --separate-stderr -2 epd help a b
	[[ $stderr == *'(see epd help --help)' ]]
	run --separate-stderr -2 epd doctor a
	[[ $stderr == *'(see epd doctor --help)' ]]
}

@test "standard input: lines too long, and what is not text" {
	epd-prefill -p hello
	head -c 5000 /dev/zero | tr '\0' a >long
	run --separate-stderr -2 epd-decode - <long
	[[ $stderr == *'longer than 4095 bytes'* ]]
	printf 'w1/\0s1\n' >nul
	run --separate-stderr -2 epd-decode - <nul
	[[ $stderr == *'not text'* ]]
	printf '\n\nw1/s1' | epd-decode -n 1 -
}

@test "no progress unless on a terminal" {
	run --separate-stderr ask
	[ -z "$stderr" ]
}
