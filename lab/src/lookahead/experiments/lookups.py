"""Random lookups of single rows by several sessions, and how long each took.

pgbench with a prepared statement, from a cold start; it logs the time of every transaction.
"""

from pathlib import Path

from lookahead.account import acting_as_owner
from lookahead.errors import LabError
from lookahead.experiments.wide_table import WIDE
from lookahead.measurements import Library, LookupSample, Scenario
from lookahead.server import PrivateServer
from lookahead.stats import quantile

_LOG_PREFIX = "lookups"


def measure_lookups(
    server: PrivateServer,
    scenario: Scenario,
    library: Library,
    round_number: int,
    *,
    rows: int,
    sessions: int,
    seconds: int,
) -> LookupSample:
    """Look rows up for `seconds` on a server that was made cold; LabError when pgbench fails."""
    prefix = server.work_directory / _LOG_PREFIX
    script = server.write_file(
        "lookup.sql", f"\\set key random(1, {rows})\nSELECT id, pad FROM {WIDE} WHERE id = :key;\n"
    )
    try:
        server.run_client(
            "pgbench",
            *("-n", "-M", "prepared", "-c", str(sessions), "-j", "1", "-T", str(seconds)),
            *(f"--random-seed={round_number + 1}", "--log", f"--log-prefix={prefix}"),
            *("-f", script),
            env={"PGOPTIONS": f"-c pg_lookahead.enabled={library}"},
        )
        times = sorted(_times_ms(server.work_directory))
    finally:
        _remove_logs(server.work_directory)
    if not times:
        raise LabError("pgbench looked nothing up", "Give it more --seconds.")
    return LookupSample(
        scenario=scenario,
        round=round_number,
        sequence=0,
        arm="ours" if library == "on" else "stock",
        sessions=sessions,
        lookups=len(times),
        lookups_per_s=len(times) / seconds,
        p50_ms=quantile(times, 0.5),
        p99_ms=quantile(times, 0.99),
    )


def _times_ms(folder: Path) -> list[float]:
    with acting_as_owner(folder):
        texts = [log.read_text() for log in folder.glob(f"{_LOG_PREFIX}.*")]
    return [time for text in texts for time in parse_log(text)]


def _remove_logs(folder: Path) -> None:
    with acting_as_owner(folder):
        for path in folder.glob(f"{_LOG_PREFIX}.*"):
            path.unlink()


def parse_log(text: str) -> list[float]:
    """The times in ms in a log of pgbench: the third field, in microseconds.

    Raises LabError for lines of another shape, and for transactions that failed.
    """
    try:
        return [int(line.split()[2]) / 1000 for line in text.splitlines()]
    except (IndexError, ValueError):
        raise LabError("pgbench's log has another shape than expected, or lookups failed") from None
