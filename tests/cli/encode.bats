#!/usr/bin/env bats
# epd-encode: pictures to features.

load helper

@test "prints f: and 64 digits for each picture, in order" {
	run --separate-stderr epd-encode "$pictures"/00{0,1,2}_0.png
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 3 ]
	for line in "${lines[@]}"; do
		[[ $line =~ ^f:[0-9a-f]{64}$ ]]
	done
	[ -z "$stderr" ]
}

@test "-v says fresh, then hit" {
	run --separate-stderr epd-encode -v "$pictures/000_0.png"
	[[ $stderr =~ :\ fresh,\ 12\ tokens\ \(1x8x6\ patches\) ]]
	run --separate-stderr epd-encode -v "$pictures/000_0.png"
	[[ $stderr == *": hit"* ]]
}

@test "equal pixels have one name, whatever the file" {
	cp "$pictures/000_0.png" other.png
	run epd-encode "$pictures/000_0.png" other.png
	[ "${lines[0]}" = "${lines[1]}" ]
	[ "$(epd-state ls -f | wc -l)" -eq 1 ]
}

@test "-j is one object a picture" {
	run --separate-stderr epd-encode -j "$pictures/000_0.png"
	jq -e '.schema_version == 1 and .hit == false and .tokens == 12 and
		.grid == [1, 8, 6] and (.feature | test("^f:[0-9a-f]{64}$"))' \
		<<<"$output"
}

@test "a name may be cut, and is written whole" {
	f=$(epd-encode "$pictures/000_0.png")
	[ "$(epd-encode "${f:0:8}")" = "$f" ]
}

@test "a name that begins like two is ambiguous, and both are told" {
	f=$(epd-encode "$pictures/000_0.png")
	run --separate-stderr -2 epd-encode f:
	[[ $stderr == *'hexadecimal digits'* ]]
	run --separate-stderr -4 epd-encode f:0000
	[ "$stderr" = 'epd-encode: f:0000: no such feature' ]
	# Two names rarely begin alike: give this one a false twin for a while.
	hex=${f#f:}
	twin=${hex:0:63}$(tr 0-9a-f 1-9a-f0 <<<"${hex:63}")
	find "$EPD_STORE/features" -type f -name "*${hex:2}*" | while read -r file; do
		cp "$file" "${file//${hex:2}/${twin:2}}"
	done
	run --separate-stderr -2 epd-encode "${f:0:10}"
	[[ $stderr == *"could be f:${hex:0:16}"* ]]
	find "$EPD_STORE/features" -type f -name "*${twin:2}*" -delete
	[ "$(epd-encode "${f:0:10}")" = "$f" ]
}

@test "one bad picture among good ones: the rest go on, exit by the gravest" {
	printf 'not a picture' >bad.png
	run --separate-stderr -1 epd-encode "$pictures/000_0.png" none.png bad.png \
		"$pictures/001_0.png"
	[ "${#lines[@]}" -eq 2 ]
	[[ $stderr == *'epd-encode: none.png: No such file or directory'* ]]
	[[ $stderr == *'epd-encode: bad.png: '* ]]
	run -4 epd-encode none.png
	run -1 epd-encode bad.png
}

@test "reads names from standard input, and only once" {
	printf '%s\n\n  \n%s\n' "$pictures/000_0.png" "$pictures/001_0.png" >list
	run --separate-stderr epd-encode - <list
	[ "${#lines[@]}" -eq 2 ]
	run -2 epd-encode - - <list
}

@test "a reader that leaves is not spoken of" {
	printf '%s\n' "$pictures"/00*_0.png >list
	set +o pipefail
	for i in 1 2 3; do
		cat list
	done | epd-encode - 2>err | true
	[ "${PIPESTATUS[1]}" -eq 1 ]
	[ ! -s err ]
}

@test "a cut picture leaves nothing behind" {
	head -c 300 "$pictures/008_0.jpg" >cut.jpg
	run -1 epd-encode cut.jpg
	[ -z "$(epd-state ls -f)" ]
}

@test "image.max_bytes refuses before reading" {
	printf 'image:\n  max_bytes: 1000\n' >>"$EPD_CONFIG"
	run --separate-stderr -2 epd-encode "$pictures/000_0.png"
	[[ $stderr == *'max_bytes'* ]]
}

@test "another tenant's features are others" {
	a=$(epd-encode "$pictures/000_0.png")
	b=$(epd-encode --tenant other "$pictures/000_0.png")
	c=$(EPD_TENANT=other epd-encode "$pictures/000_0.png")
	[ "$a" != "$b" ]
	[ "$b" = "$c" ]
}

@test "a name with control characters is said once, and drives no terminal" {
	run -4 --separate-stderr epd-encode $'a\nb'
	[ "$stderr" = 'epd-encode: a?b: No such file or directory' ]
}

@test "what is no plain file in the cache is named by check and stops nothing" {
	f=$(epd-encode "$pictures/018_0.png")
	hex=${f#f:}
	for kind in meta blob pix; do
		p=$EPD_STORE/features/${hex:0:2}/$hex.$kind
		rm "$p"
		mkfifo "$p"
		run -5 --separate-stderr epd-state check
		[[ $output == *"f:$hex: "*'plain file'* ]]
		epd-state gc
		rm "$p"
		mkdir "$p"
		run -5 epd-state check
		epd-state gc
		rmdir "$p"
		epd-state rm "$f" || true
		[ "$(epd-encode "$pictures/018_0.png")" = "$f" ]
	done
	epd-state check
}
