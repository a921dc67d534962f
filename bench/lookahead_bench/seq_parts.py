"""The parts of the experiment "seq-scan": its tables, and trials of scans, bulk reads, VACUUM.

The table of scans and lookups has rows of an integer and a text
of 600 bytes. Lookups of single rows are pgbench's, with a prepared statement, from a cold start; it
logs the time of every transaction.
"""

import mmap
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from time import monotonic

from lookahead.account import acting_as_owner
from lookahead.errors import LabError
from lookahead.experiments.arms import SEQ_SCAN, arm_of, check_node, connect_arm, parse_node
from lookahead.experiments.conditions import (
    BLOCK_BYTES,
    fetch_row,
    fill_table,
    relation_path,
    segments_of,
)
from lookahead.experiments.experiment import memory_text
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import EXPLAIN_ANALYZE
from lookahead.formats import milliseconds
from lookahead.measurements import (
    Arm,
    Factor,
    Library,
    NodeEvidence,
    Question,
    Sample,
    Scenario,
    Table,
)
from lookahead.server import PrivateServer, Session
from lookahead.stats import quantile
from lookahead_bench.read_ahead import read_ahead_factor
from lookahead_bench.trials import Execute, Trial

WIDE, WIDE_KEY = "lookahead_wide", "lookahead_wide_pkey"
_PAD_BYTES, _ROWS_PER_PAGE = 600, 12
ACCOUNTS = "pgbench_accounts"
STOCK, OURS = "seq", "ours"
STOCK_SCAN = "stock's scan"
COPY_TABLE, COPY_STOCK, COPY_OURS = "COPY table", "COPY query, stock", "COPY query, ours"
_COPY_QUERY = f"COPY (SELECT * FROM {WIDE}) TO STDOUT"
_COPIES = {
    # COPY of a table reads it without a plan: no extension can look ahead for it.
    COPY_TABLE: f"COPY {WIDE} TO STDOUT",
    COPY_STOCK: _COPY_QUERY,
    COPY_OURS: _COPY_QUERY,
}
# The table's files read past the page cache, 1 MB at a time, from the same cold start.
DEVICE = "device alone"
# Stock's scan of pages in the cache of the system, before all.
IN_MEMORY = "seq, in memory"
BULK_SIZE = "pg_lookahead.bulk_read_size"
CORE_SIZE = "0"  # PostgreSQL's own


def build_wide_table(connection: Session, table_kb: int) -> Table:
    """Make, fill, index and vacuum the table, in the order of its key."""
    rows = max(table_kb * 1024 // BLOCK_BYTES, 1) * _ROWS_PER_PAGE
    return fill_table(
        connection,
        WIDE,
        "id int, pad text STORAGE PLAIN",  # neither compressed nor moved out of line
        f"INSERT INTO {WIDE} SELECT id, lpad(id::text, {_PAD_BYTES}, 'x') "
        f"FROM generate_series(1, {rows}) AS id",
        f"ALTER TABLE {WIDE} ADD PRIMARY KEY (id)",
    )


@dataclass(frozen=True)
class ScanLimits:
    """What a scan of a table cannot be faster than, measured once: device and process, in ms.

    `files` are the table's; `device_ms` is None where they cannot be read past the page cache.
    """

    files: tuple[Path, ...]
    device_ms: float | None
    in_memory_ms: float

    @property
    def is_device(self) -> bool:
        """Whether the device takes longer for the table than a process for its pages."""
        return self.device_ms is not None and self.device_ms >= self.in_memory_ms


_LIMIT_SAMPLES = 3
# Large requests, some of them under way at once: what a disk is fastest with. Arbitrary.
_READERS, _REQUEST_BYTES = 4, 1 << 20
COUNT_WIDE = f"SELECT count(*) FROM {WIDE}"
# Where no scan is measured.
NO_LIMITS = ScanLimits((), None, 0.0)


def scan_limits(run: Run) -> ScanLimits:
    """What the disk takes for the table alone, and a scan that finds it in memory; says so."""
    directory = run.server.data_directory
    with run.server.connect() as connection:
        first = relation_path(connection, directory, WIDE)
    with acting_as_owner(directory):
        files = tuple(segments_of(first))
    limits = ScanLimits(files, _device_ms(run, files), _in_memory_ms(run.server))
    if limits.device_ms is not None:
        run.find(
            "note",
            f"for the whole table the device alone takes {milliseconds(limits.device_ms)}, "
            f"a scan of pages in memory {milliseconds(limits.in_memory_ms)}",
            "" if limits.is_device else "The device is not the limit.",
        )
    return limits


def _device_ms(run: Run, files: Sequence[Path]) -> float | None:
    """The median of some reads past the page cache; None where that cannot be."""
    try:
        with acting_as_owner(run.server.data_directory):
            return median(read_directly(files) for _ in range(_LIMIT_SAMPLES))
    except LabError as error:
        run.find("note", error.message, error.hint)
        return None


def read_directly(paths: Sequence[Path]) -> float:
    """Read all files once past the page cache; the time in ms. LabError when that cannot be."""
    requests = [
        (path, offset) for path in paths for offset in range(0, path.stat().st_size, _REQUEST_BYTES)
    ]
    started = monotonic()
    try:
        with ThreadPoolExecutor(_READERS) as pool:
            list(pool.map(_read_requests, (requests[each::_READERS] for each in range(_READERS))))
    except OSError as error:
        raise LabError(
            f"the table's files cannot be read directly: {error.strerror}",
            "Does the file system take direct I/O?",
        ) from None
    return (monotonic() - started) * 1000


def _read_requests(requests: Sequence[tuple[Path, int]]) -> None:
    """Read `_REQUEST_BYTES` of a file from an offset past the page cache, one after the other."""
    descriptors: dict[Path, int] = {}
    try:
        with mmap.mmap(-1, _REQUEST_BYTES) as buffer:  # aligned, as direct reads must be
            for path, offset in requests:
                if path not in descriptors:
                    descriptors[path] = os.open(path, os.O_RDONLY | os.O_DIRECT)
                os.preadv(descriptors[path], [buffer], offset)
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def _in_memory_ms(server: PrivateServer) -> float:
    """The median of stock's scans that find all pages in the cache of the system."""
    arm = arm_of(STOCK, SEQ_SCAN)
    with connect_arm(server, arm) as connection:
        explain_sized(connection, COUNT_WIDE, arm)  # brings them there
        return median(explain_sized(connection, COUNT_WIDE, arm)[0] for _ in range(_LIMIT_SAMPLES))


def scan_trial(
    read_ahead_kb: int | None, table_kb: int, limits: ScanLimits, factors: tuple[Factor, ...] = ()
) -> Trial:
    """A sequential scan, COPY and the device alone at a read-ahead."""
    table = Factor("table", memory_text(table_kb))
    scenario = Scenario((read_ahead_factor(read_ahead_kb), table, *factors))
    return Trial(
        scenario=scenario,
        statement=COUNT_WIDE,
        arms=(
            arm_of(STOCK, SEQ_SCAN),
            arm_of(OURS, SEQ_SCAN, "on"),
            *((arm_of(DEVICE, ""),) if limits.device_ms is not None else ()),
            arm_of(COPY_TABLE, ""),
            arm_of(COPY_STOCK, ""),
            arm_of(COPY_OURS, "", "on"),
        ),
        questions=(
            Question(scenario, STOCK_SCAN, (STOCK,), (OURS,)),
            Question(scenario, "stock's COPY", (COPY_STOCK,), (COPY_OURS,)),
            Question(scenario, DEVICE, (DEVICE,), (OURS,)),
        ),
        server={},
        statements=_COPIES,
        elsewhere=(DEVICE, *_COPIES),
        references={IN_MEMORY: limits.in_memory_ms},
    )


def bulk_trial(scale: int, sizes: tuple[str, ...]) -> Trial:
    """A sequential scan of pgbench's table in requests of each size."""
    scenario = Scenario((Factor("scale", str(scale)), Factor("table", ACCOUNTS)))
    arms = tuple(arm_of(f"ours, {size}", SEQ_SCAN, "on", {BULK_SIZE: size}) for size in sizes)
    return Trial(
        scenario=scenario,
        statement=f"SELECT count(*) FROM {ACCOUNTS}",
        arms=(arm_of(STOCK, SEQ_SCAN), arm_of(OURS, SEQ_SCAN, "on"), *arms),
        questions=(
            Question(scenario, STOCK_SCAN, (STOCK,), (OURS,)),
            *(Question(scenario, STOCK_SCAN, (STOCK,), (arm.name,)) for arm in arms),
        ),
        server={},
        execute=explain_sized,
    )


def vacuum_trial(scale: int, combine_limit: str, depths: tuple[int, ...]) -> Trial:
    """VACUUM of all pages of pgbench's table, which is PostgreSQL's own business."""
    scenario = Scenario(
        (Factor("io_combine_limit", combine_limit), Factor("VACUUM at scale", str(scale)))
    )
    return Trial(
        scenario=scenario,
        statement=f"VACUUM (DISABLE_PAGE_SKIPPING) {ACCOUNTS}",
        arms=tuple(
            arm_of(
                f"maintenance_io_concurrency {depth}",
                "",
                settings={
                    "io_combine_limit": combine_limit,
                    "maintenance_io_concurrency": str(depth),
                },
            )
            for depth in depths
        ),
        questions=(),
        server={"io_max_combine_limit": "1MB"},
        execute=timed,
    )


def scan_or_copy(server: PrivateServer, files: Sequence[Path]) -> Execute:
    """Executes arms with a plan under EXPLAIN, COPY by psql into nothing; reads `files` alone."""

    def execute(connection: Session, statement: str, arm: Arm) -> tuple[float, NodeEvidence | None]:
        if arm.plan:
            return explain_sized(connection, statement, arm)
        if arm.name == DEVICE:
            with acting_as_owner(server.data_directory):
                return read_directly(files), None
        started = monotonic()
        server.run_client(
            "psql",
            *("-X", "-q", "-o", "/dev/null", "-c", statement),
            env={"PGOPTIONS": f"-c pg_lookahead.enabled={arm.library}"},
        )
        return (monotonic() - started) * 1000, None

    return execute


def explain_sized(connection: Session, statement: str, arm: Arm) -> tuple[float, NodeEvidence]:
    """As `explain_trial`, except that at `CORE_SIZE` the scan is left to PostgreSQL."""
    (document,) = fetch_row(connection, f"{EXPLAIN_ANALYZE} {statement}")
    time_ms, evidence = parse_node(document, arm.plan)
    if arm.settings.get(BULK_SIZE) != CORE_SIZE:
        check_node(evidence, arm)
    return time_ms, evidence


def timed(connection: Session, statement: str, arm: Arm) -> tuple[float, NodeEvidence | None]:
    """Executes a statement that EXPLAIN does not take."""
    started = monotonic()
    connection.execute(statement)
    return (monotonic() - started) * 1000, None


_LOG_PREFIX = "lookups"


LOOKUP_ARMS = (arm_of("lookups, stock", ""), arm_of("lookups, ours", "", "on"))
_LOOKUP = f"SELECT id, pad FROM {WIDE} WHERE id = :key"


def lookup_trial(trial: Trial, sessions: int) -> Trial:
    """Lookups of single rows under the conditions of a scan."""
    asked = Factor("lookups", f"{sessions} sessions")
    scenario = Scenario((*trial.scenario.factors, asked))
    stock, ours = (arm.name for arm in LOOKUP_ARMS)
    return Trial(
        scenario=scenario,
        statement=_LOOKUP,
        arms=LOOKUP_ARMS,
        questions=(Question(scenario, "stock", (stock,), (ours,)),),
        server={},
        surroundings=trial.surroundings,
    )


def measure_lookups(
    server: PrivateServer,
    trial: Trial,
    arm: Arm,
    round_number: int,
    *,
    rows: int,
    sessions: int,
    seconds: int,
) -> Sample:
    """Look rows up for `seconds` on a server that was made cold; LabError when pgbench fails."""
    script = server.write_file("lookup.sql", f"\\set key random(1, {rows})\n{trial.statement};\n")
    times = _pgbench_ms(
        server,
        arm.library,
        *("-n", "-M", "prepared", "-c", str(sessions), "-j", "1", "-T", str(seconds)),
        *(f"--random-seed={round_number + 1}", "-f", script),
    )
    if not times:
        raise LabError("pgbench looked nothing up", "Give it more --seconds.")
    counts = {"lookups_per_s": len(times) / seconds}
    counts |= {"p50_ms": quantile(times, 0.5), "p99_ms": quantile(times, 0.99)}
    mean_ms = fmean(times)
    return Sample(trial.scenario, round_number, 0, arm.name, mean_ms, (mean_ms,), counts=counts)


def _pgbench_ms(server: PrivateServer, library: Library, *arguments: str | Path) -> list[float]:
    """The times of all transactions in ms, ascending; the logs are gone afterwards."""
    folder = server.work_directory
    log = ("--log", f"--log-prefix={folder / _LOG_PREFIX}")
    env = {"PGOPTIONS": f"-c pg_lookahead.enabled={library}"}
    try:
        server.run_client("pgbench", *arguments, *log, env=env)
        with acting_as_owner(folder):
            texts = [path.read_text() for path in folder.glob(f"{_LOG_PREFIX}.*")]
    finally:
        with acting_as_owner(folder):
            for path in folder.glob(f"{_LOG_PREFIX}.*"):
                path.unlink()
    return sorted(time for text in texts for time in parse_log(text))


def parse_log(text: str) -> list[float]:
    """The times in ms in a log of pgbench: the third field, in microseconds.

    Raises LabError for lines of another shape, and for transactions that failed.
    """
    try:
        return [int(line.split()[2]) / 1000 for line in text.splitlines()]
    except (IndexError, ValueError):
        raise LabError("pgbench's log has another shape than expected, or lookups failed") from None


# Within this of the best, a smaller value counts as good enough.
TOLERANCE = 0.05


def knee_of(points: Sequence[tuple[float, float]]) -> float:
    """The least value whose time is within `TOLERANCE` of the least time, of (value, time) pairs.

    Raises ValueError for none.
    """
    if not points:
        raise ValueError("a knee needs points")
    best = min(time for _, time in points)
    return min(value for value, time in points if time <= best * (1 + TOLERANCE))
