# handoff.bash - hand-offs that are killed, for files here and in torture.

# Run files of the memory tier.
runs() {
	find "$BATS_TEST_TMPDIR/memory" -path '*/w/*/*' -type f | wc -l
}

# So many hand-offs killed at random: one has the state, and nothing is left.
handoff_kills() {
	local kills=$1 s base i b pid id
	s=$(ask)
	base=$(runs)
	for i in $(seq "$kills"); do
		b=$(epd-fork "$s")
		: >out
		epd-handoff "$b" "t$((i % 7))" >out 2>/dev/null &
		pid=$!
		sleep "0.00$((RANDOM % 10))$((RANDOM % 10))"
		kill -9 $pid 2>/dev/null || true
		wait $pid || true
		id=$(epd-handoff --status | cut -d' ' -f1)
		if [ -n "$id" ]; then
			case $((i % 3)) in
			0) epd-handoff --commit "$id" ;;
			1) epd-handoff --abort "$id" || [ $? -eq 3 ] ;;
			2) epd-handoff --commit "$id" & epd-handoff --abort "$id" || true
				wait ;;
			esac
		fi >/dev/null 2>&1
		[ -z "$(epd-handoff --status)" ]
		# The one that has it; then it is let go.
		epd-state ls | awk '{ print $1 }' | grep -v "^$s$" >owner || true
		[ "$(wc -l <owner)" -eq 1 ] || { echo "kill $i:" $(cat owner) >&2; false; }
		# What was told to be done is.
		[ ! -s out ] || cmp out owner
		epd-state release "$(cat owner)"
	done
	sleep 1.1
	epd-state gc
	[ "$(runs)" -eq "$base" ]
	[ -z "$(find "$EPD_STORE" "$BATS_TEST_TMPDIR/memory" -name '.tmp.*')" ]
	epd-state check
}
