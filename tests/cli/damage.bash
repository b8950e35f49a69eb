# damage.bash - a store whose files are not what was written.  Loaded behind
# helper.bash, hostile.bash and faults.bash.
#
# Whatever is done to a file, each command is right or refuses; it never gives a
# wrong answer, hangs or crashes.

# Two states, a checkpoint and a log behind it, a feature, runs, caches.
hurt_base() {
	rm -rf store memory base
	config
	learn
	config 'state:' '  checkpoint_bytes: 4096'
	do_prefill
	until [ -e store/w/w1/checkpoint ]; do
		epd-prefill -w w1 -p hello
	done
	epd-prefill -w w1 -p hello
	epd-encode "$pictures/000_0.png"
	save
	restore
	list=$(states)
	features=$(epd-state ls -f)
	last=$(tail -n 1 <<<"$list")
	hello=$(utter "$last")
	cat >probe <<-'END'
		#!/bin/sh
		# The next tokens of a state, or of a new one, with their weights.
		set -e
		s=$1
		[ "$s" != new ] || s=$(epd-prefill -i "$2" -p "$3")
		epd-decode -j --temp 0 -n 4 --ignore-eos --logprobs 3 "$s" >probed
		jq -c 'select(.id) | [.id, .logprob, .top]' probed
	END
	chmod +x probe
}

# The commands over what was hurt.  The order differs, since the first to meet
# damage may mend it.
tell() {
	local before
	before=$(cat wrong 2>/dev/null | wc -l)
	case $1 in
	0) right_or_refused "$on" ./probe w1/s1
	   whole ;;
	1) whole
	   right_or_refused "$hello" ./probe "$last"
	   right_or_refused w1/s1 epd-prefill -p more w1/s1 ;;
	2) bounded epd-state gc
	   [ "$rc" -le 6 ] || wrong "gc: status $rc"
	   right_or_refused "$on" ./probe new "$sign" "$question" ;;
	3) right_or_refused "$list" epd-state ls
	   bounded epd-state ls -f
	   [ -z "$(comm -13 <(sort <<<"$features") <(sort out))" ] ||
		wrong "features that never were"
	   find memory -path '*/w/*' -type f -delete
	   right_or_refused "$on" ./probe w1/s1
	   right_or_refused "$hello" ./probe "$last" ;;
	esac
	[ "$before" = "$(cat wrong 2>/dev/null | wc -l)" ] ||
		wrong "  by $2"
	rm -f out err
}

whole() {
	bounded epd-state check
	[[ $rc == [0145] ]] ||
		wrong "check: status $rc"
	[ "$rc" -eq 0 ] || [ -s out ] || [ -s err ] || wrong "check: silent"
}

# Every file of the store and of the memory tier, by a name that stays.
hurt_files() {
	(cd base && find . -type f -printf '%P\n' | sort)
}

# flips MOST: up to MOST bytes of each file turned over, spread evenly.
flips() {
	local f size at step turn=0
	while read -r f <&9; do
		size=$(stat -c %s "base/$f")
		step=$((size / $1 + 1))
		for ((at = step / 2; at < size; at += step)); do
			restore
			flip "$f" "$at"
			tell $((turn++ % 4)) "byte $at of $f turned over"
		done
	done 9< <(hurt_files)
}

flip() {
	perl -e 'open my $f, "+<", $ARGV[0] or die; seek $f, $ARGV[1], 0;
		read $f, my $b, 1; seek $f, $ARGV[1], 0;
		print $f chr(ord($b) ^ $ARGV[2])' "$1" "$2" "${3:-255}"
}

# What else may become of file $1: how $2.
hurt() {
	case $2 in
	removed) rm "$1" ;;
	emptied) : >"$1" ;;
	halved) truncate -s $(($(stat -c %s "$1") / 2)) "$1" ;;
	shortened) truncate -s -1 "$1" ;;
	lengthened) head -c 5000 /dev/urandom >>"$1" ;;
	zeroed) size=$(stat -c %s "$1"); : >"$1"; truncate -s "$size" "$1" ;;
	noise) size=$(stat -c %s "$1"); head -c "$size" /dev/urandom >"$1" ;;
	folder) rm "$1"; mkdir "$1" ;;
	link) rm "$1"; ln -s /etc/passwd "$1" ;;
	pipe) rm "$1"; mkfifo "$1" ;;
	huge) truncate -s 1T "$1" 2>/dev/null || truncate -s 100G "$1" ;;
	shut) chmod 0 "$1" ;;
	esac
}

ways='removed emptied halved shortened lengthened zeroed noise folder link pipe
	huge shut'

# hurts TURN...: each file in each of the ways, the commands in these orders.
hurts() {
	local f how turn
	while read -r f <&9; do
		for how in $ways; do
			for turn; do
				restore
				chmod u+w "$f"
				hurt "$f" $how 2>/dev/null
				tell "$turn" "$f $how"
			done
		done
	done 9< <(hurt_files)
}
