# rxe.mk - programs that need RDMA devices, run in the guest that boot.sh makes.
RXE := $(if $(RDMA),$(patsubst tests/rxe/%.c,$(B)/rxe/%,$(wildcard tests/rxe/*.c)))
RXESET := $(if $(RDMA),$(B)/rxe-set)

$(RXE): $(B)/rxe/%: $(B)/obj/tests/rxe/%.o $(B)/transport.a $(LIB)
	$(wired)

# One boot for all.  What takes long in a processor that is emulated is in the other.
$(B)/rxe-set: $(RXE)
$(B)/rxe-all: $(RXE) tests/rxe/commands.sh | commands
$(B)/rxe-set $(B)/rxe-all:
	@printf '#!/bin/sh\nB=$(B) exec tests/rxe/boot.sh %s\n' '$^' >$@
	@chmod +x $@

dev: $(RXESET:%-set=%-all)
	@B=$(B) RXE_LONG=1 GUEST_LIMIT=900 LIMIT=2400 tests/run $<

.PHONY: dev
