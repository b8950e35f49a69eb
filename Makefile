# Makefile - see `make help`.  Sources stay where they are; all that is made lies in build/.

B = build
PREFIX = /usr/local
DESTDIR =
VERSION = 0.1.0
CC = gcc
OPT = -O2 -g
WARN = -Wall -Wextra -Wshadow -Wconversion
# Contraction would fuse what the order of additions says is two roundings.
BITS = -ffp-contract=off -fno-fast-math
CPPFLAGS = -D_GNU_SOURCE -DEPD_VERSION='"$(VERSION)"' -Ilibepd -I. $(PKG_CFLAGS)
CFLAGS = -std=c17 $(OPT) $(WARN) $(BITS) $(SAN) -pthread
LDFLAGS = $(SAN) -pthread
JOBS = $(shell nproc)
# What a person sees of a compiler call; make V=1 shows it whole.
Q = $(if $(V),,@)
SAY = $(if $(V),:,printf '  %-4s %s\n')

# The file system is built where fuse3 is.
FUSE := $(shell pkg-config --exists 'fuse3 >= 3.12' zlib && echo fuse3)
FUSE_CFLAGS := $(if $(FUSE),$(shell pkg-config --cflags fuse3))
FUSE_LIBS := $(if $(FUSE),$(shell pkg-config --libs fuse3) -lz)
# Transports but tcp and shm are built where their libraries are.
RDMA := $(shell pkg-config --exists libibverbs librdmacm && echo libibverbs librdmacm)
URING := $(shell pkg-config --exists liburing && echo liburing)
WIRE_CFLAGS := $(if $(RDMA),-DEPD_WITH_RDMA) $(if $(URING),-DEPD_WITH_URING) \
    $(if $(RDMA)$(URING),$(shell pkg-config --cflags $(RDMA) $(URING)))
WIRE_LIBS := $(if $(RDMA)$(URING),$(shell pkg-config --libs $(RDMA) $(URING)))
PKGS = libb2 libxxhash json-c yaml-0.1 libzstd libutf8proc libpcre2-8 libjpeg spng libwebp
# Opened at run time by who asks a service; its header alone is needed.
CURL := $(shell pkg-config --exists 'libcurl >= 7.87' && echo libcurl)
CURL_CFLAGS := $(if $(CURL),-DEPD_WITH_CURL $(shell pkg-config --cflags libcurl))
$(B)/obj/libepd/base/http.o: PKG_CFLAGS += $(CURL_CFLAGS)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null)
# Each library loaded is a tenth of a millisecond: only those a program calls.
LIBS = -Wl,--as-needed $(PKG_LIBS) $(if $(URING),$(shell pkg-config --libs $(URING))) -lm
$(B)/obj/libepd/tier/ring.o: PKG_CFLAGS += $(if $(URING),-DEPD_WITH_URING $(shell pkg-config --cflags $(URING)))

# all and check see to packages first and build in a second make, which then
# finds them.
all:
	@tests/deps.sh build $(B)/deps-build
	@$(MAKE) --no-print-directory -j$(JOBS) commands

# The library, one folder a room; ROOMS='base engine' builds a part.
ROOMS = base engine page feature tree dir plan shard move tier flow serve
SRC := $(sort $(foreach r,$(ROOMS),$(wildcard libepd/$(r)/*.c libepd/$(r)/*/*.c)))
OBJ := $(SRC:%.c=$(B)/obj/%.o)
LIB = $(B)/libepd.a
FS := $(sort $(wildcard fs/*.c))
WIRE := $(sort $(wildcard transport/*.c))
CMDS := $(sort $(patsubst cmd/%.c,%,$(wildcard cmd/epd.c cmd/epd-*.c)))
CMDS := $(if $(FUSE),$(CMDS),$(filter-out epd-mount,$(CMDS)))
CLI := $(filter-out cmd/epd.c cmd/epd-%.c,$(wildcard cmd/*.c))
COMMANDS := $(CMDS:%=$(B)/bin/%)

commands: $(COMMANDS) $(B)/share/epd/examples

# What the commands look for beside them, wherever $(B) lies.
$(B)/share/epd/examples:
	@mkdir -p $(@D) $(B)/share/man
	@for s in 1 5; do ln -sfn '$(CURDIR)/cmd' $(B)/share/man/man$$s; done
	@ln -sfn '$(CURDIR)/examples' $@

AVX2 = -mavx2 -mfma -mf16c
AVX512 = $(AVX2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
ifneq ($(filter x86_64 amd64,$(shell uname -m)),)
$(B)/obj/libepd/engine/kern/isa_avx2.o: ISA = $(AVX2)
$(B)/obj/libepd/engine/kern/isa_avx512.o: ISA = $(AVX512)
endif
$(B)/obj/libepd/engine/kern/%.o: OPT = -O3 -g

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	@$(SAY) cc $<
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(ISA) -MMD -MP -c -o $@ $<

$(LIB): $(OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	@$(SAY) ar $@
	$(Q)ar rcs $@ $^

# What the commands share: each takes of it what it needs.
$(B)/cmd.a: $(CLI:%.c=$(B)/obj/%.o)
	@rm -f $@
	@$(SAY) ar $@
	$(Q)ar rcs $@ $^

$(B)/fs.a: $(FS:%.c=$(B)/obj/%.o)
	@rm -f $@
	@$(SAY) ar $@
	$(Q)ar rcs $@ $^

$(B)/transport.a: $(WIRE:%.c=$(B)/obj/%.o)
	@rm -f $@
	@$(SAY) ar $@
	$(Q)ar rcs $@ $^

$(WIRE:%.c=$(B)/obj/%.o): PKG_CFLAGS += $(WIRE_CFLAGS)

$(FS:%.c=$(B)/obj/%.o): PKG_CFLAGS += $(FUSE_CFLAGS)
$(B)/bin/epd-mount: $(B)/obj/cmd/epd-mount.o $(B)/fs.a $(B)/cmd.a $(LIB)
	@mkdir -p $(@D)
	@$(SAY) ld $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(FUSE_LIBS) $(LIBS)

# Those that reach other machines.
WIRED = epd-decode epd-encode epd-fork epd-handoff epd-plan epd-prefill epd-restore epd-serve epd-state
$(filter $(WIRED:%=$(B)/bin/%),$(COMMANDS)): $(B)/bin/%: $(B)/obj/cmd/%.o $(B)/cmd.a $(B)/transport.a $(LIB)
	@mkdir -p $(@D)
	@$(SAY) ld $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(LIBS)

$(B)/bin/%: $(B)/obj/cmd/%.o $(B)/cmd.a $(LIB)
	@mkdir -p $(@D)
	@$(SAY) ld $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

include tests/tests.mk

demo: all
	@B=$(B) examples/demo.sh

config:
	@tests/config.sh $(PKGS)

MAN1 := $(filter-out $(if $(FUSE),,cmd/epd-mount.1),$(wildcard cmd/*.1))
MAN5 := $(wildcard cmd/*.5)
SHARE = $(DESTDIR)$(PREFIX)/share

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(SHARE)/man/man1 $(SHARE)/man/man5 \
	    $(SHARE)/bash-completion/completions $(SHARE)/epd/examples
	install -m 755 $(COMMANDS) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(MAN1) $(SHARE)/man/man1
	install -m 644 $(MAN5) $(SHARE)/man/man5
	$(if $(FUSE),install -d $(DESTDIR)$(PREFIX)/sbin)
	$(if $(FUSE),ln -sfn ../bin/epd-mount $(DESTDIR)$(PREFIX)/sbin/mount.fuse.epd)
	for c in $(CMDS); do install -m 644 completions/epd.bash \
	    $(SHARE)/bash-completion/completions/$$c || exit 1; done
	cp -R examples/tiny-vlm $(SHARE)/epd/examples/

dist:
	@mkdir -p $(B)
	git archive --prefix=epd-$(VERSION)/ HEAD | gzip -9n >$(B)/epd-$(VERSION).tar.gz
	@echo $(B)/epd-$(VERSION).tar.gz

clean:
	rm -rf $(B)

help:
	@sed -n 's/^#: //p' Makefile tests/tests.mk

#: make            build the commands into build/bin, installing packages if root
#: make demo       build, then run the main job on a shipped picture
#: make check      build and run every test; ends with "N passed, N failed"
#: make torture    the long variants: kills, cuts, floods
#: make dev         the RDMA tests at length, and the commands over it, in a guest
#: make golden     compare with the golden set of DIR (default tests/golden)
#: make parity     compare with the reference implementation on random checkpoints
#: make eval       answer the questions in DIR (default examples/tiny-vlm)
#: make asan tsan  the unit tests under the sanitizers
#: make fuzz       each fuzz target for SECONDS (default 60), or RUNS inputs
#: make bench      figures as ratios, into build/bench.jsonl; bench-NAME one group
#: make lint       floors, sizes, words, shellcheck, man pages; make warn: gcc and clang
#: make config     what was found, and what is off without the rest
#: make install    to DESTDIR and PREFIX (/usr/local)
#: make dist       a tar file of what is committed
#: make clean      remove build/

-include $(shell find $(B) -name '*.d' 2>/dev/null)

.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all commands demo config install dist clean help
