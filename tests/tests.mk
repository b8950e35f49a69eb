# tests.mk - how tests are built and run.
#
# unit/NAME.c, torture/NAME.c, bench/NAME.c are one program each.  fuzz/NAME.c is
# a fuzz target; linked with fuzz/replay.c it runs over its corpus.

UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*.c))
UNIT := $(if $(FUSE),$(UNIT),$(filter-out $(B)/unit/fs_%,$(UNIT)))
TORTURE := $(patsubst tests/torture/%.c,$(B)/torture/%,$(wildcard tests/torture/*.c))
TARGETS := $(patsubst tests/fuzz/%.c,%,$(filter-out tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c)))
REPLAY := $(TARGETS:%=$(B)/replay/%)
BATS := $(wildcard tests/cli/*.bats) $(if $(FUSE),$(wildcard tests/fs/*.bats))
# Programs that mount.
MOUNTS := $(if $(FUSE),$(patsubst tests/fs/%.c,$(B)/fs/%,$(wildcard tests/fs/*.c)))
DIR =
include tests/spin/spin.mk tests/rxe/rxe.mk

$(B)/%: $(B)/obj/tests/%.o $(LIB)
	@mkdir -p $(@D)
	@$(SAY) ld $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) $(TESTLIBS)

$(B)/unit/fs_%: $(B)/obj/tests/unit/fs_%.o $(B)/fs.a $(LIB)
	@mkdir -p $(@D)
	@$(SAY) ld $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(FUSE_LIBS) $(LIBS) $(TESTLIBS)

# wire_NAME is linked with the transports.
define wired
	@mkdir -p $(@D)
	@$(SAY) ld $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(LIBS) $(TESTLIBS)
endef
$(B)/unit/wire_%: $(B)/obj/tests/unit/wire_%.o $(B)/transport.a $(LIB)
	$(wired)
$(B)/torture/wire_%: $(B)/obj/tests/torture/wire_%.o $(B)/transport.a $(LIB)
	$(wired)
$(B)/bench/transfer $(B)/bench/peer: $(B)/bench/%: $(B)/obj/tests/bench/%.o $(B)/transport.a $(LIB)
	$(wired)
$(B)/replay/wire_%: $(B)/obj/tests/fuzz/wire_%.o $(B)/obj/tests/fuzz/replay.o $(B)/transport.a $(LIB)
	$(wired)

$(B)/replay/%: $(B)/obj/tests/fuzz/%.o $(B)/obj/tests/fuzz/replay.o $(LIB)
	@mkdir -p $(@D)
	@$(SAY) ld $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

# cmd_NAME is a target of what lies in cmd/; it may bring its own of a function.
$(B)/replay/cmd_%: $(B)/obj/tests/fuzz/cmd_%.o $(B)/obj/tests/fuzz/replay.o $(B)/cmd.a $(LIB)
	@mkdir -p $(@D)
	@$(SAY) ld $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/faults.so: tests/faults.c
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=c17 -O2 -g $(WARN) -shared -fPIC -o $@ $< -ldl

# Stands in for the C library of a Mooncake Store.
$(B)/mooncake-double.so: tests/mooncake_double.c tests/mooncake_double.h
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -I. -std=c17 -O2 -g $(WARN) -shared -fPIC -pthread -o $@ $<
$(B)/unit/tier_mooncake_library: | $(B)/mooncake-double.so

# make unit-NAME builds and runs one.
unit-%: $(B)/unit/%
	$<

check:
	@tests/deps.sh check $(B)/deps-check
	@$(MAKE) --no-print-directory -j$(JOBS) check-build
	@$(MAKE) --no-print-directory check-run

check-run:
	@$(if $(FUSE),:,echo 'fuse3 is absent: the tests of the mount are passed over' >&2)
	@B=$(B) tests/run $(UNIT) $(B)/golden-set $(B)/eval/eval $(REPLAY) $(SPIN) $(RXESET) $(MOUNTS) $(BATS)

check-build: commands $(UNIT) $(REPLAY) $(MOUNTS) $(RXESET) $(B)/golden/run $(B)/eval/eval $(if $(wildcard tests/faults.c),$(B)/faults.so)
	@printf '#!/bin/sh\nexec %s tests/golden\n' $(B)/golden/run >$(B)/golden-set
	@chmod +x $(B)/golden-set

torture: check-build $(TORTURE)
	@B=$(B) LIMIT=3600 tests/run $(TORTURE) $(wildcard tests/torture/*.bats)

golden: $(B)/golden/run
	$< $(or $(DIR),tests/golden) -v

unit-all: $(UNIT) $(REPLAY) $(B)/golden/run
	@B=$(B) tests/run $(UNIT) $(REPLAY)

asan:
	@UBSAN_OPTIONS=print_stacktrace=1 $(MAKE) --no-print-directory -j$(JOBS) B=$(B)/asan \
	    OPT='-O1 -g -fno-omit-frame-pointer' \
	    SAN='-fsanitize=address,undefined -fno-sanitize-recover=undefined' unit-all

tsan:
	@$(MAKE) --no-print-directory -j$(JOBS) B=$(B)/tsan OPT='-O1 -g' SAN=-fsanitize=thread unit-all

# Fuzzing needs clang; SECONDS is a target's time, or RUNS how many inputs each
# is given.  No parser is in the kernels, and clang takes many minutes over a wide
# one that is checked for all.
SECONDS = 60
RUNS =
fuzz:
	@$(MAKE) --no-print-directory -j$(JOBS) B=$(B)/fuzz CC=clang OPT='-O1 -g' \
	    SAN='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined' \
	    AVX2='$(AVX2) -fno-sanitize=undefined' fuzz-all

FUZZERS := $(TARGETS:%=$(B)/fuzzers/%)
$(B)/fuzzers/%: $(B)/obj/tests/fuzz/%.o $(LIB)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)

$(B)/fuzzers/cmd_%: $(B)/obj/tests/fuzz/cmd_%.o $(B)/cmd.a $(LIB)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)

$(B)/fuzzers/wire_%: $(B)/obj/tests/fuzz/wire_%.o $(B)/transport.a $(LIB)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(WIRE_LIBS) $(LIBS)

fuzz-all: $(FUZZERS)
	@least=; for t in $(TARGETS); do mkdir -p $(B)/corpus/$$t; \
	    $(B)/fuzzers/$$t $(if $(RUNS),-runs=$(RUNS),-max_total_time=$(SECONDS)) -rss_limit_mb=2048 \
	    -print_final_stats=1 -artifact_prefix=$(B)/ $(B)/corpus/$$t \
	    tests/fuzz/corpus/$$t >$(B)/$$t.log 2>&1; rc=$$?; \
	    n=$$(sed -n 's/.*number_of_executed_units: //p' $(B)/$$t.log); \
	    printf '%-20s %s inputs, exit %s\n' $$t "$$n" $$rc; \
	    [ $$rc = 0 ] || { tail -30 $(B)/$$t.log; exit 1; }; \
	    [ "$${least:-$$n}" -lt "$$n" ] || least=$$n; done; \
	    echo "row 12: $(words $(TARGETS)) targets, $$least inputs each or more, 0 findings"

include tests/parity/parity.mk tests/bench/bench.mk

# Every source by both compilers, warnings as errors.
warn:
	@bad=0; for c in gcc clang; do command -v $$c >/dev/null || { echo "$$c is absent"; continue; }; \
	    for f in $(SRC) $(wildcard cmd/*.c transport/*.c $(if $(FUSE),fs/*.c) tests/unit/*.c tests/torture/*.c tests/fs/*.c tests/rxe/*.c tests/fuzz/*.c) \
	    tests/faults.c tests/mooncake_double.c tests/golden/run.c tests/eval/eval.c tests/spin/gen.c; do \
	    $$c $(CPPFLAGS) $(FUSE_CFLAGS) $(WIRE_CFLAGS) $(CURL_CFLAGS) $(CFLAGS) -Werror -fsyntax-only $$f || bad=1; done; done; exit $$bad

lint:
	@tests/lint/arrows.sh
	@tests/lint/style.sh
	@tests/lint/words.sh

.PHONY: check check-build check-run torture golden unit-all asan tsan fuzz fuzz-all lint warn
