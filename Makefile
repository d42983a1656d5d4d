# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# kvsteer. `make help` lists the targets. V=1 shows the commands.

CC      ?= gcc
CFLAGS  ?= -O2 -g
V       ?= 0
B       ?= build
VERSION := $(shell sed -n 's/^\#define KVSTEER_VERSION "\(.*\)"/\1/p' include/kvsteer/version.h)

WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter -Werror
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -Iinclude -Iuserspace -Itools $(WARN) -fno-strict-aliasing -pthread -MMD -MP $(CFLAGS) $(SANFLAGS)
LIBS    := -lllhttp -lyaml -lyyjson -lxxhash -lmicrohttpd -lcurl -lbpf -lelf -lz -lm -pthread
# llhttp's package holds a static archive: linked in, so that the binary needs one package less.
LINK_LIBS = -l:libllhttp.a $(filter-out -lllhttp,$(LIBS))

ifeq ($(V),0)
Q := @
say = @printf '  %-7s %s\n' $(1) $(2)
else
Q :=
say = @:
endif

# One library per room group; a room is a folder of userspace/.
CORE_SRC  := $(wildcard userspace/base/*.c userspace/http/*.c userspace/prompt/*.c userspace/route/*.c \
               userspace/config/*.c userspace/signals/*.c userspace/datapath/*.c userspace/gateway/*.c userspace/control/*.c)
CORE_OBJ  := $(CORE_SRC:%.c=$(B)/obj/%.o)
NODE_OBJ  := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tools/node/*.c))
SIM_OBJ   := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tools/gpusim/*.c))
LOAD_OBJ  := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tools/load/*.c))
REPLAY_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tools/replay/*.c))
# The generators that replay and load share: draws, arrivals, traces.
DRAW_OBJ  := $(patsubst %,$(B)/obj/tools/load/%.o,rng zipf arrivals trace)
ROUTE_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(wildcard userspace/route/*.c))
BASE_OBJ  := $(patsubst %.c,$(B)/obj/%.o,$(wildcard userspace/base/*.c))
CTL_OBJ   := $(patsubst %.c,$(B)/obj/%.o,$(wildcard userspace/cmd/ctl_*.c))

BINS := $(B)/bin/kvsteerd $(B)/bin/kvsteerctl $(B)/bin/kvsteer-gpusim $(B)/bin/kvsteer-load \
        $(B)/bin/kvsteer-replay

UNIT_SRC  := $(wildcard tests/unit/*/test_*.c)
BPF_TESTS := $(patsubst tests/bpf/%.c,$(B)/tests/bpf/%,$(wildcard tests/bpf/test_*.c))
UNIT_BIN  := $(UNIT_SRC:tests/unit/%.c=$(B)/tests/%) $(BPF_TESTS)

.PHONY: all help deps demo test unit e2e bench bench-sim bench-trace bench-wrk2 soak fuzz tidy asan clean compile_commands.json docs check-docs \
	replay replay-quick replay-check
.DEFAULT_GOAL := all

all: $(BINS) ## build everything into build/bin

$(B)/libkvsteer.a: $(CORE_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/obj/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -c -o $@ $<

# Kernel programs: bpf/X.bpf.c becomes an object, and that a skeleton which the one file that
# loads it includes. Any clang from 14 on; one instruction set on all of them (-mcpu=v3).
CLANG ?= $(or $(shell for c in clang-14 clang-15 clang-16 clang-17 clang-18 clang-19 clang; do \
            command -v $$c >/dev/null && { echo $$c; break; }; done),clang)
BPF_CFLAGS = -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror -Iinclude -Ibpf \
             -idirafter /usr/include/$(shell uname -m)-linux-gnu -MMD -MP
$(B)/bpf/%.o: bpf/%.bpf.c
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D) && $(CLANG) $(BPF_CFLAGS) -c -o $@ $<
$(B)/bpf/%.skel.h: $(B)/bpf/%.o
	$(call say,SKEL,$@)
	$(Q)bpftool gen skeleton $< name $*_bpf >$@.tmp 2>/dev/null && mv $@.tmp $@
.SECONDARY: $(patsubst bpf/%.bpf.c,$(B)/bpf/%.o,$(wildcard bpf/*.bpf.c))
# The object again with its race held open, for tests.
$(B)/bpf/splice-race.o: bpf/splice.bpf.c
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D) && $(CLANG) $(BPF_CFLAGS) -DKVSTEER_WIDE_RACE -c -o $@ $<

$(B)/obj/userspace/datapath/splice_object.o: $(B)/bpf/splice.skel.h
$(B)/obj/userspace/datapath/splice_object.o: ALL_CFLAGS += -isystem $(B)/bpf

define link
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LINK_LIBS)
endef

$(B)/bin/kvsteerd: $(B)/obj/userspace/cmd/kvsteerd.o $(B)/libkvsteer.a
	$(link)
$(B)/bin/kvsteerctl: $(B)/obj/userspace/cmd/kvsteerctl.o $(CTL_OBJ) $(B)/libkvsteer.a
	$(link)
$(B)/bin/kvsteer-gpusim: $(SIM_OBJ) $(NODE_OBJ) $(BASE_OBJ)
	$(link)
$(B)/bin/kvsteer-load: $(LOAD_OBJ) $(BASE_OBJ)
	$(link)
$(B)/bin/kvsteer-replay: $(REPLAY_OBJ) $(NODE_OBJ) $(DRAW_OBJ) $(ROUTE_OBJ) $(BASE_OBJ)
	$(link)

# Else make takes them for intermediate files, deletes them and makes them again.
.SECONDARY: $(UNIT_SRC:%.c=$(B)/obj/%.o)
# A unit test is one cmocka program per file; tests/unit mirrors userspace/ (and tools/).
$(B)/tests/%: $(B)/obj/tests/unit/%.o $(NODE_OBJ) $(filter-out %/main.o,$(SIM_OBJ) $(LOAD_OBJ) $(REPLAY_OBJ)) $(B)/libkvsteer.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lcmocka $(LINK_LIBS)

# Tests of the kernel programs: over a proxy loop of their own, and with builds of the program that
# lack one rule each, to prove that the test of that rule can fail.
MUTANTS := $(patsubst %,$(B)/bpf/mutant-%.o,$(shell sh tests/bpf/mutate.sh list))
$(B)/bpf/mutant-%.o: bpf/splice.bpf.c tests/bpf/mutate.sh
	$(call say,MUTANT,$@)
	$(Q)mkdir -p $(@D) && sh tests/bpf/mutate.sh $* <$< >$(B)/bpf/mutant-$*.bpf.c && \
	  $(CLANG) $(BPF_CFLAGS) -Wno-unused -DKVSTEER_WIDE_RACE -c -o $@ $(B)/bpf/mutant-$*.bpf.c
$(BPF_TESTS): $(B)/tests/bpf/%: $(B)/obj/tests/bpf/%.o $(B)/obj/tests/bpf/proxy.o $(B)/obj/tests/bpf/rig.o \
              $(B)/libkvsteer.a $(B)/bpf/splice-race.o $(MUTANTS)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -o $@ $(filter $(B)/obj/%,$^) $(filter %.a,$^) -lcmocka $(LINK_LIBS)

deps: ## install what is missing (root; Debian 12/13)
	@sh tools/deps.sh

unit: $(UNIT_BIN) ## unit tests only
	@tests/run.sh unit $(B)

e2e: all ## end-to-end tests only
	@tests/run.sh e2e $(B)

test: deps ## install, build, run all tests
	@$(MAKE) --no-print-directory all unit-bins
	@tests/run.sh all $(B)

.PHONY: unit-bins
unit-bins: $(UNIT_BIN)

demo: ## install, build, run the main job: round-robin against cost
	@sh tools/deps.sh build
	@$(MAKE) --no-print-directory all
	@tools/demo/demo.sh $(B)

# Programs of the benchmarks: one file each, tests/bench/*.c.
.PRECIOUS: $(B)/obj/tests/bench/%.o
BENCH_BIN := $(patsubst tests/bench/%.c,$(B)/bench/bin/%,$(wildcard tests/bench/*.c))
$(B)/bench/bin/%: $(B)/obj/tests/bench/%.o $(B)/libkvsteer.a
	$(link)

QUICK :=
bench: ## kvsteer beside haproxy and nginx: one table with goals (under 20 minutes; QUICK=1 for a look)
	@sh tools/deps.sh bench || echo "bench: goes on with the peers that are here"
	@$(MAKE) --no-print-directory all bench-bins
	@KVSTEER_BUILD=$(B) python3 tests/bench/bench_proxy.py $(if $(QUICK),--quick)

.PHONY: bench-bins
bench-bins: $(BENCH_BIN)

bench-sim: all ## simulated fleet against the reference figures (about 32 minutes)
	@KVSTEER_BUILD=$(B) python3 tests/bench/bench_sim.py

WRK2 :=
bench-wrk2: all ## wrk2 from outside: round-robin against cost, one table (WRK2=path; else the packaged wrk, closed loop)
	@KVSTEER_BUILD=$(B) python3 tests/bench/bench_wrk2.py $(if $(WRK2),--wrk2 $(WRK2))

soak: all ## accounting under aborts, faults and reloads for T seconds (T=600); exit 1 where it is not exact
	@KVSTEER_BUILD=$(B) python3 tests/bench/soak.py --seconds $(if $(filter file,$(origin T)),600,$(T))

bench-trace: all ## a real trace: make bench-trace TRACE=conversation_trace.jsonl (5 minutes)
	@KVSTEER_BUILD=$(B) python3 tests/bench/bench_trace.py $(or $(TRACE),$(error TRACE=FILE is missing: see README))

.PHONY: demo-llamacpp demo-vllm bench-llamacpp bench-vllm realfleet-profile
demo-llamacpp: ## the demo on three real llama.cpp servers, a small real model (ENGINE=path MODEL=path: your own)
	@$(REALFLEET) llamacpp
demo-vllm: ## the same on vLLM on this CPU, random weights (installs 5.5 GB)
	@$(REALFLEET) vllm
bench-llamacpp: ## three runs of each policy in turn: build/bench/llamacpp.json
	@$(REALFLEET) llamacpp --runs 3 --check
bench-vllm: ## the same: build/bench/vllm.json
	@$(REALFLEET) vllm --runs 3 --check
REALFLEET = sh tools/deps.sh && $(MAKE) --no-print-directory all && \
   KVSTEER_BUILD=$(B) ENGINE='$(ENGINE)' MODEL='$(MODEL)' python3 tools/realfleet/demo.py

realfleet-profile: ## measure `profile` and `kv_tokens` of a real engine: PROFILE=llamacpp|vllm
	@sh tools/deps.sh
	@mkdir -p build/realfleet
	@ENGINE='$(ENGINE)' MODEL='$(MODEL)' python3 tools/realfleet/profile.py $(or $(PROFILE),llamacpp) \
	   --output build/realfleet/profile-$(or $(PROFILE),llamacpp).yaml

TRACE :=
REPLAY = nice -n 19 $(B)/bin/kvsteer-replay
replay-quick: $(B)/bin/kvsteer-replay ## policies on the simulated fleet: regret and capacity in a minute
	@$(REPLAY) regret --quick && $(REPLAY) capacity --quick

replay: $(B)/bin/kvsteer-replay ## all policies and workloads, about an hour (TRACE=FILE: a Mooncake conversation trace)
	@$(REPLAY) regret $(if $(TRACE),--trace $(TRACE)) && $(REPLAY) capacity && $(REPLAY) scaling
	@$(REPLAY) picture --out docs/ttft-support.svg

replay-check: $(B)/bin/kvsteer-replay ## the replay against reference figures of an independent simulator
	@$(REPLAY) check

asan: ## everything again with ASAN and UBSAN, then the tests
	@$(MAKE) --no-print-directory B=build/asan CFLAGS="-O1 -g -fno-omit-frame-pointer" \
	   SANFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined" all unit-bins
	@tests/run.sh all build/asan

T ?= 30
fuzz: ## each fuzzer of tests/fuzz for T seconds (clang; T=30)
	@sh tools/deps.sh fuzz
	@tests/fuzz/run.sh $(B) $(T)

# A process a file: clang-tidy 14 sees va_lists uninitialised in all files of a run but the first.
tidy: ## clang-tidy over userspace/; any finding is an error
	@sh tools/deps.sh tidy
	@$(MAKE) --no-print-directory compile_commands.json $(B)/bpf/splice.skel.h
	@printf '%s\n' $(CORE_SRC) $(wildcard userspace/cmd/*.c) | xargs -P "$$(nproc)" -n 1 clang-tidy --quiet -p .

compile_commands.json: ## for clangd and clang-tidy
	@tools/compile_commands.sh "$(ALL_CFLAGS) -isystem $(B)/bpf" $(CORE_SRC) $(wildcard userspace/cmd/*.c tools/*/*.c tests/unit/*/*.c) >$@

clean: ## remove build/
	$(Q)rm -rf $(B)

help: ## this text
	@sed -n 's/^\([a-zA-Z0-9_-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-16s %s\n", $$1, $$2 }'

-include $(shell find $(B)/obj $(B)/bpf -name '*.d' 2>/dev/null)
