# tier.bash - commands that move a state to a tier or back, struck as faults.bash does.
# The tier is the store's own, on the disk.  Loaded behind it.

# What the state says is as if it had never moved, and gc leaves nobody's work half done.
settled_at() {
	epd-state gc 2>/dev/null || return
	[[ " $2 " == *" $(status_of w1/s1) "* ]] ||
		{ echo "w1/s1 is $(status_of w1/s1), of $2"; return 1; }
	balanced
}

base_offload() { do_prefill; }
do_offload() { epd-offload w1/s1; }
then_offload() {
	settled_at w1/s1 'ACTIVE OFFLOADED' || return
	[ ! -s out ] || [ "$(cat out)" = w1/s1 ] || return
	[ ! -s out ] || [ "$(status_of w1/s1)" = OFFLOADED ] || return
	[ "$(do_offload)" = w1/s1 ] || return
	settled_at w1/s1 OFFLOADED || return
	says w1/s1 "$on"
}

base_restore() { do_prefill; do_offload; }
do_restore() { epd-restore w1/s1; }
then_restore() {
	settled_at w1/s1 'ACTIVE OFFLOADED' || return
	[ ! -s out ] || [ "$(status_of w1/s1)" = ACTIVE ] || return
	[ "$(do_restore)" = w1/s1 ] || return
	[ "$(status_of w1/s1)" = ACTIVE ] || return
	says w1/s1 "$on"
}

# It rests, and is gone on with.
base_resume() { base_restore; }
do_resume() { do_turn; }
truth_resume() { truth_turn; }
then_resume() {
	local v
	settled_at w1/s1 'ACTIVE OFFLOADED' || return
	v=$(epd-state show -j w1/s1 | jq .version_id) || return
	[ ! -s out ] || [ "$v" -eq 2 ] || return
	case $v in
	1) [ "$(do_resume)" = w1/s1 ] || return ;;
	2) ;;
	*) return 1 ;;
	esac
	says w1/s1 "$once"
}

base_wait() { do_prefill; }
do_wait() { epd-state wait --tool search --ttl 5m w1/s1; }
then_wait() {
	balanced || return
	[ "$rc" -ne 0 ] || epd-state show w1/s1 | grep -q 'waits: for search' ||
		return
	do_wait && epd-state wait --done w1/s1 && says w1/s1 "$on"
}

# A gc that meets all it may meet below memory: who died moving a state, packs that
# nobody shows, damaged ones, what is strange, and a folder of no workflow.
base_below() {
	local pack dir
	do_prefill
	do_prefill
	do_prefill
	epd-offload w2/s1 w3/s1
	find store/disk -type f -path '*/w/w3/*' >good
	[ -s good ]
	pack=$(find store/disk -type f -path '*/w/w2/*' | head -n 1)
	dir=${pack%/w2/*}
	cp "$pack" "${pack%/*}/0123456789abcdef"
	mkdir "$dir/gone" "$dir/w2/folder"
	cp "$pack" "$dir/gone/"
	echo x >"${pack%/*}/.tmp.0123456789abcdef"
	chmod 600 "$pack"
	echo "$pack" >bad
	printf x | dd of="$pack" bs=1 seek=70 conv=notrunc status=none
	die_moving
	find store memory -exec touch -h -d '5 minutes ago' {} +
}
do_below() { epd-state gc; }
then_below() {
	do_below || return
	[ "$(status_of w1/s1)" = ACTIVE ] || return
	none "$(ls "$(cat bad)" 2>/dev/null)" || return
	# What is whole stays, whatever the sweep met.
	ls $(cat good) >/dev/null || return
	[ "$(status_of w3/s1)" = OFFLOADED ] || return
	says w3/s1 "$on" || return
	none "$(find store/disk -name gone -o -name '0123*' -o -name folder)" ||
		return
	says w1/s1 "$on" && says w2/s1 "$on"
}

# A state that somebody is moving when he dies.
die_moving() {
	local nth
	for ((nth = 10; nth < 400; nth++)); do
		strike KILL $nth once epd-offload w1/s1
		[ "$(status_of w1/s1)" != OFFLOADING ] || return 0
		epd-restore w1/s1 >/dev/null
	done
	return 1
}
