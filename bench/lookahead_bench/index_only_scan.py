"""The experiment "index-only-scan": cold index-only scans of pages that are not all-visible.

A range of keys in random order, as in the lab's "index-scan", of which the statement wants nothing
but the key: PostgreSQL reads a page of the table only where it is not all-visible. Such pages come
from a row that was deleted since VACUUM: one on each page of a share of the table, chosen by
chance. That row's key is in none of the ranges.

Shares are measured from the least on, since pages stay as they are.
"""

import random
from dataclasses import dataclass, replace

from lookahead.errors import LabError
from lookahead.experiments.arms import INDEX_SCAN, arm_of
from lookahead.experiments.conditions import (
    COLD_RESTART_SECONDS,
    available_methods,
    fetch_row,
    read_ahead_factor,
    table_session,
)
from lookahead.experiments.experiment import (
    IO_METHOD,
    IO_METHODS,
    REPETITIONS,
    TABLE_PAGES,
    Count,
    Experiment,
    Option,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.scan_table import (
    INDEX,
    ROWS_PER_PAGE,
    TABLE,
    build_table,
    table_bytes,
)
from lookahead.experiments.trials import Statement, Trial, Trials
from lookahead.measurements import Factor, Question, Scenario, Table
from lookahead.server import Session

STOCK, OURS = "stock", "ours"
# The settings of an index scan leave nothing else where only the key is wanted.
_ARMS = tuple(
    replace(arm, plan="Index Only Scan")
    for arm in (arm_of(STOCK, INDEX_SCAN), arm_of(OURS, INDEX_SCAN, "on"))
)
# Ranges of a tenth of the table: each of their keys is on a page of its own. Arbitrary.
_RANGES_PER_TABLE = 10
# The last row of a page is the one that is deleted.
_LAYERS_LEFT = ROWS_PER_PAGE - 1
# Of an index of integers, whose leaves are filled to 90 %.
_KEYS_PER_LEAF = 366
# The table itself; its pages in the WAL when they are frozen, and when rows are deleted; the sorts.
_SPACE_FACTOR = 3.5
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_BUILD_BYTES_PER_SECOND, _READ_SECONDS_PER_PAGE = 30e6, 4e-5


@dataclass(frozen=True)
class IndexOnlyScans:
    """What is wanted; shares are of the table's pages that are not all-visible, in percent."""

    repetitions: int = REPETITIONS.sized(6)
    io_method: tuple[str, ...] = IO_METHOD.sized(("worker",), full=IO_METHODS)
    table_pages: int = TABLE_PAGES.sized(125_000, demo=24_000, full=280_000)
    share: tuple[int, ...] = Option(
        Count(1, 100, "PERCENT"), "Shares of the table's pages that are not all-visible."
    ).sized((1, 10, 50), demo=(10,), full=(1, 10, 25, 50, 100))


def _measure(run: Run, wanted: IndexOnlyScans) -> None:
    """Build the table, then let its pages lose their visibility, and take the samples of each."""
    pages, seed = wanted.table_pages, run.document.parameters.seed
    methods = available_methods(run, wanted.io_method)
    trials = Trials[Trial](run)
    run.terminal.step(f"making a table of {pages:,} pages ({table_bytes(pages) / 1e9:.1f} GB)")
    with table_session(run, {"io_method": methods[0]}, (TABLE, INDEX)) as connection:
        connection.execute("SET work_mem = '256MB'")
        table = build_table(connection, pages, seed)
        trials.add_table(table)
    generator, read_ahead = random.Random(seed), read_ahead_factor(run)
    for share in sorted(wanted.share):
        run.server.restart({"io_method": methods[0]})
        with run.server.connect() as connection:
            hide_pages(connection, table, share, seed)
            statements = tuple(
                choose_statement(connection, pages, share, generator, seed)
                for _ in range(wanted.repetitions)
            )
        trials.measure_all(
            [trial_of(share, statements, method, read_ahead) for method in methods],
            wanted.repetitions,
        )


def hide_pages(connection: Session, table: Table, share: int, seed: int) -> None:
    """Delete a row of each chosen page; LabError unless just these are not all-visible then."""
    connection.execute("SET enable_indexscan = off; SET enable_indexonlyscan = off")
    last_of_page = f"id % {ROWS_PER_PAGE} = {_LAYERS_LEFT}"
    connection.execute(f"DELETE FROM {TABLE} WHERE {last_of_page} AND {_chosen(share, seed)}")
    # Whoever reads a page first takes the dead row away, and that makes no page all-visible.
    (rows,) = fetch_row(connection, f"SELECT count(*) FROM {TABLE}")
    connection.execute(f"ANALYZE {TABLE}; CHECKPOINT")
    connection.execute("RESET ALL")
    (visible,) = fetch_row(
        connection, f"SELECT relallvisible FROM pg_class WHERE oid = '{TABLE}'::regclass"
    )
    if rows == table.rows or table.pages - visible != table.rows - rows:
        raise LabError(
            f"{table.rows - rows} pages of the table have lost a row, and "
            f"{table.pages - visible} are not all-visible",
            "Does another session hold a snapshot on this server? Start again.",
        )


def _chosen(share: int, seed: int) -> str:
    """Whether the page of a row is among the share; those of a larger share have these, too."""
    return f"abs(hashint8extended(id / {ROWS_PER_PAGE}, {seed}) % 100) < {share}"


def choose_statement(
    connection: Session, pages: int, share: int, generator: random.Random, seed: int
) -> Statement:
    """A random range of keys; `hidden_pages` of its counts are not all-visible."""
    width = max(pages // _RANGES_PER_TABLE, 1)
    first = generator.randrange(_LAYERS_LEFT) * pages + generator.randrange(pages - width + 1)
    condition = f"k BETWEEN {first} AND {first + width - 1}"
    (hidden,) = fetch_row(
        connection,
        f"SELECT count(DISTINCT id / {ROWS_PER_PAGE}) FROM {TABLE} "
        f"WHERE {condition} AND {_chosen(share, seed)}",
    )
    counts = {"first_key": first, "last_key": first + width - 1, "hidden_pages": hidden}
    return Statement(f"SELECT k FROM {TABLE} WHERE {condition} ORDER BY k", counts)


def trial_of(
    share: int, statements: tuple[Statement, ...], method: str, read_ahead: Factor
) -> Trial:
    """The scans of a share, a statement for each round."""
    hidden = Factor("pages not all-visible", f"{share} %")
    scenario = Scenario((hidden, Factor("I/O method", method), read_ahead))
    counts = statements[0].counts
    rows = int(counts["last_key"] - counts["first_key"] + 1)
    # Nobody asks for the first one of a leaf page; a range begins and ends within one.
    firsts = rows // _KEYS_PER_LEAF + 2
    fewest = int(min(one.counts["hidden_pages"] for one in statements))
    return Trial(
        scenario=scenario,
        statement=statements[0].sql,
        rounds=statements,
        arms=_ARMS,
        questions=(Question(scenario, STOCK, (STOCK,), (OURS,)),),
        server={"io_method": method},
        rows=rows,
        prefetched=max(0, fewest - firsts),
        compared=(STOCK, OURS),
    )


def _estimated_seconds(wanted: IndexOnlyScans) -> float:
    seconds = table_bytes(wanted.table_pages) * (1 + len(wanted.share)) / _BUILD_BYTES_PER_SECOND
    for share in wanted.share:
        read = wanted.table_pages // _RANGES_PER_TABLE * share / 100 * _READ_SECONDS_PER_PAGE
        samples = len(_ARMS) * wanted.repetitions * len(wanted.io_method)
        seconds += samples * (COLD_RESTART_SECONDS + read)
    return seconds


EXPERIMENT = Experiment(
    name="index-only-scan",
    summary="Cold index-only scans of a table whose pages are not all all-visible.",
    description="Ranges of keys in random order, of as many rows as a tenth of the table has "
    "pages; a row was deleted on each page of a share of the table.",
    asked=IndexOnlyScans,
    needed_bytes=lambda wanted: int(_SPACE_FACTOR * table_bytes(wanted.table_pages)),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
