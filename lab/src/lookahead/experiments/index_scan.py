"""The experiment "index-scan": one btree index scan, cold, with and without look-ahead.

For each I/O method, OS read-ahead and pattern (distinct pages in random order, LIMIT in random
order, a share of the pages in heap order), pairs of samples are taken: the server is stopped, its
files are dropped from the OS cache, it is started; a plain EXPLAIN loads catalogs and the index
root but no table page; then the statement runs under EXPLAIN (ANALYZE, TIMING OFF). In random order
each pair has its own keys, and the arms of a pair the same ones; ranges have a third arm, stock's
bitmap scan and sort of the same rows. That both index scans return the same rows in the same order
is proved apart, over the rows a client receives.
"""

import random
from dataclasses import replace
from pathlib import Path

from lookahead.device.io_sampler import IoSampler
from lookahead.errors import LabError
from lookahead.experiments.conditions import ReadAheads, available_methods
from lookahead.experiments.request import IndexScanRequest
from lookahead.experiments.runner import Run, open_run
from lookahead.experiments.scan_plan import check_path, parse_scan
from lookahead.experiments.scan_rows import choose_arm, compare_rows, explain_scan
from lookahead.experiments.scan_scenarios import (
    DEFAULTS,
    Patterns,
    SizeDefaults,
    choose_statements,
    pairs_of,
    scenarios_for,
    wanted_patterns,
)
from lookahead.experiments.scan_statement import ScanStatement
from lookahead.experiments.scan_table import build_table, table_bytes, touch_device
from lookahead.experiments.trials import alternate, restart_cold
from lookahead.machine import backend_cpu_ms
from lookahead.render import ProgressBar, Terminal, pattern_text
from lookahead.results import Parameters
from lookahead.scan_measurements import Arm, DelayFacts, IndexScanData, ScanSample, Scenario

# The table itself; its pages once more in the WAL, which VACUUM writes under checksums; the sorts.
SPACE_FACTOR = 2.5
# Besides the cache size only what keeps other work away from the scan, and the planner from any
# other plan. Depths and I/O settings stay at the server's defaults.
_SETTINGS = {
    "shared_buffers": "256MB",
    "max_parallel_workers_per_gather": "0",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "autovacuum": "off",
    # The table is made without WAL, and no checkpoint falls into a sample.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "checkpoint_timeout": "1h",
    "max_wal_size": "8GB",
}


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
    delay_device: DelayFacts | None = None,
) -> Path:
    """The whole experiment under the name `experiment`; returns the path of its result.

    `delay_device` is what the server's folder lies on, None for a disk of the machine.
    """
    parameters = Parameters(
        size=request.run.size,
        seed=request.run.seed,
        repetitions=request.repetitions or defaults.pairs,
        pages=patterns.pages,
        limits=patterns.limits,
        heap_shares_percent=patterns.shares_percent,
        io_methods=request.io_methods or defaults.io_methods,
        read_aheads_kb=request.read_aheads_kb or (),
    )
    needed = int(SPACE_FACTOR * table_bytes(defaults.table_pages))
    with open_run(
        request.run, experiment, parameters, terminal, settings=_SETTINGS, needed_bytes=needed
    ) as run:
        run.record(delay_device=delay_device)
        explicit = request.io_methods is not None
        _IndexScan(run, defaults, patterns, explicit_methods=explicit).measure()
        path = run.path
    if run.document.index_scan:
        _show(run.document.index_scan, terminal)
    return path


class _IndexScan:
    """One run of the experiment."""

    def __init__(
        self, run: Run, defaults: SizeDefaults, patterns: Patterns, *, explicit_methods: bool
    ) -> None:
        self._run = run
        self._server = run.server
        self._defaults = defaults
        self._patterns = patterns
        self._parameters = run.document.parameters
        self._generator = random.Random(self._parameters.seed)
        self._io_methods = available_methods(
            run, self._parameters.io_methods, explicit=explicit_methods
        )
        self._read_aheads = ReadAheads(run, self._parameters.read_aheads_kb)

    def measure(self) -> None:
        """Build the table, then take all samples."""
        self._build()
        scenarios = [
            scenario
            for read_ahead_kb in self._read_aheads.sizes_kb
            for io_method in self._io_methods
            for scenario in scenarios_for(
                self._patterns, io_method, read_ahead_kb, self._defaults.table_pages
            )
        ]
        delay = self._run.document.delay_device
        if delay is not None:
            scenarios = [replace(item, added_latency_us=delay.latency_us) for item in scenarios]
        repetitions = self._parameters.repetitions
        total = sum(len(item.arms) * pairs_of(item, repetitions) for item in scenarios)
        with self._run.terminal.progress(total) as bar:
            for scenario in scenarios:
                with self._read_aheads.with_size(scenario.read_ahead_kb):
                    self._measure_scenario(scenario, bar)

    def _build(self) -> None:
        pages = self._defaults.table_pages
        gigabytes = table_bytes(pages) / 1e9
        self._run.terminal.step(f"making a table of {pages:,} pages ({gigabytes:.1f} GB)")
        self._server.start({"io_method": self._io_methods[0]})
        with self._server.connect() as connection:
            self._run.record_settings(connection)
            connection.execute("SET work_mem = '256MB'")
            connection.execute("SET maintenance_work_mem = '256MB'")
            table = build_table(connection, pages, self._parameters.seed)
        self._run.record(index_scan=IndexScanData(table, (), (), ()))
        self._server.cold_restart()
        with self._server.connect() as connection:
            touch_device(connection, self._server.data_directory)

    def _measure_scenario(self, scenario: Scenario, bar: ProgressBar) -> None:
        self._run.terminal.log_only(_describe(scenario))
        self._server.restart({"io_method": scenario.io_method})
        with self._server.connect() as connection:
            statements = choose_statements(
                connection,
                scenario,
                pairs_of(scenario, self._parameters.repetitions),
                self._defaults.table_pages,
                self._generator,
                self._parameters.seed,
            )
        scenario = replace(scenario, pages=statements[0].pages)
        if not self._has_digest(scenario):
            bar.describe(f"{_describe(scenario)}, comparing rows")
            self._add_digest(scenario, statements[0])
        for pair, arm in alternate(scenario.arms, len(statements)):
            bar.describe(f"{_describe(scenario)}, {arm}")
            self._add_sample(self._sample(scenario, statements[pair], pair, arm))
            bar.advance()

    def _sample(
        self, scenario: Scenario, statement: ScanStatement, pair: int, arm: Arm
    ) -> ScanSample:
        cold = restart_cold(self._run, {"io_method": scenario.io_method})
        device = self._run.device.name if self._run.device else None
        with self._server.connect() as connection:
            choose_arm(connection, arm)
            connection.execute(f"EXPLAIN {statement.query}")
            backend = connection.info.backend_pid
            cpu_before = backend_cpu_ms(backend)
            with IoSampler(device) as sampler:
                document = explain_scan(connection, statement)
            cpu_after = backend_cpu_ms(backend)
        evidence = parse_scan(document, arm)
        whole_range = scenario.order == "random" and scenario.limit is None
        check_path(evidence, arm, prefetches=whole_range)
        if evidence.rows != scenario.pages:
            raise LabError(f"the scan returned {evidence.rows} rows instead of {scenario.pages}")
        return ScanSample(
            scenario=scenario,
            pair=pair,
            sequence=len(self._data.samples),
            arm=arm,
            first_key=statement.first,
            last_key=statement.last,
            distinct_pages=statement.pages,
            evidence=evidence,
            backend_cpu_ms=_difference(cpu_before, cpu_after),
            cold=cold,
            timeline=sampler.timeline(),
        )

    def _add_digest(self, scenario: Scenario, statement: ScanStatement) -> None:
        digest = compare_rows(self._server, statement, scenario)
        data = replace(self._data, digests=(*self._data.digests, digest))
        self._run.record(index_scan=data)

    @property
    def _data(self) -> IndexScanData:
        data = self._run.document.index_scan
        assert data is not None
        return data

    def _has_digest(self, scenario: Scenario) -> bool:
        known = {replace(digest.scenario, read_ahead_kb=None) for digest in self._data.digests}
        return replace(scenario, read_ahead_kb=None) in known

    def _add_sample(self, sample: ScanSample) -> None:
        data = replace(self._data, samples=(*self._data.samples, sample))
        self._run.record(index_scan=data)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _describe(scenario: Scenario) -> str:
    read_ahead = scenario.read_ahead_kb
    suffix = "" if read_ahead is None else f", read-ahead {read_ahead} kB"
    return f"{pattern_text(scenario)}, {scenario.io_method}{suffix}"


def _show(data: IndexScanData, terminal: Terminal) -> None:
    """The table, and what was proved beside it."""
    terminal.scan_table(data.comparisons)
    ours = [
        sample
        for sample in data.samples
        if sample.arm == "lookahead" and sample.scenario.order == "random"
    ]
    prefetched = sum(sample.evidence.lookahead.prefetched_blocks for sample in ours)
    pages = sum(sample.distinct_pages for sample in ours)
    rows = sum(digest.rows for digest in data.digests)
    terminal.result(f"same rows:  {rows:,} rows of both arms received and compared in order: equal")
    terminal.result(f"path taken: {prefetched:,} of {pages:,} pages in random order ")
    terminal.result("            came through look-ahead")
