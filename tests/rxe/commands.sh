#!/bin/sh
# commands.sh - the commands themselves over RDMA, in the guest: a state goes to a
# store that serves at the other end of the wire, goes on there as it would have, and
# is fetched by a third.
#
# $TOP is the source, $B where it was built.
PATH=$B/bin:$PATH
model=$TOP/examples/tiny-vlm/model
work=$(mktemp -d) || exit 1
served=
trap 'kill $served 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
export EPD_STORE="$work/here" EPD_CONFIG="$work/config" EPD_MODEL="$model" HOME="$work"
mkdir memory
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >key
chmod 600 key
cat >config <<END
page:
  memory_dir: $work/memory
transfer:
  key_file: $work/key
  rdma_enabled: true
  default_transport: rdma
END
# Ours goes out at its own end of the wire, though the other address is ours too.
ip rule add pref 30 to 10.77.0.2 lookup 100

n=0
is() { # is WHAT HAS WANT
	n=$((n + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $n - $1"
	else
		echo "# has $2, not $3"
		sed 's/^/# /' err 2>/dev/null
		echo "not ok $n - $1"
	fi
}
moved() { # moved STORE BACKEND: bytes that it counted
	epd-state metrics --store "$1" | sed -n "s/^epd_transfer_$2_bytes //p"
}

epd-serve --role data --store there --listen tcp://10.77.0.2:0 -v >address 2>serve.err &
served=$!
for _ in $(seq 100); do
	[ -s address ] && break
	sleep 0.1
done
state=$(epd-prefill -p "$(seq -s ' ' 40)")
branch=$(epd-fork "$state")
epd-decode -n 4 -j --ignore-eos --logprobs 1 "$branch" >want
id=$(epd-handoff -v --to "$(cat address)" "$state" 2>err)
is 'a state goes over' "$id" w1/s1
is 'its pages by rdma' "$([ "$(moved here rdma)" -gt 0 ] && echo yes)" yes
is 'and not by tcp' "$(moved here tcp)" 0
epd-decode --store there -n 4 -j --ignore-eos --logprobs 1 "$id" >has 2>err
is 'same tokens, same weights' "$(jq -c '[.token, .logprob]' has 2>/dev/null)" \
	"$(jq -c '[.token, .logprob]' want)"
id=$(epd-handoff --store third --from "$(cat address)" "$id" 2>err)
is 'another store fetches it' "$id" w1/s1
is 'that by rdma too' "$([ "$(moved third rdma)" -gt 0 ] && echo yes)" yes
kill $served
wait $served
is 'the server ends as it should' $? 0
served=
for s in here there third; do
	epd-state check --store $s >err 2>&1
	is "books of $s balance" $? 0
done
echo "1..$n"
