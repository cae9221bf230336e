# perigee: build, set-up, tests. `make help` says what there is.
# Folders of src/ are layers (src/README.md); every .c below them goes into one archive, main.c and the
# archive make the one binary. Lua modules are compiled in with .incbin (no tool needed).

SHELL := /bin/bash
BUILD ?= build
CC := $(shell command -v $(CC) >/dev/null 2>&1 && echo $(CC) || echo gcc)
# The folders that go into the archive; `make unit LAYERS="base text"` builds and tests only these.
LAYERS ?= base text kv io out net run bind sim cmd
PREFIX ?= /usr/local
T ?=
comma := ,

OPT ?= -O2
SAN ?=
WARN := -Wall -Wextra -Wshadow -Wconversion -Wvla -Werror
CPPFLAGS += -Isrc -I$(BUILD)/gen -D_GNU_SOURCE
CFLAGS += -std=c11 $(OPT) -g -fno-omit-frame-pointer -fno-plt -ffp-contract=off -pthread $(WARN) $(SAN)
LDFLAGS += -pthread $(SAN)
# The unit tests are two hundred programs: the quicker linker where it is, and no optimisation of their own below a
# sanitizer (what is tested keeps $(OPT)).
TEST_OPT ?= $(OPT)
TEST_LD := $(if $(shell command -v ld.gold),-fuse-ld=gold)

# System headers count as such (-isystem), so that our warnings speak of our code alone.
PKGS := lua5.4 libuv libcurl openssl libzmq msgpack
SYS_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PKGS) 2>/dev/null)) -isystem /usr/share/include/llhttp -isystem /usr/include/llhttp
# libzmq is loaded when it is needed (io/zmqlib.h); of msgpack only headers are used.
SYS_LIBS := $(filter-out -lzmq -lmsgpackc,$(shell pkg-config --libs $(PKGS) 2>/dev/null)) -llua5.4-cjson -lxxhash -lpcre2-8 -lm -ldl

LLHTTP_DIR := /usr/share/llhttp
LLHTTP_OBJS := $(patsubst %,$(BUILD)/llhttp/%.o,llhttp api http)

SRCS := $(wildcard $(patsubst %,src/%/*.c,$(LAYERS)))
OBJS := $(SRCS:src/%.c=$(BUILD)/obj/%.o)
LUA_FILES := $(sort $(wildcard lua/perigee/*.lua lua/meta/*.lua lua/meta/*/*.lua))
ARCHIVE := $(BUILD)/libperigee.a
BIN := $(BUILD)/perigee

# A unit test belongs to the layer of the .c file it is named after; those of absent layers stay out.
ALL_UNITS := $(sort $(foreach f,$(notdir $(SRCS:.c=)),$(if $(wildcard tests/unit/test_$(f).c),test_$(f))))
UNIT_NAMES := $(if $(T),$(filter $(ALL_UNITS),$(T)),$(ALL_UNITS))
UNIT_BINS := $(UNIT_NAMES:%=$(BUILD)/unit/%)

# `make V=1` shows whole commands, `make -s` nothing.
Q := $(if $(V),,@)
say = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# Without the packages nothing builds: say so in one line, except where they are about to be installed.
ifeq ($(shell pkg-config --exists $(PKGS) 2>/dev/null && echo yes),)
ifneq ($(filter-out deps deps-test demo test check help clean format uninstall,$(or $(MAKECMDGOALS),all)),)
$(error packages are missing; run `make deps` first (it installs them, or says how))
endif
endif

.PHONY: all help deps deps-test demo test check unit lua-test e2e clock-test soak bench bench-bins asan tsan fuzz \
	fuzz-short install uninstall clean format docs tidy syntax asan-bins tsan-bins fuzz-bins unit-bins FORCE

all: $(BIN)

help: ## this list
	@echo "perigee: make targets"; \
	grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 16; \
	echo "variables: BUILD=dir  CC=gcc|clang-14  T=test_name  LAYERS=\"base text\"  PREFIX=/usr/local  DESTDIR="

# ---------------------------------------------------------------------------------------- set-up

deps: ## install what building and the demo need (Debian packages; tokenizers into ~/.cache/perigee)
	@.ci/deps build

deps-test: ## install what the tests and checks need
	@.ci/deps build test

# The stamp is made by .ci/deps when everything is there, so the ordinary build asks nothing.
$(BUILD)/.deps: .ci/deps
	@mkdir -p $(@D); .ci/deps build && touch $@

$(BUILD)/.deps-test: .ci/deps
	@mkdir -p $(@D); .ci/deps build test && touch $@

# ---------------------------------------------------------------------------------------- binary

$(BIN): $(BUILD)/obj/main.o $(ARCHIVE)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(BUILD)/obj/main.o $(ARCHIVE) $(SYS_LIBS)

TSAN_OBJS := $(if $(findstring thread,$(SAN)),$(BUILD)/obj/tsan_longjmp.o)
LDFLAGS += $(if $(TSAN_OBJS),-Wl$(comma)-u$(comma)__longjmp_chk)

$(ARCHIVE): $(OBJS) $(LLHTTP_OBJS) $(BUILD)/obj/lua_embed.o $(TSAN_OBJS)
	@rm -f $@
	@ar rcs $@ $^

$(BUILD)/obj/%.o: src/%.c Makefile | $(BUILD)/gen/version.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(SYS_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/tsan_longjmp.o: tests/tsan_longjmp.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/llhttp/%.o: $(LLHTTP_DIR)/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -isystem /usr/share/include/llhttp $(OPT) $(SAN) -w -c -o $@ $<

# Every Lua file as bytes between two symbols, and a table {name, start, end} that src/bind/embed.h reads.
$(BUILD)/gen/lua_embed.S: $(LUA_FILES) Makefile
	@mkdir -p $(@D)
	@{ echo '.section .rodata'; i=0; \
	for f in $(LUA_FILES); do echo "n$$i: .asciz \"$$f\""; echo "s$$i: .incbin \"$$f\""; echo "e$$i: .byte 0"; i=$$((i+1)); done; \
	echo '.section .data.rel.ro,"aw"'; echo '.balign 8'; echo '.global perigee_lua_embed'; echo 'perigee_lua_embed:'; i=0; \
	for f in $(LUA_FILES); do echo ".quad n$$i, s$$i, e$$i"; i=$$((i+1)); done; \
	echo '.quad 0, 0, 0'; echo '.section .note.GNU-stack,"",@progbits'; } > $@

$(BUILD)/obj/lua_embed.o: $(BUILD)/gen/lua_embed.S $(LUA_FILES)
	@mkdir -p $(@D)
	$(call say,EMBED,$<)
	$(Q)$(CC) -c -o $@ $<

# Version and commit, rewritten only when they change.
$(BUILD)/gen/version.h: FORCE
	@mkdir -p $(@D)
	@v=$$(sed -n 's/^## \[\{0,1\}\([0-9][0-9.]*[^] ]*\).*/\1/p' CHANGELOG.md 2>/dev/null | head -1); \
	c=$$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown); \
	d=$$(test -z "$$(git status --porcelain -- src lua Makefile 2>/dev/null)" || echo -dirty); \
	printf '#define PERIGEE_VERSION "%s"\n#define PERIGEE_COMMIT "%s"\n' "$${v:-0.0.0}" "$$c$$d" > $@.new; \
	cmp -s $@.new $@ && rm $@.new || mv $@.new $@

FORCE:

-include $(OBJS:.o=.d) $(BUILD)/obj/main.d $(UNIT_BINS:=.d) $(wildcard $(BUILD)/bench/*.d)

# ----------------------------------------------------------------------------------------- demo

demo: $(BUILD)/.deps ## install, build, run a scenario on the built-in fleet, say where the report is
	@$(MAKE) --no-print-directory all
	@if $(BIN) tokenize --tokenizer qwen3 --count x >/dev/null 2>&1; then model="--tokenizer qwen3"; else model=""; \
	echo "Qwen3's tokenizer and template are not here (make deps fetches them where it can): the demo counts in bytes."; \
	fi; \
	$(BIN) run scenarios/tool_loop_branching.lua --set users=4 --set duration=10s --label demo $$model; status=$$?; \
	case $$status in \
	0) ;; \
	98) echo; echo "The demo ran. This machine was too busy for its times to be trusted, and the report says which check noticed;"; \
	    echo "on a quiet machine the same command ends as valid." ;; \
	*) exit $$status ;; \
	esac; \
	printf '\nNext: %s is the binary (make install puts it on the PATH as perigee). For instance\n' $(BIN); \
	printf '  %s run scenarios/tuning_loop.lua --set duration=8s\n  %s new mine.lua && %s run mine.lua\n' $(BIN) $(BIN) $(BIN); \
	printf 'README.md goes on from here; examples/ are short lessons; %s list shows the scenarios.\n' $(BIN)

# ---------------------------------------------------------------------------------------- tests

test: $(BUILD)/.deps-test ## install, build, run every test; ends with "N passed, N failed"
	@tests/run $(if $(T),--only $(T))

$(BUILD)/unit/%: tests/unit/%.c tests/unit/check.h $(ARCHIVE)
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(CPPFLAGS) $(SYS_CFLAGS) $(CFLAGS) $(TEST_OPT) -Itests/unit -MMD -MP -MF $@.d -o $@ $< $(LDFLAGS) $(TEST_LD) $(ARCHIVE) -lcmocka $(SYS_LIBS) -Wl,--as-needed -lzmq

unit: ## build and run the unit tests (T=test_name for one)
	@tests/run --unit-bins "$(UNIT_BINS)"

unit-bins: $(UNIT_BINS)

lua-test: ## the Lua specs, inside the engine
	@tests/run --only lua

e2e: ## end-to-end tests on the built-in fleet
	@tests/run --only e2e

clock-test: ## checks with a clock, one after another, best of three
	@tests/run --only clock

soak: ## the long tests (minutes to hours; SOAK=seconds)
	@tests/run --only soak

# Sanitized binaries lie below $(BUILD), so several builds can be tried side by side.
asan: ## the suite under AddressSanitizer and UndefinedBehaviorSanitizer
	@tests/run --only asan

tsan: ## what has threads, under ThreadSanitizer
	@tests/run --only tsan

# -g1: a report names functions and lines, and shows no variables.
asan-bins:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan OPT=-O1 TEST_OPT=-O0 SAN="-g1 -fsanitize=address,undefined -fno-sanitize-recover=all" all unit-bins

tsan-bins:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan OPT=-O1 TEST_OPT=-O0 SAN="-g1 -fsanitize=thread" all unit-bins

# Fuzzers: tests/fuzz/fuzz_X.c, corpus in tests/fuzz/corpus/X. clang only.
FUZZ_NAMES := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 60

fuzz-bins:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz CC=clang-14 OPT="-O1" SAN="-g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" $(FUZZ_NAMES:%=$(BUILD)/fuzz/bin/%)

$(BUILD)/bin/fuzz_%: tests/fuzz/fuzz_%.c $(ARCHIVE)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(SYS_CFLAGS) $(CFLAGS) -fsanitize=fuzzer -o $@ $< $(LDFLAGS) $(ARCHIVE) $(SYS_LIBS)

fuzz: fuzz-bins ## run every libFuzzer target for FUZZ_SECONDS each
	@BUILD=$(BUILD) tests/fuzz/run $(FUZZ_SECONDS)

fuzz-short: fuzz-bins ## every fuzzer over its corpus and for a few seconds
	@BUILD=$(BUILD) tests/fuzz/run 5

# Programs of the bench: peers and micro-measurements.
BENCH_MODULES := $(BUILD)/bench/cpuclock.so
BENCH_BINS := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(filter-out tests/bench/cpuclock.c,$(wildcard tests/bench/*.c)))

$(BENCH_MODULES): $(BUILD)/bench/%.so: tests/bench/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(SYS_CFLAGS) $(CFLAGS) -fPIC -shared -o $@ $<

$(BUILD)/bench/%: tests/bench/%.c $(ARCHIVE)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(SYS_CFLAGS) $(CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(LDFLAGS) $(ARCHIVE) $(SYS_LIBS)

bench-bins: $(BENCH_BINS) $(BENCH_MODULES)

bench: $(BUILD)/.deps-test ## measure speed and accuracy against the targets, side by side (BENCH="row row" for some)
	@$(MAKE) --no-print-directory all bench-bins
	@BUILD=$(BUILD) tests/bench/run $(BENCH)

# --------------------------------------------------------------------------------------- checks

check: $(BUILD)/.deps-test ## format, layers, tidy, cppcheck, luacheck, docs
	@tests/lint/run

# What one compiler says of every C file, without making code (the fuzzers are built and linked with it).
SYNTAX := $(wildcard src/*.c tests/unit/*.c tests/bench/*.c tests/fuzz/*.c) $(SRCS)
syntax: $(BUILD)/gen/version.h
	@printf '%s\n' $(SYNTAX) | xargs -P "$$(nproc)" -n 10 $(CC) -fsyntax-only $(CPPFLAGS) $(SYS_CFLAGS) $(CFLAGS) -Itests/unit

# One stamp per source that passed, made again when it or a header of it changed.
# The analyzer follows the paths through a function up to so many states. Its own limit, 225000, takes four times as long
# and finds the same of the mistakes that were put into 15 files, one each, to see.
TIDY_DEPTH ?= -Xclang -analyzer-config -Xclang max-nodes=50000
TIDY_OK := $(patsubst src/%.c,$(BUILD)/tidy/%.ok,$(wildcard src/*.c) $(SRCS))
$(BUILD)/tidy/%.ok: $(BUILD)/obj/%.o .clang-tidy
	@mkdir -p $(@D)
	$(call say,TIDY,src/$*.c)
	$(Q)clang-tidy-14 --quiet src/$*.c -- $(TIDY_DEPTH) $(CPPFLAGS) $(SYS_CFLAGS) -std=c11 2>$@.log || { cat $@.log; exit 1; }
	@touch $@

tidy: $(TIDY_OK)

format: ## rewrite the C sources in house format
	@clang-format-14 -i $$(git ls-files -co --exclude-standard 'src/*.[ch]' 'tests/*.[ch]')

docs: $(BIN) ## write lua/README.md from lua/meta
	@$(BIN) lua tests/lint/docs.lua lua/meta/perigee.lua > lua/README.md

# -------------------------------------------------------------------------------------- install

install: $(BIN) ## copy the binary and the scenarios to PREFIX
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/perigee
	install -d $(DESTDIR)$(PREFIX)/share/perigee/scenarios/lib $(DESTDIR)$(PREFIX)/share/perigee/examples
	install -m 644 scenarios/*.lua $(DESTDIR)$(PREFIX)/share/perigee/scenarios
	install -m 644 scenarios/lib/*.lua $(DESTDIR)$(PREFIX)/share/perigee/scenarios/lib
	cp -R examples/. $(DESTDIR)$(PREFIX)/share/perigee/examples
	@for f in qwen3/tokenizer.json qwen3/tokenizer_config.json ranks/o200k_base.tiktoken ranks/cl100k_base.tiktoken; do \
	  s="$${PERIGEE_CACHE:-$$HOME/.cache/perigee}/tokenizers/$$f"; \
	  [ ! -f "$$s" ] || install -D -m 644 "$$s" "$(DESTDIR)$(PREFIX)/share/perigee/tokenizers/$$f"; done

uninstall: ## remove what install put there
	rm -rf $(DESTDIR)$(PREFIX)/bin/perigee $(DESTDIR)$(PREFIX)/share/perigee

clean: ## remove everything that was built
	rm -rf build
