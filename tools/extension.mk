# The PGXS part of the build, run by tools/make-extension inside a build folder.
# Variables given: TOP (checkout), PG_CONFIG, CC, LA_TEST (empty or 1).

EXTENSION := pg_lookahead
MODULE_big := pg_lookahead
DATA := $(patsubst $(TOP)/%,%,$(wildcard $(TOP)/sql/pg_lookahead--*.sql))
SOURCES := $(sort $(patsubst $(TOP)/%,%,$(wildcard $(TOP)/src/*.c $(TOP)/src/*/*.c)))
OUR_HEADERS := $(sort $(patsubst $(TOP)/%,%,$(wildcard $(TOP)/src/*.h $(TOP)/src/*/*.h)))
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

# Our own flags, not the recorded ones: a server built by a newer compiler records
# options that this machine's compiler does not know.  Those that change the meaning of
# the code (aliasing, wrapping, excess precision) are the ones PostgreSQL needs.
IS_CLANG := $(shell $(CC) -dM -E -x c /dev/null | grep -c __clang__)
SANITIZERS := $(filter -fsanitize=% -fno-sanitize%,$(shell $(PG_CONFIG) --cflags))
override CFLAGS := -std=gnu11 -O2 -g -fno-omit-frame-pointer -fno-strict-aliasing -fwrapv \
	$(if $(filter 0,$(IS_CLANG)),-fexcess-precision=standard) \
	-Wall -Wextra -Wshadow=compatible-local -Wvla -Wmissing-prototypes -Wpointer-arith -Werror \
	-Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers \
	$(SANITIZERS) $(COPT)
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
