# mooncake.bash - a Mooncake Store in a network namespace of a test's own, and commands
# that are run there.

# moon: its master and its REST service run, in $stem; `in_net COMMAND ...` is beside them.
moon() {
	local why
	command -v ip >/dev/null || skip 'ip is absent'
	moon_dir=$(B=$build "$root/tests/mooncake.sh" 2>moon.why | tail -1) ||
		skip "no Mooncake Store to test with: $(tail -1 moon.why)"
	[ -x "$moon_dir/bin/mooncake_master" ] ||
		skip "no Mooncake Store to test with: $(tail -1 moon.why)"
	stem=epd-$$-$BATS_TEST_NUMBER
	why='no network namespaces here'
	ip netns add "$stem" 2>/dev/null || skip "$why"
	in_net true 2>/dev/null || skip "$why"
	ip -n "$stem" link set lo up
	in="ip netns exec $stem"
	cat >moon.json <<-J
	{"local_hostname":"127.0.0.1","metadata_server":"P2PHANDSHAKE",
	 "global_segment_size":"${segment:-128mb}","local_buffer_size":"64mb",
	 "protocol":"tcp","device_name":"","master_server_address":"127.0.0.1:50051"}
	J
	moon_up
}

in_net() { ip netns exec "$stem" "$@"; }

# got PORT PATH: what a server here says.
got() {
	in_net "$moon_dir/bin/python" -c '
import sys, urllib.request
url = "http://127.0.0.1:%s%s" % tuple(sys.argv[1:])
sys.stdout.write(urllib.request.urlopen(url, timeout=5).read().decode())
' "$@" 2>/dev/null
}
answers() { got "$@" >/dev/null; }

moon_up() {
	ip netns exec "$stem" "$moon_dir/bin/mooncake_master" --rpc_address=127.0.0.1 \
		--rpc_port=50051 --rpc_thread_num=2 --metrics_host=127.0.0.1 \
		--metrics_port=9003 --enable_metric_reporting=false \
		--default_kv_lease_ttl=500 --logtostderr >>moon.log 2>&1 7>&- 8>&- &
	master=$!
	till 100 answers 9003 /health
	ip netns exec "$stem" "$moon_dir/bin/mc_store_rest_server" --config moon.json --port 8081 \
		>>moon.log 2>&1 7>&- 8>&- &
	rest=$!
	till 200 answers 8081 /api/exist/x
}

# moon_down SIGNAL: both end.
moon_down() {
	local p
	for p in "${rest:-}" "${master:-}"; do
		[ -n "$p" ] || continue
		kill -CONT "$p" 2>/dev/null || true
		kill "-${1:-TERM}" "$p" 2>/dev/null || true
		wait "$p" 2>/dev/null || true
	done
	rest= master=
}

# What the master has.
keys() { got 9003 /get_all_keys; }
count_keys() { keys | grep -c '^epd1-' || true; }
