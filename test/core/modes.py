"""The ways in which PostgreSQL's own suites are run, and how much must be streamed in each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

SUITES = ("regress", "isolation")


@dataclass(frozen=True)
class Floor:
    """The least that must have been done for a pass to mean anything.

    Index scans that looked ahead and table pages whose rows came through it; bitmap scans and the
    pages that came out of their windows; sequential scans and what they asked for;
    indexes that we built; rows inserted in batches; outer rows that joins drew ahead; nodes whose
    children started late. Each field is a counter of `evidence.py`.
    """

    scans: int
    pages: int
    bitmap_scans: int
    bitmap_pages: int
    seq_scans: int
    seq_requests: int
    builds: int
    rows: int = 0
    drawn: int = 0
    late_starts: int = 0


@dataclass(frozen=True)
class Mode:
    """One way to run the suites.

    `settings` go to the server, `forced` to ours only. `paired` compares with a stock run under
    the same settings instead of the shipped expected files, for settings under which stock itself
    differs from those. `moved` names the tests that show where rows lie, or how many pages there
    are, with how; they may differ. `floors` holds one floor for each suite.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    forced: Mapping[str, str] = field(default_factory=dict)
    paired: bool = False
    needs_io_uring: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    floors: Mapping[str, Floor] = field(default_factory=dict)


# About half of the smallest value seen over builds, modes and seeds; README.md says how to measure
# them anew. Where `test_trial_pages` is 1, one page in five of a bitmap comes out of a window;
# where `bulk_read_size` is 16, there is one request of a sequential scan for seven otherwise.
_FLOORS = {
    "regress": Floor(15_000, 45_000, 700, 4_000, 8_500, 4_000, 700, drawn=25_000),
    "isolation": Floor(1_200, 1_200, 45, 2, 1_400, 200, 800),
}
# Without sequential scans most tables are read through an index, whole.
_SEQSCAN_OFF_FLOORS = {
    "regress": Floor(20_000, 1_000_000, 6_000, 6_500, 5_000, 4_000, 700),
    "isolation": Floor(1_300, 1_300, 110, 3, 1_200, 200, 800),
}
# All scans and joins are core's.
_DIRECT_IO_FLOORS = {
    suite: Floor(0, 0, 0, 0, 0, 0, floor.builds) for suite, floor in _FLOORS.items()
}

# Rows of every insert are collected, from the first one on, and put where stock puts them.
INSERTS = {"pg_lookahead.enable_bulk_insert": "on", "pg_lookahead.test_insert_single_rows": "0"}
_INSERT_FLOORS = {
    "regress": replace(_FLOORS["regress"], rows=350_000),
    "isolation": replace(_FLOORS["isolation"], rows=900_000),
}

# Outer rows are drawn ahead from the first one on; without that, inner sides look ahead themselves.
_JOINS_OFF = {"pg_lookahead.enable_join_prefetch": "off"}
_JOINS_OFF_FLOORS = {suite: replace(floor, drawn=0) for suite, floor in _FLOORS.items()}
_LOOPS_ONLY_FLOORS = {
    "regress": replace(_FLOORS["regress"], drawn=150_000),
    "isolation": replace(_FLOORS["isolation"], drawn=8),
}

# Children start late however few there are.
_LATE = {"pg_lookahead.enable_late_start": "on", "pg_lookahead.test_late_children": "0"}
_LATE_FLOORS = {
    "regress": replace(_FLOORS["regress"], late_starts=1),
    "isolation": _FLOORS["isolation"],
}

_PAGES_LEFT = "a plan follows from the size of a table, which has empty pages at its end"
_MOVED = {
    "alter_table": "rows in the order of a sequential scan",
    "join": _PAGES_LEFT,
    "partition_aggregate": _PAGES_LEFT,
    "plancache": _PAGES_LEFT,
    "psql": "rows in the order of a sequential scan",
    "select_distinct": _PAGES_LEFT,
    "select_distinct_on": _PAGES_LEFT,
    "stats": "an estimate from the size of a table with a fillfactor",
    "tablesample": "a sample of pages",
    "tidrangescan": "the rows of a page",
    "tuplesort": "equal keys in the order of a sequential scan",
    "vacuum-no-cleanup-lock": "pages of a table",
    # Of other suites.
    "pageinspect/gist": "where rows lie",
    "pg_surgery/heap_surgery": "where rows lie",
    "postgres_fdw/postgres_fdw": _PAGES_LEFT,
    "recovery/027_stream_regress": "the tests of the regression suite that are named here",
    **{
        f"pg_stat_statements{order}/dml": "pages of a new table are not in buffers, nor counted"
        for order in ("", "-before", "-before-preloaded", "-after")
    },
}

# Rows after which scans look ahead, where that is not 0. Most scans of other suites have one row.
_STARTS = {"regress": (0, 0, 0, 0, 0, 0, 1, 2, 3)}

MODES = (
    Mode("default", floors=_FLOORS),
    Mode("parallel", {"debug_parallel_query": "regress"}, floors=_FLOORS),
    Mode(
        "seqscan-off",
        {"enable_seqscan": "off"},
        forced=_JOINS_OFF,
        paired=True,
        floors=_SEQSCAN_OFF_FLOORS,
    ),
    Mode("io-sync", {"io_method": "sync"}, floors=_FLOORS),
    # One worker: its queue is full most of the time, so both of its paths run.
    Mode("io-worker", {"io_method": "worker", "io_workers": "1"}, floors=_FLOORS),
    Mode("io-uring", {"io_method": "io_uring"}, needs_io_uring=True, floors=_FLOORS),
    # The pages that we write past shared buffers go past the kernel's cache, too.
    Mode("direct-io", {"debug_io_direct": "data"}, floors=_DIRECT_IO_FLOORS),
    Mode("joins-off", forced=_JOINS_OFF, floors=_JOINS_OFF_FLOORS),
    # Every join with an index on its inner side is a nested loop.
    Mode(
        "joins-only",
        {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off"},
        paired=True,
        floors=_LOOPS_ONLY_FLOORS,
    ),
    Mode("inserts", forced=INSERTS, floors=_INSERT_FLOORS),
    Mode("late-starts", forced=_LATE, floors=_LATE_FLOORS),
    # From the first full page on tables grow by 16 empty pages.
    Mode(
        "insert-extents",
        forced={
            **INSERTS,
            "pg_lookahead.test_insert_threshold": "0",
            "pg_lookahead.bulk_extend_size": "16",
        },
        moved=_MOVED,
        floors=_INSERT_FLOORS,
    ),
)


def server_settings() -> dict[str, str]:
    """What pg_regress gives the temporary server of `make check`, without the flushes."""
    return {
        "fsync": "off",
        "log_autovacuum_min_duration": "0",
        "log_checkpoints": "on",
        "log_line_prefix": "%m %b[%p] %q%a ",
        "log_lock_waits": "on",
        "log_temp_files": "128kB",
        "max_prepared_transactions": "2",
    }


def forced_settings(random: Random, counter_file: str, suite: str = "") -> dict[str, str]:
    """Settings that make every eligible scan look ahead, whatever is in buffers, and have every
    eligible index built by us.

    Scans look ahead from their first row on or, in a third of the runs of the regression suite,
    core begins them and they are taken over after a few rows. That number, depth, ring size, the
    seed of the random stops and the size of requests are drawn from `random`.
    """
    return {
        "pg_lookahead.test_start_after": str(random.choice(_STARTS.get(suite, (0,)))),
        "pg_lookahead.test_depth": str(random.randint(2, 40)),
        "pg_lookahead.test_ring_size": str(random.choice((0, 0, 16, 128))),
        "pg_lookahead.test_stop_seed": str(random.randint(1, 2**30)),
        "pg_lookahead.test_counter_file": counter_file,
        # In blocks. A size of one asks for each page of the smallest table.
        "pg_lookahead.bulk_read_size": str(random.choice((1, 1, 2, 16))),
        "pg_lookahead.gap_limit": str(random.choice((-1, 0, 256))),
        # Bitmap heap scans change between their two streams.
        "pg_lookahead.test_trial_pages": str(random.choice((0, 1, 2, 5, 20))),
        "pg_lookahead.enable_index_build": "on",
    }
