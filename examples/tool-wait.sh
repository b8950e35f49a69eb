#!/bin/sh
# tool-wait.sh - a turn that calls a tool; the state rests while it waits.
#
# The model asks to see a part of the picture closer.  While the tool works the
# state rests on the disk: nothing runs, nothing is computed, and its memory is
# free.  The result comes in as the tool's turn; the pages come back with the bits
# they had, and only the result is computed.  Another agent with the same picture and
# question takes up the pages that are there.
# shellcheck source=examples/here.sh
. "$(dirname "$0")/here.sh"

agent=agent$tag
other=other$tag
workflows="$agent $other"
question='What number is on the small tag? Call a tool to look closer.'
cd "$pictures"

run() {
	printf '$ %s\n' "$*"
	"$@" 2>&1
}

# What has been computed so far, prompt and answer.
computed() {
	echo $(($(figure stage.prefill_tokens) + $(figure stage.decode_tokens)))
}

s=$(epd-prefill -w "$agent" -i 017_0.png -p "$question")
call=$(epd-decode "$s")
printf 'the call: %s\n' "$call"
want 'the tool' "$(echo "$call" | jq -r .tool)" zoom

# Its pages by name and sum, and the bytes of memory it takes up.
pages() {
	epd-state show -j "$s" | jq -c '[.kv_pages[] | [.kv_page_id, .checksum]]'
}
memory() {
	epd-state show -j "$s" | jq '.bytes.private + .bytes.shared'
}
before=$(computed)
was=$(pages)
full=$(memory)
run epd-state wait --tool zoom --ttl 1m "$s"
run epd-offload -v -t nvme "$s"
sleep 0.3			# the tool at work
epd-state ls -l "$agent"
printf 'memory: %s bytes, %s while it waits\n' "$full" "$(memory)"
want 'that memory was freed' $(($(memory) < full)) 1
want 'what was computed meanwhile' $(($(computed) - before)) 0

result=017_1.png		# that part of the picture, larger
run epd-prefill -v --role tool -i $result "$s" | tee "$tmp/result"
want 'the pages that came back' "$(pages | jq -c ".[:$(echo "$was" | jq 'length - 1')]")" \
	"$(echo "$was" | jq -c '.[:-1]')"
answer=$(epd-decode "$s")
printf 'the answer: %s\n' "$answer"
want 'the answer' "$answer" 735

# "reused R of N tokens, C computed": all there was, and the result beside it.
sed -n 's/.*: reused \([0-9]*\) of \([0-9]*\) tokens, \([0-9]*\) .*/\1 \2 \3/p' \
	"$tmp/result" >"$tmp/figures"
read -r reused all fresh <"$tmp/figures"
want 'reused and computed' $((reused + fresh + 1)) "$all"
want 'that the most was reused' $((reused > fresh)) 1

run epd-prefill -v -w "$other" -i 017_0.png -p "$question" | tee "$tmp/other"
want 'the second agent'\''s reuse' "$(sed -n 's/.*: \(reused [0-9]* of [0-9]*\) .*/\1/p' \
	"$tmp/other")" 'reused 32 of 37'
