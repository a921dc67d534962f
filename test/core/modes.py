"""The ways in which PostgreSQL's own suites are run, and how much must be streamed in each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

SUITES = ("regress", "isolation")


@dataclass(frozen=True)
class Floor:
    """The least that must have been done for a pass to mean anything: index scans that looked
    ahead, table pages whose rows came through it, and indexes that we built."""

    scans: int
    pages: int
    builds: int


@dataclass(frozen=True)
class Mode:
    """One way to run the suites.

    `settings` go to the server. `paired` compares with a stock run under the same settings
    instead of the shipped expected files, for settings under which stock itself differs from
    those. `floors` holds one floor for each suite.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    paired: bool = False
    needs_io_uring: bool = False
    floors: Mapping[str, Floor] = field(default_factory=dict)


# About half of the smallest value seen over builds, modes and seeds; README.md says how to measure
# them anew.
_FLOORS = {"regress": Floor(15_000, 45_000, 700), "isolation": Floor(1_200, 1_200, 800)}
# Without sequential scans most tables are read through an index, whole.
_SEQSCAN_OFF_FLOORS = {
    "regress": Floor(20_000, 1_000_000, 700),
    "isolation": Floor(1_300, 1_300, 800),
}

MODES = (
    Mode("default", floors=_FLOORS),
    Mode("parallel", {"debug_parallel_query": "regress"}, floors=_FLOORS),
    Mode("seqscan-off", {"enable_seqscan": "off"}, paired=True, floors=_SEQSCAN_OFF_FLOORS),
    Mode("io-sync", {"io_method": "sync"}, floors=_FLOORS),
    # One worker: its queue is full most of the time, so both of its paths run.
    Mode("io-worker", {"io_method": "worker", "io_workers": "1"}, floors=_FLOORS),
    Mode("io-uring", {"io_method": "io_uring"}, needs_io_uring=True, floors=_FLOORS),
    # The only mode in which a read stream reads the pages.
    Mode("direct-io", {"debug_io_direct": "data"}, floors=_FLOORS),
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


def forced_settings(random: Random, counter_file: str) -> dict[str, str]:
    """Settings that make every eligible index scan stream, from its first row on, and have every
    eligible index built by us.

    Depth, ring size and the seed of the random stops are drawn from `random`.
    """
    return {
        "pg_lookahead.test_start_after": "0",
        "pg_lookahead.test_depth": str(random.randint(2, 40)),
        "pg_lookahead.test_ring_size": str(random.choice((0, 0, 16, 128))),
        "pg_lookahead.test_stop_seed": str(random.randint(1, 2**30)),
        "pg_lookahead.test_counter_file": counter_file,
        "pg_lookahead.enable_index_build": "on",
    }
