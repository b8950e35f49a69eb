#!/usr/bin/env bats
# What a mounted store shows, to the programs people use.

load helper

need() {
	command -v "$1" >/dev/null || skip "$1 is not here"
}

# A second turn, and three branches.
grow() {
	epd-decode -q "$s" >/dev/null
	epd-fork -q -n 3 "$s" >/dev/null
	epd-prefill -q -p 'And then?' "$s" >/dev/null
	epd-decode -q -n 8 "$s" >/dev/null
}

names() {
	ls "$1" | tr '\n' ' '
}

@test "the tree is what the first page of README says" {
	epd-fork -q "$s" >/dev/null
	[ "$(names "$m")" = 'README events features metrics pages tiers workflows ' ]
	[ "$(names "$m/workflows/w1")" = 'check events handoffs leases log states ' ]
	[ "$(names "$S")" = 's1 s2 ' ]
	[ "$(names "$S/s2")" = 'children ctl epoch features forks messages.json owner pages parent reason sampler say state.json status text tier tokens tool ttl version versions ' ]
	[ "$(names "$S/s1/versions/1")" = 'features messages.json pages sampler text tokens version.json ' ]
	[ "$(names "$m"/features/*)" = 'blob image.png meta.json ' ]
	[ "$(names "$m/tiers/cpu")" = 'capacity pages used ' ]
	[ "$(wc -l <"$m/README")" -le 20 ]
	[ "$(readlink "$S/s2/parent")" = ../s1 ]
	[ "$(readlink "$S/s1/children/s2")" = ../../s2 ]
	[ ! -e "$S/s1/parent" ]
}

@test "what files say is what the commands say" {
	grow
	for n in s1 s2; do
		epd-state show -j "w1/$n" | jq -S . >want
		jq -S . "$S/$n/state.json" | diff - want
		[ "$(cat "$S/$n/status")" = "$(jq -r .status want)" ]
		[ "$(cat "$S/$n/version")" = "$(jq -r .version_id want)" ]
		[ "$(cat "$S/$n/epoch")" = "$(jq -r .epoch want)" ]
		[ "$(cat "$S/$n/owner")" = "$(jq -r .owner_shard want)" ]
		epd-state show --tokens "w1/$n" | cmp - "$S/$n/tokens"
		jq -r '.kv_pages[].kv_page_id' want >ids
		for p in "$S/$n/pages/"*; do readlink -f "$p"; done |
			sed 's|.*/||' | diff - ids
	done
	[ "$(cat "$S/s2/reason")" = agent_branch ]
	[ "$(cat "$S/s1/ttl")" = never ]
	epd-state log -j w1 | jq -cS 'del(.log_begins)' >want
	jq -cS . "$m/workflows/w1/log" | diff - want
	[[ "$(cat "$m/workflows/w1/check")" = '0 faults;'* ]]
	epd-state metrics | sed 's/ .*//' | sort >want
	sed 's/ .*//' "$m/metrics" | sort | diff - want
}

@test "text is the conversation as a person reads it, messages.json as a program does" {
	grow
	run -0 cat "$S/s1/text"
	[ "${lines[0]}" = 'user: [image 0]What does the sign say?' ]
	[ "${lines[1]}" = 'assistant: ON' ]
	[ "${lines[2]}" = 'user: And then?' ]
	[ "$(jq -r '.[1].content' "$S/s1/messages.json")" = ON ]
	[ "$(jq -r '.[0].content[0].image' "$S/s1/messages.json")" = features/0/image.png ]
	[ -s "$S/s1/features/0/image.png" ]
	# The whole of it is a prompt again.
	cp -r "$S/s2" copy
	rm copy/features/0
	cp -r "$(readlink -f "$S/s2/features/0")" copy/features/0
	jq -c '.[0:1]' copy/messages.json >copy/first.json
	t=$(epd-prefill -q --messages copy/first.json)
	epd-state show --tokens "$t" >again
	head -n "$(wc -l <again)" "$S/s1/versions/1/tokens" | cmp - again
}

@test "sizes are right, and links lead somewhere" {
	grow
	[ -z "$(find "$m" -xtype l)" ]
	find "$m" -type f ! -name check ! -name events ! -name metrics \
		! -name say ! -name ctl -printf '%s %p\n' >files
	[ "$(wc -l <files)" -gt 80 ]
	while read -r size f; do
		[ "$(cat "$f" | wc -c)" -eq "$size" ] || { echo "$size $f"; false; }
	done <files
	find "$m" -type l -printf '%s %l\n' | while read -r size to; do
		[ "${#to}" -eq "$size" ]
	done
	[ "$(find "$m" -type d -links 1 | wc -l)" -eq "$(find "$m" -type d | wc -l)" ]
	[ "$(du -s --apparent-size -B1 "$m/pages" | cut -f1)" -ge 100000 ]
}

@test "a page's link count is the live states that use it" {
	n=$(ls "$S/s1/pages" | wc -l)
	[ "$(find "$m/pages" -type f -links 1 | wc -l)" -eq "$n" ]
	epd-fork -q -n 4 "$s" >/dev/null
	[ "$(find "$m/pages" -type f -links 5 | wc -l)" -eq "$n" ]
	[ "$(find "$m/pages" -links +4 | wc -l)" -eq "$n" ]
	[ "$(stat -Lc %h "$S/s3/pages/0000")" -eq 5 ]
	epd-state release -q w1/s2 w1/s3
	[ "$(find "$m/pages" -type f -links 3 | wc -l)" -eq "$n" ]
	[ "$(stat -Lc %h "$S/s4/pages/0000")" -eq 3 ]
}

@test "times are the log's: ls -lt has the latest first, at every mount" {
	grow
	epd-prefill -q -p more w1/s3 >/dev/null
	[ "$(ls -t "$S" | head -1)" = s3 ]
	stat -c '%n %i %Y %Z %s' "$S"/s*/* "$m"/pages/* >before
	down
	up
	stat -c '%n %i %Y %Z %s' "$S"/s*/* "$m"/pages/* | diff before -
	[ "$(($(jq .changed_ms "$S/s3/state.json") / 1000))" -eq "$(stat -c %Y "$S/s3")" ]
}

@test "cp, diff, grep, tar, find and completion work" {
	grow
	cp -r "$S/s1" copy
	diff -r --no-dereference "$S/s1" copy
	cp -a "$S/s1" kept
	[ "$(readlink kept/pages/0000)" = "$(readlink "$S/s1/pages/0000")" ]
	[ "$(stat -c %Y kept/text)" -eq "$(stat -c %Y "$S/s1/text")" ]
	run -0 grep -rl 'And then' "$m/workflows"
	[[ "$output" = *"states/s1/text"* && "$output" != *denied* ]]
	tar -C "$m/workflows/w1" -cf all.tar states
	tar -tf all.tar >names
	grep -q states/s3/versions/1/version.json names
	[ "$(compgen -f "$S/s1/mess")" = "$S/s1/messages.json" ]
	[ "$(find "$m" -name version.json | wc -l)" -ge 5 ]
	head -c 5 "$S/s1/text" | grep -q user:
	tail -n 1 "$S/s1/text"
}

@test "rsync and tree too" {
	need rsync
	need tree
	grow
	rsync -a "$m/workflows/" out/ 2>err
	[ ! -s err ]
	run -1 grep -v '^\.d\|check$' < <(rsync -ain "$m/workflows/" out/)
	run -0 tree "$m/workflows/w1/states"
	[[ "$output" = *'parent -> ../s1'* ]]
}

@test "versions never change, whatever becomes of the state" {
	grow
	(cd "$S/s1/versions" && find . -type f -exec sha256sum {} + | sort -k2) >before
	find "$S/s1/versions" -type l -printf '%p %l\n' | sort >links
	epd-fork -q -n 5 w1/s1 >/dev/null
	epd-prefill -q -p more w1/s1 >/dev/null
	epd-decode -q -n 4 w1/s1 >/dev/null
	epd-state gc -q
	(cd "$S/s1/versions" && sha256sum -c --quiet "$BATS_TEST_TMPDIR/before")
	find "$S/s1/versions" -type l -printf '%p %l\n' | sort |
		comm -23 links - | tee gone
	[ ! -s gone ]
	[ "$(ls "$S/s1/versions" | wc -l)" -eq 6 ]
}

@test "what was just done is seen at once, though it was listed a moment ago" {
	for n in 2 3 4 5 6 7 8 9; do
		ls -lR "$S" >/dev/null
		[ "$(epd-fork -q "$s")" = "w1/s$n" ]
		[ "$(cat "$S/s$n/reason")" = agent_branch ]
		epd-prefill -q -p "turn $n" "$s" >/dev/null
		[ "$(cat "$S/s1/version")" -eq "$n" ]
		[ "$(wc -c <"$S/s1/text")" -eq "$(stat -c %s "$S/s1/text")" ]
		ls -lR "$S" >/dev/null
		epd-state release -q "w1/s$n"
		run ! cat "$S/s$n/status"
	done
}

@test "text grows under tail -f while a command decodes" {
	timeout 20 tail -n +1 -s 0.1 -f "$S/s1/text" >tailed &
	t=$!
	EPD_ISA=scalar epd-decode -q -n 24 --temp 1 -s 7 "$s" >said
	soon cmp -s tailed "$S/s1/text"
	kill $t
	[ "$(wc -c <tailed)" -gt "$(wc -c <said)" ]
}

@test "log and events can be followed" {
	timeout 20 tail -n +1 -s 0.1 -f "$m/workflows/w1/log" >log &
	t=$!
	timeout 20 tail -n +1 -s 0.1 -f "$m/events" >events &
	u=$!
	epd-fork -q -n 2 "$s" >/dev/null
	soon grep -q '"record": "fork"' log
	soon grep -q '"record": "fork"' events
	epd-prefill -q -w w2 -p new >/dev/null
	soon grep -q '"workflow": "w2"' events
	kill $t $u
	[ "$(jq -s length log)" -ge 2 ]
	run ! grep -q w2 "$m/workflows/w1/events"
	grep -q '"record": "create"' "$m/workflows/w2/events"
}

@test "a poll of events wakes on a change" {
	perl -e '
		open my $f, "<", $ARGV[0] or die;
		my $set = "";
		vec($set, fileno $f, 1) = 1;
		select(my $now = $set, undef, undef, 0) and die "ready at once";
		$| = 1;
		print "waiting\n";
		my $n = select($now = $set, undef, undef, 15);
		sysread $f, my $line, 4096;
		print "woke $n: $line";' "$m/workflows/w1/events" >woke &
	p=$!
	soon grep -q waiting woke
	sleep 0.2
	epd-fork -q "$s" >/dev/null
	wait $p
	grep -q 'woke 1: {.*"record": "fork"' woke
}

@test "inotify hears of changes" {
	need inotifywait
	cat "$m/events" >/dev/null
	stat "$S/s1/text" >/dev/null
	timeout 20 inotifywait -q -e modify "$m/events" >heard 3>&- &
	p=$!
	timeout 20 inotifywait -q -e modify "$S/s1/text" >heard2 3>&- &
	q=$!
	sleep 0.5
	epd-prefill -q -p more "$s" >/dev/null
	wait $p
	wait $q
	grep -q MODIFY heard
	grep -q MODIFY heard2
}

@test "a page that is in no tier is ENODATA, with the reason, until it is computed again" {
	need getfattr
	p=$(readlink -f "$S/s1/pages/0000")
	[ "$(getfattr --only-values -n user.epd.tier "$p")" = cpu ]
	[ "$(getfattr --only-values -n user.epd.tokens "$p")" = 16 ]
	cat "$p" >was
	exec 9<"$p"
	rm "$BATS_TEST_TMPDIR"/memory/epd-*/w/w1/????????????????
	cmp - was <&9			# what is open stays
	exec 9<&-
	run -1 cat "$p"
	[[ "$output" = *'No data available'* ]]
	[ "$(getfattr --only-values -n user.epd.tier "$p")" = none ]
	[[ "$(getfattr --only-values -n user.epd.error "$p")" = *'in no tier'* ]]
	[ "$(jq .pages_missing "$S/s1/state.json")" -gt 0 ]
	epd-decode -q -n 1 "$s" >/dev/null
	cmp "$p" was
	run -1 getfattr --only-values -n user.epd.error "$p"
}

@test "a model out of reach hides words and nothing else" {
	cp -r "$model" here
	t=$(epd-prefill -q -w away -m here -p hello)
	f=$m/workflows/away/states/s1
	grep -q 'user: hello' "$f/text"
	size=$(stat -c %s "$f/text")
	mv here there
	run -1 cat "$f/text"
	[[ "$output" = *'No data available'* ]]
	[ "$(stat -c %s "$f/text")" -eq "$size" ]
	jq -e . "$f/state.json" >/dev/null
	[ -s "$f/tokens" ]
	mv there here
	grep -q 'user: hello' "$f/text"
}

@test "a damaged workflow is an error, and hides no other" {
	epd-prefill -q -w w2 -p other >/dev/null
	down
	size=$(stat -c %s "$EPD_STORE/w/w1/log.00000001")
	cp -a "$EPD_STORE" good
	printf 'XX' | dd of="$EPD_STORE/w/w1/log.00000001" bs=1 seek=$((size / 2)) conv=notrunc status=none
	up
	[ "$(names "$m/workflows")" = 'w1 w2 ' ]
	run ! ls "$S"
	[[ "$output" = *'Bad message'* ]]
	[ "$(cat "$m/workflows/w2/states/s1/version")" = 1 ]
	run -0 cat "$m/workflows/w1/check"
	[[ "${lines[0]}" = 'fault: w1: '*' damaged '* ]]
	[[ "${lines[1]}" = '1 faults; '* ]]
	down
	rm -rf "$EPD_STORE"
	mv good "$EPD_STORE"
}

@test "names that cannot be are not there" {
	for n in s0 s01 s1x S1 s99999999999 's1 ' .. ../s1x $'s1\n' "$(printf 's%0300d' 1)"; do
		run ! stat "$S/$n/status"
	done
	run ! stat "$m/pages/abc"
	run ! stat "$m/pages/$(ls "$m/pages" | head -1 | tr a-f A-F)"
	for n in 0 01 2 +1 1x 4294967297; do
		run ! stat "$S/s1/versions/$n/text"
	done
	[ -s "$S/s1/versions/1/text" ]
	f=$(ls "$m/features")
	for n in "${f^^}" "${f}0" "${f%?}" "$(tr 0-9a-f a-f0-9 <<<"$f")"; do
		run ! stat "$m/features/$n/blob"
	done
	[ -s "$m/features/$f/blob" ]
}

@test "a store that is wiped or replaced beneath gives errors, not crashes" {
	cp -a "$EPD_STORE" kept
	cat "$S/s1/text" >/dev/null
	exec 9<"$S/s1/text"
	rm -rf "$EPD_STORE"
	run ! cat "$S/s1/text"
	ls "$m" "$m/workflows" "$m/pages" >/dev/null
	cat <&9 >/dev/null || true
	exec 9<&-
	mv kept "$EPD_STORE"
	ls "$m/workflows" >/dev/null
	kill -0 "$daemon"
	down
	up
	cat "$S/s1/text"
}

@test "read-only writes nothing at all" {
	down
	epd-decode -q -n 2 "$s" >/dev/null
	look() {
		find "$EPD_STORE" "$BATS_TEST_TMPDIR/memory" -printf '%p %s %T@ %C@ %n\n' | sort
		find "$EPD_STORE" -type f -exec sha256sum {} + | sort
	}
	look >before
	up --read-only
	[ ! -e "$S/s1/ctl" ]
	cp -rL "$m" copy
	run -1 rmdir "$S/s1"
	[[ "$output" = *'Read-only'* ]]
	run -1 mkdir "$m/workflows/w9"
	run -1 touch "$S/s1/text"
	run ! bash -c "echo x >'$S/s1/text'"
	[ -z "$(find "$m" -perm /222)" ]
	grep -q ' ro,.*nosuid,nodev' <(grep "$m" /proc/mounts)
	look | diff before -
	down
}

@test "unmounting waits for nobody with --lazy, and says who is in the way without" {
	exec 9<"$S/s1/text"
	run -3 epd-mount -u "$m"
	[[ "$output" = *'files there are open'*--lazy* ]]
	epd-mount -u --lazy "$m"
	run ! mountpoint -q "$m"
	exec 9<&-
	wait "$daemon"
	daemon=
	run -1 epd-mount -u "$m"
	[[ "$output" = *'not mounted'* ]]
}

@test "a daemon that is killed gives ENOTCONN within a second, and is cleared" {
	exec 9<"$m/events"
	kill -9 "$daemon"
	from=$(date +%s%N)
	until ! ls "$m" 2>err; do
		[ $(($(date +%s%N) - from)) -lt 1000000000 ]
	done
	grep -q 'Transport endpoint is not connected' err
	run ! cat <&9
	exec 9<&-
	run -1 epd-mount "$m"
	[[ "$output" = *'epd-mount -u'* ]]
	epd-mount -u "$m"
	wait "$daemon" || true
	daemon=
	up
	cat "$S/s1/text"
}

@test "in the background it is there when the command returns; errors are said" {
	down
	epd-mount "$m"
	[ "$(cat "$S/s1/version")" = 1 ]
	run -1 epd-mount -u "$m/README"
	epd-mount -u "$m"
	run -2 epd-mount
	run -2 epd-mount a b c
	run -4 epd-mount nowhere
	[[ "$output" = *'nowhere: No such file'* ]]
	touch file
	run -1 epd-mount file
	[[ "$output" = *'not a directory'* ]]
	run -4 epd-mount --store nostore "$m"
	[[ "$output" = *'no such store'* ]]
	run -2 epd-mount -o suid "$m"
	run ! epd-mount -o no_such_option "$m"
	run ! mountpoint -q "$m"
}

@test "mount(8) can mount it by the name mount.fuse.epd" {
	down
	ln -s "$build/bin/epd-mount" mount.fuse.epd
	# Its -f is to pretend.
	./mount.fuse.epd "$BATS_TEST_TMPDIR/store" "$m" -f -n -o ro
	run ! mountpoint -q "$m"
	(unset EPD_STORE; ./mount.fuse.epd "$BATS_TEST_TMPDIR/store" "$m" -n -o \
		"ro,noauto,user,x-systemd.automount,nosuid,config=$EPD_CONFIG")
	[ "$(cat "$S/s1/version")" = 1 ]
	[ ! -e "$S/s1/say" ]
	umount "$m"
	soon eval '! pgrep -f "mount.fuse.epd $BATS_TEST_TMPDIR/store" >/dev/null'
}

@test "a feature's picture encodes to the same feature, and its blob is the store's" {
	f=$(readlink -f "$S/s1/features/0")
	[ "$(epd-encode -q "$f/image.png")" = "f:${f##*/}" ]
	cmp "$f/blob" "$EPD_STORE"/features/??/*.blob
	jq -e '.kind == "feature" and .picture_width > 0' "$f/meta.json"
}

@test "what a hand-off leaves is told" {
	h=$(epd-handoff -q --prepare "$s" w2)
	d=$m/workflows/w1/handoffs
	[ "$(ls "$d" | wc -l)" -eq 1 ]
	[[ "$(cat "$d"/*/phase)" = PREPARED* ]]
	[ "$(cat "$d"/*/decision)" = open ]
	[[ "$(cat "$d"/*/source)" = w1/s1* ]]
	epd-handoff -q --abort "${h%% *}" 2>/dev/null || epd-handoff -q --abort "$(ls "$d")"
	[ "$(ls "$d" | wc -l)" -eq 0 ]
}

@test "-u goes by links, and leaves what is no store" {
	ln -s "$m" link
	epd-mount -u link
	wait "$daemon"
	daemon=
	run -1 epd-mount -u link
	[[ "$output" = *'not mounted'* ]]
	run -1 epd-mount -u /proc
	[[ "$output" = *'no store'* ]]
	mountpoint -q /proc
	run -4 epd-mount -u nowhere
	for d in "$EPD_STORE" "$EPD_STORE/w/w1" "$EPD_STORE/features"; do
		run -1 timeout 20 epd-mount "$d"
		[[ "$output" = *'lies in the store'* ]]
	done
	[ "$(epd-state ls)" = w1/s1 ]
}

@test "times given to what is written go nowhere" {
	printf 'fork\n' >line
	cp line "$S/s1/ctl"
	touch -r line "$S/s1/ctl"
	touch "$S/s1/say"
	[ -d "$S/s2" ]
	run -1 touch "$S/s1/text"
}

# A line with tabs, as bash takes it at home; what it would run is told.  A shell
# that somebody sits at is deaf to SIGTERM.
typed() {
	{
		echo 'epd-mount() { printf "<%s>" "$@"; echo; }; epd() { epd-mount "$@"; }'
		printf 'cd; . %q\n%s\nexit\n' "$root/completions/epd.bash" "$1"
	} | timeout -s KILL 10 bash --norc --noprofile -i 2>/dev/null 3>&-
}

@test "completion behind -u asks nothing of a mount whose process stands still" {
	down
	m=$HOME/'a place'
	mkdir "$m"
	up
	kill -STOP "$daemon"
	for line in 'epd-mount -u a' 'epd-mount -u a\ p' 'epd mount --unmount a\ ' \
		"epd-mount -u $HOME/a" 'epd-mount -u ~/a'; do
		typed "$line"$'\t' || break
	done >got
	kill -CONT "$daemon"
	diff - got <<-END
	<-u><a place>
	<-u><a place>
	<mount><--unmount><a place>
	<-u><$m>
	<-u><$m>
	END
	down
	rmdir "$m"
	m=$BATS_TEST_TMPDIR/m
}

@test "a pipe in a blob's place holds nobody up" {
	rm "$EPD_STORE"/features/??/*.blob
	mkfifo "$(ls "$EPD_STORE"/features/??/*.meta | sed 's/meta$/blob/')"
	run timeout 10 ls -l "$m"/features/*
	[ "$status" -ne 124 ]
	run -0 timeout 10 cat "$S/s1/status"
	rm "$EPD_STORE"/features/??/*.blob
}

# The calls of which pjdfstest has a test on a read-only file system.
@test "each call that would change a read-only mount is EROFS" {
	down
	up --read-only
	perl -e 'use Errno; use Fcntl;
		my ($dir, $file, $link) = @ARGV;
		my %calls = (
			chmod => sub { chmod 0600, $file },
			chown => sub { chown 1, 1, $file },
			lchown => sub { syscall(94, $link, 1, 1) == 0 },
			link => sub { link $file, "$dir/new" },
			mkdir => sub { mkdir "$dir/new" },
			mkfifo => sub { syscall(133, "$dir/new", 0010600, 0) == 0 },
			mknod => sub { syscall(133, "$dir/new", 0020600, 0) == 0 },
			bind => sub { syscall(133, "$dir/new", 0140600, 0) == 0 },
			create => sub { sysopen my $f, "$dir/new", O_RDWR | O_CREAT },
			write => sub { sysopen my $f, $file, O_WRONLY },
			both => sub { sysopen my $f, $file, O_RDWR },
			trunc => sub { sysopen my $f, $file, O_RDONLY | O_TRUNC },
			rename => sub { rename $file, "$dir/new" },
			rmdir => sub { rmdir $dir },
			symlink => sub { symlink "x", "$dir/new" },
			truncate => sub { truncate $file, 1 },
			unlink => sub { unlink $file },
			utimes => sub { utime 1, 1, $file },
		);
		delete @calls{qw(lchown mkfifo mknod bind)} if `uname -m` !~ /x86_64/;
		for (sort keys %calls) {
			my $done = $calls{$_}->();
			print "$_: ", $done ? "done" : $!, "\n" if $done || !$!{EROFS};
		}' "$S/s1" "$S/s1/status" "$S/s1/pages/0000" >bad
	cat bad
	[ ! -s bad ]
	[ -d "$S/s1" ]
}
