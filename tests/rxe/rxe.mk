# rxe.mk - programs that need RDMA devices, run in the guest that boot.sh makes.
RXE := $(if $(RDMA),$(patsubst tests/rxe/%.c,$(B)/rxe/%,$(wildcard tests/rxe/*.c)))
RXESET := $(if $(RDMA),$(B)/rxe-set)

$(RXE): $(B)/rxe/%: $(B)/obj/tests/rxe/%.o $(B)/transport.a $(LIB)
	$(wired)

# One boot for all.
$(B)/rxe-set: $(RXE)
	@printf '#!/bin/sh\nB=$(B) exec tests/rxe/boot.sh %s\n' '$(RXE)' >$@
	@chmod +x $@

dev: $(RXESET)
	@B=$(B) RXE_LONG=1 GUEST_LIMIT=900 LIMIT=2400 tests/run $<

.PHONY: dev
