# spin.mk - the models of life.h and of the hand-off, and faults to be found.

SPIN := $(B)/spin/quick
TORTURE += $(B)/spin/whole

$(B)/spin/quick $(B)/spin/whole: tests/spin/spin.mk $(B)/unit/shard_life $(B)/obj/tests/spin/gen.o
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nB=%s CC="%s" SAN="%s" LIBS="%s" exec tests/spin/run %s\n' \
	    '$(B)' '$(CC)' '$(SAN)' '$(LIBS)' $(@F) >$@
	@chmod +x $@

spin: $(B)/spin/whole
	$<

check-build: $(SPIN)

.PHONY: spin
