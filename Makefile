# pg_lookahead: build, install and everything a developer types.
#
# `make`, `make install` and `make installcheck` keep their PGXS meaning and work
# against any PostgreSQL 18 (PG_CONFIG=/path/to/pg_config).  Objects never land
# beside the sources: each combination of server, compiler and flags has a folder
# of its own under $(BUILD_DIR), so the released library, the one with test settings
# and those for several servers live side by side and are reused by later runs.
# The PGXS part is tools/extension.mk, run inside that folder.

SHELL := /bin/bash
TOP := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
BUILD_DIR ?= $(TOP)/build
PG_CONFIG ?= pg_config
LA_TEST ?=
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
EXTENSION_MAKE = $(TOP)/tools/make-extension --pg-config '$(PG_CONFIG)' --build '$(BUILD_DIR)' \
	$(if $(LA_TEST),--test) $(if $(filter command environment,$(firstword $(origin CC))),--cc '$(CC)')

.PHONY: default help $(EXTENSION_GOALS) setup demo test lint format bench \
	check-core check-amcheck differential index-build-fuzz soak clean distclean

# A bare `make` builds where it can and never fails for want of a server.
default:
	@if $(EXTENSION_MAKE) --probe; then $(EXTENSION_MAKE) all && echo; else \
	  echo "No PostgreSQL 18 server files were found: build with make PG_CONFIG=/path/to/18/bin/pg_config"; echo; fi
	@$(MAKE) -s --no-print-directory -f $(firstword $(MAKEFILE_LIST)) help

help:
	@echo "pg_lookahead: make TARGET [PG_CONFIG=/path/to/18/bin/pg_config]"
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(TOP)/Makefile | \
	  while IFS=$$'\t' read -r name text; do printf '  %-14s %s\n' "$$name" "$$text"; done

all:           ## build the extension (LA_TEST=1: with test settings)
stage:         ## build, and print the folder from which a server can load it uninstalled
install:       ## install into the server of PG_CONFIG
installcheck:  ## regress and isolation tests against a running server
uninstall:     ## remove what install put there
$(EXTENSION_GOALS):
	@$(EXTENSION_MAKE) $@ $(if $(DESTDIR),DESTDIR='$(DESTDIR)') $(if $(with_llvm),with_llvm='$(with_llvm)')

setup:
	@$(TOP)/tools/setup-python >/dev/null

demo: setup    ## see stock PostgreSQL and pg_lookahead run a cold index scan
	@cd $(TOP) && .venv/bin/lookahead run index-scan --demo $(SERVER_OPTION)

test: setup    ## all tests on a private server; TEST=name picks one
	@$(PYTHON) $(TOP)/tools/run_tests.py $(SERVER_OPTION) $(if $(TEST),--test '$(TEST)')

lint: setup    ## every check that needs no server running
	@$(PYTHON) $(TOP)/tools/lint $(SERVER_OPTION)

format: setup  ## rewrite sources in the project's style
	@cd $(TOP) && tools/indent && .venv/bin/ruff format -q . && .venv/bin/ruff check -q --fix .

# Without those that need root.
BENCH := index-scan controls index-build bitmap-scan seq-scan cached-scan range-query concurrent-scans
bench: setup   ## the full experiments (table of 2 GB and more; takes long)
	@cd $(TOP) && for experiment in $(BENCH); do .venv/bin/lookahead run $$experiment $(SERVER_OPTION) || exit; done

check-core: setup  ## PostgreSQL's own suites, everything forced: MODES="default parallel" BUILD=assert
	@$(PYTHON) $(TOP)/test/core/check_core.py $(if $(BUILD),--build '$(BUILD)') $(if $(MODES),--modes '$(MODES)') $(if $(SEED),--seed $(SEED))

check-amcheck: setup  ## amcheck's own suite, every index built by us: BUILD=assert
	@$(PYTHON) $(TOP)/test/core/check_amcheck.py $(if $(BUILD),--build '$(BUILD)')

differential: setup  ## random statements with and without look-ahead: PAIRS=20000 SEED=n
	@cd $(TOP) && $(if $(GIVEN_PG_CONFIG),PG_CONFIG='$(GIVEN_PG_CONFIG)') $(PYTHON) -m pytest -q \
	  -c test/pytest/pytest.ini test/pytest/differential --timeout=3600 \
	  $(if $(PAIRS),--pairs $(PAIRS)) $(if $(SEED),--seed $(SEED))

index-build-fuzz: setup  ## random indexes, kills and cancels in mid-build: INDEXES=3000 KILLS=20 SEED=n
	@cd $(TOP) && $(if $(GIVEN_PG_CONFIG),PG_CONFIG='$(GIVEN_PG_CONFIG)') $(PYTHON) -m pytest -q -s \
	  -c test/pytest/pytest.ini test/pytest/index_build --timeout=3600 \
	  $(if $(INDEXES),--indexes $(INDEXES)) $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

soak: setup    ## sanitizer and small-segment servers, all modes, long differential
	@$(TOP)/tools/soak

clean:         ## remove the builds of the extension
	rm -rf '$(BUILD_DIR)'

distclean: clean  ## remove the Python environment too
	rm -rf $(TOP)/.venv
