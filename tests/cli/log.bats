#!/usr/bin/env bats
# epd-state log, tree and abort where there are branches, leases and hand-offs.

load helper

# The log of $1, without what differs from run to run; runs of blanks are one.
lines_of() {
	epd-state log "$1" | sed -E 's/^ *//; s/ [0-9-]{10} [0-9:]{8} / /;
		s/ [0-9]+ bytes//; s/hand-off [0-9a-f]{8}/hand-off ID/; s/ +/ /g;
		s/ $//'
}

@test "a fork tells the branches that began" {
	s=$(epd-prefill -w w1 -p hello)
	epd-fork -n 4 "$s"
	epd-fork --reason 'another way' "$s@1"
	epd-fork --replace -n 2 w1/s3
	lines_of w1 >out
	grep -Fx '2 fork w1/s1@1 -> s2..s5 agent_branch' out
	grep -Fx '3 fork w1/s1@1 -> s6 another way' out
	grep -Fx '4 fork w1/s3@1 -> s7..s8, replaced agent_branch' out
	epd-state log -j w1 | jq -c 'select(.record == "fork") |
		[.state, .first_branch, .branches, .replaced, .lease, .handoff,
		.reason]' >out
	diff - out <<-'EOF'
		["w1/s1@1","w1/s2",4,false,null,null,"agent_branch"]
		["w1/s1@1","w1/s6",1,false,null,null,"another way"]
		["w1/s3@1","w1/s7",2,true,null,null,"agent_branch"]
	EOF
	[ "$(epd-state log -j w1 | jq -c 'select(.record == "create") |
		[.first_branch, .branches, .replaced]')" = '[null,0,false]' ]
	epd-fork --replace w1/s5
	lines_of w1 | grep -Fx '5 fork w1/s5@1 -> s9, replaced agent_branch'
}

@test "where a checkpoint let go of older records it says with which it begins" {
	printf 'state:\n  checkpoint_bytes: 4096\n' >>"$EPD_CONFIG"
	s=$(epd-prefill -w w1 -p hello)
	run --separate-stderr epd-state log w1
	[ -z "$stderr" ]
	[ "$(epd-state log -j w1 | jq -c .log_begins)" = 1 ]
	for i in 1 2 3 4 5 6 7 8; do
		epd-prefill -w w1 -p "hello $i"
	done
	[ -n "$(epd-state log -j w1)" ] || epd-prefill -w w1 -p more
	first=$(epd-state log -j w1 | jq -s '.[0].lsn')
	[ "$first" -gt 1 ]
	[ "$(epd-state log -j w1 | jq .log_begins | sort -u)" -eq "$first" ]
	run --separate-stderr epd-state log w1
	[[ $stderr == "w1: begins at record $first, "* ]]
	run --separate-stderr epd-state log -q w1
	[ -z "$stderr" ]
	run --separate-stderr epd-state log -j w1
	[ -z "$stderr" ]
	# state.log_keep keeps them.
	sed 's/checkpoint_bytes/log_keep: 100\n  checkpoint_bytes/' "$EPD_CONFIG" >keep
	for i in 1 2 3 4 5 6 7 8; do
		epd-prefill --config keep -w w2 -p "hello $i"
	done
	[ "$(epd-state log -j w2 | jq .log_begins | sort -u)" -eq 1 ]
}

@test "-v gives a verdict a workflow, between the lines of standard output" {
	epd-prefill -w w1 -p hello
	epd-prefill -w w2 -p hello
	epd-prefill -p more w2/s1
	epd-state log --verify -v >both 2>&1
	[ "$(wc -l <both)" -eq 5 ]
	[ "$(sed -n '2p;5p' both)" = 'w1: 1 record, all obey
w2: 2 records, all obey' ]
	run --separate-stderr epd-state log --verify
	[ -z "$stderr" ]
}

@test "a lease is told, for what it was, and its end" {
	s=$(ask)
	epd-decode "$s"
	lines_of w1 >out
	grep -Fx '2 lease w1/s1@1 lease 2 decode' out
	grep -E '^4 drop - lease 2 ' out
	[ "$(epd-state log -j w1 | jq -c 'select(.record == "lease") |
		[.state, .lease, .reason]')" = '["w1/s1@1",2,"decode"]' ]
	[ "$(epd-state log -j w1 | jq -c 'select(.record == "drop").lease')" = 2 ]
}

@test "both halves of a hand-off are told with its number" {
	s=$(epd-prefill -w a -p hello)
	epd-handoff "$s" b
	lines_of a >out
	grep -Fx '2 prepare a/s1@1 hand-off ID' out
	grep -Fx '3 commit a/s1 hand-off ID' out
	grep -E '^4 drop - hand-off ID ' out
	lines_of b >out
	grep -E '^1 ready b/s1@1 [0-9]+ tokens [0-9]+ pages hand-off ID$' out
	grep -Fx '2 commit b/s1 hand-off ID' out
	# One number throughout, whole with -j and its begin without.
	id=$(epd-state log -j a | jq -r 'select(.record == "prepare").handoff')
	[[ $id =~ ^[0-9a-f]{32}$ ]]
	epd-state log a | grep -F "hand-off ${id:0:8}"
	[ "$(epd-state log -j | jq -r 'select(.handoff).handoff' |
		sort | uniq -c | awk '{ print $1, $2 }')" = "6 $id" ]
	id=$(epd-handoff --prepare b/s1)
	epd-handoff --abort --reason 'not now' "$id"
	lines_of b | grep -Fx '5 abort b/s1 hand-off ID not now'
}

@test "the tree: grandchildren, replaced parents, branches of earlier versions" {
	s=$(epd-prefill -w w1 -p one)
	epd-prefill -p two "$s"
	epd-prefill -p three "$s"
	epd-fork -n 2 "$s@1"
	epd-fork w1/s3
	epd-fork --replace -n 2 w1/s2
	epd-fork w1/s5
	epd-prefill -p four w1/s7
	epd-state tree w1 | sed -E 's/, [0-9]+ tokens//' >out
	diff - out <<-'EOF'
		w1
		|-- s1@3 SHARED
		|   `-- s3@1 SHARED, from s1@1
		|       `-- s4@1 SHARED, from s3@1
		|-- s5@1 SHARED, from s2@1 (released)
		|   `-- s7@2 SHARED, from s5@1
		`-- s6@1 SHARED, from s2@1 (released)
	EOF
	# The branch of @1 has what was there then, and no more.
	[ "$(epd-state show --tokens w1/s3)" = "$(epd-state show --tokens w1/s1@1)" ]
	[ "$(epd-state show -j w1/s3 | jq -c '[.parent_state_id,
		.parent_version_id]')" = '["w1/s1",1]' ]
	# What lost its parent later says so too.
	epd-state rm w1/s1
	epd-state tree w1 | grep -E '^\|-- s3@1 SHARED, [0-9]+ tokens, from s1@1 \(released\)$'
}

@test "a page is held by the live states that have it" {
	s=$(ask)
	[ "$(epd-state show -j "$s" | jq -c '[.kv_pages[].refcount]')" = '[1,1]' ]
	epd-fork -n 3 "$s"
	[ "$(epd-state show -j "$s" | jq -c '[.kv_pages[].refcount]')" = '[4,4]' ]
	# One that goes on still has the version it began with.
	epd-prefill -p more w1/s2
	[ "$(epd-state show -j "$s" | jq -c '[.kv_pages[].refcount]')" = '[4,4]' ]
	[ "$(epd-state show -j w1/s2 | jq -c '.kv_pages[1].refcount')" = 1 ]
	epd-state rm w1/s2
	[ "$(epd-state show -j "$s" | jq -c '[.kv_pages[].refcount]')" = '[3,3]' ]
	epd-fork --replace -n 8 w1/s3
	[ "$(epd-state show -j "$s" | jq -c '[.kv_pages[].refcount]')" = '[10,10]' ]
}

@test "aborted only by command, with a reason; then only release leads out" {
	s=$(ask)
	epd-fork "$s"
	run --separate-stderr -2 epd-state abort "$s"
	[[ $stderr == *'--reason: say why it is given up'* ]]
	run -2 epd-state abort --reason '' "$s"
	[ "$(epd-state ls -j "$s" | jq -r .status)" = SHARED ]

	run --separate-stderr -0 epd-state abort -v --reason 'lost the thread' "$s"
	[ -z "$output" ]
	[ "$stderr" = 'w1/s1: aborted' ]
	[ "$(epd-state ls -j "$s" | jq -r .status)" = ABORTED ]
	epd-state show "$s" | grep -Fx 'status: ABORTED'
	lines_of w1 | grep -Fx '3 abort w1/s1 lost the thread'
	# Trying again never helps, so that is not exit 3.
	for verb in epd-decode 'epd-prefill -p more' epd-fork epd-handoff \
		'epd-state abort --reason again'; do
		run --separate-stderr -1 $verb "$s"
		[ -z "$output" ]
		[ "$stderr" = "${verb%% *}: w1/s1: it is ABORTED, and can only be released" ]
		run --separate-stderr -1 $verb -w w1 s1
		[[ $stderr =~ ^${verb%% *}:\ (w1/)?s1:\ it\ is\ ABORTED, ]]
	done
	# It keeps what it has, and its branch goes on without it.
	[ "$(epd-state show -j "$s" | jq -c '[.kv_pages[].refcount]')" = '[2,2]' ]
	epd-state show --text "$s" | grep -F 'What does the sign say?'
	[ "$(epd-decode w1/s2)" = ON ]
	epd-state log --verify w1
	epd-state rm "$s"
	run -4 epd-state show "$s"
}

@test "abort takes whole states, and goes on after one that fails" {
	epd-prefill -w w1 -p x
	epd-prefill -w w1 -p x
	run --separate-stderr -2 epd-state abort --reason x w1
	[[ $stderr == *'w1: not a state'* ]]
	run --separate-stderr -2 epd-state abort --reason x w1/s1@1
	[[ $stderr == *'a version goes with its state; abort the state'* ]]
	run --separate-stderr -4 epd-state abort --reason x w1/s9 w1/s2
	[[ $stderr == *'w1/s9: no such state'* ]]
	[ "$(epd-state ls -j | jq -r '[.state, .status] | join(" ")')" = \
		$'w1/s1 ACTIVE\nw1/s2 ABORTED' ]
	echo w1/s1 | epd-state abort --reason x -
	[ "$(epd-state ls -j w1/s1 | jq -r .status)" = ABORTED ]
	run -4 epd-state abort --reason x none/s1
}

@test "check says what each of the seven invariants was proven on" {
	s=$(epd-prefill -w w1 -p hello)
	epd-fork -n 3 "$s"
	id=$(epd-handoff --prepare w1/s2 w2)
	run --separate-stderr epd-state check -v
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	for i in 1 2 3 4 5 6 7; do
		[[ ${stderr_lines[i - 1]} == "epd-state check: $i "* ||
			${stderr_lines[i - 1]} == "$i "* ]]
	done
	run epd-state check -j
	jq -e '.faults == 0 and .states == 4 and .nodes == 1 and
		.versions == 4 and .leases == 0 and .handoffs == 1 and
		.runs == 1 and .pages > 0 and .pages_missing == 0' <<<"$output"
	epd-handoff --abort "$id"
}
