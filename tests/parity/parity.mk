# parity.mk - against the reference implementation, and on real questions.

# ARGS are options of tests/parity/parity.py: --seed 7 --family qwen3_vl ...
ARGS =
PARITY_VENV = $(B)/parity-venv
parity: $(B)/golden/run
	@tests/parity/install.sh $(PARITY_VENV)
	@$(PARITY_VENV)/bin/python tests/parity/parity.py --runner $< --out $(B)/parity $(ARGS)

eval: $(B)/eval/eval
	@$< $(or $(DIR),examples/tiny-vlm)

.PHONY: parity eval
