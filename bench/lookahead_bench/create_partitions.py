"""The experiment "create-partitions": many partitions by a statement each, and by one call.

Each sample has a database of its own, so that no catalog has rows of what was dropped, and none of
them is dropped: ext4 is slow to find a place for new files beside those that were deleted just now.
What is compared is the processor time of the session: creating a partition makes files, whose time
on the disk is that of both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

from lookahead.errors import LabError
from lookahead.experiments.arms import arm_of
from lookahead.experiments.bulk_insert_cases import OURS, against
from lookahead.experiments.bulk_insert_trials import INSERT_SETTINGS
from lookahead.experiments.conditions import fetch_row
from lookahead.experiments.experiment import REPETITIONS, Choice, Count, Experiment, Option
from lookahead.experiments.runner import Run
from lookahead.machine import backend_cpu_ms
from lookahead.measurements import Arm, Factor, NodeEvidence, Scenario
from lookahead.server import PrivateServer, Session
from lookahead_bench.insert_trials import NOT_LOADED
from lookahead_bench.trials import Trial, Trials

_DATABASE, _PARENT = "lookahead_made", "lookahead_parent"
_ARMS = (arm_of(NOT_LOADED, "", "not loaded"), arm_of(OURS, "", "on"))
# What the parent has, by name; partitions get all of it. Without its text there is no TOAST table.
INDEXES = {
    "no index": (),
    "no toast": (f"ALTER TABLE {_PARENT} DROP COLUMN pad",),
    "key and index": (
        f"ALTER TABLE {_PARENT} ADD PRIMARY KEY (id)",
        f"CREATE INDEX ON {_PARENT} (moment)",
    ),
}
_CHOICES = {name.replace(" ", "-"): name for name in INDEXES}
_PARENT_DDL = f"CREATE TABLE {_PARENT} (id bigint, moment timestamptz, pad text)"
_ONE = "CREATE TABLE {parent}_{number} PARTITION OF {parent} FOR VALUES FROM ({low}) TO ({high})"
_ALL = (
    f"CALL pg_lookahead_create_range_partitions_batched('{_PARENT}', 0, 1000, "
    "{leaves}, way => '{way}')"
)
_STEP = 1000
_DATABASE_BYTES, _LEAF_BYTES = 40_000_000, 80_000
# What estimates go by, of one that makes the first and of one beside 1,000; measured on a virtual
# machine with two processors.
_SECONDS, _SECONDS_BESIDE_1000 = 0.0015, 0.0025


@dataclass(frozen=True)
class Creations:
    """What is wanted."""

    repetitions: int = REPETITIONS.sized(6)
    leaves: tuple[int, ...] = Option(
        Count(2, 100_000), "Numbers of partitions; 10,000 by statements take minutes."
    ).sized((128, 1000), demo=(128,), full=(128, 1000, 4000))
    indexes: tuple[str, ...] = Option(
        Choice(tuple(_CHOICES)), "What the table has before its partitions are created."
    ).sized(tuple(_CHOICES))
    way: tuple[str, ...] = Option(
        Choice(("direct", "attached")), "How partitions are created, see docs/partitions.md."
    ).sized(("direct",))


def trials_of(server: PrivateServer, wanted: Creations) -> Iterator[Trial]:
    """One for each number of partitions, with and without indexes."""
    for chosen, leaves, way in product(wanted.indexes, wanted.leaves, wanted.way):
        indexes = _CHOICES[chosen]
        factors = (
            Factor("partitions", f"{leaves:,}"),
            Factor("table", indexes),
            Factor("way", way),
        )
        scenario = Scenario(factors)
        call = _ALL.format(leaves=leaves, way=way)
        yield Trial(
            scenario=scenario,
            statement="; ".join(
                (f"{_PARENT_DDL} PARTITION BY RANGE (id)", *INDEXES[indexes], call)
            ),
            arms=_ARMS,
            questions=against(scenario, NOT_LOADED),
            server={},
            statements=dict.fromkeys((NOT_LOADED, OURS), call),
            cold=False,
            execute=partial(_create, server, indexes, leaves),
            elsewhere=tuple(arm.name for arm in _ARMS),
        )


def _create(
    server: PrivateServer, indexes: str, leaves: int, connection: Session, call: str, arm: Arm
) -> tuple[float, NodeEvidence | None]:
    """The processor time of a new session in a new database; what it has made is counted."""
    (database,) = fetch_row(connection, f"SELECT '{_DATABASE}_' || count(*) FROM pg_database")
    connection.execute(f"CREATE DATABASE {database} TEMPLATE template0")
    connection.execute("CHECKPOINT")
    library = "" if arm.library == "not loaded" else "pg_lookahead"
    options = f"-c session_preload_libraries={library} -c client_min_messages=warning"
    with server.connect(dbname=database, options=options) as session:
        if library:
            session.execute("CREATE EXTENSION pg_lookahead")
        session.execute(f"{_PARENT_DDL} PARTITION BY RANGE (id)")
        for statement in INDEXES[indexes]:
            session.execute(statement)
        before = backend_cpu_ms(session.info.backend_pid)
        if library:
            _call(session, call)
        else:
            for number in range(leaves):
                session.execute(_statement(number))
        after = backend_cpu_ms(session.info.backend_pid)
        _check_made(session, leaves)
    if before is None or after is None:
        raise LabError("the processor time of a server process is not known here", "Use Linux.")
    return after - before, None


def _statement(number: int) -> str:
    low = number * _STEP
    return _ONE.format(parent=_PARENT, number=number, low=low, high=low + _STEP)


def _call(session: Session, call: str) -> None:
    """LabError when partitions were created in another way than the one asked for."""
    _, _, way, reason = fetch_row(session, call)
    if f"'{way}'" not in call:
        raise LabError(
            f"our path did not run: partitions were created in the way {way} ({reason})",
            "docs/partitions.md explains each reason.",
        )


def _check_made(session: Session, leaves: int) -> None:
    query = f"SELECT count(*) FROM pg_inherits WHERE inhparent = '{_PARENT}'::regclass"
    (found,) = fetch_row(session, query)
    if found != leaves:
        raise LabError(
            f"there are {found} partitions instead of {leaves}", "This is a bug, report it."
        )


def _measure(run: Run, wanted: Creations) -> None:
    run.server.start()
    run.find("note", "times are processor times of the session, not those of a clock")
    Trials(run).measure_all(list(trials_of(run.server, wanted)), wanted.repetitions)


def _estimated_seconds(wanted: Creations) -> float:
    """By statements the time of each grows with the number of those that are there."""
    each = len(wanted.indexes) * len(wanted.way) * (wanted.repetitions)
    linear = sum(2 * leaves * _SECONDS + 2 for leaves in wanted.leaves)
    square = sum(leaves * leaves / 2 * _SECONDS_BESIDE_1000 / 1000 for leaves in wanted.leaves)
    return each * (linear + square)


def _needed_bytes(wanted: Creations) -> int:
    """All databases, and their WAL."""
    samples = 2 * wanted.repetitions * len(wanted.indexes) * len(wanted.way)
    return samples * sum(_DATABASE_BYTES + leaves * _LEAF_BYTES for leaves in wanted.leaves)


EXPERIMENT = Experiment(
    name="create-partitions",
    summary="Many partitions created by one call, beside a statement each.",
    description="Ranges of a table, each created by CREATE TABLE ... PARTITION OF, or all by "
    "pg_lookahead_create_range_partitions_batched. What is compared is the processor time of the "
    "session.",
    asked=Creations,
    settings=lambda wanted: INSERT_SETTINGS,
    needed_bytes=_needed_bytes,
    estimated_seconds=_estimated_seconds,
    measure=_measure,
)
