#!/usr/bin/env bats
# epd-prefill: text and pictures to a state.

load helper

@test "a new state each time, in a new workflow or the one named" {
	[ "$(epd-prefill -p hello)" = w1/s1 ]
	[ "$(epd-prefill -p hello)" = w2/s1 ]
	[ "$(epd-prefill -w task -p hello)" = task/s1 ]
	[ "$(epd-prefill -w task -p hello)" = task/s2 ]
	run -2 epd-prefill -w ../x -p hello
}

@test "-v tells what was computed, -j the same as an object" {
	run --separate-stderr ask 'What does the sign say?' -v
	[[ $stderr =~ ^w1/s1:\ reused\ 0\ of\ 31\ tokens,\ 30\ computed,\ 1\ image\ \(1\ fresh\) ]]
	run --separate-stderr ask 'What does the sign say?' -j
	jq -e '.schema_version == 1 and .state == "w2/s1" and .version == 1 and
		.tokens == 31 and .images == 1 and .encoded == 0 and .hits == 1' \
		<<<"$output"
}

@test "the text is as the template has it, a system turn before it" {
	s=$(epd-prefill --system 'Be brief.' -p 'Hi ' -p there)
	[ "$(epd-state show --text "$s")" = "<|im_start|>system
Be brief.<|im_end|>
<|im_start|>user
Hi there<|im_end|>
<|im_start|>assistant" ]
}

@test "text never becomes a special token, except under --raw" {
	a=$(epd-prefill -j -p '<|im_end|>' | jq .tokens)
	b=$(epd-prefill -j -p x | jq .tokens)
	[ "$a" -gt $((b + 2)) ]
	[ "$(epd-prefill -j --raw -p '<|im_end|>' | jq .tokens)" -eq 1 ]
}

@test "--text and --raw are each other's inverse, pictures too" {
	s=$(ask)
	epd-state show --text "$s" >text
	t=$(epd-prefill --raw -f text -i "$pictures/008_0.jpg")
	diff <(epd-state show --tokens "$s") <(epd-state show --tokens "$t")
}

@test "-f leaves out one line break at the end" {
	printf 'hello\n' >file
	a=$(epd-prefill -f file)
	b=$(epd-prefill -p hello)
	diff <(epd-state show --tokens "$a") <(epd-state show --tokens "$b")
	run -4 epd-prefill -f none
	run --separate-stderr -1 epd-prefill -f <(printf '\xff')
	[[ $stderr == *'not UTF-8'* ]]
}

@test "only an operand - reads standard input" {
	for option in -f -i --messages --tools; do
		run --separate-stderr -2 epd-prefill "$option" - </dev/null
		[[ $stderr == *'reads standard input'* ]]
		[ "$option" = -i ] || [[ $stderr == *'its name is /dev/stdin'* ]]
	done
	a=$(epd-prefill -f /dev/stdin <<<hello)
	b=$(epd-prefill --messages /dev/stdin \
		<<<'[{"role": "user", "content": "hello"}]')
	diff <(epd-state show --tokens "$a") <(epd-state show --tokens "$b")
	run --separate-stderr -2 epd-prefill -p hello - </dev/null
	[ "$stderr" = 'epd-prefill: -: nothing came from standard input (see epd-prefill --help)' ]
}

@test "a failed first half of a pipe does not make a state without its picture" {
	run bash -c 'epd-encode none.png | epd-prefill -p hello -'
	[ "$status" -eq 2 ]
	[ ! -e "$EPD_STORE/w/w1" ]
}

@test "one state, and no workflow, may be gone on from" {
	s=$(epd-prefill -p hello)
	t=$(epd-prefill -p hello)
	run -2 epd-prefill -p x "$s" "$t"
	run --separate-stderr -2 epd-prefill -p x w1
	[[ $stderr == *'w1: a workflow'* ]]
	run --separate-stderr -4 epd-prefill -p x w1/s9
	[ "$stderr" = 'epd-prefill: w1/s9: no such state' ]
	run -4 epd-prefill -p x w9/s1
	[ "$(epd-prefill -w w1 -p x s1)" = w1/s1 ]
}

@test "--expect and @V hold a version to be the newest" {
	s=$(epd-prefill -p hello)
	epd-prefill --expect 1 -p more "$s"
	run --separate-stderr -3 epd-prefill --expect 1 -p more "$s"
	run -3 epd-prefill -p more "$s@1"
	run -2 epd-prefill --expect 1 -p more "$s@2"
	epd-prefill -p more "$s@2"
	[ "$(epd-state show -j "$s" | jq .versions)" -eq 3 ]
}

@test "the same key again gives the version it gave" {
	s=$(epd-prefill -p hello)
	epd-prefill --key 7 --expect 1 -p more "$s"
	run --separate-stderr epd-prefill -j --key 7 --expect 1 -p more "$s"
	[ "$status" -eq 0 ]
	[ "$(jq .version <<<"$output")" -eq 2 ]
	[ "$(epd-state show -j "$s" | jq .versions)" -eq 2 ]
}

@test "--continue goes on in the open turn, and only there" {
	s=$(epd-prefill -p hello)
	epd-prefill --continue -p 'The ' "$s"
	[[ "$(epd-state show --text "$s")" == *$'<|im_start|>assistant\nThe ' ]]
	run -2 epd-prefill --continue -p x
	epd-decode -n 3 "$s"
	epd-prefill -p 'and now' "$s"
	[[ "$(epd-state show --text "$s")" == *$'<|im_end|>\n<|im_start|>user\nand now<|im_end|>\n<|im_start|>assistant'* ]]
}

@test "a state with --ttl goes" {
	s=$(epd-prefill --ttl 100ms -p hello)
	sleep 0.3
	run -4 epd-decode "$s"
	[ -z "$(epd-state ls)" ]
	run -2 epd-prefill --ttl soon -p hello
	run -2 epd-prefill --ttl 5 -p hello
}

@test "the usual chat JSON, as an array or with tools" {
	cat >chat.json <<-'X'
	{"messages": [{"role": "user", "content": "hi"}], "tools": [
	 {"type": "function", "function": {"name": "f", "parameters": {}}}]}
	X
	s=$(epd-prefill --messages chat.json)
	[[ "$(epd-state show --text "$s")" == *'"name": "f"'* ]]
	jq -c .tools chat.json >tools.json
	jq -c .messages chat.json >bare.json
	t=$(epd-prefill --messages bare.json --tools tools.json)
	diff <(epd-state show --tokens "$s") <(epd-state show --tokens "$t")
}

@test "pictures of a chat: by path, data: URL, name, or given beside it" {
	mkdir -p chat/sub
	cp "$pictures/008_0.jpg" chat/sub/sign.jpg
	f=$(epd-encode chat/sub/sign.jpg)
	url=data:image/jpeg\;base64,$(base64 -w0 chat/sub/sign.jpg)
	part() {
		jq -nc --arg u "$1" --argjson p "$2" '[{role: "user", content:
			[$p, {type: "text", text: "What does the sign say?"}]}]'
	}
	part '' '{"type": "image", "image": "sub/sign.jpg"}' >chat/1.json
	part '' '{"type": "image", "image": "'"$f"'"}' >chat/2.json
	part '' '{"type": "image_url", "image_url": {"url": "'"$url"'"}}' >chat/3.json
	part '' '{"type": "image"}' >chat/4.json
	for i in 1 2 3; do
		epd-prefill -j --messages chat/$i.json
	done >out
	epd-prefill -j --messages chat/4.json "$f" >>out
	epd-prefill -j --messages chat/4.json -i chat/sub/sign.jpg >>out
	jq -r .state out | while read -r s; do
		epd-state show -j "$s" | jq -c '[.kv_pages[].checksum]'
	done >pages
	[ "$(wc -l <pages)" -eq 5 ]
	[ "$(sort -u pages | wc -l)" -eq 1 ]
	run --separate-stderr -2 epd-prefill --messages chat/4.json
	[[ $stderr == *'names nothing'* ]]
	run -2 epd-prefill --messages chat/1.json "$f"
}

@test "an operand that is a file is a picture, before the text" {
	cp "$pictures/008_0.jpg" sign.jpg
	a=$(ask)
	b=$(epd-prefill -p 'What does the sign say?' sign.jpg)
	c=$(epd-prefill -w c -p 'What does the sign say?' "$PWD/sign.jpg")
	d=$(echo sign.jpg | epd-prefill -p 'What does the sign say?' -)
	for s in "$b" "$c" "$d"; do
		diff <(epd-state show --tokens "$a") <(epd-state show --tokens "$s")
	done
	for name in none.png dir/none.png 'What is this?'; do
		run --separate-stderr -2 epd-prefill -p x "$name"
		[[ $stderr == "epd-prefill: $name: neither a "*'-p gives text, -i a picture'* ]]
	done
	mkdir folder
	run -2 epd-prefill -p x folder
	# A state's name is a state, whatever lies here.
	mkdir w1
	cp sign.jpg w1/s1
	[ "$(epd-prefill -p x w1/s1)" = w1/s1 ]
}

@test "a chat's pictures may be absolute, beneath its folder" {
	mkdir -p real/sub
	cp "$pictures/008_0.jpg" real/sub/sign.jpg
	ln -s real chat
	for name in "$PWD/real/sub/sign.jpg" "file://$PWD/real/sub/sign.jpg" \
		"$PWD/chat/sub/sign.jpg"; do
		jq -nc --arg n "$name" '[{role: "user", content:
			[{type: "image", image: $n}]}]' >chat/c.json
		epd-prefill --messages "$PWD/chat/c.json"
	done
	for name in "$PWD/sign.jpg" "$PWD/realm/sign.jpg" /etc/passwd; do
		jq -nc --arg n "$name" '[{role: "user", content:
			[{type: "image", image: $n}]}]' >chat/c.json
		run --separate-stderr -1 epd-prefill --messages chat/c.json
		[[ $stderr == *"absolute paths outside it are not taken" ]]
	done
	jq -nc --arg n "$PWD/real/../x.png" '[{role: "user", content:
		[{type: "image", image: $n}]}]' >chat/c.json
	run --separate-stderr -1 epd-prefill --messages chat/c.json
	[[ $stderr == *'not beneath'* ]]
}

@test "a chat in /dev/shm has a folder like any other" {
	dir=$(mktemp -d /dev/shm/epd-chat.XXXXXX)
	cp "$pictures/008_0.jpg" "$dir/sign.jpg"
	echo x >outside.png
	jq -nc '[{role: "user", content: [{type: "image", image: "sign.jpg"}]}]' \
		>"$dir/in.json"
	jq -nc '[{role: "user", content: [{type: "image", image: "outside.png"}]}]' \
		>"$dir/out.json"
	run epd-prefill --messages "$dir/in.json"
	in=$status
	run epd-prefill --messages "$dir/out.json"
	rm -r "$dir"
	[ "$in" -eq 0 ]
	[ "$status" -eq 4 ]
}

@test "a chat's bad picture is called as the chat calls it" {
	mkdir -p chat/sub
	echo rubbish >chat/sub/bad.png
	cp "$pictures/008_0.jpg" chat/good.jpg
	jq -nc '[{role: "user", content: [{type: "image", image: "good.jpg"},
		{type: "image", image: "sub/bad.png"}]}]' >chat/c.json
	run --separate-stderr -1 epd-prefill --messages chat/c.json
	[[ $stderr == 'epd-prefill: messages[0].content[1]: sub/bad.png: '* ]]
	jq -nc '[{role: "user", content: "hi"}, {role: "user", content: [{type:
		"image", image: "data:image/png;base64,cnViYmlzaAo="}]}]' >chat/c.json
	run --separate-stderr -1 epd-prefill --messages chat/c.json
	[[ $stderr == 'epd-prefill: messages[1].content[0]: data: URL: '* ]]
	[[ $stderr != */proc/* ]]
	jq -nc '[{role: "user", content: [range(257) |
		{type: "image", image: "good.jpg"}]}]' >chat/c.json
	run --separate-stderr -2 epd-prefill --messages chat/c.json
	[[ $stderr == *'more than 256 images'* ]]
}

@test "how many images a text has places for is said in the singular too" {
	run --separate-stderr -2 epd-prefill --raw -i "$pictures/008_0.jpg" \
		-p '<|image_pad|> <|image_pad|>'
	[[ $stderr == *': the text has 2 image pads, and 1 image is given' ]]
	run --separate-stderr -2 epd-prefill --raw -p '<|image_pad|>' \
		"$pictures/008_0.jpg" "$pictures/000_0.png"
	[[ $stderr == *': the text has 1 image pad, and 2 images are given' ]]
}

@test "a chat without messages is said to have none" {
	echo '{"messages": []}' >chat.json
	run --separate-stderr -1 epd-prefill --messages chat.json
	[ "$stderr" = 'epd-prefill: chat.json: no messages' ]
	echo '[{"role": "user", "content": "hi"}]' >chat.json
	run --separate-stderr -2 epd-prefill --messages chat.json \
		-i "$pictures/008_0.jpg"
	[[ $stderr == *'1 image given that'* ]]
}

@test "a chat's pictures cannot be elsewhere, and nothing is fetched" {
	mkdir chat
	cp "$pictures/008_0.jpg" sign.jpg
	ln -s ../sign.jpg chat/link.jpg
	for name in ../sign.jpg "$PWD/sign.jpg" link.jpg \
		http://localhost/x.png "file://$PWD/sign.jpg"; do
		jq -nc --arg n "$name" '[{role: "user", content:
			[{type: "image", image: $n}]}]' >chat/c.json
		run --separate-stderr -1 epd-prefill --messages chat/c.json
		[[ $stderr == *'messages[0].content[0]: '* ]]
	done
}

@test "a chat that is not one is refused with a sentence" {
	for text in '' '{' '{}' '[]' '3' '[{"role": 1}]' '{"messages": "x"}'; do
		printf '%s' "$text" >chat.json
		run --separate-stderr -1 epd-prefill --messages chat.json
		[ "$(wc -l <<<"$stderr")" -eq 1 ]
	done
	[ -z "$(ls "$EPD_STORE/w" 2>/dev/null)" ] || [ -z "$(epd-state ls)" ]
}

@test "an unknown template is refused, and --raw does without" {
	cp -r "$model" model
	chmod u+w model model/*
	printf ' ' >>model/chat_template.jinja
	run --separate-stderr -2 epd-prefill -m model -p hello
	[[ $stderr == *--raw* ]]
	run epd-prefill -m model --raw -p hello
	[ "$status" -eq 0 ]
}

@test "what does not go together is wrong use" {
	run -2 epd-prefill
	run -2 epd-prefill --raw --continue -p x w1/s1
	run -2 epd-prefill --messages x.json -p x
	run -2 epd-prefill --raw --system x -p x
	run -2 epd-prefill --key x -p x
	run -2 epd-prefill --expect 1 -p x
	run --separate-stderr -2 epd-prefill --key 7 -p x
	[[ $stderr == *'--key: no state given'* ]]
	run --separate-stderr -2 epd-prefill --role boss -p x
	[[ $stderr == *"--role: 'boss' is not user"* ]]
	s=$(epd-prefill -p x)
	run -2 epd-prefill "$s"
	run -2 epd-prefill --system x -p x "$s"
	run -2 epd-prefill --ttl 1h -p x "$s"
}

@test "a prompt past the model's positions is refused, and no state is made" {
	seq 1 3000 >long
	run --separate-stderr -2 epd-prefill -f long
	[[ $stderr == *'2048 positions'* ]]
	[ -z "$(epd-state ls)" ]
}

@test "a state remembers its model, and refuses another" {
	s=$(epd-prefill -p hello)
	cp -r "$model" same
	EPD_MODEL=/nonexistent epd-decode -n 1 "$s"
	run epd-decode -n 1 -m same "$s"
	[ "$status" -eq 0 ]
	chmod u+w same same/*
	# One weight changed makes it another model.
	size=$(stat -c %s same/model.safetensors)
	printf 'x' | dd of=same/model.safetensors bs=1 seek=$((size - 9)) \
		conv=notrunc 2>/dev/null
	run --separate-stderr -2 epd-decode -v -n 1 -m same "$s"
	[[ $stderr == *'[MODEL_MISMATCH]'* ]]
}

@test "interrupted, nothing has changed" {
	s=$(epd-prefill -p hello)
	printf 'engine:\n  chunk: 1\n' >>"$EPD_CONFIG"
	seq 1 500 >long
	env --default-signal=INT epd-prefill --isa scalar -t 1 -f long "$s" 2>err &
	pid=$!
	sleep 0.3
	kill -INT $pid 2>/dev/null || true
	status=0
	wait $pid || status=$?
	[ "$status" -eq 130 ] || skip "it had ended already ($status)"
	[ "$(cat err)" = 'epd-prefill: interrupted, nothing has changed' ]
	[ "$(epd-state show -j "$s" | jq .versions)" -eq 1 ]
}

@test "a progress line on a terminal is gone at the end" {
	command -v script >/dev/null || skip 'no script(1)'
	printf 'engine:\n  chunk: 16\n' >>"$EPD_CONFIG"
	seq 1 100 >long
	TERM=xterm script -qec 'epd-prefill -f long' /dev/null >out
	grep -q 'prefill [0-9]* of [0-9]*' out
	# What stands on the last line is the state alone.
	[ "$(tail -1 out | sed 's/.*\x1b\[K//' | tr -d '\r')" = w1/s1 ]
	TERM=xterm script -qec 'epd-prefill -q -f long' /dev/null >out
	run -1 grep -q prefill out
}

@test "what is wrong with a checkpoint names its folder" {
	mkdir wrong
	for verb in 'epd-prefill -p x' "epd-encode $pictures/000_0.png"; do
		run -4 --separate-stderr $verb -m wrong
		[[ $stderr == *"wrong: config.json: No such file or directory" ]]
		[ "$(grep -o wrong <<<"$stderr" | wc -l)" -eq 1 ]
	done
}
