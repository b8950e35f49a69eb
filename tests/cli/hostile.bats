#!/usr/bin/env bats
# Files that lie, refused by each command in one sentence, with nothing left.

load helper
load hostile

made() { # a picture of 64 x 64 in grey, to spoil
	zeros $((64 * 193)) | png 64 64
}

@test "pictures: cut short" {
	local data=$root/tests/data/image n f
	made >ok.png
	epd-encode ok.png
	epd-state rm "$(epd-state ls -f)"
	for n in 0 1 7 8 20 33 40 60; do
		head -c $n ok.png >cut$n.png
		refused 1 cut$n.png epd-encode cut$n.png
	done
	for n in 2 4 20 200 400 500 700; do
		head -c $n "$data/s420.jpg" >cut$n.jpg
		refused 1 cut$n.jpg epd-encode cut$n.jpg
	done
	for n in 12 20 30 100 200; do
		head -c $n "$data/lossy.webp" >cut$n.webp
		refused 1 cut$n.webp epd-encode cut$n.webp
	done
	for n in 2 3 8 15 100 2000; do
		head -c $n "$data/p6.pnm" >cut$n.ppm
		refused 1 cut$n.ppm epd-encode cut$n.ppm
	done
	empty
	settled
}

@test "pictures: headers that lie" {
	: | png 100000 100000 >bomb.png
	refused 2 bomb.png epd-encode bomb.png
	: | png 2147483647 2147483647 >most.png
	refused 1 most.png epd-encode most.png
	for size in '0 5' '5 0' '4294967295 1'; do
		# shellcheck disable=SC2086
		: | png $size >size.png
		refused 1 size.png epd-encode size.png
	done
	zeros 100 | png 1000 1000 >short.png
	refused 1 short.png epd-encode short.png
	zeros 10000 | png 64 64 08 07 >colour.png
	refused 1 colour.png epd-encode colour.png
	zeros 10000 | png 64 64 03 02 >depth.png
	refused 1 depth.png epd-encode depth.png
	zeros 10000 | png 64 64 08 02 '\x01\x00\x00' >method.png
	refused 1 method.png epd-encode method.png
	zeros 10000 | png 64 64 08 02 '\x00\x00\x07' >interlace.png
	refused 1 interlace.png epd-encode interlace.png
	zeros 10000 | png 64 64 08 03 >palette.png
	refused 1 palette.png epd-encode palette.png
	made >crc.png
	patch_at crc.png 29 '\x01'
	refused 1 crc.png epd-encode crc.png
	made >length.png
	patch_at length.png 33 '\x7f\xff\xff\xff'
	refused 1 length.png epd-encode length.png
	{ bytes '\x89PNG\r\n\x1a\n'; zeros 100 | zlib | chunk IDAT; } >order.png
	refused 1 order.png epd-encode order.png
	cp "$root/tests/data/image/s420.jpg" size.jpg
	# Height and width stand behind the start-of-frame mark.
	at=$(LC_ALL=C grep -obUaP '\xff\xc0' size.jpg | head -1 | cut -d: -f1)
	patch_at size.jpg $((at + 5)) '\xff\xff\xff\xff'
	refused 2 size.jpg epd-encode size.jpg
	patch_at size.jpg $((at + 5)) '\x00\x00\x00\x10'
	refused 1 size.jpg epd-encode size.jpg
	patch_at size.jpg $((at + 2)) '\x00\x01'
	refused 1 size.jpg epd-encode size.jpg
	cp "$root/tests/data/image/lossy.webp" size.webp
	patch_at size.webp 4 '\xff\xff\xff\x7f'
	refused 1 size.webp epd-encode size.webp
	refused 1 animated.webp epd-encode "$root/tests/data/image/animated.webp"
	empty
	settled
}

@test "pictures: PPM that lies" {
	local n=0 head
	for head in 'P6 99999999 99999999 255\n' 'P6 20000 20000 255\n' \
	    'P5 1000000 1000000 255\n'; do
		bytes "$head" >big$((++n)).ppm
		refused 2 big$n.ppm epd-encode big$n.ppm
	done
	for head in 'P6 -1 5 255\n' 'P6 0 5 255\n' 'P6 5 5 0\n' 'P6 5 5 65536\n' \
	    'P6 5 5 255' 'P6 5 5\n' 'P6\n' 'P6 x 5 255\n' 'P7\n' \
	    'P6 4294967297 4294967297 255\n' 'P6 99999999999999999999999 5 255\n' 'P6 5 5 255\nxxx' \
	    'P6 5 5 65535\nxxx'; do
		bytes "$head" >odd$((++n)).ppm
		refused 1 odd$n.ppm epd-encode odd$n.ppm
	done
	{ bytes 'P6\n'; head -c 20000000 /dev/zero | tr '\0' '#'; } >comment.ppm
	refused 1 comment.ppm epd-encode comment.ppm
	empty
	settled
}

@test "pictures: bombs take no memory" {
	local kib=100000
	zeros 150000000 | tr '\0' '\1' >flat
	{ bytes '\x89PNG\r\n\x1a\n'
	{ be32 8; be32 8; bytes '\x08\x02\x00\x00\x00'; } | chunk IHDR
	{ bytes '\x78\x9c'; gzip -nc9 flat | tail -c +11 | head -c -8; } | chunk IDAT
	: | chunk IEND; } >idat.png
	bounded epd-encode idat.png
	[ "$rc" -le 3 ] || wrong "idat.png: $rc"
	{ made | head -c 33
	{ bytes 'a\x00\x00\x78\x9c'; gzip -nc9 flat | tail -c +11 | head -c -8; } | chunk zTXt
	{ bytes 'a\x00\x00\x78\x9c'; gzip -nc9 flat | tail -c +11 | head -c -8; } | chunk iCCP
	made | tail -c +34; } >text.png
	bounded epd-encode text.png
	[ "$rc" -le 3 ] || wrong "text.png: $rc"
	rm -f flat
	# A wide strip is more than 200 to one.
	zeros $((3001 * 3 + 1)) | png 3001 1 >strip.png
	refused 1 strip.png epd-encode strip.png
	settled
}

@test "pictures: of other kinds, and what is no file" {
	local n=0 head
	for head in 'GIF89a\x01\x00\x01\x00' 'GIF87a' 'BM\x46\x00' 'II*\x00' \
	    'MM\x00*' '\x00\x00\x00\x1cftypheic' '<svg>' '%%PDF-1.4' \
	    'PK\x03\x04' '\x00\x00\x01\x00' 'RIFF\x10\x00\x00\x00WAVE' \
	    'qoif' '\xff\x0a' 'text'; do
		bytes "$head" >kind$((++n))
		zeros 500 >>kind$n
		refused 1 kind$n epd-encode kind$n
	done
	: >empty.png
	refused 1 empty.png epd-encode empty.png
	mkdir folder.png
	refused 1 folder.png epd-encode folder.png
	mkfifo pipe.png
	seconds=5 refused 1 pipe.png epd-encode pipe.png
	seconds=5 refused 1 pipe.png epd-prefill -i pipe.png -p x
	refused 2 /dev/zero epd-encode /dev/zero
	refused 1 /dev/null epd-encode /dev/null
	ln -s loop.png loop.png
	refused 1 loop.png epd-encode loop.png
	ln -s nowhere dangling.png
	refused 4 dangling.png epd-encode dangling.png
	refused 4 none.png epd-encode none.png
	refused 1 kind1/x epd-encode kind1/x
	truncate -s 3G huge.png
	refused 2 huge.png epd-encode huge.png
	long=$(printf 'a%.0s' {1..3000})
	refused 1 aaaa epd-encode "$long"
	refused 4 '?[31m' epd-encode $'no\e[31m\nsuch'
	refused 2 -i epd-prefill -i - -p x </dev/null
	empty
	settled
}

@test "pictures: one that may not be read" {
	local dir as=() nobody=65534
	dir=$(mktemp -d)
	made >"$dir/shut.png"
	chmod 0 "$dir/shut.png"
	# Root reads everything, so it goes as nobody, with a store of that one's.
	if [ "$(id -u)" -eq 0 ]; then
		chmod 755 "$dir"
		mkdir "$dir/own"
		chown $nobody "$dir/own"
		as=(setpriv --reuid=$nobody --regid=$nobody --clear-groups)
	fi
	printf 'page:\n  memory_dir: %s\n' "$dir/own/memory" >"$dir/config"
	if "${as[@]}" test -x "$build/bin/epd-encode"; then
		EPD_STORE=$dir/own/store EPD_CONFIG=$dir/config refused 1 \
			shut.png "${as[@]}" epd-encode "$dir/shut.png"
	fi
	rm -rf "$dir"
	settled
}

@test "a store, and memory, that are another's" {
	local name
	[ "$(id -u)" -eq 0 ] || skip 'only root can give a file away'
	epd-prefill -p hello
	chown 65534 "$EPD_STORE"
	refused 1 'another user' epd-state ls
	refused 1 'another user' epd-prefill -p hello
	chown 0 "$EPD_STORE"
	name=$(ls memory)
	chown 65534 "memory/$name"
	refused 1 'belongs to' epd-prefill -p hello
	chown 0 "memory/$name"
	chmod 777 "memory/$name"
	refused 1 'mode 777' epd-prefill -p hello
	chmod 700 "memory/$name"
	mv "memory/$name" elsewhere
	ln -s "$PWD/elsewhere" "memory/$name"
	refused 1 'not a folder of ours' epd-prefill -p hello
	rm "memory/$name"
	epd-prefill -p hello
	settled
}

# A link where a file or folder of the store's is: it is refused or gone round,
# and what it leads to stays as it is.
@test "a link in the place of whatever a store has" {
	local path name n=0
	feature=$(epd-encode "$pictures/008_0.jpg")
	s=$(epd-prefill -w w1 -p 'hello there' "$feature")
	t=$(epd-prefill -w w1 -p 'another one of them')
	epd-handoff --prepare "$t" w2
	epd-fork "$s"
	(cd "$EPD_STORE" && find . -mindepth 1 | sort) >paths
	cp -a "$EPD_STORE" kept
	cp -a memory kept.memory
	while read -r path; do
		rm -rf "$EPD_STORE" memory elsewhere
		cp -a kept "$EPD_STORE"
		cp -a kept.memory memory
		mv "$EPD_STORE/$path" elsewhere
		ln -s "$PWD/elsewhere" "$EPD_STORE/$path"
		prints elsewhere >before
		for verb in 'state ls' "state show $s" 'state check' \
			'prefill -w w1 -p more' "prefill -p more $s" \
			"decode -n 2 $s" "fork $s" "state rm $s" 'state gc' \
			"encode $pictures/010_0.jpg"; do
			# shellcheck disable=SC2086
			bounded epd-$verb
			if [ "$rc" -gt 6 ]; then
				wrong "status $rc: $path: $verb"
			elif [ "$rc" -ne 0 ]; then
				echo refused >>"$figures"
			fi
		done
		prints elsewhere >after
		diff before after >/dev/null || wrong "$path: what it leads to was changed"
	done <paths
	[ "$(wc -l <paths)" -ge 20 ]
	settled
}

@test "nothing listens but who serves, and that on this machine" {
	local program n=0
	for program in "$build"/bin/*; do
		[ "${program##*/}" != epd-serve ] || continue
		[ "$(head -c 4 "$program" | tail -c 3)" = ELF ] || continue
		n=$((n + 1))
		! nm -D --undefined-only "$program" |
			grep -wE '(bind|listen|accept4?)(@.*)?$' || wrong "$program listens"
	done
	[ "$n" -gt 5 ]
	for at in tcp://0.0.0.0:0 'tcp://[::]:0' "tcp://$(hostname -I |
		cut -d' ' -f1):0"; do
		[ "$at" != tcp://:0 ] || continue
		run -2 timeout 10 epd-serve --role data --listen "$at"
	done
	settled
}

# ---- models ----

# A model to spoil, in the folder m; its files are of their own once written.
fresh_model() {
	rm -rf m
	mkdir m
	ln "$model"/* m/ 2>/dev/null || cp "$model"/* m/
}

# edit FILE FILTER: with jq.
edit() {
	jq -c "$2" "$model/$1" >new
	rm -f "m/$1"
	mv new "m/$1"
}

put() { # put FILE TEXT
	rm -f "m/$1"
	bytes "$2" >"m/$1"
}

@test "models: files that are not there, or not files" {
	local f
	refused 4 nowhere epd-prefill -m nowhere -p x
	: >file
	refused 1 file epd-prefill -m file -p x
	mkdir void
	refused 4 config.json epd-prefill -m void -p x
	mkfifo pipe
	seconds=5 refused 1 pipe epd-prefill -m pipe -p x
	for f in config.json model.safetensors tokenizer.json; do
		fresh_model
		rm m/$f
		refused 4 $f epd-prefill -m m -p x
		mkdir m/$f
		refused 1 $f epd-prefill -m m -p x
		rmdir m/$f
		mkfifo m/$f
		seconds=5 refused 1 $f epd-prefill -m m -p x
		rm m/$f
		: >m/$f
		refused 1 $f epd-prefill -m m -p x
		rm m/$f
		ln -s $f m/$f
		refused 1 $f epd-prefill -m m -p x
	done
	empty
	settled
}

@test "models: config.json" {
	local text filter
	for text in '' '{' '[]' '"x"' 'nul' '{}' '\xff\xfe' '{"a":1,}' \
	    '{"model_type":7}'; do
		fresh_model
		put config.json "$text"
		refused 1 'config.json' epd-prefill -m m -p x
	done
	fresh_model
	rm m/config.json
	zeros 100000 | tr '\0' '[' >m/config.json
	refused 1 config.json epd-prefill -m m -p x
	head -c 20000000 /dev/zero | tr '\0' ' ' >m/config.json
	refused 2 config.json epd-prefill -m m -p x
	while read -r status word filter; do
		fresh_model
		edit config.json "$filter"
		refused "$status" "$word" epd-prefill -m m -p x
	done <<-'END'
	1 llama .model_type="llama"
	1 sliding .text_config.use_sliding_window=true
	1 sliding_attention .text_config.layer_types=["sliding_attention"]
	1 quant .quantization_config={"quant_method":"gptq"}
	1 quant .text_config.quantization_config={"quant_method":"awq"}
	1 hidden_size .text_config.hidden_size=0
	1 hidden_size .text_config.hidden_size=-128
	1 hidden_size .text_config.hidden_size=1e18
	1 hidden_size .text_config.hidden_size="128"
	1 hidden_size .text_config.hidden_size=128.5
	1 hidden_size del(.text_config.hidden_size)
	1 num_hidden_layers .text_config.num_hidden_layers=1000000000
	1 layers .text_config.num_hidden_layers=7
	1 heads .text_config.num_key_value_heads=3
	1 num_attention_heads .text_config.num_attention_heads=0
	1 head .text_config.head_dim=31
	1 head_dim .text_config.head_dim=1000000
	1 embed_tokens .text_config.vocab_size=801
	1 rope_theta .text_config.rope_parameters.rope_theta=-1
	1 yarn .text_config.rope_parameters.rope_type="yarn"
	1 mrope_section .text_config.rope_parameters.mrope_section=[1,2,3]
	1 mrope_section .text_config.rope_parameters.mrope_section=[16,-1,1]
	1 mrope_section .text_config.rope_parameters.mrope_section=[4611686018427387904,4611686018427387904,16]
	1 gelu .text_config.hidden_act="gelu"
	1 rms_norm_eps .text_config.rms_norm_eps=0
	1 patch .vision_config.patch_size=0
	1 depth .vision_config.depth=100000
	1 merge .vision_config.spatial_merge_size=1000
	1 num_heads .vision_config.num_heads=-4
	1 vision .vision_config=[]
	1 deepstack .vision_config.deepstack_visual_indexes=[99]
	1 image_token_id .image_token_id=100000
	END
	empty
	settled
}

# safetensors HEADER [BYTES]: a file of that header, its length right.
safetensors() {
	local n=${#1}
	rm -f m/model.safetensors
	{ perl -e 'print pack "Q<", shift' "$n"; printf %s "$1"; zeros "${2:-0}"; } >m/model.safetensors
}

head_of() { # the header of the model's tensors
	local n
	n=$(od -An -tu8 -N8 "$model/model.safetensors" | tr -d ' ')
	tail -c +9 "$model/model.safetensors" | head -c "$n"
}

# tensors FILTER: the header passed through jq, in front of the same data.
tensors() {
	local n header
	n=$(od -An -tu8 -N8 "$model/model.safetensors" | tr -d ' ')
	header=$(head_of | jq -c "$1")
	rm -f m/model.safetensors
	{ perl -e 'print pack "Q<", shift' "${#header}"; printf %s "$header"
	tail -c +$((9 + n)) "$model/model.safetensors"; } >m/model.safetensors
}

@test "models: safetensors" {
	local n text
	fresh_model
	for n in 1 7 8 100 20000 5000000 5094239; do
		rm m/model.safetensors
		head -c $n "$model/model.safetensors" >m/model.safetensors
		refused 1 model.safetensors epd-prefill -m m -p x
	done
	for text in '\xff\xff\xff\xff\xff\xff\xff\xff' \
	    '\xff\xff\xff\xff\xff\xff\xff\x7f' '\x00\x00\x00\x40\x00\x00\x00\x00'; do
		put model.safetensors "$text"
		zeros 1000 >>m/model.safetensors
		refused 2 model.safetensors epd-prefill -m m -p x
	done
	for text in '[]' '{' '7' '{"a":1}' '{"a":{}}' \
	    '{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,8]}}' \
	    '{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,9]}}' \
	    '{"a":{"dtype":"BF16","shape":[4],"data_offsets":[-8,0]}}' \
	    '{"a":{"dtype":"BF16","shape":[4],"data_offsets":[8,0]}}' \
	    '{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0]}}' \
	    '{"a":{"dtype":"BF16","shape":[4],"data_offsets":"0"}}' \
	    '{"a":{"dtype":"BF16","shape":[-4],"data_offsets":[0,8]}}' \
	    '{"a":{"dtype":"BF16","shape":[4611686018427387904,2],"data_offsets":[0,8]}}' \
	    '{"a":{"dtype":"BF16","shape":[1,1,1,1,1,1,1,1,1,1,4],"data_offsets":[0,8]}}' \
	    '{"a":{"dtype":"XX","shape":[4],"data_offsets":[0,8]}}' \
	    '{"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}' \
	    '{"a":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}}' \
	    '{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}}' \
	    '{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}'; do
		safetensors "$text" 8
		refused 1 "" epd-prefill -m m -p x
	done
	safetensors "$(zeros 100000 | tr '\0' '[')"
	refused 1 model.safetensors epd-prefill -m m -p x
	while read -r word text; do
		fresh_model
		tensors "$text"
		refused 1 "$word" epd-prefill -m m -i "$pictures/000_0.png" -p x
	done <<-'END'
	gap with_entries(select(.key|endswith("embed_tokens.weight")|not))
	embed_tokens with_entries(if .key|endswith("embed_tokens.weight") then .key="other" else . end)
	norm.weight with_entries(if .key|endswith("language_model.norm.weight") then .value.dtype="I16" else . end)
	norm.weight with_entries(if .key|endswith("language_model.norm.weight") then .value.shape=[64,2] else . end)
	END
	empty
	settled
}

@test "models: a sharded one whose index names other places" {
	local name
	for name in ../x /etc/passwd ../../../../../../etc/passwd . .. '' \
	    none.safetensors config.json; do
		fresh_model
		rm m/model.safetensors
		head_of | jq -c --arg f "$name" \
			'{weight_map: (del(.__metadata__) | map_values($f))}' >m/model.safetensors.index.json
		case $name in
		none*) refused 4 none.safetensors epd-prefill -m m -p x ;;
		config*) refused 2 config.json epd-prefill -m m -p x ;;
		.) refused 1 "not a regular file" epd-prefill -m m -p x ;;
		*) refused 1 "not the name of a file here" epd-prefill -m m -p x ;;
		esac
	done
	for text in '{' '{}' '{"weight_map":[]}' '{"weight_map":{"a":7}}' '[]'; do
		put model.safetensors.index.json "$text"
		refused 1 "" epd-prefill -m m -p x
	done
	empty
	settled
}

# Where a tensor's bytes lie in the file.
offset_of() {
	local n
	n=$(od -An -tu8 -N8 "$model/model.safetensors" | tr -d ' ')
	echo $((8 + n + $(head_of | jq -r "to_entries[] | select(.key | endswith(\"$1\")) | .value.data_offsets[0]" | head -1)))
}

@test "models: weights that are no numbers are an error, never an answer" {
	local w
	for w in language_model.layers.0.mlp.up_proj.weight language_model.norm.weight \
	    language_model.embed_tokens.weight; do
		for v in '\xc0\x7f' '\x80\x7f'; do
			fresh_model
			cp --remove-destination "$model/model.safetensors" m/
			for i in 0 2 4 6 8 10 200 202; do
				patch_at m/model.safetensors $(($(offset_of "$w") + i)) "$v"
			done
			s=
			bounded epd-prefill -m m -p 'hello to you'
			if [ "$rc" -eq 0 ]; then
				s=$(cat out)
				bounded epd-decode -m m "$s"
			fi
			[ "$rc" -eq 5 ] || wrong "$w $v: status $rc"
			grep -q 'not finite' err || wrong "$w $v: no sentence"
			[ -z "$s" ] || epd-state rm "$s"
			echo refused >>"$figures"
		done
	done
	fresh_model
	cp --remove-destination "$model/model.safetensors" m/
	at=$(offset_of visual.blocks.0.attn.proj.weight)
	for i in 0 2 4 6 8 10 12 14; do
		patch_at m/model.safetensors $((at + i)) '\xc0\x7f'
	done
	refused 5 finite epd-encode -m m "$pictures/000_0.png"
	empty
	settled
}

@test "models: tokenizer.json and the rest" {
	local filter
	fresh_model
	for n in 1 100 20000 43797; do
		rm m/tokenizer.json
		head -c $n "$model/tokenizer.json" >m/tokenizer.json
		refused 1 tokenizer.json epd-prefill -m m -p x
	done
	while read -r word filter; do
		fresh_model
		edit tokenizer.json "$filter"
		refused 1 "$word" epd-prefill -m m -p x
	done <<-'END'
	tokenizer .model.type="Unigram"
	tokenizer .model.merges[0]="no such"
	tokenizer .model.merges[0]=["no","such"]
	tokenizer .model.merges[0]=7
	tokenizer .model.merges={}
	tokenizer del(.model)
	tokenizer .model.vocab=[]
	tokenizer .model.vocab["a"]=-1
	tokenizer .model.vocab["a"]=2000000000
	tokenizer .model.vocab["a"]="1"
	tokenizer .added_tokens[0].id=2000000000
	tokenizer .added_tokens=7
	tokenizer .pre_tokenizer={"type":"Whitespace"}
	tokenizer .normalizer={"type":"Lowercase"}
	tokenizer .decoder={"type":"WordPiece"}
	END
	while read -r status word file filter; do
		fresh_model
		edit "$file" "$filter"
		refused "$status" "$word" epd-prefill -m m -i "$pictures/000_0.png" -p x
	done <<-'END'
	1 patches preprocessor_config.json .patch_size=14
	1 merge_size preprocessor_config.json .merge_size=0
	1 image_mean preprocessor_config.json .image_mean=[1]
	1 image_std preprocessor_config.json .image_std=[0,0,0]
	1 pixels preprocessor_config.json .size={"longest_edge":5,"shortest_edge":9}
	1 resample preprocessor_config.json .resample=0
	1 do_resize preprocessor_config.json .do_resize=false
	1 rescale_factor preprocessor_config.json .rescale_factor=1
	1 eos_token_id generation_config.json .eos_token_id=100000
	1 temperature generation_config.json .do_sample=true|.temperature=-1
	END
	fresh_model
	rm m/chat_template.jinja
	echo '{{ evil }}' >m/chat_template.jinja
	refused 2 --raw epd-prefill -m m -p x
	empty
	epd-prefill -m m --raw -p x
	settled
}

# ---- what people write ----

@test "messages" {
	local text
	mkdir in
	cp "$pictures/000_0.png" in/ok.png
	cp "$pictures/000_0.png" out.png
	ln -s ../out.png in/link.png
	ln -s . in/here
	mkfifo in/pipe
	mkdir in/folder
	for text in '' '{' '[]' '{}' '7' '"x"' '[7]' '[{}]' '[{"role":"user"}]' \
	    '[{"role":7,"content":"x"}]' '[{"role":"user","content":7}]' \
	    '[{"role":"user","content":[7]}]' \
	    '[{"role":"user","content":[{"type":"text"}]}]' \
	    '[{"role":"user","content":[{"type":"video","video":"x"}]}]' \
	    '{"messages":[{"role":"user","content":"x"}],"tools":7}' \
	    '[{"role":"user","content":"\xff"}]' \
	    '[{"role":"user","content":"\xed\xa0\x80"}]' \
	    '[{"role":"user","content":"x"}] x'; do
		bytes "$text" >in/m.json
		refused 1 "" epd-prefill --messages in/m.json
	done
	zeros 100000 | tr '\0' '[' >in/m.json
	refused 1 m.json epd-prefill --messages in/m.json
	{ printf '[{"role":"user","content":"'; head -c 3000000 /dev/zero | tr '\0' x; printf '"}]'; } >in/m.json
	refused 2 "" epd-prefill --messages in/m.json
	truncate -s 100M in/m.json
	refused 2 m.json epd-prefill --messages in/m.json
	for name in ../out.png "$PWD/out.png" /etc/passwd link.png here/../../out.png \
	    file:///etc/passwd file://../out.png here/ok.png ''; do
		jq -nc --arg n "$name" '[{role:"user",content:[{type:"image",image:$n}]}]' >in/m.json
		case $name in
		'') refused 2 "" epd-prefill --messages in/m.json ;;
		*) refused 1 "not beneath" epd-prefill --messages in/m.json ;;
		esac
	done
	while read -r status name; do
		jq -nc --arg n "$name" '[{role:"user",content:[{type:"image_url",image_url:{url:$n}}]}]' >in/m.json
		seconds=5 refused "$status" "messages[0].content[0]" epd-prefill --messages in/m.json
	done <<-'END'
	1 http://127.0.0.1/x.png
	1 https://example.org/x.png
	1 data:image/png;base64,!!!!
	1 data:image/png,abc
	4 none.png
	4 f:0123456789abcdef
	2 f:xyz
	END
	for name in pipe folder 'data:image/png;base64,R0lGODlh' 'data:image/png;base64,'; do
		jq -nc --arg n "$name" '[{role:"user",content:[{type:"image",image:$n}]}]' >in/m.json
		seconds=5 refused 1 "" epd-prefill --messages in/m.json
	done
	empty
	settled
}

@test "configuration: every mistake names file and line" {
	local text
	printf 'a: &a [x,x,x,x,x,x,x,x]\n' >bomb
	for i in b c d e f g h i; do
		p=$(printf '\\x%02x' $(($(printf %d "'$i") - 1)))
		printf '%s: &%s [*%b,*%b,*%b,*%b,*%b,*%b,*%b,*%b]\n' $i $i "$p" "$p" "$p" "$p" "$p" "$p" "$p" "$p" >>bomb
	done
	kib=400000 refused 2 bomb: epd-state --config bomb ls
	while read -r line text; do
		bytes "$text" >c.yaml
		refused 2 "c.yaml:$line" epd-prefill --config c.yaml -p x
	done <<-'END'
	1 page:\\n
	1 nothing:\n  a: 1\n
	2 page:\n  token: 16\n
	3 page:\n  tokens: 16\n  tokens: 16\n
	2 page:\n  tokens: sixteen\n
	2 page:\n  tokens: 17\n
	2 page:\n  tokens: -16\n
	2 page:\n  tokens: 1e2\n
	2 page:\n  tokens: 99999999999999999999\n
	2 page:\n  tokens: 0x10\n
	2 page:\n  tokens: [16]\n
	2 page:\n  dtype: f64\n
	2 page:\n  memory_cap: 1\n
	2 reuse:\n  max_quality_delta: .nan\n
	2 reuse:\n  max_quality_delta: 1e999\n
	2 reuse:\n  structural_gate: maybe\n
	2 page:\n  tokens: !!int 16\n
	1 !x page:\n  tokens: 16\n
	2 page:\n  tokens: &x 16\n
	1 - page\n
	1 page: 7\n
	2 scheduler:\n  queues: [A]\n
	2 scheduler:\n  queues: [HYBRID, HYBRID]\n
	2 scheduler:\n  queues: HYBRID\n
	2 page:\n\ttokens: 16\n
	3 page:\n  tokens: "16\n
	2 page:\n  tokens: 16 }\n
	END
	for text in '\xff\xfe\x00' 'page:\n  tokens: \x00\n' '---\npage: {}\n---\npage: {}\n' '%%BAD\n'; do
		bytes "$text" >c.yaml
		refused 2 c.yaml epd-prefill --config c.yaml -p x
	done
	zeros 30000 | tr '\0' '[' >c.yaml
	refused 2 c.yaml epd-prefill --config c.yaml -p x
	head -c 70000 /dev/zero | tr '\0' '#' >c.yaml
	refused 2 c.yaml epd-prefill --config c.yaml -p x
	printf 'page:\n  memory_dir: %s\n' "$(printf 'a%.0s' {1..300})" >c.yaml
	refused 2 c.yaml:2 epd-prefill --config c.yaml -p x
	mkdir folder
	refused 1 folder epd-prefill --config folder -p x
	refused 4 none epd-prefill --config none -p x
	settled
}

@test "text and options" {
	bytes 'a\xffb' >bad.txt
	refused 1 bad.txt epd-prefill -f bad.txt
	refused 1 -p epd-prefill -p $'a\xffb'
	mkdir folder
	refused 1 folder epd-prefill -f folder
	refused 4 none epd-prefill -f none
	truncate -s 100M big.txt
	refused 2 big.txt epd-prefill -f big.txt
	kib=1500000 refused 2 /dev/zero epd-prefill -f /dev/zero
	head -c 200000 /dev/zero | tr '\0' x >long.txt
	refused 2 "" epd-prefill -f long.txt
	refused 2 -t epd-prefill -t 0 -p x
	refused 2 -t epd-prefill -t 999999999999999999999 -p x
	refused 2 --ttl epd-prefill --ttl 1e9 -p x
	refused 2 ../x epd-prefill -w ../x -p x
	refused 2 "" epd-prefill -w "$(printf 'a%.0s' {1..100})" -p x
	for ref in w1/s0 w1/s4294967296 w1/s01 w1/s1@0 w1/s1@x ../s1 w1/../s1 /s1 w1/ \
	    f: f:12 f:XYZW f:0123456789abcdefg "f:$(printf '0%.0s' {1..65})" 's1' \
	    $'w1/s1\n' "$(printf 'x%.0s' {1..5000})"; do
		refused 2 "" epd-prefill -p x "$ref"
	done
	refused 4 "" epd-decode w1/s1
	refused 4 "" epd-decode w9/s4294967295@4294967295
	empty
	settled
}

@test "standard input: a line without end, a million refs" {
	head -c 10000000 /dev/zero | tr '\0' a >line
	refused 2 'longer than' epd-prefill -p x - <line
	refused 2 'longer than' epd-decode - <line
	refused 2 'longer than' epd-encode - <line
	refused 2 'longer than' epd-state show - <line
	zeros 1000 >nul
	refused 2 'not text' epd-prefill -p x - <nul
	refused 2 'nothing came' epd-decode - </dev/null
	refused 2 'nothing came' epd-decode - < <(printf '\n \n\t\n')
	s=$(epd-prefill -p hello)
	yes "$s" | head -n 1000001 >many
	refused 2 operands epd-state show - <many
	head -n 1000000 many >million
	refused 2 'one state' epd-prefill -p x - <million
	yes f:0123456789 | head -n 20000 >many
	seconds=60 bounded epd-prefill -p x - <many
	[ "$rc" -eq 4 ]
	[ "$(wc -l <err)" -le 20000 ]
	settled
}

@test "standard output that takes nothing" {
	for c in "epd-encode $pictures/000_0.png" 'epd-prefill -p x' \
	    'epd-prefill -j -p x' 'epd-state ls' 'epd-state ls -j' \
	    'epd-state show w1/s1' 'epd-state show -j w1/s1' 'epd-state tree w1' \
	    'epd-state log w1' 'epd-state metrics' 'epd-decode -n 2 w1/s1' \
	    'epd-decode -j -n 2 w2/s1' 'epd-state --help' 'epd --version' 'epd doctor'; do
		rc=0
		$c >/dev/full 2>err || rc=$?
		[ "$rc" -eq 1 ] || wrong "$c: status $rc"
		[ "$(grep -c 'standard output: No space' err)" -eq 1 ] || wrong "$c: $(cat err)"
		rc=0
		$c >&- 2>err || rc=$?
		[ "$rc" -lt 128 ] || wrong "$c, closed: status $rc"
		rc=0
		$c 2>/dev/full >out || rc=$?
		[ "$rc" -lt 7 ] || wrong "$c, no stderr: status $rc"
		rm -f out err
	done
	settled
}

@test "at least 150 refusals in all" {
	[ "$(grep -c refused "$figures")" -ge 150 ]
}
