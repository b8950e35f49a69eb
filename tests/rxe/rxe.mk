# rxe.mk - programs that need RDMA devices, run in the guest that boot.sh makes.
RXE := $(if $(RDMA),$(patsubst tests/rxe/%.c,$(B)/rxe/%,$(wildcard tests/rxe/*.c)))
$(RXE): $(B)/rxe/%: $(B)/obj/tests/rxe/%.o $(B)/transport.a $(LIB)
	$(wired)
