#!/usr/bin/env bats
# The examples that mount do what they say, in a store of their own and in a given one.

load helper

# Without EPD_STORE the example makes its own, which goes with all it held.
alone() {
	mkdir tmp
	(
		unset EPD_STORE EPD_CONFIG EPD_MODEL
		export TMPDIR=$PWD/tmp
		"$root/examples/$1.sh" >out 2>err
	)
	[ ! -s err ]
	[ -z "$(ls -A tmp)" ]
	! grep -q "$PWD/tmp" /proc/mounts
}

@test "browse: a page that two states use has two links" {
	alone browse
	grep -Fx '$ cat s1/text' out
	grep -Fx 'user: [image 0]What does the sign say?' out
	[ "$(grep -A1 -F '$ find s1/pages/ s2/pages/' out | tail -1)" = 6 ]
	grep -Fx 's2/pages/0001' out
	grep -q '^0 faults; ' out
}

@test "a tree of thoughts by mkdir, echo, cat and rmdir" {
	alone mount_tree_of_thought
	[ "$(grep -c '^    t[1-4]: .*Answer: ' out)" -eq 8 ]
	[ "$(grep -c '^    votes for .*: [1-4]; on from t[1-4]$' out)" -eq 2 ]
	grep -Fx 'path: thoughts/s1 -> thoughts/s4 -> thoughts/s6' out
	# Nothing but files once the picture is in.
	run ! grep -E '^[^#]*epd-(decode|fork|state|handoff)' \
		"$root/examples/mount_tree_of_thought.sh"
}

@test "in a given store they leave what was there, and nothing of theirs" {
	for e in browse mount_tree_of_thought; do
		"$root/examples/$e.sh" >/dev/null
		[ "$(epd-state ls)" = "$s" ]
		[ "$(epd-state ls -f | wc -l)" -eq 1 ]
	done
}

@test "where nothing can be mounted they say so and end well" {
	mkdir -p tree/examples tree/build/bin
	cp "$root"/examples/*.sh tree/examples
	ln -s "$root/examples/tiny-vlm" tree/examples
	cp "$build"/bin/* tree/build/bin
	rm tree/build/bin/epd-mount
	for e in browse mount_tree_of_thought; do
		run -0 env -u B "tree/examples/$e.sh"
		[[ "$output" = "$e.sh: nothing can be mounted here: epd-mount is not built"* ]]
	done
}

@test "what the README types at a mount prints what it shows" {
	mkdir new
	cd new
	ln -s "$root/examples" .
	sed -n '/^    \$ export EPD_STORE/,/^$/s/^    //p' "$root/README.md" >want
	[ "$(grep -c '^\$ ' want)" -gt 10 ]
	# Each line typed is told, then what it prints.
	sed -n 's/^\$ //p' want | while IFS= read -r line; do
		printf 'echo %q\n%s\n' "\$ $line" "$line"
	done >typed
	( unset EPD_STORE EPD_MODEL; bash typed >got 2>err 3>&- ) || true
	! mountpoint -q mnt || epd-mount -u --lazy mnt
	diff want got
	[ ! -s err ]
}

@test "the unit is one that systemd takes" {
	command -v systemd-analyze >/dev/null || skip 'no systemd-analyze'
	sed "s|/usr/local/bin|$build/bin|" "$root/examples/epd-mount.service" \
		>epd-mount.service
	export XDG_RUNTIME_DIR=$PWD
	run -0 systemd-analyze --user --man=no verify "$PWD/epd-mount.service"
	[ -z "$output" ]
	# It begins where a store is, as the commands find it, and nowhere else.
	begins() {
		sed -n 's/^ExecCondition=//p' epd-mount.service |
			sed 's/\$\$/$/g' | env "$@" sh
	}
	begins EPD_STORE="$EPD_STORE"
	run -1 begins EPD_STORE="$PWD/none"
	run -1 begins -u EPD_STORE
	mkdir -p state "$HOME/.local/state"
	ln -s "$EPD_STORE" state/epd
	begins -u EPD_STORE XDG_STATE_HOME="$PWD/state"
	ln -s "$EPD_STORE" "$HOME/.local/state/epd"
	begins -u EPD_STORE
}
