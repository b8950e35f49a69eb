#!/usr/bin/env bats
# Stores that reach each other: epd-serve --role data, and hand-offs to where it serves.

load helper
load peer

teardown() {
	[ -z "${served:-}" ] || ! kill -0 "$served" 2>/dev/null || unserve || true
	no_machines
	for s in "$EPD_STORE" peer third; do
		[ ! -e "$s/store" ] || epd-state check --store "$s"
	done
	rm -rf "$EPD_STORE" peer third memory
}

@test "a state goes to a peer by tcp and goes on there: same tokens, same bits" {
	s=$(ask)
	epd-decode -n 4 "$s" >/dev/null
	s=$(epd-prefill -p 'And what colour is it?' "$s" | cut -d@ -f1)
	want=$(says "$s")
	[ -n "$want" ]
	had=$(sums "$s")
	serve peer --listen tcp://127.0.0.1:0
	[[ $address == tcp://127.0.0.1:* ]]
	run --separate-stderr epd-handoff -v --to "$address" "$s"
	[ "$status" -eq 0 ]
	[ "$output" = w1/s1 ]
	[[ $stderr =~ ^0\ pages\ linked,\ [1-9][0-9]*\ copied ]]
	run -4 epd-decode "$s"
	[ -z "$(epd-handoff --status)" ]
	[ -z "$(epd-handoff --store peer --status)" ]
	[ "$(sums --store peer w1/s1)" = "$had" ]
	mv "$EPD_STORE" away
	[ "$(says w1/s1 --store peer)" = "$want" ]
	[ "$(epd-state show --store peer -j w1/s1 | jq .pages_missing)" -eq 0 ]
	mv away "$EPD_STORE"
}

@test "two machines: a state prefilled on one is decoded on the other" {
	machines
	s=$(ask)
	want=$(says "$s")
	head -c 32 /dev/urandom | base64 >key
	chmod 600 key
	in="ip netns exec $far" serve peer --listen tcp://10.99.0.2:7070 --key-file key
	[ "$address" = tcp://10.99.0.2:7070 ]
	cp "$EPD_CONFIG" plain
	printf 'transfer:\n  key_file: %s\n' "$PWD/key" >>"$EPD_CONFIG"
	t=$(ip netns exec "$near" epd-handoff --to "$address" "$s")
	[ -n "$want" ]
	[ "$(in="ip netns exec $far" drawn --store peer "$t")" = "$want" ]
	unserve
	# Nothing listens beyond the machine without a key.
	run -2 --separate-stderr timeout 10 ip netns exec "$far" epd-serve --role data \
		--config plain --store peer --listen tcp://10.99.0.2:7070
	[[ $stderr == *key* ]]
}

@test "pictures go to who prefills while the next ones are encoded" {
	printf 'transfer:\n  trust_peers: true\n' >>"$EPD_CONFIG"
	serve peer --listen tcp://127.0.0.1:0
	set -- "$pictures"/00[0-5]_0.*
	[ $# -ge 5 ]
	epd-encode -j --to "$address" "$@" >out
	[ "$(wc -l <out)" -eq $# ]
	jq -se 'all(.sent_bytes > 0)' out
	# In order, and there.
	epd-encode "$@" >names
	jq -r .feature out | cmp names -
	epd-state ls -f --store peer | sort | cmp - <(sort names)
	s=$(epd-prefill -j --store peer -p 'What is it?' - <names)
	jq -e '.encoded == 0' <<<"$s"
	[ "$(epd-state metrics --store peer | sed -n 's/^epd_stage_encode_count //p')" -eq 0 ]
	# What is there is not sent once more.
	epd-encode -j --to "$address" - <names | jq -se 'all(.sent_bytes == 0)'
	unserve
	run --separate-stderr -3 timeout 60 epd-encode --to "$address" "$1" "$2"
	[ -z "$output" ]
	[ "$(wc -l <<<"$stderr")" -eq 2 ]
	[[ $stderr == "epd-encode: $1: kept here as f:"*", and not sent to $address: "* ]]
	run -2 epd-encode --to nobody "$1"
}

@test "who has another key, or none, is turned away and nothing changes" {
	s=$(ask)
	head -c 32 /dev/urandom | base64 >key
	head -c 32 /dev/urandom | base64 >other
	chmod 600 key other
	serve peer --listen tcp://127.0.0.1:0 --key-file key
	run -1 --separate-stderr epd-handoff --to "$address" "$s"
	[[ $stderr != *"$(cat key)"* ]]
	cp "$EPD_CONFIG" plain
	printf 'transfer:\n  key_file: %s\n' "$PWD/other" >>"$EPD_CONFIG"
	run -1 --separate-stderr epd-handoff --to "$address" "$s"
	[[ $stderr != *"$(cat key)"* ]] && [[ $stderr != *"$(cat other)"* ]]
	[ -z "$(epd-handoff --status)" ]
	chmod 644 key
	cp plain "$EPD_CONFIG"
	printf 'transfer:\n  key_file: %s\n' "$PWD/key" >>"$EPD_CONFIG"
	run -2 --separate-stderr epd-handoff --to "$address" "$s"
	[[ $stderr == *'chmod 600'* ]]
	# One that is not there is no such thing, and another tenant's store wrong use.
	mv key gone
	run -4 --separate-stderr epd-handoff --to "$address" "$s"
	[[ $stderr == *"$PWD/key"* ]]
	mv gone key
	chmod 600 key
	EPD_TENANT=other run -2 --separate-stderr epd-handoff --to "$address" \
		"$(EPD_TENANT=other epd-prefill --store another -p hi)" --store another
	[[ $stderr == *tenant* ]]
	[ "$(epd-handoff --to "$address" "$s")" = w1/s1 ]
}

@test "what the peer has is not moved again" {
	serve peer --listen tcp://127.0.0.1:0
	s=$(ask "$(seq -s' ' 60)")
	# The peer has come to the same prefix by itself.
	ask "$(seq -s' ' 60)" --store peer >/dev/null
	epd-decode -n 40 "$s" >/dev/null
	want=$(says "$s")
	run --separate-stderr epd-handoff -v --to "$address" "$s"
	[ "$status" -eq 0 ]
	linked=$(sed -n 's/^\([0-9]*\) pages linked.*/\1/p' <<<"$stderr")
	copied=$(sed -n 's/.* \([0-9]*\) copied.*/\1/p' <<<"$stderr")
	[ "$linked" -ge 5 ]
	[ "$copied" -lt "$linked" ]
	moved=$(epd-state metrics | sed -n 's/^epd_transfer_tcp_bytes //p')
	[ "$moved" -le $((copied * 24576)) ]
	# Who serves counts the same bytes.
	[ "$(epd-state metrics --store peer | sed -n 's/^epd_transfer_tcp_bytes //p')" -eq "$moved" ]
	[ "$(says "$output" --store peer)" = "$want" ]
}

@test "pages of a peer that is trusted serve all workflows, and do not travel twice" {
	text=$(seq -s' ' 60)
	reused() { sed -n 's/^.*reused \([0-9,]*\) of.*/\1/p' "$1" | tr -d ,; }
	for trust in false true; do
		printf 'page:\n  memory_dir: %s\ntransfer:\n  trust_peers: %s\n' \
			"$PWD/memory" $trust >"$EPD_CONFIG"
		serve peer-$trust --listen tcp://127.0.0.1:0
		s=$(ask "$text")
		t=$(epd-fork "$s")
		u=$(epd-fork "$s")
		epd-handoff --to "$address" "$t" >/dev/null
		epd-prefill -v --store peer-$trust -w own \
			-i "$pictures/008_0.jpg" -p "$text" 2>said >/dev/null
		run --separate-stderr epd-handoff -v --to "$address" "$u"
		copied=$(sed -n 's/.* \([0-9]*\) copied.*/\1/p' <<<"$stderr")
		# Fetched, they serve as well.
		epd-handoff --store third-$trust --from "$address" w1/s1 >/dev/null
		epd-prefill -v --store third-$trust -w own \
			-i "$pictures/008_0.jpg" -p "$text" 2>fetched >/dev/null
		unserve
		if $trust; then
			[ "$(reused said)" -gt 100 ]
			[ "$(reused fetched)" -gt 100 ]
			[ "$copied" -le 1 ]
		else
			[ "$(reused said)" -eq 0 ]
			[ "$(reused fetched)" -eq 0 ]
		fi
		for s in peer third; do
			epd-state check --store $s-$trust
		done
	done
}

@test "a page that is damaged here is not sent: it is computed there" {
	s=$(ask "$(seq -s' ' 60)")
	want=$(says "$s")
	for from in --to --from; do
		# The middle of the file is in the middle of its pages.
		run=$(find memory -path '*/w/*' -type f -size +100k | head -1)
		chmod u+w "$run"
		printf '\377\376' | dd of="$run" bs=1 seek=$(($(stat -c %s "$run") / 2)) \
			conv=notrunc status=none
		t=$(epd-fork "$s")
		if [ $from = --to ]; then
			serve peer --listen tcp://127.0.0.1:0
			run --separate-stderr epd-handoff -v --to "$address" "$t"
		else
			serve "$EPD_STORE" --listen tcp://127.0.0.1:0
			run --separate-stderr epd-handoff -v --store other --from "$address" "$t"
		fi
		unserve
		[ "$status" -eq 0 ]
		[[ $stderr =~ [1-9][0-9]*\ copied.*[1-9][0-9]*\ to\ be\ computed ]]
		[ $from = --to ] && at=peer || at=other
		[ "$(says "$output" --store "$at")" = "$want" ]
		epd-state check --store "$at"
	done
}

@test "a socket on this machine: the same user alone" {
	s=$(ask)
	want=$(says "$s")
	serve peer
	[ "$address" = "unix://$PWD/peer/serve" ]
	[ "$(stat -c %a peer/serve)" = 600 ]
	epd-state check --store peer
	run --separate-stderr epd-handoff -v --to "$address" "$s"
	[ "$output" = w1/s1 ]
	# Pages are the same memory: no byte of them was copied.
	[[ $stderr =~ ^[1-9][0-9]*\ pages\ linked,\ 0\ copied ]]
	linked=$(sed -n 's/^\([0-9]*\) pages linked.*/\1/p' <<<"$stderr")
	[ "$(metric transfer_link_bytes)" -eq $((linked * 24576)) ]
	[ "$(metric transfer_link_count)" -ge 1 ]
	[ "$(says w1/s1 --store peer)" = "$want" ]
	if [ "$(id -u)" -eq 0 ]; then
		chmod 711 . peer
		chmod 666 peer/serve
		s=$(ask)
		HOME=/ run ! setpriv --reuid 65534 --clear-groups \
			epd-handoff --store "$EPD_STORE" --to "$address" "$s"
		chmod 700 peer
	fi
	unserve
	[ ! -e peer/serve ]
}

@test "compressed pages are another family, told as such, and go on" {
	for c in fp8 int8; do
		s=$(ask)
		printf 'page:\n  memory_dir: %s\ntransfer:\n  compression: %s\n' \
			"$PWD/memory" "$c" >"$EPD_CONFIG"
		serve "peer" --listen tcp://127.0.0.1:0
		t=$(epd-handoff --to "$address" "$s")
		unserve
		[ "$(epd-state show --store peer -j "$t" |
			jq -r '[.. | .numeric? // empty][0]')" = "lanes16-f32+$c" ]
		[ "$(epd-state show --store peer -j "$t" |
			jq -r '.kv_pages[0].compression')" = "$c" ]
		[ -n "$(epd-decode --store peer -n 3 "$t")" ]
		epd-state check --store peer
		# Its pages are lost: it is computed anew, and is what it was.
		rm -rf memory/epd-*
		epd-decode --store peer -n 2 "$(epd-prefill --store peer -p 'And?' "$t")" >/dev/null
		sed -i '/transfer/,$d' "$EPD_CONFIG"
	done
	# An exact state does not take up what a codec left.
	serve peer --listen tcp://127.0.0.1:0
	before=$(epd-state metrics --store peer | sed -n 's/^epd_reuse_exact_reuse_hits //p')
	ask '' --store peer >/dev/null
	[ "$(epd-state metrics --store peer |
		sed -n 's/^epd_reuse_exact_reuse_hits //p')" -eq "$before" ]
}

# The run files of a store's memory tier.
runs_of() {
	find memory -path "*/$1" -type f ! -name '.*' | sort
}

@test "what a codec left and is lost is the same again, or refused" {
	for c in fp8 int8; do
		cp "$EPD_CONFIG" plain
		printf 'transfer:\n  compression: %s\n' "$c" >>"$EPD_CONFIG"
		serve peer --listen tcp://127.0.0.1:0
		s=$(epd-handoff --to "$address" "$(ask "$(seq -s' ' 60)")")
		one=$(epd-handoff --to "$address" "$(epd-prefill --raw -p 'Hi the')")
		unserve
		cp plain "$EPD_CONFIG"
		# They go on, each from the middle of a page that came.
		for b in "$s" "$one"; do
			epd-prefill --store peer --continue -p ' and so on?' "$b" >/dev/null
		done
		want=$(says "$s" --store peer)
		[ -n "$want" ]
		want_one=$(says "$one" --store peer)
		had=$(sums --store peer "$s")
		# All of it, then one run after another.
		mv memory kept && mkdir memory
		[ "$(says "$s" --store peer)" = "$want" ]
		[ "$(says "$one" --store peer)" = "$want_one" ]
		[ "$(sums --store peer "$s")" = "$had" ]
		epd-state check --store peer
		for f in $(runs_of "${s%%/*}/*"); do
			rm "$f"
			[ "$(says "$s" --store peer)" = "$want" ]
		done
		rm -rf kept
		# Handed on, nobody knows which pages were computed on such.
		serve third --listen tcp://127.0.0.1:0
		t=$(epd-handoff --store peer --to "$address" "$s")
		unserve
		[ "$(says "$t" --store third)" = "$want" ]
		rm -rf memory/epd-*
		run -5 --separate-stderr epd-decode --store third -n 1 "$t"
		[ -z "$output" ]
		[[ $stderr == *"came by $c are lost"*'epd-state show --text'* ]]
		# And that is the way out.
		epd-state show --store third --text "$t" >text
		[ -s text ]
		rm -rf peer third memory/epd-*
	done
}

# The codec of a state's pages, as its store tells.
codec_of() {
	epd-state show --store "$1" -j "$2" | jq -r '.kv_pages[0].compression'
}

@test "a codec is taken where the contract allows it, in every mode" {
	printf 'contract: { allow: [fallback] }\n' >none.yaml
	printf 'contract: { allow: [fallback, fp8] }\n' >fp8.yaml
	# Which of its parts come under the second one is not known before.
	cat >sizes.yaml <<-Y
	policies:
	- { max_size: 1K, backends: [tcp], contract: { allow: [fallback] } }
	- { name: all, backends: [tcp], contract: { allow: [fallback, fp8] } }
	Y
	printf 'policies: [ { backends: [tcp] } ]\n' >unsaid.yaml
	cp "$EPD_CONFIG" plain
	serve peer --listen tcp://127.0.0.1:0
	while read -r want rules mode codec; do
		s=$(ask)
		printf 'transfer:\n  rules: %s\n  mode: %s\n  compression: %s\n' \
			"$PWD/$rules.yaml" "$mode" "$codec" | cat plain - >"$EPD_CONFIG"
		told=$(epd-plan -v -j --to "$address" "$s" 2>told.err | jq .bytes)
		run --separate-stderr epd-handoff -v --to "$address" "$s"
		cp plain "$EPD_CONFIG"
		[ "$status" -eq 0 ]
		[ "$(codec_of peer "$output")" = "$want" ]
		exact=$(epd-state show --store peer -j "$output" | jq '.kv_pages | length * 24576')
		if [ "$want" = none ]; then
			[[ $stderr == *"the contract does not allow $codec: pages go as they are"* ]]
			grep -q "does not allow $codec: pages go as they are" told.err
			[ "$told" -eq "$exact" ]
		else
			[[ $stderr != *contract* ]]
			[ "$told" -lt "$exact" ]
		fi
	done <<-C
	none none disabled fp8
	none none shadow fp8
	none none enforced fp8
	none fp8 disabled int8
	none sizes enforced fp8
	fp8 fp8 disabled fp8
	fp8 fp8 enforced fp8
	int8 unsaid enforced int8
	C
	# The same of a state that is fetched.
	t=$(ask '' --store peer)
	printf 'transfer:\n  rules: %s\n  compression: fp8\n' "$PWD/none.yaml" |
		cat plain - >"$EPD_CONFIG"
	t=$(epd-handoff --store third --from "$address" "$t")
	[ "$(codec_of third "$t")" = none ]
}

@test "strict gives nothing up: a codec is refused, and nothing changes" {
	cp "$EPD_CONFIG" plain
	serve peer --listen tcp://127.0.0.1:0
	s=$(ask)
	printf 'transfer:\n  strict: true\n  compression: fp8\n' | cat plain - >"$EPD_CONFIG"
	run -6 --separate-stderr epd-handoff --to "$address" "$s"
	[[ $stderr == *'transfer.compression is fp8'*'transfer.strict gives nothing up'* ]]
	run -6 --separate-stderr epd-plan --to "$address" "$s"
	[[ $stderr == *'transfer.strict gives nothing up'* ]]
	[ -z "$output" ]
	cp plain "$EPD_CONFIG"
	[ -z "$(epd-handoff --status)" ]
	epd-decode -n 1 "$s" >/dev/null
}

@test "a server has as many files open as it may, whatever its shell says" {
	was=$(ulimit -Sn)
	ulimit -Sn 200
	serve peer --listen tcp://127.0.0.1:0
	ulimit -Sn "$was"
	[ "$(awk '/^Max open files/ { print $4 }' "/proc/$served/limits")" -gt 200 ]
}

@test "a codec that the peer does not know changes nothing" {
	s=$(ask)
	printf 'transfer:\n  compression: custom\n' >>"$EPD_CONFIG"
	serve peer --listen tcp://127.0.0.1:0
	run -1 --separate-stderr epd-handoff --to "$address" "$s"
	[[ $stderr == *custom* ]]
	[ -z "$(epd-handoff --status)" ]
	epd-decode -n 1 "$s" >/dev/null
}

@test "killed servers: one has the state, and nothing is left" {
	local i base
	s=$(ask)
	serve peer --listen tcp://127.0.0.1:0
	port=${address##*:}
	for i in $(seq "${KILLS:-12}"); do
		b=$(epd-fork "$s")
		: >out
		epd-handoff --timeout 20s --to "$address" "$b" "t$((i % 3))" >out 2>err &
		pid=$!
		sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
		if [ $((i % 2)) -eq 0 ]; then
			kill -9 "$served" 2>/dev/null || true
			wait "$served" || true
			serve peer --listen "tcp://127.0.0.1:$port"
			wait $pid || true
		else
			kill -9 $pid 2>/dev/null || true
			wait $pid || true
		fi
		id=$(epd-handoff --status | cut -d' ' -f1)
		if [ -n "$id" ]; then
			epd-handoff --commit "$id" >/dev/null 2>&1 ||
				epd-handoff --abort "$id" >/dev/null 2>&1 || true
		fi
		[ -z "$(epd-handoff --status)" ]
		# What it was killed before it could tell the peer, a person does.
		for id in $(epd-handoff --store peer --status | cut -d' ' -f1); do
			epd-handoff --store peer --commit "$id" >/dev/null
		done
		[ -z "$(epd-handoff --store peer --status)" ]
		{ epd-state ls | awk -v s="$s" '$1 != s { print "here", $1 }'
		  epd-state ls --store peer | awk '{ print "there", $1 }'; } >owner
		[ "$(wc -l <owner)" -eq 1 ] || { echo "kill $i:" $(cat owner) >&2; false; }
		read -r where who <owner
		if [ "$where" = here ]; then
			epd-state release "$who"
		else
			epd-state release --store peer "$who"
		fi
	done
	unserve
	sleep 1.1
	epd-state gc --store peer
	epd-state gc
	[ -z "$(find peer memory -name '.tmp.*')" ]
	[ "$(find memory/*/w/t* -type f 2>/dev/null | wc -l)" -eq 0 ]
}

@test "an address that none can have, and a peer that is not there" {
	s=$(ask)
	run -3 --separate-stderr epd-handoff --timeout 500ms --to tcp://127.0.0.1:1 "$s"
	run -2 --separate-stderr epd-handoff --to tcp://127.0.0.1 "$s"
	# What looks like an address is never a folder's name.
	for at in tpc://127.0.0.1:7 rdma://127.0.0.1:7 file:///tmp/x TCP://127.0.0.1:7; do
		run -2 --separate-stderr epd-handoff --to "$at" "$s"
		[ ! -e "${at%%/*}" ]
	done
	epd-state show "$s" >/dev/null
	run -2 --separate-stderr epd-serve --role data --listen tcp://nowhere
	run -2 --separate-stderr epd-serve --role oracle
	run -2 --separate-stderr epd-serve
	serve "$EPD_STORE" --listen tcp://127.0.0.1:0
	run -2 --separate-stderr epd-handoff --to "$address" "$s"
	[[ $stderr == *'own server'* ]]
	[ -z "$(epd-handoff --status)" ]
}

@test "a state is fetched from a peer: its target begins" {
	s=$(ask '' --store peer)
	want=$(says "$s" --store peer)
	for at in tcp://127.0.0.1:0 "unix://$PWD/peer/serve"; do
		serve peer --listen "$at"
		b=$(epd-fork --store peer "$s")
		run --separate-stderr epd-handoff -v --from "$address" "$b" got
		[ "$status" -eq 0 ]
		[[ $output == got/s* ]]
		case $at in
		tcp*) [[ $stderr =~ [1-9][0-9]*\ copied ]] ;;
		*)
			[[ $stderr =~ ^[1-9][0-9]*\ pages\ linked,\ 0\ copied ]]
			[ "$(metric transfer_link_bytes)" -eq $((${stderr%% *} * 24576)) ]
			;;
		esac
		[ "$(says "$output")" = "$want" ]
		run -4 epd-decode --store peer "$b"
		[ -z "$(epd-handoff --status)" ]
		[ -z "$(epd-handoff --store peer --status)" ]
		# Of what is not there nothing is made here.
		before=$(epd-state ls 2>/dev/null | wc -l)
		run -4 epd-handoff --from "$address" "$b"
		run -4 epd-handoff --from "$address" w9/s1
		[ "$(epd-state ls 2>/dev/null | wc -l)" -eq "$before" ]
		[ ! -e "$EPD_STORE/w/w1" ]
		unserve
	done
	run -2 epd-handoff --from ./peer "$s"
	run -2 epd-handoff --from tcp://127.0.0.1:9 --prepare "$s"
}

# The command, killed instead of its nth call that changes a file.
killed_at() {
	EPD_FAULT_CALL=any EPD_FAULT_NTH=$1 EPD_FAULT_DO=KILL \
		LD_PRELOAD=$build/faults.so "${@:2}" >out 2>err </dev/null
}

@test "fetched by one that was killed: the same command again ends it" {
	local n rc pinned=0
	serve peer --listen tcp://127.0.0.1:0
	s=$(epd-prefill --store peer -p 'One two three.')
	want=$(says "$s" --store peer)
	[ -n "$want" ]
	for n in $(seq 1 "${STEP:-4}" 400); do
		b=$(epd-fork --store peer "$s")
		to=$([ $((n / 4 % 2)) -eq 0 ] || echo got)
		rc=0
		killed_at "$n" epd-handoff --from "$address" "$b" $to || rc=$?
		[ "$rc" -eq 0 ] && break
		[ "$rc" -eq 137 ]
		[ -z "$(epd-handoff --store peer --status | grep PREPARED)" ] ||
			pinned=$((pinned + 1))
		rc=0
		epd-handoff --from "$address" "$b" $to >got 2>err || rc=$?
		# Where it was killed past the last step nobody was told the name.
		if [ "$rc" -eq 4 ]; then
			epd-state ls | awk '{ print $1 }' >got
		fi
		[ "$rc" -eq 0 ] || [ "$rc" -eq 4 ] || { cat err >&2; false; }
		[ "$(epd-state ls | wc -l)" -eq 1 ]
		[ "$(says "$(cat got)")" = "$want" ]
		run -4 epd-state show --store peer "$b"
		epd-state gc
		epd-state gc --store peer
		[ -z "$(epd-handoff --status)" ]
		[ -z "$(epd-handoff --store peer --status)" ]
		epd-state release "$(cat got)"
	done
	[ "$pinned" -ge 2 ]
	[ "$rc" -eq 0 ]
}

@test "what a peer knows of is listed and ended by its id, from either side" {
	local n=0
	serve peer --listen tcp://127.0.0.1:0
	s=$(epd-prefill --store peer -p 'One two three.')
	for how in --abort --commit here; do
		b=$(epd-fork --store peer "$s")
		# It is pinned there, and nothing is known of it here.
		while [ -z "$(epd-handoff --store peer --status)" ]; do
			n=$((n + 1))
			killed_at $n epd-handoff --from "$address" "$b" got || true
		done
		n=0
		[ -z "$(epd-handoff --status)" ]
		line=$(epd-handoff --status --at "$address")
		[[ $line == *" $b@1 PREPARED -> got -, with $address" ]]
		id=${line%% *}
		[ "$(epd-handoff --status --at "$address" "${id:0:9}")" = "$line" ]
		[ "$(epd-handoff --status --at "$address" -j | jq -r .from_store)" = "$address" ]
		run -4 epd-handoff --abort "$id"
		# Another workflow is another wish.
		run -3 --separate-stderr epd-handoff --from "$address" "$b" other
		[[ $stderr == *"$id"*--at* ]]
		case $how in
		--abort)
			run -0 epd-handoff --abort --at "$address" "${id:0:9}"
			[ "$output" = "$b" ]
			epd-decode --store peer -n 1 "$b"
			;;
		--commit)
			run -0 epd-handoff --commit --at "$address" "$id"
			epd-decode -n 1 "$output"
			;;
		here)
			# Its source is the peer's own.
			run -0 epd-handoff --store peer --abort "$id"
			epd-decode --store peer -n 1 "$b"
			;;
		esac
		[ -z "$(epd-handoff --status --at "$address")" ]
		[ -z "$(epd-handoff --store peer --status)" ]
	done
	run -2 epd-handoff --at "$address" "$s"
	run -2 epd-handoff --adopt --at "$address" 1234
	run -2 epd-handoff --status --at ./peer
}

@test "gc settles with peers, and waits for none that is not there" {
	s=$(ask)
	serve peer --listen tcp://127.0.0.1:0
	port=${address##*:}
	id=$(epd-handoff --prepare --timeout 1s --to "$address" "$s")
	sleep 1.1
	unserve
	run -0 --separate-stderr timeout 20 epd-state gc
	[[ $stderr == *"hand-off $id waits for w1 of $address: "* ]]
	[ "$(wc -l <<<"$stderr")" -eq 1 ]
	run -0 --separate-stderr epd-state gc -q
	[ -z "$stderr" ]
	[[ $(epd-handoff --status) == "$id "*", with $address, unreachable, expired" ]]
	serve peer --listen "tcp://127.0.0.1:$port"
	[ "$(epd-state gc -j | jq .handoffs)" -eq 1 ]
	[ -z "$(epd-handoff --status)" ]
	epd-decode -n 1 "$s"
	# A peer that answers nothing holds it up for a while, not for ever.
	b=$(epd-fork "$s")
	epd-handoff --prepare --timeout 1s --to "$address" "$b"
	kill -STOP "$served"
	sleep 1.1
	run -0 --separate-stderr timeout 20 epd-state gc
	kill -CONT "$served"
	[[ $stderr == *'waits for'* ]]
	epd-state gc
	[ -z "$(epd-handoff --status)" ]
}

# Run what follows while the server, stopped after $1 seconds (0: before), answers
# nothing: it is done in less than $2.
hung() {
	local began=$EPOCHREALTIME took
	[ "$1" != 0 ] || kill -STOP "$served"
	"${@:3}" >out 2>err &
	pid=$!
	sleep "$1"
	kill -STOP "$served"
	wait $pid || true
	took=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
	kill -CONT "$served"
	awk -v t="$took" -v most="$2" 'BEGIN { exit t >= most }' ||
		{ echo "stopped after $1: ${*:3}: $took s" >&2; cat err >&2; false; }
}

@test "a server that hangs holds a hand-off up for its time and no longer" {
	local at way n=0
	serve peer --listen tcp://127.0.0.1:0
	for at in 0 0.02 0.04 0.06 0.1; do
		for way in to from; do
			[ $way = to ] && from=$EPD_STORE to=$PWD/peer ||
				{ from=$PWD/peer to=$EPD_STORE; }
			s=$(ask 'How hung?' --store "$from")
			if [ $way = to ]; then
				hung $at 6 epd-handoff --timeout 2s --to "$address" "$s" t$((++n))
			else
				hung $at 6 epd-handoff --timeout 2s --from "$address" "$s" t$((++n))
			fi
			sleep 0.2
			epd-state gc -q
			epd-state gc -q --store peer
			for id in $(epd-handoff --at "$address" --status | cut -d' ' -f1); do
				epd-handoff --at "$address" --commit "$id" >/dev/null 2>&1 || true
			done
			[ -z "$(epd-handoff --status)" ]
			[ -z "$(epd-handoff --store peer --status)" ]
			{ epd-state ls | sed 's/^/here /'
			  epd-state ls --store peer | sed 's/^/there /'; } >owner
			[ "$(wc -l <owner)" -eq 1 ] || { echo "$way, $at:" >&2; cat owner >&2; false; }
			read -r where who _ <owner
			if [ "$where" = here ]; then
				epd-state release "$who"
			else
				epd-state release --store peer "$who"
			fi
		done
	done
}

@test "a server that hangs is asked once by a command" {
	local b ids=()
	s=$(ask)
	serve peer --listen tcp://127.0.0.1:0
	for _ in 1 2 3; do
		ids+=("$(epd-handoff --prepare --timeout 1h --to "$address" "$(epd-fork "$s")")")
	done
	hung 0 8 epd-handoff --status
	[ "$(grep -c unreachable out)" -eq 3 ]
	hung 0 8 epd-handoff --status "${ids[0]:0:8}"
	grep -q unreachable out
	hung 0 8 epd-handoff --commit "${ids[@]}"
	[ "$(grep -c 'cannot be reached' err)" -eq 3 ]
	hung 0 8 epd-handoff --at "$address" --status
	hung 0 8 epd-handoff --abort "${ids[@]:0:2}"
	[ "$(wc -l <out)" -eq 2 ]
	epd-handoff --commit "${ids[2]}"
	[ -z "$(epd-handoff --status)" ]
}

@test "a hand-off that is called off says what stands" {
	local at b rc
	s=$(ask)
	serve peer --listen tcp://127.0.0.1:0
	for at in 0.02 0.04 0.06 0.08; do
		b=$(epd-fork "$s")
		epd-handoff --timeout 1h --to "$address" "$b" >out 2>err &
		pid=$!
		sleep $at
		kill -STOP "$served"
		sleep 0.2
		kill -TERM $pid 2>/dev/null || true
		rc=0
		wait $pid || rc=$?
		id=$(epd-handoff --status | cut -d' ' -f1)
		kill -CONT "$served"
		# Before it began to heed there is nothing yet.
		[ -z "$id" ] || [[ $(<err) == *"hand-off $id stands"* ]] || { cat err >&2; false; }
		[ $rc -ne 0 ] || [ -s out ]
		[ -z "$id" ] || epd-handoff --abort "$id" || epd-handoff --commit "$id"
		for id in $(epd-handoff --at "$address" --status | cut -d' ' -f1); do
			epd-handoff --at "$address" --commit "$id" >/dev/null 2>&1 || true
		done
	done
	[ -z "$(epd-handoff --status)" ]
}

@test "an address is one line" {
	for store in $'a\nb' $'a\x1b[2J' $'a\xc2\x9b31m'; do
		run --separate-stderr -2 timeout 10 epd-serve --role data --store "$store"
		[ -z "$output" ]
		[[ $stderr == *': no path for a socket: it has characters that cannot be shown' ]]
		rm -rf "$store"
	done
}

@test "handed over by one that was killed: gc on both sides ends it" {
	local n rc
	serve peer --listen tcp://127.0.0.1:0
	s=$(epd-prefill -p 'One two three.')
	for n in $(seq 2 "${STEP:-4}" 400); do
		b=$(epd-fork "$s")
		rc=0
		killed_at "$n" epd-handoff --timeout 1s --to "$address" "$b" t || rc=$?
		[ "$rc" -eq 0 ] && break
		[ "$rc" -eq 137 ]
		# Some stand at one side, some at the other, some at both.
		[ -z "$(epd-handoff --status)$(epd-handoff --store peer --status)" ] || sleep 1
		epd-state gc
		epd-state gc --store peer
		[ -z "$(epd-handoff --status)" ]
		[ -z "$(epd-handoff --store peer --status)" ]
		{ epd-state ls; epd-state ls --store peer; } >owner
		[ "$(wc -l <owner)" -eq 2 ] || { echo "at $n:" $(cat owner) >&2; cat err >&2; false; }
		epd-state release "$b"
		[ "$(epd-state ls --store peer | wc -l)" -eq 0 ] ||
			epd-state release --store peer -r t
	done
	[ "$rc" -eq 0 ]
}

@test "policies that the configuration names are kept to" {
	t=$(ask)
	cat >rules.yaml <<-'E'
	policies:
	  - name: nothing_by_tcp
	    backends: [rdma]
	E
	cp "$EPD_CONFIG" plain
	for mode in disabled enforced; do
		cp plain "$EPD_CONFIG"
		printf 'transfer:\n  mode: %s\n  rules: "%s"\n' "$mode" "$PWD/rules.yaml" \
			>>"$EPD_CONFIG"
		[ -n "${served:-}" ] || serve peer --listen tcp://127.0.0.1:0
		# What the peer does not know yet, in either mode.
		b=$(epd-prefill -p "$mode $(seq -s' ' 40)")
		want=$(says "$b")
		[ -n "$want" ]
		# Its pages may not go: they are computed there, and are the same.
		run --separate-stderr epd-handoff -v --to "$address" "$b"
		[ "$status" -eq 0 ]
		[[ $stderr =~ ^0\ pages\ linked,\ 0\ copied\ \(0\ B\),\ [1-9] ]]
		[ "$(says "$output" --store peer)" = "$want" ]
		# A picture has to go.
		run -6 --separate-stderr epd-handoff --to "$address" "$t"
		[ -z "$(epd-handoff --status)" ]
	done
	echo 'policies: 3' >rules.yaml
	run -2 --separate-stderr epd-handoff --to "$address" "$t"
	[[ $stderr == *rules.yaml:1* ]]
}

@test "a plan is made beside the order that decides, or decides" {
	for mode in shadow enforced; do
		rm -rf peer
		served=
		s=$(ask)
		want=$(says "$s")
		sed -i '/^transfer/,$d' "$EPD_CONFIG"
		printf 'transfer:\n  mode: %s\n' "$mode" >>"$EPD_CONFIG"
		serve peer --listen tcp://127.0.0.1:0
		[ "$(says "$(epd-handoff --to "$address" "$s")" --store peer)" = "$want" ]
		unserve
	done
	[ "$(epd-state metrics | sed -n 's/^epd_transfer_plans_compared //p')" -ge 2 ]
	[ "$(epd-state metrics | sed -n 's/^epd_transfer_plans_differ //p')" -eq 0 ]
}
