#!/usr/bin/env bats
# bash completion.

load helper

# What completing the line $1 offers, sorted, one a line.
complete_line() {
	(
		source "$root/completions/epd.bash"
		COMP_LINE=$1
		COMP_POINT=${#1}
		COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
		compopt() { :; }
		_epd
		printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort
	)
}

@test "the long options of every command are those of --help" {
	mount=
	[ ! -x "$build/bin/epd-mount" ] || mount=epd-mount
	for c in epd epd-encode epd-prefill epd-decode epd-fork epd-handoff epd-plan \
		$mount epd-state 'epd doctor' 'epd help' 'epd-state ls' \
		'epd-state show' 'epd-state tree' 'epd-state log' \
		'epd-state release' 'epd-state rm' 'epd-state abort' \
		'epd-state check' 'epd-state gc' 'epd-state metrics'; do
		$c --help | grep -oE '^ .{5}--[a-z-]+' | grep -oE -- '--.*' |
			LC_ALL=C sort >want
		complete_line "$c --" | diff - want
	done
}

@test "verbs" {
	[ "$(complete_line 'epd pre')" = prefill ]
	[ "$(complete_line 'epd-state l')" = $'log\nls' ]
	[ "$(complete_line 'epd state l')" = $'log\nls' ]
	[ "$(complete_line 'epd help con')" = config ]
	[ "$(complete_line 'epd help do')" = doctor ]
	[ "$(complete_line 'epd help epd-d')" = epd-decode ]
	[ "$(complete_line 'epd help epd-' | wc -l)" -eq 11 ]
	[ "$(complete_line 'epd mo')" = mount ]
	[ "$(complete_line 'epd help epd.')" = epd.yaml ]
	[ "$(complete_line 'epd fo')" = fork ]
	[ "$(complete_line 'epd help ha')" = handoff ]
	[ "$(complete_line 'epd-state ab')" = abort ]
}

@test "pictures and folders, nothing else" {
	mkdir pics.d
	cp "$pictures/000_0.png" picture.png
	touch pictures.txt
	[ "$(complete_line 'epd-encode pic')" = $'pics.d/\npicture.png' ]
	[ "$(complete_line 'epd-prefill -i pic')" = $'pics.d/\npicture.png' ]
	[ "$(complete_line 'epd-prefill -p x pic')" = $'pics.d/\npicture.png' ]
	mkdir hosts
	[ "$(complete_line 'epd-plan --to hos')" = $'host\nhosts' ]
	[ "$(complete_line 'epd-handoff --to hos')" = hosts ]
}

@test "workflows, then their states" {
	epd-prefill -w task -p x
	epd-prefill -w task -p x
	epd-prefill -w tax -p x
	[ "$(complete_line 'epd-decode ta')" = $'task/\ntax/' ]
	[ "$(complete_line 'epd-decode task/')" = $'task/s1\ntask/s2' ]
	[ "$(complete_line 'epd-prefill -p x task/s2')" = task/s2 ]
	[ "$(complete_line 'epd-state show task/s1')" = task/s1 ]
	[ "$(complete_line 'epd-state ls ta')" = $'task\ntax' ]
	[ "$(complete_line 'epd-prefill -w ta')" = $'task\ntax' ]
	[ "$(complete_line "epd-decode --store $EPD_STORE tax/")" = tax/s1 ]
	[ "$(complete_line "epd-decode --store=$EPD_STORE tax/")" = tax/s1 ]
	[ -z "$(complete_line 'epd-decode none/')" ]
	[ "$(complete_line 'epd-decode -w task s')" = $'s1\ns2' ]
	[ "$(complete_line 'epd-state show --workflow=tax s')" = s1 ]
}

@test "versions of a state behind an @" {
	epd-prefill -w task -p x
	epd-prefill task/s1 -p y
	[ "$(complete_line 'epd-fork ta')" = task/ ]
	[ "$(complete_line 'epd-fork -n 4 task/')" = task/s1 ]
	[ "$(complete_line 'epd fork task/s1@')" = $'task/s1@1\ntask/s1@2' ]
	[ "$(complete_line 'epd-fork task/s1@2')" = task/s1@2 ]
	[ "$(complete_line 'epd-fork -w task s1@')" = $'s1@1\ns1@2' ]
	[ "$(complete_line 'epd-state show task/s1@')" = $'task/s1@1\ntask/s1@2' ]
	[ -z "$(complete_line 'epd-fork task/s9@')" ]
	[ -z "$(complete_line 'epd-fork none/s1@')" ]
	[ "$(complete_line 'epd-state abort task/')" = task/s1 ]
}

@test "a hand-off: states, then workflows; ids of those under way" {
	epd-prefill -w plan -p x
	epd-prefill -w work -p x
	[ "$(complete_line 'epd-handoff ')" = $'plan/\nwork/' ]
	[ "$(complete_line 'epd-handoff pl')" = plan/ ]
	[ "$(complete_line 'epd-handoff plan/')" = plan/s1 ]
	[ "$(complete_line 'epd handoff --timeout 5s plan/s1 wo')" = work ]
	[ -z "$(complete_line 'epd-handoff plan/s1 work ')" ]
	[ "$(complete_line 'epd-handoff - wo')" = work ]
	[ -z "$(complete_line 'epd-handoff --commit ')" ]
	id=$(epd-handoff --prepare plan/s1 work)
	for phase in --commit --abort --adopt --status; do
		[ "$(complete_line "epd-handoff $phase ")" = "$id" ]
	done
	[ "$(complete_line "epd handoff --abort ${id:0:5}")" = "$id" ]
	[ -z "$(complete_line 'epd-handoff --abort zz')" ]
	mkdir target.d
	[ "$(complete_line 'epd-handoff --to tar')" = target.d ]
	epd-handoff --abort "$id"
}

@test "where to mount: directories, options, and what is mounted" {
	mkdir here.d
	touch here.txt
	[ "$(complete_line 'epd-mount he')" = here.d ]
	[ "$(complete_line 'epd-mount -f he')" = here.d ]
	[ "$(complete_line 'epd mount -s --store he')" = here.d ]
	[ -z "$(complete_line 'epd-mount -u he')" ]
	[ "$(complete_line 'epd-mount -o r')" = ro ]
	[ "$(complete_line 'epd-mount -o ro,st')" = ro,store= ]
	[ "$(complete_line 'epd-mount --lazy --un')" = --unmount ]
}

@test "features by their first digits, as readline takes them" {
	f=$(epd-encode "$pictures/000_0.png")
	[ "$(complete_line 'epd-prefill f')" = f: ]
	[ "$(complete_line "epd-prefill ${f:0:5}")" = "${f#f:}" ]
	[ "$(complete_line "epd-prefill -i ${f:0:5}")" = "${f#f:}" ]
	[ "$(complete_line "epd-state show ${f:0:6}")" = "${f#f:}" ]
	[ "$(complete_line "epd-encode ${f:0:5}")" = "${f#f:}" ]
}

@test "values of options" {
	[ "$(complete_line 'epd-decode --isa ')" = $'avx2\navx512\nscalar' ]
	[ "$(complete_line 'epd-decode --isa=s')" = scalar ]
	[ "$(complete_line 'epd-prefill --role t')" = tool ]
	[ "$(complete_line 'epd-serve --role ')" = data ]
	[ "$(complete_line 'epd-prefill --reuse ')" = $'exact_prefix\nnone' ]
	touch chat.json
	[ "$(complete_line 'epd-prefill --messages ch')" = chat.json ]
	[ -z "$(complete_line 'epd-decode -n ')" ]
}

@test "names are listed without a word of error, and fast" {
	[ -z "$(complete_line 'epd-decode w1/')" ]
	epd-prefill -w w1 -p x
	start=$(date +%s%N)
	for i in 1 2 3 4 5 6 7 8 9 10; do
		epd-state ls --names w1/ >/dev/null
	done
	# Ten in what ten slow ones may take: a loaded machine is no fault.
	[ $((($(date +%s%N) - start) / 1000000)) -lt 1000 ]
}
