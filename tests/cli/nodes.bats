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

@test "what was not fetched is had when it is needed, from who has it" {
	nodes a b
	up a
	printf '  prefetch: none\n' >prefetch
	sed -i 's/^transfer: {/transfer: { prefetch: none,/' b.yaml
	on a epd-prefill -i "$pictures/008_0.jpg" -p "$(seq -s' ' 40) What?" >/dev/null
	want=$(text a w1/s1)
	run --separate-stderr on b epd-fork -j -v --from a w1/s1
	[ "$status" -eq 0 ]
	[ "$(jq .pages_copied <<<"$output")" -eq 0 ]
	[ "$(jq .pages_missing <<<"$output")" -gt 5 ]
	[ "$(jq -r .node <<<"$output")" = a ]
	[ "$(jq -r .parent <<<"$output")" = w1/s1@1 ]
	[[ $stderr == *'to be computed or found'* ]]
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
	till 50 grep -q . <(keys | grep /nodes/)
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
	# By name: fetched, handed over, asked for its halves.
	t=$(on b epd-handoff --from a w1/s1)
	[ "$t" = w1/s1 ]
	[ "$(on b epd-handoff --to a w1/s1)" = w2/s1 ]
	run -4 --separate-stderr on a epd-handoff --to nobody w2/s1
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
	till 50 eval '[ "$(keys | grep -c /nodes/)" -eq 3 ]'
	run -2 --separate-stderr on b epd-fork --from a w2/s1
	[[ $stderr == *'2 nodes call themselves so'* ]]
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
