"""Random settings: of the planner (both arms alike) and of look-ahead (one arm only)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

Settings = Mapping[str, str]

# Ways to read a table, and how often one of them is all that a statement has: so nearly every
# table is read with look-ahead.
INDEX_SCANS = {"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"}
BITMAP_SCANS = {"enable_seqscan": "off", "enable_indexscan": "off", "enable_indexonlyscan": "off"}
SEQ_SCANS = {"enable_bitmapscan": "off", "enable_indexscan": "off", "enable_indexonlyscan": "off"}
WAYS: tuple[tuple[dict[str, str], int], ...] = (
    (INDEX_SCANS, 45),
    (BITMAP_SCANS, 30),
    (SEQ_SCANS, 12),
    ({}, 13),
)
JOINS: tuple[dict[str, str], ...] = (
    {},
    {"enable_hashjoin": "off", "enable_mergejoin": "off"},
    {"enable_hashjoin": "off", "enable_nestloop": "off"},
)
PARALLEL = {
    "random_page_cost": "0.01",
    "cpu_tuple_cost": "1",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_index_scan_size": "0",
    "min_parallel_table_scan_size": "0",
    "max_parallel_workers_per_gather": "2",
}


@dataclass(frozen=True)
class Profile:
    """What one case runs under. ``shared`` applies to both arms, ``on`` only to look-ahead's."""

    shared: Settings
    on: Settings
    isolation: str
    on_first: bool


def planner_settings(rng: Random, *, parallel: bool) -> dict[str, str]:
    """Settings that decide the plan, mostly forcing one way to read tables."""
    ways, weights = zip(*WAYS, strict=True)
    way: dict[str, str] = rng.choices(ways, weights)[0]
    chosen = dict(way)
    if way is INDEX_SCANS and rng.random() < 0.4:
        chosen.pop("enable_indexonlyscan", None)
    chosen.update(rng.choice(JOINS))
    if rng.random() < 0.3:
        chosen["enable_sort"] = "off"
    if rng.random() < 0.3:
        chosen["enable_memoize"] = "off"
    if rng.random() < 0.2:
        chosen["enable_material"] = "off"
    # Bitmaps of more than some 900 pages become lossy.
    if rng.random() < 0.25:
        chosen["work_mem"] = "64kB"
    if parallel:
        chosen.update(PARALLEL if rng.random() < 0.7 else {"debug_parallel_query": "regress"})
        if rng.random() < 0.3:
            chosen["parallel_leader_participation"] = "off"
    return chosen


def io_settings(rng: Random) -> dict[str, str]:
    """Settings of the read stream, which must never change an answer."""
    return {
        "effective_io_concurrency": str(rng.choice((0, 1, 2, 16, 16, 200, 1000))),
        "io_combine_limit": str(rng.choice((1, 2, 16, 32))),
    }


def lookahead_settings(rng: Random, *, test_settings: bool) -> dict[str, str]:
    """Settings of look-ahead itself; the test settings exist in builds with LA_TEST=1 only."""
    chosen = {
        "pg_lookahead.enabled": "on",
        "pg_lookahead.enable_join_prefetch": rng.choice(("on", "on", "off")),
        "pg_lookahead.prefetch_distance": str(rng.choice((0, 0, 0, 1, 2, 7, 64, 1000))),
        "pg_lookahead.gap_limit": str(rng.choice((-1, -1, -1, 0, 1, 7, 256))),
        "pg_lookahead.bulk_read_size": str(rng.choice((-1, 0, 1, 1, 2, 16, 100, 8192))),
    }
    if test_settings:
        chosen["pg_lookahead.test_depth"] = str(
            rng.choice((0, 1, 2, rng.randint(3, 40), 300, 1000))
        )
        chosen["pg_lookahead.test_ring_size"] = str(rng.choice((0, 2, 3, rng.randint(4, 70), 512)))
        chosen["pg_lookahead.test_start_after"] = str(rng.choice((-1, 0, 0, 1, 2, 5, 20)))
        chosen["pg_lookahead.test_stop_seed"] = str(rng.choice((0, rng.randrange(1, 1 << 30))))
        chosen["pg_lookahead.test_trial_pages"] = str(rng.choice((0, 0, 1, 2, 7, 50)))
    return chosen


def random_profile(rng: Random, *, parallel: bool, test_settings: bool) -> Profile:
    """A profile; either arm may run first, so that both meet fresh dead rows."""
    shared = planner_settings(rng, parallel=parallel) | io_settings(rng)
    levels = ("READ COMMITTED", "REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE")
    return Profile(
        shared=shared,
        on=lookahead_settings(rng, test_settings=test_settings),
        isolation=rng.choice(levels),
        on_first=rng.random() < 0.5,
    )


def set_local(settings: Settings) -> str:
    """``SET LOCAL`` statements, one string."""
    return "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in settings.items())


def server_settings(rng: Random) -> dict[str, str]:
    """Settings of a whole server run: quiet, and too small to keep the tables cached."""
    return {
        "autovacuum": "off",
        "fsync": "off",
        "jit": "off",
        "max_wal_size": "4GB",
        "shared_buffers": rng.choice(("1MB", "4MB", "128MB")),
        "temp_buffers": rng.choice(("800kB", "8MB")),
        "io_max_combine_limit": rng.choice(("16", "128")),
        "track_io_timing": rng.choice(("on", "off")),
        "wal_log_hints": rng.choice(("on", "off")),
        "max_parallel_workers": "4",
        # Of what hangs: joins of tables that fit into no buffers take a minute on a busy machine.
        "statement_timeout": "20min",
        # A scan that joins another in the middle of the table starts where it likes.
        "synchronize_seqscans": "off",
        "log_min_error_statement": "panic",
    }
