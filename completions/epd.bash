# bash completion for epd: options, pictures, features, workflows and states.

_epd_common='--model --threads --json --verbose --quiet --store --config
--tenant --isa --help --version'
_epd_house='--workflow --json --verbose --quiet --store --config --tenant
--help --version'

# The long options of a command, or of a verb of epd-state.
_epd_options() {
	case $1 in
	epd) echo --help --version ;;
	epd-doctor) echo --model --threads --json --verbose --quiet --store \
		--config --isa --help --version ;;
	epd-help) echo --help --version ;;
	epd-encode) echo "$_epd_common" --to ;;
	epd-prefill) echo "$_epd_common" --workflow --prompt --file --image \
		--system --role --messages --tools --raw --continue \
		--vision-id --no-generation --reuse --ttl --expect --key ;;
	epd-decode) echo "$_epd_common" --workflow --predict --temp --top-k \
		--top-p --repeat-penalty --seed --stop --ignore-eos \
		--logprobs ;;
	epd-fork) echo "$_epd_house" --branches --replace --seed --ttl --expect \
		--from --reason ;;
	epd-offload) echo "$_epd_house" --tier --reason ;;
	epd-restore) echo "$_epd_house" --pages --reason ;;
	epd-handoff) echo "$_epd_house" --to --from --at --timeout --prepare --commit --abort \
		--adopt --status --reason ;;
	epd-plan) echo "$_epd_house" --from --to --bytes --op --policy --hint \
		--index --priority --intent --strict --mode --why-not --scenario ;;
	epd-serve) echo --role --listen --key-file --credit --verbose --quiet \
		--store --config --tenant --help --version ;;
	epd-mount) echo --foreground --read-only --allow-other --options \
		--unmount --lazy --verbose --quiet --store --config --tenant \
		--help --version ;;
	epd-state) echo "$_epd_house" ;;
	'epd-state ls') echo "$_epd_house" --long --features ;;
	'epd-state show') echo "$_epd_house" --tokens --text ;;
	'epd-state log') echo "$_epd_house" --verify ;;
	'epd-state release') echo "$_epd_house" --recursive --reason ;;
	'epd-state wait') echo "$_epd_house" --tool --ttl --done --reason ;;
	'epd-state abort') echo "$_epd_house" --reason ;;
	'epd-state metrics') echo "${_epd_house#--workflow }" --reset ;;
	'epd-state check') echo "$_epd_house" --quick ;;
	'epd-state gc') echo "${_epd_house#--workflow }" ;;
	'epd-state '*) echo "$_epd_house" ;;
	esac
}

# Names of manual pages, once they are begun.
_epd_pages() {
	[[ $1 != ep* ]] || echo epd epd-encode epd-prefill epd-decode epd-fork \
		epd-handoff epd-mount epd-offload epd-plan epd-restore epd-serve \
		epd-state epd.yaml
}

_epd_verbs='ls show tree log release rm wait abort check gc metrics'

# Where the store is: what the line says, else the environment, else the home.
_epd_store() {
	local i
	for ((i = 1; i < ${#_epd_words[@]} - 1; i++)); do
		case ${_epd_words[i]} in
		--store=*) echo "${_epd_words[i]#--store=}"; return ;;
		--store) echo "${_epd_words[i + 1]}"; return ;;
		esac
	done
	echo "${EPD_STORE:-${XDG_STATE_HOME:-$HOME/.local/state}/epd}"
}

_epd_workflows() {
	local dir
	for dir in "$(_epd_store)"/w/"$1"*/; do
		[ -d "$dir" ] || continue
		dir=${dir%/}
		echo "${dir##*/}$2"
	done
}

# What -w says on the line, if anything.
_epd_workflow() {
	local i
	for ((i = 1; i < ${#_epd_words[@]} - 1; i++)); do
		case ${_epd_words[i]} in
		--workflow=*) echo "${_epd_words[i]#--workflow=}"; return ;;
		-w|--workflow) echo "${_epd_words[i + 1]}"; return ;;
		esac
	done
}

# The states of that workflow, as -w lets them be called.
_epd_short() {
	local w name
	w=$(_epd_workflow)
	[ -n "$w" ] || return
	epd-state --store "$(_epd_store)" ls --names "$w/$1" 2>/dev/null |
		while IFS= read -r name; do
			echo "${name#*/}"
		done
}

# The versions of the state before the @, as it is written there.
_epd_versions() {
	local state=${1%@*} name n i
	case $state in
	*/*) name=$state ;;
	*) name=$(_epd_workflow)/$state ;;
	esac
	n=$(epd-state --store "$(_epd_store)" show "$name" 2>/dev/null |
		sed -n 's/^version: .* of //p')
	for ((i = 1; i <= ${n:-0}; i++)); do
		[[ $state@$i != "$1"* ]] || echo "$state@$i"
	done
}

# States behind a slash, their versions behind an @, features behind f:, else
# workflows to go on from.
_epd_refs() {
	case $1 in
	*@*) _epd_versions "$1" ;;
	f:*|*/*) epd-state --store "$(_epd_store)" ls --names "$1" 2>/dev/null ;;
	*)
		if [ -n "$(_epd_workflow)" ]; then
			_epd_short "$1"
		else
			_epd_workflows "$1" "$2"
		fi
		[[ f: == "$1"* && $3 == f ]] && echo f:
		;;
	esac
}

# Hand-offs that are under way here.
_epd_handoffs() {
	local id rest
	epd-handoff --store "$(_epd_store)" --status 2>/dev/null |
		while read -r id rest; do
			[[ $id != "$1"* ]] || echo "$id"
		done
}

# A hand-off behind an option that ends one, else the state, then its target.
_epd_handoff() {
	local i operands=0
	for ((i = 1; i < ${#_epd_words[@]} - 1; i++)); do
		case ${_epd_words[i]} in
		--commit|--abort|--adopt|--status) _epd_handoffs "$1"; return ;;
		-w|--workflow|--store|--config|--tenant|--to|--from|--at|--timeout|--reason)
			i=$((i + 1)) ;;
		-?*|handoff) ;;
		*) operands=$((operands + 1)) ;;
		esac
	done
	case $operands in
	0) _epd_refs "$1" / ;;
	1) _epd_workflows "$1" ;;
	esac
}

_epd_files() {
	compgen -f -- "$1"
}

_epd_images() {
	local f
	compgen -f -- "$1" | while IFS= read -r f; do
		case ${f,,} in
		*.png|*.jpg|*.jpeg|*.webp|*.ppm|*.pnm) echo "$f" ;;
		*) [ -d "$f" ] && echo "$f/" ;;
		esac
	done
}

# The mounts there are, quoted, by the kernel's list alone: who looked at one that
# nobody serves would not come back.
_epd_mounts() {
	local dir type at=/ as=/
	case $1 in
	''|/*) ;;
	\~/*) at=${HOME%/}/ as=\~/ ;;
	*) at=$(pwd -P) at=${at%/}/ as= ;;
	esac
	while read -r _ dir type _; do
		printf -v dir %b "$dir"
		[[ $type == fuse.epd && $dir == "$at"* ]] || continue
		dir=${dir#"$at"}
		[[ $as$dir != "$1"* ]] || printf '%s%q\n' "$as" "$dir"
	done </proc/self/mounts 2>/dev/null
}

# Whether what is to come is unmounted.
_epd_is_unmount() {
	local i
	for ((i = 1; i < ${#_epd_words[@]} - 1; i++)); do
		case ${_epd_words[i]} in -u|--unmount) return 0 ;; esac
	done
	return 1
}

# Words behind the last comma of -o.
_epd_mount_options() {
	local before=${1%"${1##*,}"}
	compgen -P "$before" -W 'ro allow_other store= config= tenant=' -- "${1##*,}"
}

# Candidates for the value of an option; fails if it takes none.
_epd_value() {
	case $1 in
	-m|--model|--store) compgen -d -- "$2" ;;
	--to) compgen -d -- "$2"
		[ "$program" != epd-plan ] ||
			compgen -W 'host cuda rocm tpu file' -- "$2" ;;
	--key-file) compgen -f -- "$2" ;;
	--config|--messages|--tools|-f|--file|--scenario) _epd_files "$2" ;;
	-i|--image) case $2 in f:*) _epd_refs "$2" ;; *) _epd_images "$2" ;; esac ;;
	-w|--workflow) _epd_workflows "$2" ;;
	--isa) compgen -W 'scalar avx2 avx512' -- "$2" ;;
	--role)
		case $program in
		epd-serve) compgen -W data -- "$2" ;;
		*) compgen -W 'user assistant tool system' -- "$2" ;;
		esac ;;
	--reuse) compgen -W 'none exact_prefix' -- "$2" ;;
	--hint|--why-not) compgen -W 'mnnvl nvlink rdma sunrise_link ascend_direct
		shm tcp gds mpcomm tpu io_uring copy recompute' -- "$2" ;;
	--op) compgen -W 'read write' -- "$2" ;;
	--mode) compgen -W 'disabled shadow enforced' -- "$2" ;;
	--priority) compgen -W 'low normal high' -- "$2" ;;
	--intent) compgen -W 'any foreground background prefetch offload handoff' \
		-- "$2" ;;
	--from) [ "$program" != epd-plan ] ||
		compgen -W 'host cuda rocm tpu file' -- "$2" ;;
	-s|--seed) compgen -W random -- "$2" ;;
	-o|--options) _epd_mount_options "$2" ;;
	--tier|-t) [ "$program" != epd-offload ] ||
		compgen -W 'cpu nvme mooncake_store' -- "$2" ;;
	--threads|--tenant|-p|--prompt|--system|--ttl|--expect|--key|-n) ;;
	--predict|--temp|--top-k|--top-p|--repeat-penalty|--stop) ;;
	--logprobs|--reason|--branches|--timeout|--listen|--credit) ;;
	--bytes|--policy|--index|--at|--tool|--pages) ;;
	*) return 1 ;;
	esac
	return 0
}

_epd() {
	local line=${COMP_LINE:0:COMP_POINT} cur prev program verb i
	local -a _epd_words out=()
	COMPREPLY=()

	# The line's own words: readline would also break them at : and @.
	# shellcheck disable=SC2162
	read -a _epd_words <<<"$line"
	case $line in *\\[[:space:]]) ;; *[[:space:]]) _epd_words+=('') ;; esac
	cur=${_epd_words[-1]}
	prev=${_epd_words[-2]-}
	program=${_epd_words[0]##*/}
	i=1
	if [ "$program" = epd ]; then
		while [ $i -lt $((${#_epd_words[@]} - 1)) ]; do
			case ${_epd_words[i]} in
			-*) ;;
			*) program=epd-${_epd_words[i]}; i=$((i + 1)); break ;;
			esac
			i=$((i + 1))
		done
	fi
	if [ "$program" = epd-state ]; then
		for (( ; i < ${#_epd_words[@]} - 1; i++)); do
			case ${_epd_words[i]} in
			-w|--workflow|--store|--config|--tenant) i=$((i + 1)) ;;
			-*) ;;
			rm) verb=release; break ;;
			*) verb=${_epd_words[i]}; break ;;
			esac
		done
	fi

	if [[ $cur == --*=* ]]; then
		mapfile -t out < <(_epd_value "${cur%%=*}" "${cur#*=}")
		COMPREPLY=("${out[@]}")
		return
	fi
	# f means the file option everywhere but in epd-state and epd-mount, where
	# it is a flag, as -s is there.
	if [[ $prev == -* && ! $program$prev =~ ^epd-(state-f|mount-[fns])$ ]] &&
		_epd_value "$prev" "$cur" >/dev/null; then
		mapfile -t out < <(_epd_value "$prev" "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t out < <(compgen -W \
			"$(_epd_options "$program${verb:+ $verb}")" -- "$cur")
	else
		case $program${verb:+ $verb} in
		epd) mapfile -t out < <(compgen -W \
			'encode prefill decode fork offload restore handoff mount plan serve state doctor help' \
			-- "$cur") ;;
		epd-help) mapfile -t out < <(compgen -W \
			"encode prefill decode fork offload restore handoff mount plan serve state doctor config
			$(_epd_pages "$cur")" -- "$cur") ;;
		epd-state) mapfile -t out < <(compgen -W "$_epd_verbs" -- "$cur") ;;
		epd-encode) mapfile -t out < <(_epd_value -i "$cur") ;;
		epd-prefill) mapfile -t out < <(_epd_refs "$cur" / f
			_epd_images "$cur") ;;
		epd-decode|epd-fork|epd-offload|epd-restore|epd-plan) mapfile -t out < <(_epd_refs "$cur" /) ;;
		epd-handoff) mapfile -t out < <(_epd_handoff "$cur") ;;
		epd-mount)
			if _epd_is_unmount; then
				# Of files readline would look what they are.
				compopt +o filenames 2>/dev/null
				mapfile -t out < <(_epd_mounts "$cur")
			else
				mapfile -t out < <(compgen -d -- "$cur")
			fi ;;
		'epd-state abort'|'epd-state wait') mapfile -t out < <(_epd_refs "$cur" /) ;;
		'epd-state show'|'epd-state release')
			mapfile -t out < <(_epd_refs "$cur" '' f) ;;
		'epd-state gc'|'epd-state metrics') ;;
		'epd-state '*) mapfile -t out < <(_epd_refs "$cur") ;;
		esac
	fi

	# Nothing follows what asks to be gone on with.
	if [ ${#out[@]} -eq 1 ]; then
		case ${out[0]} in */|f:) compopt -o nospace 2>/dev/null ;; esac
	fi
	# Readline replaces only what stands behind the last colon.
	if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
		for i in "${!out[@]}"; do
			out[i]=${out[i]#"${cur%"${cur##*:}"}"}
		done
	fi
	COMPREPLY=("${out[@]}")
}

complete -o filenames -F _epd epd epd-encode epd-prefill epd-decode epd-fork \
	epd-handoff epd-mount epd-offload epd-plan epd-restore epd-serve epd-state
