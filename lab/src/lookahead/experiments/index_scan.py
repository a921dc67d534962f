"""The experiment "index-scan": one btree index scan, cold, with and without look-ahead.

For each I/O method, OS read-ahead and pattern (distinct pages in random order, LIMIT in random
order, a share of the pages in heap order), stock's index scan and ours. In random order each round
has its own keys, and all arms of a round the same ones; ranges have a third arm, stock's bitmap
scan and sort of the same rows. That both index scans return the same rows in the same order is
proved apart, over the rows a client receives.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from lookahead.experiments.arms import BITMAP_SCAN, INDEX_SCAN, arm_of
from lookahead.experiments.conditions import ReadAheads, available_methods
from lookahead.experiments.request import IndexScanRequest
from lookahead.experiments.runner import Run, run_trials
from lookahead.experiments.scan_statements import (
    DEFAULTS,
    Pattern,
    Patterns,
    SizeDefaults,
    choose_statements,
    wanted_patterns,
)
from lookahead.experiments.scan_table import build_table, table_bytes, touch_device
from lookahead.experiments.tables import SCAN_SETTINGS
from lookahead.experiments.trials import Statement, Trial, Trials
from lookahead.measurements import Arm, Factor, Question, Scenario
from lookahead.terminal import Terminal

# The table itself; its pages once more in the WAL, which VACUUM writes under checksums; the sorts.
SPACE_FACTOR = 2.5
STOCK, OURS, RIVAL = "stock", "ours", "bitmap and sort"
_ARMS = (arm_of(STOCK, INDEX_SCAN), arm_of(OURS, INDEX_SCAN, "on"))
# A sort in memory: the rival at its best.
_RIVAL_ARM = arm_of(RIVAL, BITMAP_SCAN, settings={"work_mem": "256MB"})


def run_index_scan(request: IndexScanRequest, terminal: Terminal) -> Path:
    """Measure and write the result; returns its path. Raises LabError."""
    defaults = DEFAULTS[request.run.size]
    patterns = wanted_patterns(request, defaults)
    return measure_index_scans(request, "index-scan", defaults, patterns, terminal)


def measure_index_scans(
    request: IndexScanRequest,
    experiment: str,
    defaults: SizeDefaults,
    patterns: Patterns,
    terminal: Terminal,
    *,
    latency_us: int = 0,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """The whole experiment under the name `experiment`; returns the path of its result.

    `latency_us` is what the device below the server's folder adds to each read; `facts` are what
    else is to be known of it.
    """

    def measure(run: Run) -> None:
        run.record(facts=dict(facts or {}))
        _IndexScan(run, request, defaults, patterns, latency_us).measure()

    return run_trials(
        request.run,
        experiment,
        terminal,
        measure,
        rounds=request.repetitions or defaults.rounds,
        settings=SCAN_SETTINGS,
        needed_bytes=int(SPACE_FACTOR * table_bytes(defaults.table_pages)),
        values={
            "pages": patterns.pages,
            "limit": patterns.limits,
            "share": patterns.shares_percent,
            "io-method": request.io_methods or defaults.io_methods,
            "read-ahead": tuple(f"{size}kB" for size in request.read_aheads_kb or ()),
        },
    )


class _IndexScan:
    """One run of the experiment."""

    def __init__(
        self,
        run: Run,
        request: IndexScanRequest,
        defaults: SizeDefaults,
        patterns: Patterns,
        latency_us: int,
    ) -> None:
        self._run = run
        self._table_pages = defaults.table_pages
        self._patterns = patterns
        self._latency_us = latency_us
        self._parameters = run.document.parameters
        self._io_methods = available_methods(
            run,
            request.io_methods or defaults.io_methods,
            explicit=request.io_methods is not None,
        )
        self._read_aheads = ReadAheads(run, request.read_aheads_kb or ())
        self._trials = Trials(run)

    def measure(self) -> None:
        """Build the table, then take all samples."""
        gigabytes = table_bytes(self._table_pages) / 1e9
        self._run.terminal.step(
            f"making a table of {self._table_pages:,} pages ({gigabytes:.1f} GB)"
        )
        server = self._run.server
        server.start({"io_method": self._io_methods[0]})
        with server.connect() as connection:
            self._run.record_settings(connection)
            connection.execute("SET work_mem = '256MB'")
            connection.execute("SET maintenance_work_mem = '256MB'")
            table = build_table(connection, self._table_pages, self._parameters.seed)
            trials = list(self._choose_trials(connection))
        self._trials.add_table(table)
        server.cold_restart()
        with server.connect() as connection:
            touch_device(connection, server.data_directory)
        self._trials.measure_all(trials, self._parameters.repetitions)

    def _choose_trials(self, connection: psycopg.Connection[Any]) -> Iterator[Trial]:
        """All patterns under each read-ahead and I/O method; their keys are chosen now."""
        generator = random.Random(self._parameters.seed)
        first, *_ = self._read_aheads.sizes_kb
        for read_ahead_kb in self._read_aheads.sizes_kb:
            for io_method in self._io_methods:
                for pattern in self._patterns.each():
                    statements = choose_statements(
                        connection,
                        pattern,
                        pattern.rounds(self._parameters.repetitions),
                        self._table_pages,
                        generator,
                        self._parameters.seed,
                    )
                    factors = _factors(pattern, io_method, read_ahead_kb, self._latency_us)
                    trial = trial_of(pattern, Scenario(tuple(factors)), statements, io_method)
                    yield replace(
                        trial,
                        # The read-ahead of the system makes no difference to rows.
                        compared=(STOCK, OURS) if read_ahead_kb == first else (),
                        surroundings=partial(self._read_aheads.with_size, read_ahead_kb),
                    )


def trial_of(
    pattern: Pattern, scenario: Scenario, statements: tuple[Statement, ...], io_method: str
) -> Trial:
    """The scans of a pattern, a statement for each round."""
    pages = int(statements[0].counts["distinct_pages"])
    arms = _arms_for(pattern)
    others = [arm.name for arm in arms if arm.name != OURS]
    return Trial(
        scenario=scenario,
        statement=statements[0].sql,
        rounds=statements,
        arms=arms,
        questions=tuple(Question(scenario, name, (name,), (OURS,)) for name in others),
        server={"io_method": io_method},
        rows=pages,
        pages=pages,
        # Of few rows, or pages that follow each other in the table, the library chooses itself how
        # many it asks for.
        prefetched=pages if pattern.kind == "pages" else 0,
        keeps_timeline=True,
    )


def _arms_for(pattern: Pattern) -> tuple[Arm, ...]:
    """A bitmap scan answers for whole ranges in random order only."""
    return (*_ARMS, _RIVAL_ARM) if pattern.kind == "pages" else _ARMS


def _factors(
    pattern: Pattern, io_method: str, read_ahead_kb: int | None, latency_us: int
) -> Iterator[Factor]:
    """In the order in which they are shown."""
    yield Factor("scan", pattern.label)
    yield Factor("I/O method", io_method)
    yield Factor("read-ahead", "unknown" if read_ahead_kb is None else f"{read_ahead_kb} kB")
    if latency_us:
        yield Factor("added latency", f"{latency_us:,} us")
