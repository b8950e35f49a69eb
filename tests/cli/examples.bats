#!/usr/bin/env bats
# The examples do what they say, in a store of their own and in one that is given.

load helper

# In a store that is given: what was there stays, what the example made goes.
beside() {
	s=$(epd-prefill -w mine -p hello)
	epd-encode "$pictures/000_0.png" >feature
	"$root/examples/$1.sh" >/dev/null
	[ "$(epd-state ls)" = "$s" ]
	[ "$(epd-state ls -f)" = "$(cat feature)" ]
	epd-state gc
	[ "$(find memory -path '*/w/*' -type f | wc -l)" -eq 1 ]
}

# Without EPD_STORE the example makes its own, which goes with all it held.
alone() {
	mkdir tmp
	(
		unset EPD_STORE EPD_CONFIG EPD_MODEL
		export TMPDIR=$PWD/tmp
		"$root/examples/$1.sh" >out 2>err
	)
	[ ! -s err ]
	mapfile -t lines <out
	[ -z "$(ls -A tmp)" ]
	[ ! -e "$EPD_STORE" ]
}

@test "several pictures twice over: three encoder calls, four objects; half are hits" {
	alone multi_image_agent
	[ "${lines[0]}" = \
		'{"encoder_calls": 3, "without_a_cache": 6, "cache_objects": 4}' ]
	[ "${lines[1]}" = \
		'{"same_in_one_request": {"encoder_calls": 2, "folded": 2}}' ]
	[ "$(jq -c '[.mm_hit, .mm_miss, .mm_store_readback, .mm_hit_rate]' \
		<<<"${lines[2]}")" = '[16,16,16,0.5]' ]
	[ "$(jq '.first_pass_ms > 0 and .second_pass_ms > 0' <<<"${lines[2]}")" = true ]
	[ "${#lines[@]}" -eq 3 ]
}

@test "branches: every page is held by each, and nothing stays" {
	alone agent_fork_demo
	[ "${lines[0]}" = \
		'{"shared_refcounts_after_fork": {"0":4,"1":4}, "remaining_blocks": 0}' ]
	[ "${lines[1]}" = \
		'{"shared_refcounts_after_replace": {"0":8,"1":8,"2":8,"3":8}}' ]
	[ "${#lines[@]}" -eq 2 ]
}

@test "a tree of thoughts: proposed, voted on, pruned, gone deeper" {
	alone tree_of_thought
	[ "$(grep -c '^    thoughts/s[0-9]* [1-4] -[0-9.]* .*Answer: ' out)" -eq 8 ]
	grep -Fx 'path: thoughts/s1 -> thoughts/s3 -> thoughts/s9' out
	[ "$(sed -n '/^thoughts$/,$p' out | wc -l)" -eq 4 ]
	# The same seeds think the same anywhere.
	mv out first
	rm -r tmp
	EPD_THREADS=1 EPD_ISA=scalar alone tree_of_thought
	cmp out first
}

@test "a tool's result is all that is computed when it comes" {
	alone tool-wait
	grep -Fx 'the call: {"tool": "zoom", "region": "bottom-left"}' out
	grep -E '^agent/s1: reused 50 of 75 tokens, 24 computed, 1 image \(1 fresh\)' out
	grep -Fx 'the answer: 735' out
	grep -E '^other/s1: reused 32 of 37 tokens, 4 computed, 1 image \(0 fresh\)' out
}

@test "planner, executor, verifier: handed over, refused, back, and right" {
	alone planner_executor_verifier
	grep -F 'executor/s1@3:             the star is orange' out
	grep -F 'back to executor/s1@1' out
	grep -F 'executor/s3@3:             what is red is a star' out
	grep -F 'the star is red, in 2 tries' out
	grep -E '^    `-- s3@3 SHARED, [0-9]+ tokens, 1 image, from s1@1$' out
}

@test "in a given store they leave what was there, and nothing of theirs" {
	for e in multi_image_agent agent_fork_demo tree_of_thought tool-wait \
		planner_executor_verifier; do
		rm -rf "$EPD_STORE" memory/*
		beside $e
	done
}

@test "--help of an example is a usage and what it shows; it takes no arguments" {
	for e in "$root"/examples/*.sh; do
		case ${e##*/} in here.sh|mount.sh) continue ;; esac
		run --separate-stderr -0 "$e" --help
		[[ ${lines[0]} == 'usage: '*"${e##*/}" ]]
		run --separate-stderr -2 "$e" --nonsense
		[ -z "$output" ]
		[[ $stderr == 'usage: '* ]]
	done
	run "$root/examples/tool-wait.sh" -h
	[[ $output == *'a turn that calls a tool'* ]]
	[ ! -e "$EPD_STORE" ]
}

@test "an example that is wrong says so and fails" {
	sed 's/"\$calls" 3$/"$calls" 4/' "$root/examples/multi_image_agent.sh" >wrong.sh
	cp "$root/examples/here.sh" .
	ln -s "$root/examples/tiny-vlm" .
	chmod +x wrong.sh
	run --separate-stderr -1 ./wrong.sh
	[ "$stderr" = 'wrong.sh: encoder calls is 3, not 4' ]
}
