#!/usr/bin/env bats
# Stores that cannot be written: looked at as others are, and left as they are.

load helper

# ro COMMAND...: with the store on a read-only file system.
ro() {
	# shellcheck disable=SC2016
	unshare -m sh -c 'mount --make-rprivate / &&
		mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" &&
		shift && exec "$@"' - "$EPD_STORE" "$@"
}

# nobody COMMAND...: as somebody else, who may read what is here.
nobody() {
	setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \
		--reuid 65534 --regid 65534 --clear-groups "$@"
}

needs_root() {
	[ "$(id -u)" -eq 0 ] || skip 'mounting and changing user take root'
	mkdir -p "$EPD_STORE"
	ro true 2>/dev/null || skip 'nothing can be mounted here'
	rmdir "$EPD_STORE"
}

# A store with two workflows, a picture, a decoded state and one released.
fill() {
	s=$(ask)
	epd-decode "$s"
	epd-prefill -w w1 -p hello
	epd-state rm "$(epd-prefill -w w2 -p hello)"
	f=$(epd-state ls -f)
}

# Every file with what it holds and when it was changed.
files() {
	find "$1" -printf '%P %y %m %s %T@ %C@\n' | sort
	find "$1" -type f -exec sha256sum {} +
}

# The memory tier's files with their times, and of runs that of the last use.
tier() {
	find memory -printf '%P %y %m %s %T@ %C@\n' | sort
	find memory -path '*/w/*' -type f -exec stat -c '%n %X' {} + | sort
}

looks() {
	printf '%s\n' 'ls -l' 'ls -j w1' 'ls -f' "ls --names w1/" \
		"show $s w1 $f" "show -j $s@1" "show --tokens $s" \
		"show --text $s" 'tree w1' 'log -j --verify' check 'check w1' \
		'metrics' 'metrics -j'
}

@test "all that looks does so on a read-only file system, and writes nothing" {
	needs_root
	fill
	epd-state metrics >/dev/null
	# Longer ago than the change, so that the kernel moves it on any read.
	find memory -type f -exec touch -a -d '2 days ago' {} +
	tier >tier_before
	grep '/w/w1/.* [0-9]*$' tier_before
	files "$EPD_STORE" >before
	while read -r -a args; do
		epd-state "${args[@]}" >want
		ro epd-state "${args[@]}" >got
		diff want got
		[ -s got ] || [[ ${args[*]} == check* ]]
	done < <(looks)
	files "$EPD_STORE" >after
	diff before after
	tier >tier_after
	diff tier_before tier_after
}

@test "nor does it make the memory tier's folder" {
	needs_root
	fill
	rm -rf memory/*
	[ "$(ro epd-state ls -j w1/s1 | jq .pages_missing)" -eq 3 ]
	ro epd-state check
	[ -z "$(ls memory)" ]
	epd-state ls -l
	[ -z "$(ls memory)" ]
	rmdir memory
	ro epd-state metrics >/dev/null
	[ ! -e memory ]
	mkdir memory
}

@test "what writes says that the store is read-only" {
	needs_root
	fill
	files "$EPD_STORE" >before
	for verb in 'prefill -p x' "prefill -p x $s" "decode $s" \
		"encode $pictures/000_0.png" "state rm $s" "state rm $f" \
		'state gc' 'state metrics --reset'; do
		# shellcheck disable=SC2086
		run --separate-stderr -1 ro epd-$verb
		[ "$stderr" = "epd-${verb%% *}: $EPD_STORE: the store is read-only" ]
		[ -z "$output" ]
	done
	files "$EPD_STORE" >after
	diff before after
}

@test "a tail that a crash left is not cut there" {
	needs_root
	fill
	log=$(find "$EPD_STORE/w/w1" -name 'log.*')
	ro epd-state log w1 >want
	printf 'half a frame' >>"$log"
	files "$EPD_STORE" >before
	ro epd-state log w1 >got
	diff want got
	ro epd-state check w1
	files "$EPD_STORE" >after
	diff before after
}

@test "faults found there are told and not counted" {
	needs_root
	fill
	run=$(find memory -path '*/w/w1/*' -type f | head -1)
	chmod u+w "$run"
	printf '\377' | dd of="$run" bs=1 seek=9000 conv=notrunc 2>/dev/null
	run --separate-stderr -5 ro epd-state check
	[[ $output == *'w1: run '*page* ]]
	[ "$(epd-state metrics -j | jq .state.pages_corrupt)" -eq 0 ]
	run -5 epd-state check w1
	[ "$(epd-state metrics -j | jq .state.pages_corrupt)" -eq 1 ]
	rm "$run"
}

@test "another user's store that may be read" {
	needs_root
	fill
	chmod -R o+rX "$EPD_STORE"
	chmod o+rx "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "$BATS_TEST_TMPDIR"
	nobody "$build/bin/epd-state" --version || skip 'no other user to be had'
	files "$EPD_STORE" >before
	[ "$(nobody "$build/bin/epd-state" ls)" = "$(epd-state ls)" ]
	nobody "$build/bin/epd-state" show "$s" | grep -x 'status: ACTIVE'
	nobody "$build/bin/epd-state" show "$s" | grep 'to be computed again'
	nobody "$build/bin/epd-state" tree w1
	nobody "$build/bin/epd-state" log --verify
	nobody "$build/bin/epd-state" check
	nobody "$build/bin/epd-state" metrics -j |
		jq -e '.state.states_created == 3 and .state.memory_bytes == 0'
	for verb in 'decode w1/s1' 'state rm w1/s1' 'state gc'; do
		# shellcheck disable=SC2086
		run --separate-stderr -1 nobody "$build/bin/"epd-$verb
		[[ $stderr == *"$EPD_STORE: belongs to another user" ]]
	done
	files "$EPD_STORE" >after
	diff before after
	chmod o-r "$EPD_STORE/w/w1/tip"
	run --separate-stderr nobody "$build/bin/epd-state" ls w1
	[ "$status" -ne 0 ]
	[ -n "$stderr" ]
	chmod -R go= "$EPD_STORE"
}
