#!/bin/sh
# tool_wait.sh - a turn that calls a tool; the state waits for its result.
#
# The model asks to see a part of the picture closer.  While the tool works the
# state is a name and a log: nothing runs and nothing is computed.  The result
# comes in as the tool's turn, and only that is computed.  Another agent with the
# same picture and question takes up the pages that are there.
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

before=$(computed)
sleep 0.3			# the tool at work
epd-state ls -l "$agent"
want 'what was computed meanwhile' $(($(computed) - before)) 0

result=017_1.png		# that part of the picture, larger
run epd-prefill -v --role tool -i $result "$s" | tee "$tmp/result"
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
