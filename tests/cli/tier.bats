#!/usr/bin/env bats
# epd-offload, epd-restore, epd-state wait, and the tier on a disk: what is told, refused,
# proven and swept.

load helper
load faults
load tier

setup_tier() {
	mkdir -p disk
	tier
}

# The configuration, with more lines for `tier`.
tier() {
	printf 'page:\n  memory_dir: %s\ntier:\n  restore: always\n  nvme_dir: %s\n' \
		"$BATS_TEST_TMPDIR/memory" "$BATS_TEST_TMPDIR/disk" >"$EPD_CONFIG"
	[ $# -eq 0 ] || printf '  %s\n' "$@" >>"$EPD_CONFIG"
}

# A state of three versions, $s, of $n pages that lie in $runs runs, and says $said next.
begin() {
	setup_tier
	said=$(EPD_STORE=$PWD/other make_state && EPD_STORE=$PWD/other next w1/s1)
	[ -n "$said" ]
	rm -rf other
	make_state
	s=w1/s1
	epd-state gc		# what was the other store's
	n=$(epd-state show -j "$s" | jq .pages)
	runs=$(find memory -type f -path '*/w/w1/*' | wc -l)
}

packs() {
	find disk -type f -path '*/w/*' "$@" | sort
}

@test "offload prints the name once the state rests, and restore once it is back" {
	begin
	run --separate-stderr -0 epd-offload -t nvme "$s"
	[ "$output" = w1/s1 ]
	[ -z "$stderr" ]
	[ "$(status_of "$s")" = OFFLOADED ]
	[ -z "$(find memory -type f -path '*/w/w1/*')" ]
	run --separate-stderr -0 epd-offload -v "$s"
	[ "$stderr" = 'w1/s1: in nvme already' ]
	run --separate-stderr -0 epd-restore -v "$s"
	[ "$output" = w1/s1 ]
	[[ $stderr == 'w1/s1: '*' pages: 0 in memory already, '*' restored '* ]]
	[ "$(status_of "$s")" = ACTIVE ]
	run --separate-stderr -0 epd-restore "$s"
	[ "$output" = w1/s1 ]
	[ "$(next "$s")" = "$said" ]
}

@test "what they did, as JSON" {
	begin
	epd-offload -j -t nvme --reason 'why not' "$s" >out
	jq -e '.schema_version == 1 and .state == "w1/s1" and .version == 3 and
		.tier == "nvme" and .before == false and .pages > 3 and
		.pages_missing == 0 and .pages_shared == 0 and .bytes > 0 and
		.freed_bytes > 0 and .ms > 0' out
	epd-offload -j "$s" | jq -e '.before and .version == 3'
	epd-state log -j w1 | jq -se 'map(select(.record == "offload" and
		.status == "OFFLOADED"))[0] | .tier == "nvme" and
		.reason == "why not"'
	epd-restore -j "$s" >out
	jq -e --argjson n "$n" '.state == "w1/s1" and .version == 3 and
		.schema_version == 1 and .rested and .pages >= $n and
		.pages_pinned == 0 and .pages_restored == .pages and .pages_missing == 0 and .bytes > 0 and
		.tiers == ["nvme"]' out
	epd-restore -j "$s" | jq -e '.pages_pinned == .pages and
		.rested == false and .pages_restored == 0 and .tiers == []'
}

@test "states come from operands, -w and standard input" {
	begin
	epd-fork -q -n 2 "$s" >branches
	[ "$(epd-offload - <branches)" = $'w1/s2\nw1/s3' ]
	[ "$(epd-offload -w w1 s1)" = w1/s1 ]
	[ -z "$(find memory -type f -path '*/w/w1/*')" ]
	[ "$(epd-restore -w w1 s1 - <branches)" = $'w1/s1\nw1/s2\nw1/s3' ]
}

@test "cpu is memory: the state rests there, and keeps its pages" {
	begin
	find memory -type f -path '*/w/w1/*' >was
	[ "$(epd-offload -t cpu "$s")" = w1/s1 ]
	[ "$(status_of "$s")" = OFFLOADED ]
	find memory -type f -path '*/w/w1/*' | cmp was -
	[ "$(next "$s")" = "$said" ]
	# From below it goes by memory, since somebody asked and not since somebody died.
	epd-offload -t nvme "$s" >/dev/null
	epd-offload -t cpu "$s" >/dev/null
	[ "$(epd-state log -v w1 | grep -c died)" -eq 0 ]
}

@test "who rests in memory keeps his pages there, whoever shares them" {
	begin
	t=$(epd-fork -q "$s")
	epd-offload -q -t cpu "$t"
	epd-offload -j -t nvme "$s" | jq -e '.freed_bytes == 0 and .pages_shared > 0'
	find memory -type f -path '*/w/w1/*' >was
	[ -s was ]
	epd-restore -j "$t" | jq -e '.pages_pinned == .pages and .pages_restored == 0'
}

@test "a restore that cannot fit costs nobody else his memory" {
	begin
	big=$(epd-prefill -q -w big -p "$(seq -s ' ' 1 450)")
	epd-offload -q "$big"
	find memory -type f -path '*/w/w1/*' >was
	[ -s was ]
	sed -i 's|^  memory_dir|  memory_cap: 1048576\n  memory_dir|' "$EPD_CONFIG"
	run -3 --separate-stderr epd-restore "$big"
	find memory -type f -path '*/w/w1/*' | cmp was -
	# Who goes on from it computes with it, and what makes way is on the disk.
	epd-decode -q -n 1 "$big" >/dev/null
	[ "$(epd-state show -j "$s" | jq '.pages_missing - .pages_nvme')" -eq 0 ]
	[ "$(next "$s")" = "$said" ]
}

@test "what is refused: a sentence, a status, and the state as it was" {
	begin
	check() {	# STATUS SENTENCE COMMAND...
		run --separate-stderr "-$1" "${@:3}"
		[ -z "$output" ]
		[[ $stderr == "$2"* ]] || { echo "$stderr"; return 1; }
		[ "$(status_of "$s")" = ACTIVE ]
	}
	check 2 'epd-offload: no state' epd-offload
	check 2 'epd-restore: no state' epd-restore
	check 2 'epd-offload: tape: no such tier' epd-offload -t tape "$s"
	check 2 'epd-offload: : no such tier' epd-offload -t '' "$s"
	check 2 'epd-offload: none: no such tier' epd-offload -t none "$s"
	check 1 'epd-offload: w1/s1: ' epd-offload -t gpu "$s"
	check 1 'epd-offload: w1/s1: tier mooncake_store: ' \
		epd-offload -t mooncake_store "$s"
	check 2 'epd-offload: w1/s1@1: all versions' epd-offload "$s@1"
	check 2 'epd-restore: w1/s1@1: ' epd-restore "$s@1"
	check 4 'epd-offload: w1/s9: ' epd-offload w1/s9
	check 4 'epd-restore: w1/s9: ' epd-restore w1/s9
	check 4 'epd-offload: w9/s1: ' epd-offload w9/s1
	check 2 'epd-offload: w1: ' epd-offload w1
	for l in '' 1- -1 , 1,,2 x 3-1 1-2-3 99999999999 4294967295 '1 2'; do
		check 2 'epd-restore: --pages: ' epd-restore --pages "$l" "$s"
	done
	check 2 'epd-restore: --pages: more than' epd-restore --pages \
		"$(seq -s, 0 299)" "$s"
	check 2 'epd-restore: w1/s1: it has no such page' epd-restore \
		--pages 70 "$s"
	check 2 'epd-restore: w1/s1: it has no such page: 70 ' epd-restore \
		--pages 0,70,1 "$s"
	for w in '../x/s1' 'w1/s0' 'w1/s01' $'w1/s1\n' 'w1/s99999999999' '@' \
		"$(head -c 5000 /dev/zero | tr '\0' w)/s1" 'f:00'; do
		for c in epd-offload epd-restore 'epd-state wait --tool x'; do
			rc=0
			$c -- "$w" >out 2>err || rc=$?
			[[ $rc == [24] ]] && [ ! -s out ]
			[ "$(wc -l <err)" -eq 1 ]
		done
	done
	long=$(head -c 70000 /dev/zero | tr '\0' x)
	check 2 'epd-offload: w1/s1: ' epd-offload --reason "$long" "$s"
	check 2 'epd-state: w1/s1: ' epd-state wait --tool "$long" "$s"
	tier 'evict_to: none'
	check 2 'epd-offload: none: no such tier' epd-offload "$s"
	printf 'state:\n  enable_offload: false\n' >>"$EPD_CONFIG"
	check 1 'epd-offload: w1/s1: state.enable_offload' epd-offload -t nvme "$s"
	tier
	[ "$(next "$s")" = "$said" ]
}

# odd STATUS SENTENCE LINE COMMAND...: with that line for `tier`.
odd() {
	printf 'page: { memory_dir: %s }\ntier: { %s }\n' "$PWD/memory" "$3" >odd.yaml
	run --separate-stderr "-$1" env EPD_CONFIG=odd.yaml "${@:4}"
	[ -z "$output" ]
	# shellcheck disable=SC2053
	[[ $stderr == $2 ]] || { echo "$stderr"; return 1; }
	[ "$(status_of "$s")" = ACTIVE ]
}

@test "tiers that are set up wrong: what is said, and the exit status" {
	begin
	: >file
	odd 1 '*tier nvme: /proc/none/x: *' 'nvme_dir: /proc/none/x' epd-offload -t nvme "$s"
	odd 1 '*tier nvme: *' "nvme_dir: $PWD/file/x" epd-offload -t nvme "$s"
	moon='mooncake_url: "http://127.0.0.1:9"'
	odd 2 '*nokey: No such file*' "$moon, key_file: $PWD/nokey" \
		epd-offload -t mooncake_store "$s"
	odd 3 '*the Mooncake Store at http://127.0.0.1:9: *' "$moon" \
		epd-offload -t mooncake_store "$s"
	for d in '' /disk /a/b/c /w/w1; do
		odd 2 '*tier.nvme_dir: it lies in the store*' "nvme_dir: $EPD_STORE$d" \
			epd-offload -t nvme "$s"
	done
	ln -s "$EPD_STORE" link
	odd 2 '*tier.nvme_dir: it lies in the store*' "nvme_dir: $PWD/link/x" epd-state ls
	[ -z "$(ls "$EPD_STORE" | grep -E '^(a|epd-.*)$')" ]
	odd 2 '*odd.yaml: tier.low_water is above tier.high_water*' \
		'low_water: 0.9, high_water: 0.8' epd-state ls
	printf 'page: { memory_dir: %s }\ntier: { nvme_dir: %s-2 }\n' "$PWD/memory" \
		"$EPD_STORE" >beside.yaml
	EPD_CONFIG=beside.yaml epd-offload -t nvme "$s"
	rm -rf "$EPD_STORE-2"
	[ "$(next "$s")" = "$said" ]
}

@test "one folder cannot be memory's and the tier's" {
	begin
	sed -i "s|nvme_dir:.*|nvme_dir: $PWD/memory|" "$EPD_CONFIG"
	run --separate-stderr ! epd-offload "$s"
	[[ $stderr == 'epd-offload: w1/s1: tier nvme: '* ]]
	[ "$(status_of "$s")" = ACTIVE ]
	[ "$(next "$s")" = "$said" ]
	tier
}

@test "pages that a state does not have are named, and none comes back" {
	begin
	epd-offload "$s"
	last=$((n - 1))
	for l in "$n" "0,$n" "0,99" "$n-99" "0-3,$n-99"; do
		run --separate-stderr -2 epd-restore --pages "$l" "$s"
		[ -z "$output" ]
		[[ $stderr == "epd-restore: w1/s1: it has no such page: "*" of $n" ]]
		[ "$(status_of "$s")" = OFFLOADED ]
		[ -z "$(find memory -type f -path '*/w/w1/*')" ]
	done
	[[ $(epd-restore --pages 0,99 "$s" 2>&1) == *': 99 of '* ]]
	# Others that are asked for are restored.
	t=$(epd-prefill -q -w w2 -p "$(seq -s' ' 200)")
	epd-offload "$t"
	run --separate-stderr -2 epd-restore --pages "0,$n" "$s" "$t"
	[ "$output" = "$t" ]
	epd-restore --pages "0,$last-99" "$s"
}

@test "some pages alone come back, with what lies in one run with them" {
	begin
	epd-offload "$s"
	epd-restore -j --pages 0 "$s" | jq -e --argjson n "$n" '
		.pages_restored < $n and .pages_restored > 0 and .pages_missing == 0'
	epd-state ls -j | jq -e '.pages_missing > 0 and
		.pages_nvme == .pages_missing'
	epd-restore -j --pages 0-9,2 "$s" | jq -e ".pages >= $n"
	[ "$(next "$s")" = "$said" ]
}

@test "a state that waits says for whom, and its next turn ends that" {
	begin
	run --separate-stderr -0 epd-state wait -v --tool search --ttl 5m "$s"
	[ "$stderr" = 'w1/s1: waits' ]
	epd-state show "$s" | grep -q '^waits: for search, till 20'
	epd-state show -j "$s" | jq -e '.waits_for_tool == "search" and
		.wait_deadline_ms > 0'
	epd-state ls -j | jq -e '.waits_for_tool == "search"'
	epd-state metrics | grep -qx 'epd_tier_states_waiting 1'
	epd-state wait --tool other "$s"
	epd-state show -j "$s" | jq -e '.waits_for_tool == "other" and
		.wait_deadline_ms == null'
	epd-offload "$s"
	epd-state show -j "$s" | jq -e '.waits_for_tool == "other"'
	epd-state wait --done "$s"
	epd-state show -j "$s" | jq -e '.waits_for_tool == null'
	epd-state wait --tool search "$s"
	epd-prefill -q --role tool -p '17 found' "$s"
	epd-state show -j "$s" | jq -e '.waits_for_tool == null and
		.status == "ACTIVE"'
	for tool in $'a\x1b[2J' $'a\nb' $'\xff' $'\xe2\x80\xae'x; do
		run --separate-stderr -2 epd-state wait --tool "$tool" "$s"
		[[ $stderr == *'cannot be shown'* ]]
		[[ $stderr != *$'\x1b'* ]]
	done
	epd-state wait -j --tool 'Wetter in Köln' --ttl 2m "$s" | jq -e '
		.schema_version == 1 and .state == "w1/s1" and
		.waits_for_tool == "Wetter in Köln" and .ttl_ms == 120000'
	epd-state wait -j --done "$s" | jq -e '.waits_for_tool == null and .ttl_ms == null'
	run -2 epd-state wait --done --ttl 1m "$s"
	run -2 epd-state wait "$s"
	run -2 epd-state wait --tool x --done "$s"
	run -2 epd-state wait --tool '' "$s"
	run -2 epd-state wait --tool x --ttl soon "$s"
	run -2 epd-state wait --tool x "$s@1"
	run -4 epd-state wait --tool x w1/s9
}

@test "where pages are: show, ls, tree and the metrics" {
	begin
	epd-state show "$s" | grep -qx "tiers: $n in memory, 0 to be computed again"
	epd-offload "$s"
	epd-state show "$s" | grep -qx \
		"tiers: 0 in memory, $n in nvme, 0 to be computed again"
	epd-state show "$s" | grep -qx 'status: OFFLOADED in nvme'
	epd-state show -j "$s" | jq -e --argjson n "$n" '
		.pages_missing == $n and .pages_nvme == $n and ([.kv_pages[].tier] | unique) == ["nvme"]'
	epd-state show -j w1 | jq -e ".pages_nvme == $n"
	epd-state ls -l | awk -v n="$n" 'NR == 2 {
		ok = $6 == n && $7 == n && $8 == n } END { exit !ok }'
	epd-state tree | grep -q "$n of $n pages not in memory, $n of those in nvme"
	epd-state metrics >m
	grep -qx "epd_tier_nvme_runs $runs" m
	grep -qx 'epd_tier_memory_runs 0' m
	grep -qx 'epd_tier_states_at_rest 1' m
	grep -qx 'epd_tier_residency 0.000000' m
	epd-state metrics -j | jq -e '.tier.nvme_bytes > 0 and
		.tier.nvme_cap_bytes == 68719476736'
	epd-restore -q --pages 0 "$s"
	epd-state show -j "$s" | jq -e '[.kv_pages[].tier] | unique ==
		["cpu", "nvme"]'
	find disk -type f -path '*/w/*' -delete
	epd-state show "$s" | grep -q 'tiers: [1-9] in memory, [1-9] to be computed'
	epd-restore -q "$s"
	next "$s" >/dev/null
	epd-state metrics | grep -qx 'epd_tier_residency 1.000000'
}

@test "check reads what rests, and no fault is what a cache has lost" {
	begin
	epd-offload "$s"
	at=$(packs | head -n 1 | xargs stat -c %X)
	run --separate-stderr -0 epd-state check -v
	[[ $stderr == *"in $runs packs in nvme"* ]]
	[[ $stderr =~ 'not in memory: '([0-9]+)' in nvme, 0 to be computed again' ]]
	[ "${BASH_REMATCH[1]}" -gt 3 ]
	[ "$(packs | head -n 1 | xargs stat -c %X)" = "$at" ]
	epd-state check -j | tail -n 1 | jq -e --argjson runs "$runs" '
		.nvme_runs == $runs and .nvme_pages > 3 and .pages_lost == 0 and .litter == 0
		and .pages_missing == .pages_nvme and .pages_nvme > 3'
	p=$(packs | head -n 1)
	chmod 600 "$p"
	cp "$p" kept
	printf XYZ | dd of="$p" bs=1 seek=4300 conv=notrunc status=none
	run --separate-stderr -0 epd-state check
	[ -z "$output" ]
	[[ $stderr == 'w1: nvme: run '*': 1 of '*' are damaged'* ]]
	run --separate-stderr -0 epd-state check --quick
	[ -z "$stderr" ]
	epd-state check -j | jq -se '.[0].lost and .[1].pages_lost == 1 and
		.[1].faults == 0'
	# A front, another's pack, and none at all.
	cp kept "$p"
	printf X | dd of="$p" bs=1 seek=200 conv=notrunc status=none
	for quick in '' --quick; do
		run --separate-stderr -0 epd-state check $quick w1
		[[ $stderr == 'w1: nvme: '*': no whole pack of that run; gc takes it' ]]
	done
	cp "$(packs | tail -n 1)" "$p"
	run --separate-stderr -0 epd-state check
	[[ $stderr == *'no whole pack of that run; gc takes it' ]]
	rm "$p"
	run --separate-stderr -0 epd-state check
	[[ $stderr == 'w1: s1 rests in nvme, and '*' pages are in no tier here'* ]]
	[ "$(next "$s")" = "$said" ]
}

@test "gc sweeps the disk as memory, and tells the two apart" {
	begin
	epd-offload "$s"
	dir=$(dirname "$(packs | head -n 1)")
	p=$(packs | head -n 1)
	cp "$p" "$dir/0123456789abcdef"
	mkdir "$dir/odd" "$dir/../gone"
	cp "$p" "$dir/../gone/"
	echo x >"$dir/.tmp.0123456789abcdef"
	echo x >"$dir/../../.tmp.0123456789abcdef"
	echo x >"$dir/../../strange"
	cp -a "${dir%/w/*}" disk/epd-00000000000000000000000000000001
	echo /nowhere/store >disk/epd-00000000000000000000000000000001/store
	find disk -exec touch -h -d '1 hour ago' {} +
	sleep 1.1
	run --separate-stderr -0 epd-state check
	[ "$(wc -l <<<"$stderr")" -eq 4 ]
	[[ $stderr == *'1 run in nvme that no version shows'* ]]
	[[ $stderr == *'nvme folder: strange: no run'* ]]
	[[ $stderr == *'nvme folder: w/gone: of no workflow'* ]]
	epd-state gc -j | jq -e '.nvme_runs == 1 and .nvme_run_bytes > 0 and
		.nvme_folders == 1 and .nvme_folder_bytes > 0 and
		.nvme_unseen == 2 and
		.nvme_leftovers == 4 and .runs == 0 and .leftovers == 0 and
		.memory_folders == 0'
	run --separate-stderr -0 epd-state check
	[ -z "$stderr" ]
	rm -r disk/epd-00000000000000000000000000000001
	[ "$(packs | wc -l)" -eq "$runs" ]
	run --separate-stderr -0 epd-state gc -v
	[[ $stderr == *$'\nnvme: 0 runs (0 B), 0 folders (0 B), 0 leftovers (0 B)' ]]
	[ "$(next "$s")" = "$said" ]
	epd-state rm "$s"
	[ "$(packs | wc -l)" -eq 0 ]
}

@test "who died over a state is told, and the state goes on" {
	begin
	printf 'state:\n  lease_ms: 1000\n' >>"$EPD_CONFIG"
	die_moving
	sleep 1.1		# who only looks goes by the time that he had
	run --separate-stderr -0 epd-state check
	[ "$stderr" = 'w1: s1 is OFFLOADING, and who moved it is gone; gc takes it' ]
	run --separate-stderr -0 epd-state gc -j
	[[ $stderr == *'w1/s1: process '*', which moved it out, died or was too late; it is ACTIVE, at version 3' ]]
	jq -e '.offloads_rolled_back == 1 and .restores_ended == 0' <<<"$output"
	[ "$(status_of "$s")" = ACTIVE ]
	run --separate-stderr -0 epd-state gc -q
	[ -z "$stderr" ]
	# The same of one who decoded it.
	for ((nth = 30; nth < 500; nth++)); do
		strike KILL $nth once epd-decode -n 9 --ignore-eos "$s"
		[ "$(epd-state check -j | jq -s '.[-1].leases')" -eq 0 ] || break
	done
	run --separate-stderr -0 epd-state gc -j
	[[ $stderr == *'w1/s1: process '*', which decoded it, died or was too late; it is ACTIVE, at version '* ]]
	jq -e '.dead_leases == 1' <<<"$output"
	run --separate-stderr -0 epd-state gc
	[ -z "$stderr" ]
}

@test "kind18: what the tier has is what its files have, however often it is used" {
	begin
	for i in {1..40}; do
		epd-offload -q "$s" >/dev/null
		epd-restore -q "$s" >/dev/null
		t=$(epd-prefill -q -w w2 -p "text $i")
		epd-offload -q "$t" >/dev/null
		epd-state rm "$t"
	done
	used=$(packs -printf '%b\n' | awk '{ n += $1 * 512 } END { print n }')
	epd-state metrics | grep -qx "epd_tier_nvme_bytes $used"
	[ "$(packs | wc -l)" -eq "$runs" ]
	epd-state rm "$s"
	epd-state metrics | grep -qx 'epd_tier_nvme_bytes 0'
}

@test "kind21: a restore that says it is done saves computing" {
	begin
	had=$(epd-state show -j "$s" | jq .tokens)
	epd-offload -q "$s"
	epd-restore -q "$s"
	# All tokens but the last have their pages; none of them is computed again.
	epd-decode -j -n 4 --ignore-eos "$s" | jq -se '.[-1].lost_pages == 0'
	epd-prefill -j -p more "$s" >out
	jq -e --argjson had "$had" '.lost_pages == 0 and
		.tokens - .computed >= $had' out
	# And so where it comes by itself.
	had=$(jq .tokens out)
	epd-decode -q -n 4 --ignore-eos "$s" >/dev/null
	epd-offload -q "$s"
	epd-prefill -j -p more "$s" >out
	jq -e --argjson had "$had" '.lost_pages == 0 and
		.tokens - .computed >= $had' out
	epd-state metrics | grep -qx 'epd_state_pages_recomputed 0'
}

@test "kind23: a tier that is full makes way for what comes, or says who is in it" {
	setup_tier
	tier 'nvme_cap: 1048576'
	for i in {1..14}; do
		t=$(epd-prefill -q -w "v$i" -p "$(seq -s ' ' $i 60)")
		epd-offload -q "$t" >>done
	done
	[ "$(wc -l <done)" -eq 14 ]
	used=$(packs -printf '%b\n' | awk '{ n += $1 * 512 } END { print n }')
	[ "$used" -le 1048576 ]
	epd-state metrics | grep -Eqx 'epd_tier_evicted_runs [1-9][0-9]*'
	# One that does not go in at all is named, and goes on where it is.
	t=$(epd-prefill -q -w big -p "$(seq -s ' ' 1 500)")
	run --separate-stderr -3 epd-offload "$t"
	[[ $stderr == 'epd-offload: big/s1: tier nvme: '*' bytes are more than its 1048576' ]]
	[ "$(status_of "$t")" = ACTIVE ]
	epd-decode -q -n 1 "$t" >/dev/null
	# gc holds it to a cap that was made smaller.
	tier 'nvme_cap: 4194304'
	for i in {1..6}; do
		t=$(epd-prefill -q -w "x$i" -p "$(seq -s ' ' $i 90)")
		epd-offload -q "$t"
	done
	[ "$(packs -printf '%b\n' | awk '{ n += $1 * 512 } END { print n }')" -gt 1048576 ]
	tier 'nvme_cap: 1048576'
	epd-state gc -j | jq -e '.nvme_evicted > 0'
	[ "$(packs -printf '%b\n' | awk '{ n += $1 * 512 } END { print n }')" -le 1048576 ]
	epd-state check
}

@test "kind26: who comes later uses no name that is in use, and takes nothing for empty" {
	begin
	epd-offload -q "$s"
	packs | xargs sha256sum >sums
	for i in 1 2 3; do
		t=$(epd-prefill -q --reuse none -w w1 -p "another text of some length, number $i")
		epd-offload -q "$t"
		epd-state gc
	done
	sha256sum --quiet -c sums
	[ "$(packs | wc -l)" -eq $((runs + 3)) ]
	[ "$(next "$s")" = "$said" ]
}

@test "kind22: killed at any call, what was printed rests, and no pack is nobody's" {
	kills offload KILL 30 9
	kills restore TORN 30 9
	kills resume KILL 40 11
	kills wait KILL 20 9
	kills below KILL 20 61
}

@test "a call that fails: a sentence, and no state is lost in the middle" {
	fails offload EIO once 30 11
	fails offload ENOSPC ever 40 13
	fails restore EIO once 30 11
	fails restore ENOSPC once 35 13
	fails resume EIO once 40 17
	fails wait ENOSPC once 20 9
	fails below EIO once 20 67
	calls_of=read,pread fails restore EIO once 1 3
}

@test "a store that is out of sight for a while keeps what it has on a shared disk" {
	begin
	epd-offload -q "$s"
	packs | xargs sha256sum >sums
	other="$BATS_TEST_TMPDIR/third"
	EPD_STORE=$other epd-prefill -q -w w1 -p 'another store of the same disk' >/dev/null
	mv "$EPD_STORE" "$EPD_STORE.away"
	run --separate-stderr env EPD_STORE="$other" epd-state gc -v
	[ "$status" -eq 0 ]
	[[ $stderr == *' stays: its store is not seen from here; if it is gone for good: rm -r '* ]]
	EPD_STORE=$other epd-state gc -j | jq -e '.nvme_unseen == 2 and .nvme_folders == 0'
	mv "$EPD_STORE.away" "$EPD_STORE"
	sha256sum --quiet -c sums
	EPD_STORE=$other epd-state gc -j | jq -e '.nvme_unseen == 1'
	[ "$(next "$s")" = "$said" ]
}

@test "a tier that takes nothing is said once, and counted, while memory makes room" {
	begin
	for i in {1..14}; do
		epd-prefill -q -w "v$i" -p "$(seq -s ' ' "$i" 60)" >/dev/null
	done
	echo file >nodir
	sed -i "s|nvme_dir: .*|nvme_dir: $PWD/nodir/x|
		s|memory_dir: .*|&\n  memory_cap: 1048576|" "$EPD_CONFIG"
	run --separate-stderr epd-state gc -v
	[ "$(grep -c 'tier nvme: .*; what memory has no room for is computed again' <<<"$stderr")" -eq 1 ]
	epd-state metrics | grep -Eqx 'epd_tier_errors [1-9][0-9]*'
}

@test "what is expected comes back once, and is not put to rest meanwhile" {
	begin
	printf 'transfer:\n  prefetch: speculative\nstate:\n  ttl_ms: 1\n' >>"$EPD_CONFIG"
	epd-state wait --tool zoom --ttl 500ms "$s"
	epd-offload -q "$s"
	epd-state gc -j | jq -e '.expected == 1'
	epd-state gc -j | jq -e '.expected == 0'
	epd-restore -q "$s"
	epd-state gc -j | jq -e '.rested == 0 and .expected == 0'
	[ "$(status_of "$s")" = ACTIVE ]
}

@test "kind19: a disk that is full below the cap" {
	[ "$(id -u)" -eq 0 ] || skip 'mounting a small tmpfs takes root'
	setup_tier
	mount -t tmpfs -o size=300k,mode=700 tmpfs disk 2>/dev/null ||
		skip 'a tmpfs cannot be mounted here'
	for i in {1..6}; do
		t=$(epd-prefill -q -w "v$i" -p "$(seq -s ' ' $i 60)")
		epd-offload "$t" >>done 2>err || break
	done
	# Nobody who rests there already makes way: it says so, and all is as it was.
	n=$(wc -l <done)
	[ "$n" -ge 1 ]
	[ "$n" -lt 6 ]
	[[ $(cat err) == *'o space left'* ]]
	[ "$(packs | wc -l)" -eq "$n" ]
	epd-state metrics | grep -qx 'epd_tier_evicted_runs 0'
	t=$(epd-prefill -q -w big -p "$(seq -s ' ' 1 400)")
	run --separate-stderr -3 epd-offload "$t"
	[[ $stderr == *'o space left'* ]]
	[ "$(status_of "$t")" = ACTIVE ]
	[ -z "$(find disk -name '.tmp.*')" ]
	for i in $(seq "$n"); do
		epd-restore -q "v$i/s1"
	done
	epd-state metrics | grep -qx 'epd_tier_page_misses 0'
	for i in $(seq $((n + 1))); do
		epd-decode -q -n 1 "v$i/s1" >/dev/null
	done
	epd-state check
	umount disk
}
