#!/bin/sh
# words.sh - shell scripts by shellcheck, man pages by mandoc, and words that
# have no place here.
cd "${1:-.}" || exit 2
bad=0
if command -v shellcheck >/dev/null; then
	# shellcheck disable=SC2046
	shellcheck -s sh tests/*.sh tests/lint/*.sh tests/rxe/*.sh examples/*.sh .ci/run || bad=1
	shellcheck -s bash tests/run completions/epd.bash || bad=1
else
	echo 'shellcheck is absent: scripts not looked at' >&2
fi
if command -v mandoc >/dev/null; then
	mandoc -T lint -W warning cmd/*.[1-8] || bad=1
else
	echo 'mandoc is absent: man pages not looked at' >&2
fi
git grep -nIE '/(home|root)/[a-z]' -- . ':!tests/lint/words.sh' && bad=1
exit $bad
