#!/usr/bin/env bats
# Nodes that one etcd knows, each in a network namespace of its own.

load helper
load peer
load nodes

teardown() {
	no_nodes
	for s in a b c; do
		[ ! -e "$s/store" ] || epd-state check --store "$s" --config "$s.yaml"
	done
	rm -rf a b c memory memory-* etcd
}

# A state with a picture on a, w1/s1, its branch on b and that one's on c.
three() {
	nodes a b c
	for n in a b c; do up $n; done
	on a epd-prefill -i "$pictures/008_0.jpg" -p "$(seq -s' ' 40) What?" >/dev/null
	on a epd-decode -n 20 w1/s1 >/dev/null
	on a epd-prefill -p 'And?' w1/s1 >/dev/null
	want=$(text a w1/s1)
	[ "$(on b epd-fork --from a w1/s1)" = w1/s1 ]
	[ "$(on c epd-fork --from b w1/s1)" = w1/s1 ]
	till 50 has_hints b
	till 50 owned 3
	[ -n "$want" ]
}

@test "made on A, forked on B, its branch on C, A killed: the same bits" {
	three
	for n in a b c; do
		on $n epd-state show -j w1/s1 | jq -c '[.kv_pages[].sum]' >sums.$n
		[ "$(on $n epd-state show -j w1/s1 | jq .pages_missing)" -eq 0 ]
	done
	cmp sums.a sums.b
	cmp sums.a sums.c
	cut_off a
	lose c
	# The hints of who was killed stand for a while yet, and are no more than that.
	[ "$(hints a)" -gt 0 ]
	stale=$(counted c directory_stale_hints)
	[ "$(text c w1/s1)" = "$want" ]
	[ "$(counted c directory_stale_hints)" -gt "$stale" ]
	[ "$(counted c state_pages_recomputed)" -eq 0 ]
	# Nobody has them: they are computed.
	cut_off b
	lose c
	[ "$(text c w1/s1)" = "$want" ]
	[ "$(counted c state_pages_recomputed)" -gt 0 ]
	on c epd-state show -j w1/s1 | jq -c '[.kv_pages[].sum]' | cmp - sums.a
	# Who comes back is told of again, and serves again.
	rm -f a.address b.address
	up a
	up b
	till 100 has_hints a
	lose c
	before=$(counted c state_pages_recomputed)
	[ "$(text c w1/s1)" = "$want" ]
	[ "$(counted c state_pages_recomputed)" -eq "$before" ]
}

@test "a node that hangs is given up in time, and asked again when it goes on" {
	three
	cut_off a
	kill -STOP "${pid[b]}"
	lose c
	from=$SECONDS
	[ "$(text c w1/s1)" = "$want" ]
	[ $((SECONDS - from)) -le 8 ]
	[ "$(counted c state_pages_recomputed)" -gt 0 ]
	lose c
	kill -CONT "${pid[b]}"
	before=$(counted c state_pages_recomputed)
	[ "$(text c w1/s1)" = "$want" ]
	[ "$(counted c state_pages_recomputed)" -eq "$before" ]
}

@test "by a hint the last page comes too, which is not full" {
	three
	# b, which c's branch is of, is gone; a has it all by name.
	cut_off b
	lose c
	[ "$(text c w1/s1)" = "$want" ]
	[ "$(counted c state_pages_recomputed)" -eq 0 ]
}

@test "what was not fetched is had when it is needed, from who has it" {
	nodes a b
	up a
	sed -i 's/^transfer: {/transfer: { prefetch: none,/' b.yaml
	on a epd-prefill -i "$pictures/008_0.jpg" -p "$(seq -s' ' 40) What?" >/dev/null
	want=$(text a w1/s1)
	till 50 has_hints a
	run --separate-stderr on b epd-fork -j -v --from a w1/s1
	[ "$status" -eq 0 ]
	[ "$(jq .pages_copied <<<"$output")" -eq 0 ]
	[ "$(jq .pages_missing <<<"$output")" -gt 5 ]
	[ "$(jq -r .node <<<"$output")" = a ]
	[ "$(jq -r .parent <<<"$output")" = w1/s1@1 ]
	[[ $stderr == *'to be computed or found'* ]]
	# Its first version says whence it came.
	on b epd-state show -j w1/s1@1 | jq -e --arg at "${at[a]}" '.metadata |
		.command == "fork" and .from == "w1/s1" and .version == 1 and
		.node == $at'
	[ "$(text b w1/s1)" = "$want" ]
	[ "$(counted b state_pages_recomputed)" -eq 0 ]
}

@test "a peer is said by its name; names that are none say so" {
	nodes a b
	on a epd-prefill -p 'hello' >/dev/null
	run -4 --separate-stderr on b epd-fork --from a w1/s1
	[[ $stderr == *'a: no such node lives'* ]]
	up a
	up b
	till 50 eval '[ "$(keys_of /nodes/)" -eq 2 ]'
	run -4 --separate-stderr on b epd-fork --from nobody w1/s1
	[[ $stderr == *'nobody: no such node lives'* ]]
	run -4 --separate-stderr on b epd-fork --from a w1/s9
	[[ $stderr == *'w1/s9: no such state'* ]]
	run -4 --separate-stderr on b epd-fork --from a w7/s1
	[[ $stderr == *'no such workflow'* ]]
	run -2 --separate-stderr on b epd-fork --from b w1/s1
	[[ $stderr == *"this store's own server"* ]]
	for ref in w1 w1/s1/ w1/s1@0 ../w1/s1 features/ab w1/s1@x ''; do
		run --separate-stderr on b epd-fork --from a "$ref"
		[ "$status" -eq 2 ] || [ "$status" -eq 4 ]
		[ -z "$output" ]
	done
	run -4 --separate-stderr on b epd-fork --from a w1/s1@7
	for o in '-n 2' --replace '-s 1' '--ttl 1m' '--expect 1' '--reason x'; do
		# shellcheck disable=SC2086
		run -2 --separate-stderr on b epd-fork --from a $o w1/s1
	done
	# Nothing of all that is left.
	[ -z "$(on b epd-state ls)" ]
	[ -z "$(ls b/w)" ]
	# A plan is of whom a hand-off would go to.
	on b epd-prefill -w mine -p 'hello' >/dev/null
	run -4 --separate-stderr on b env -C / epd-plan --to nobody mine/s1
	[[ $stderr == *'nobody: no such node lives'* ]]
	[[ $(on b env -C / epd-plan --to a mine/s1) == *'tcp '* ]]
	# By name: fetched, handed over, asked for its halves; where no folder is called so.
	t=$(on b epd-handoff --from a w1/s1)
	[ "$t" = w1/s1 ]
	[ "$(on b env -C / epd-handoff --to a w1/s1)" = w2/s1 ]
	run -4 --separate-stderr on a env -C / epd-handoff --to nobody w2/s1
	run -4 --separate-stderr on a epd-handoff --from nobody w2/s1
	[ "$(on a epd-state ls | wc -l)" -eq 1 ]
	# Two nodes of one name are none.
	cp a.yaml c.yaml
	sed -i "s/memory-a/memory-c/" c.yaml
	configure c
	sed -i 's/node: c/node: a/' c.yaml
	at[c]=${at[b]/7070/7071}
	EPD_STORE=$PWD/c EPD_CONFIG=$PWD/c.yaml ip netns exec "$stem-b" epd-serve \
		--role data --listen "${at[c]}" >c.address 2>c.err 7>&- 8>&- &
	pid[c]=$!
	till 50 test -s c.address
	till 50 eval '[ "$(keys_of /nodes/)" -eq 3 ]'
	run -2 --separate-stderr on b epd-fork --from a w2/s1
	[[ $stderr == *'2 nodes call themselves so'* ]]
}

# Who died is in the directory for as long as his lease; who is there now is not he.
@test "another store at the address of a node that died is not taken for it" {
	lease_ms=60000
	nodes a b
	on a epd-prefill -w w1 -p 'I am a' >/dev/null
	on b epd-prefill -w w9 -p 'I am b' >/dev/null
	up a
	till 50 eval '[ "$(keys_of /nodes/)" -gt 0 ]'
	cut_off a
	cp a.yaml c.yaml
	sed -i 's/node: a/node: c/' c.yaml
	EPD_STORE=$PWD/c EPD_CONFIG=$PWD/c.yaml epd-prefill -w w1 -p 'I am c' >/dev/null
	EPD_STORE=$PWD/c EPD_CONFIG=$PWD/c.yaml ip netns exec "$stem-a" epd-serve \
		--role data --listen "${at[a]}" --key-file key >c.address 2>c.err 7>&- 8>&- &
	pid[c]=$!
	till 100 test -s c.address
	for verb in 'epd-fork --from a w1/s1' 'epd-handoff --from a w1/s1' \
		'epd-handoff --to a w9/s1'; do
		# shellcheck disable=SC2086
		run -3 --separate-stderr on b env -C / $verb
		[[ $stderr == *'another store is there than the directory says'* ]]
		[ -z "$output" ]
	done
	[ "$(on b epd-state ls | wc -l)" -eq 1 ]
	[ "$(on b epd-state show -j w9/s1 | jq -r .status)" = ACTIVE ]
	# Both are told of, and the living one is had by its name.
	till 50 eval '[ "$(keys_of /nodes/)" -eq 2 ]'
	[ -n "$(on b epd-fork --from c w1/s1)" ]
}

@test "a node has an address that others can reach" {
	nodes a
	for l in '' '--listen unix:///'"$PWD"'/s/x' '--listen tcp://0.0.0.0:0' \
		'--listen tcp://[::]:0'; do
		# shellcheck disable=SC2086
		run -2 --separate-stderr on a timeout 10 epd-serve --role data \
			--key-file key $l
		[ -z "$output" ]
		[[ $stderr == *'no address at which other nodes reach this one'* ]]
		[[ $stderr == *'transfer.address'* ]]
	done
	[ "$(keys_of /nodes/)" -eq 0 ]
	on a epd doctor -j | jq -e '.directory.answers and .directory.nodes == 0'
	# By the second, or by what is set, it can be.
	EPD_STORE=$PWD/a EPD_CONFIG=$PWD/a.yaml ip netns exec "$stem-a" epd-serve \
		--role data --listen tcp://0.0.0.0:7071 --listen tcp://10.98.0.11:7070 \
		--key-file key >a.address 2>a.err 7>&- 8>&- &
	pid[a]=$!
	till 50 eval '[ "$(keys_of /nodes/)" -gt 0 ]'
	asked /v3/kv/range "{\"key\": \"$(printf /epd/nodes/ | base64)\",
		\"range_end\": \"$(printf /epd/nodes0 | base64)\"}" |
		jq -r '.kvs[0].value | @base64d' | grep -q '"tcp://10.98.0.11:7070"'
	down a
	for set in unix:///x/y tcp://0.0.0.0:1; do
		sed "s|^transfer: {|transfer: { address: \"$set\",|" a.yaml >odd.yaml
		run -2 --separate-stderr on a timeout 10 epd-serve --config odd.yaml \
			--role data --listen tcp://10.98.0.11:7070 --key-file key
		[[ $stderr == *"$set: no address"* ]]
	done
	sed "s|^transfer: {|transfer: { address: \"tcp://10.98.0.11:1\",|" a.yaml >odd.yaml
	cp odd.yaml a.yaml
	at[a]=tcp://0.0.0.0:0
	up a
	till 50 eval '[ "$(keys_of /nodes/)" -gt 0 ]'
}

@test "names of nodes are words that can be shown" {
	nodes a
	for name in 'tcp://x' 'x/y' "$(printf 'x\x1b[31m')" "$(printf '%064d' 1)"; do
		configure a
		printf '  node: "%s"\n' "$(sed 's/\x1b/\\x1b/' <<<"$name")" >name
		sed -i '/node:/d' a.yaml
		cat name >>a.yaml
		run -2 --separate-stderr on a epd-prefill -p hello
		[[ $stderr == *directory.node* ]]
		[[ $stderr != *$'\x1b'* ]]
	done
	configure a
	sed -i 's/node: a/node: "Bär-7 of.the_lab"/' a.yaml
	up a
	on a epd-prefill -p hello >/dev/null
	cp a.yaml b.yaml
	mkdir memory-b
	sed -i "s/node: .*/node: b/; s/memory-a/memory-b/" b.yaml
	EPD_STORE=$PWD/b EPD_CONFIG=$PWD/b.yaml run --separate-stderr \
		ip netns exec "$stem-a" epd-fork -j --from 'Bär-7 of.the_lab' w1/s1
	[ "$status" -eq 0 ]
	[ "$(jq -r .node <<<"$output")" = 'Bär-7 of.the_lab' ]
}

@test "every way a hint can be stale: the same answer, counted" {
	lease_ms=60000
	three
	told a >told.a
	[ "$(wc -l <told.a)" -gt 2 ]
	# A node whose memory was lost tells of what it has not.
	lose a
	asked_anew
	# What the state was is released, and its pages are gone.  The node takes back what
	# it told; that it had not come to that is done by hand.
	for s in w1/s1 w1/s2; do on a epd-state release $s >/dev/null; done
	on a epd-state gc >/dev/null
	till 50 has_none a
	lose c
	stale=$(counted c directory_stale_hints)
	[ "$(text c w1/s1)" = "$want" ]
	[ "$(counted c directory_stale_hints)" -eq "$stale" ]
	tell_again <told.a
	asked_anew
	# At its address another store serves, of whom the directory knows nothing.
	cut_off a
	printf 'page: { memory_dir: %s }\n' "$PWD/memory-a" >d.yaml
	EPD_STORE=$PWD/d EPD_CONFIG=$PWD/d.yaml ip netns exec "$stem-a" epd-serve \
		--role data --listen "${at[a]}" --key-file key >d.address 2>d.err 7>&- 8>&- &
	pid[d]=$!
	till 50 test -s d.address
	asked_anew
	# The one who has them has them damaged: they are computed.
	for run in $(find memory-b -path '*/w/*' -type f -size +100k); do
		chmod u+w "$run"
		printf '\377\376' | dd of="$run" bs=1 seek=$(($(stat -c %s "$run") / 2)) \
			conv=notrunc status=none
	done
	lose c
	before=$(counted c state_pages_recomputed)
	[ "$(text c w1/s1)" = "$want" ]
	[ "$(counted c state_pages_recomputed)" -gt "$before" ]
}

# What a node told, as etcd is told it again.
told() {
	local folder=/epd/hints
	asked /v3/kv/range "{\"key\": \"$(printf %s/ $folder | base64)\",
		\"range_end\": \"$(printf %s0 $folder | base64)\"}" |
		jq -c --arg node "/$(uuid "$1")" '.kvs[] |
			select(.key | @base64d | contains($node)) | {key, value}'
}

tell_again() {
	while read -r kv; do
		asked /v3/kv/put "$kv" >/dev/null </dev/null
	done
}

# c's pages are lost, come from b, and what was told that did not hold is counted.
asked_anew() {
	local stale computed
	lose c
	stale=$(counted c directory_stale_hints)
	computed=$(counted c state_pages_recomputed)
	[ "$(text c w1/s1)" = "$want" ]
	[ "$(counted c directory_stale_hints)" -gt "$stale" ]
	[ "$(counted c state_pages_recomputed)" -eq "$computed" ]
}

@test "no answer is older than the bound, on a machine with another clock too" {
	nodes a b c
	up a
	up b
	# The clock that c counts by is days ahead.
	unshare --time --boottime 200000 true 2>/dev/null || skip 'no namespaces of time here'
	ahead='unshare --time --boottime 200000 --monotonic 100000'
	EPD_STORE=$PWD/c EPD_CONFIG=$PWD/c.yaml ip netns exec "$stem-c" $ahead epd-serve \
		--role data --listen "${at[c]}" --key-file key >c.address 2>c.err 7>&- 8>&- &
	pid[c]=$!
	till 50 test -s c.address
	on a epd-prefill -w w1 -p "$(seq -s' ' 40)" >/dev/null
	want=$(text a w1/s1)
	on b epd-fork --from a w1/s1 >/dev/null
	on c $ahead epd-fork --from a w1/s1 >/dev/null
	end=$((SECONDS + 4))
	(
		while [ $SECONDS -lt $end ]; do
			t=$(on a epd-prefill -w w1 -p "$RANDOM $RANDOM $(seq -s' ' 30)")
			on a epd-state release "$t"
		done
	) >/dev/null &
	maker=$!
	while [ $SECONDS -lt $end ]; do
		lose b
		lose c
		[ "$(text b w1/s1)" = "$want" ]
		u=$(on c $ahead epd-fork w1/s1)
		[ "$(on c $ahead epd-decode -n 8 --ignore-eos -j "$u" |
			jq -c 'select(.id != null) | [.id, .logprob]')" = "$want" ]
	done
	wait $maker
	for n in b c; do
		[ "$(counted $n directory_hits)" -gt 3 ]
		# What these commands say of themselves; dir_bound times it from without.
		counted $n directory_staleness_max_ms |
			awk '{ ok = $1 > 0 && $1 < 500 } END { exit !ok }'
		[ "$(counted $n state_pages_recomputed)" -eq 0 ]
	done
}

# killed NODE COMMAND ...: begun there, and killed at some moment.
killed() {
	local n=$1 p
	shift
	EPD_STORE=$PWD/$n EPD_CONFIG=$PWD/$n.yaml ip netns exec "$stem-$n" "$@" \
		>/dev/null 2>&1 7>&- 8>&- &
	p=$!
	sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
	kill -9 $p 2>/dev/null || true
	wait $p || true
}

@test "workers killed mid-way: what comes next goes on, and nothing is left" {
	three
	printf 'tier: { nvme_dir: %s }\n' "$PWD/disk-c" >>c.yaml
	for i in $(seq 24); do
		u=$(on c epd-fork w1/s1)
		case $((i % 6)) in
		0) killed c epd-decode -n 200 --ignore-eos "$u" ;;
		1) killed c epd-prefill -p "$(seq -s' ' 60)" "$u" ;;
		2) killed c epd-offload -t nvme "$u" ;;
		3)
			lose c
			killed c epd-restore w1/s1
			;;
		4)
			lose c
			killed c epd-decode -n 1 "$u"
			;;
		5) killed c epd-fork --from b w1/s1 ;;
		esac
		[ "$(text c w1/s1)" = "$want" ]
		on c epd-state release "$u" >/dev/null || on c epd-state abort "$u" >/dev/null
	done
	[ "$(counted c state_pages_recomputed)" -eq 0 ]
	sleep 1.1
	for n in a b c; do
		on $n epd-state gc >/dev/null
		on $n epd-state gc >/dev/null
		[ -z "$(find $n memory-$n -name '.tmp.*')" ]
	done
	# The picture and its feature are gone everywhere, and the pages: it is said.
	cut_off a
	cut_off b
	for n in a b c; do rm -rf $n/features/*; done
	lose c
	rm -rf disk-c
	run --separate-stderr on c epd-decode -n 1 "$(on c epd-fork w1/s1)"
	[ "$status" -eq 5 ]
	[ -z "$output" ]
	[[ $stderr == *image* || $stderr == *picture* ]]
	on c epd-state check
}

# Two nodes of one store, a folder that both machines have.
shared() {
	nodes a b "$@"
	sed -i 's/memory-b/memory-a/' b.yaml
	store=a up a
	on a epd-prefill -w w1 -p hello >/dev/null
	till 50 owned_by a
	store=a up b
	till 50 eval '[ "$(keys_of /nodes/)" -eq 2 ]'
}

# Who owns w1, by the log.
owner() {
	on a epd-state log -j w1 | jq -r 'select(.record == "term") | .owner' | tail -1
}

owned_by() {
	[ "$(owner)" = "$1" ]
}

@test "two nodes of one store: one owns it, and who was away is refused" {
	shared c
	up c
	# The other one lets it be.
	sleep 2.5
	[ "$(owner)" = a ]
	[ "$(on a epd-state log -j w1 | jq -c 'select(.record == "term") | .term' | wc -l)" -eq 1 ]
	store=a run -3 --separate-stderr on b epd-prefill -p more w1/s1
	[[ $stderr == *'it is node a'*'this is node b'* ]]
	kill -STOP "${pid[a]}"
	till 100 owned_by b
	had=$(on a epd-state log -j w1)
	refused=$(counted a directory_stale_owner_refused)
	kill -CONT "${pid[a]}"
	printf 'tier:\n  nvme_dir: %s\n' "$PWD/disk" >>a.yaml
	run -3 --separate-stderr on a epd-prefill -p more w1/s1
	[[ $stderr == *'it is node b'*'this is node a'* ]]
	run -3 --separate-stderr on a epd-offload -t nvme w1/s1
	run -3 --separate-stderr on a epd-fork w1/s1
	run -3 --separate-stderr on a epd-decode -n 2 w1/s1
	run -3 --separate-stderr on a epd-state release w1/s1
	on c epd-prefill -w own -p other >/dev/null
	run -3 --separate-stderr on c epd-handoff --to "${at[a]}" own/s1 w1
	[ "$(on c epd-state ls | wc -l)" -eq 1 ]
	[ -z "$(on c epd-handoff --status)" ]
	[ "$(on a epd-state log -j w1)" = "$had" ]
	[ "$(counted a directory_stale_owner_refused)" -ge $((refused + 6)) ]
	[ "$(on a epd-state log -j w1 | jq -c 'select(.record == "term") | [.term, .owner]')" = \
		$'[1,"a"]\n[2,"b"]' ]
	# And who has it now goes on.
	store=a on b epd-prefill -p more w1/s1 >/dev/null
	[ "$(on c epd-handoff --to b own/s1 w1)" = w1/s2 ]
	store=a on b epd-decode -n 2 w1/s1 >/dev/null
	store=a on b epd-state check
	grep -q 'w1:.*node b' a.err
}

@test "two servers of one store that have one name settle who owns it" {
	nodes a b
	cp a.yaml b.yaml
	up a
	on a epd-prefill -w w1 -p hello >/dev/null
	till 50 owned_by a
	store=a up b
	till 50 grep -q 'calls itself node a, too' a.err b.err
	terms=$(on a epd-state log -j w1 | jq -c 'select(.record == "term") | .term')
	[ "$(wc -l <<<"$terms")" -le 2 ]
	sleep 5
	[ "$(on a epd-state log -j w1 | jq -c 'select(.record == "term") | .term')" = "$terms" ]
	[ "$(cat a.err b.err | grep -c 'calls itself node a, too')" -eq 1 ]
	# Commands of that name are of the owner's node, whichever it is.
	on a epd-prefill -p more w1/s1 >/dev/null
	on a epd-state check
}

@test "owners that are killed: one at a time by the log, nothing acknowledged is lost" {
	shared
	: >acked
	for i in $(seq 20); do
		o=$(owner)
		for n in a b; do
			for _ in 1 2 3 4 5 6; do
				t=$(store=a on $n epd-fork w1/s1 2>/dev/null) || continue
				echo "$n $t" >>acked
			done &
			writer[$n]=$!
		done
		sleep "0.0$((RANDOM % 10))"
		cut_off "$o"
		if [ $((RANDOM % 3)) -eq 0 ]; then
			# The other has it when the lease is over.
			[ "$o" = a ] && other=b || other=a
			till 100 owned_by $other
		fi
		wait "${writer[a]}" "${writer[b]}"
		rm -f "$o.address"
		store=a up "$o"
	done
	on a epd-state check
	on a epd-state log -j w1 >log
	jq -e -s '[.[] | select(.record == "term") | .term] | . == unique' log
	# Each record is of whose term it was.
	jq -r 'if .record == "term" then "term " + .owner else
		select(.record == "fork") | "fork " + .first_branch end' log >order
	[ "$(sort acked | uniq -d)" = '' ]
	while read -r n t; do
		w=$(awk -v t="$t" '$1 == "term" { o = $2 } $1 == "fork" && $2 == t { print o }' order)
		[ "$w" = "$n" ] || { echo "$t is of $n, in the term of '$w'" >&2; false; }
	done <acked
	[ "$(wc -l <acked)" -gt 20 ]
	[ "$(grep -c term order)" -gt 4 ]
}

@test "etcd stopped, and killed: each node goes on alone, says so once, and tells again" {
	three
	for n in a b c; do
		printf 'tier: { nvme_dir: %s }\n' "$PWD/disk-$n" >>$n.yaml
	done
	said=0
	for how in STOP KILL; do
		kill -$how "${pid[etcd]}"
		said=$((said + 1))
		till 50 eval '[ "$(grep -c "the directory is away" c.err)" -eq $said ]'
		looked=$(counted c directory_lookups)
		away=$(counted c directory_times_away)
		# What misses no page asks nobody.
		s=$(on c epd-prefill -p "$(seq -s' ' 30) $how")
		t=$(on c epd-fork "$s")
		on c epd-decode -n 4 "$t" >/dev/null
		on c epd-offload -t nvme "$t" >/dev/null
		on c epd-restore "$t" >/dev/null
		[ "$(text c w1/s1)" = "$want" ]
		[ "$(counted c directory_lookups)" -eq "$looked" ]
		[ "$(counted c directory_times_away)" -eq "$away" ]
		# What does asks once, however many runs there are, and computes.
		lose c
		run --separate-stderr text c w1/s1 -v
		[ "$output" = "$want" ]
		[ "$(grep -c 'the directory is away, this node goes on alone' <<<"$stderr")" -eq 1 ]
		# Who reads ahead asks for himself.
		asked=$(($(counted c directory_lookups) - looked))
		[ "$asked" -ge 1 ] && [ "$asked" -le 2 ]
		gone=$(($(counted c directory_times_away) - away))
		[ "$gone" -ge 1 ] && [ "$gone" -le "$asked" ]
		run -3 --separate-stderr on c epd-fork --from a w1/s1
		[[ $stderr == *'a: the directory cannot be asked for it'* ]]
		# By its address a peer is reached all the same.
		[ -n "$(on c epd-fork --from "${at[a]}" w1/s1)" ]
		if [ $how = STOP ]; then
			kill -CONT "${pid[etcd]}"
		else
			wait "${pid[etcd]}" || true
			etcd_up
		fi
		made=$(on c epd-state show -j "$s" | jq -r .owner_shard)
		till 150 eval 'keys | grep "hints/state/$made/"'
		till 100 eval '[ "$(grep -c "there again" c.err)" -ge 1 ]'
		till 100 has_hints a
		till 100 owned 3
		lose c
		before=$(counted c state_pages_recomputed)
		[ "$(text c w1/s1)" = "$want" ]
		[ "$(counted c state_pages_recomputed)" -eq "$before" ]
	done
}
