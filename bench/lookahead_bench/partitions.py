"""The experiment "partitions": rows for many leaves.

Rows in random order go to range partitions and to list partitions by the hash of a text, in turns
with a flat table: many by a statement, and single ones by pgbench. What is
inserted in batches is counted and not demanded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path

from lookahead.errors import LabError
from lookahead.experiments.arms import arm_of, connect_arm
from lookahead.experiments.bulk_insert_cases import (
    NARROW,
    OUR_ARM,
    OURS,
    STOCK,
    STOCK_ARM,
    SWITCH,
    TARGET,
    against,
)
from lookahead.experiments.bulk_insert_trials import (
    INSERT_SETTINGS,
    INSERTED_SIZE,
    seconds_of,
    space_for,
)
from lookahead.experiments.experiment import (
    REPETITIONS,
    Choice,
    Count,
    Experiment,
    Option,
    memory_text,
    refuse_unused,
)
from lookahead.experiments.runner import Run
from lookahead.measurements import Arm, Factor, NodeEvidence, Question, Scenario
from lookahead.server import PrivateServer, Session
from lookahead_bench.bulk_insert import name_of
from lookahead_bench.insert_trials import NOT_LOADED, SessionCase, SessionInserts
from lookahead_bench.trials import Trial, client_environment

_PARTS = {"insert": "INSERT ... SELECT", "copy": "COPY", "new-table": "CREATE TABLE AS"}
PARTS = (*_PARTS, "single-row")
FLAT = "lookahead_flat"
STOCK_FLAT, OURS_FLAT, NOT_LOADED_FLAT = "stock, flat", "ours, flat", f"{NOT_LOADED}, flat"
_FLAT_ARMS = (arm_of(STOCK_FLAT, ""), arm_of(OURS_FLAT, "", "on", SWITCH))
_SINGLE_ROW_ARMS = (arm_of(NOT_LOADED, "", "not loaded"), OUR_ARM)
_SINGLE_ROW_FLAT_ARM = arm_of(NOT_LOADED_FLAT, "", "not loaded")
# Without a table for long texts, and its index, with each leaf.
_COLUMNS = f"({NARROW.columns} STORAGE PLAIN)"
_CONNECTIONS = 100  # each of which brings room for some locks
_SECONDS_PER_LEAF = 0.01
_LEAST_INT, _INTS = -(2**31), 2**32
_DROP, _EMPTY = f"DROP TABLE IF EXISTS {TARGET}, {FLAT}", f"TRUNCATE {TARGET}, {FLAT}"
_SINGLE_ROW_SETTINGS = {"synchronous_commit": "off", "full_page_writes": "off"}
_SINGLE_ROW = "INSERT INTO {table} VALUES (1, {key}, md5(({key})::text))"
_KEY = f"\\set key random({_LEAST_INT}, {_LEAST_INT + _INTS - 1})"
_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Partitions:
    """What is wanted, the size in kB."""

    repetitions: int = REPETITIONS.sized(6)
    parts: tuple[str, ...] = Option(Choice(PARTS), "What is measured, see above.").sized(
        PARTS, demo=("insert", "copy")
    )
    leaves: tuple[int, ...] = Option(
        Count(1, 100_000), "Numbers of leaves; 10,000 take minutes to make."
    ).sized((128,), full=(128, 1000))
    table_size: int = INSERTED_SIZE.sized(64 * 1024, demo=32 * 1024, full=512 * 1024)
    clients: tuple[int, ...] = Option(
        Count(1, 90), "Clients of pgbench in the part single-row."
    ).sized((1, 4, 16, 64))
    seconds: int = Option(Count(1, 3600), "How long each sample of that takes.").sized(1, full=5)


@dataclass(frozen=True)
class Layout:
    """How the target is partitioned: by "range" or "list", or not at all: ""."""

    kind: str = ""
    leaves: int = 0

    @property
    def label(self) -> str:
        return f"{self.leaves:,} {self.kind} partitions" if self.kind else "flat table"

    def make(self, *, unlogged: bool = False) -> tuple[str, ...]:
        """The statements that make it, and a flat table to compare it with."""
        kind = "UNLOGGED TABLE" if unlogged else "TABLE"
        flat = f"CREATE {kind} {FLAT} {_COLUMNS}"
        if not self.kind:
            return flat, f"CREATE {kind} {TARGET} {_COLUMNS}"
        remainder = f"((hashtext(pad) & {_INTS // 2 - 1}) % {self.leaves})"
        key = "random" if self.kind == "range" else remainder
        leaves = (
            f"CREATE {kind} lookahead_leaf_{number} PARTITION OF {TARGET} FOR VALUES {values}"
            for number, values in enumerate(self._bounds())
        )
        parent = f"CREATE TABLE {TARGET} {_COLUMNS} PARTITION BY {self.kind} ({key})"
        return flat, parent, ";".join(leaves)

    def _bounds(self) -> list[str]:
        """Those of the leaves; of ranges each has as many integers as the others."""
        if self.kind == "list":
            return [f"IN ({number})" for number in range(self.leaves)]
        inner = [_LEAST_INT + number * _INTS // self.leaves for number in range(1, self.leaves)]
        bounds = pairwise(("MINVALUE", *inner, "MAXVALUE"))
        return [f"FROM ({start}) TO ({end})" for start, end in bounds]


def _layouts(wanted: Partitions) -> list[Layout]:
    """The flat table first."""
    partitioned = [Layout(kind, number) for number in wanted.leaves for kind in ("range", "list")]
    return [Layout(), *partitioned]


def cases_for(wanted: Partitions, file: Path) -> list[SessionCase]:
    """The inserts of many rows; those into a layout side by side, as making it takes long."""
    found: list[SessionCase] = []
    for unlogged, layout in product((True, False), _layouts(wanted)):
        parts = (part for part in ("insert", "copy") if part in wanted.parts)
        some = [_case(layout, part, unlogged, wanted, file) for part in parts]
        if some:
            made = (_DROP, *layout.make(unlogged=unlogged))
            some[0] = replace(some[0], first=(*made, *some[0].first))
            some[-1] = replace(some[-1], after=_DROP)
        if "new-table" in wanted.parts and not layout.kind:
            case = _case(layout, "new-table", unlogged, wanted, file)
            some.append(replace(case, before=(_DROP,), after=_DROP))
        found += some
    return found


def _case(layout: Layout, part: str, unlogged: bool, wanted: Partitions, file: Path) -> SessionCase:
    """Stock and ours; with partitions both of them in a flat table, too."""
    target, text = Factor("target", layout.label), str(file).replace("'", "''")
    kind = "UNLOGGED TABLE" if unlogged else "TABLE"
    logging = Factor("logging", "unlogged" if unlogged else "logged")
    table = Factor("table", memory_text(wanted.table_size))
    scenario = Scenario((target, Factor("statement", _PARTS[part]), logging, table))
    statements = {
        "insert": f"INSERT INTO {{target}} SELECT * FROM {NARROW.name}",
        "copy": f"COPY {{target}} FROM '{name_of(file)}'",
        "new-table": f"CREATE {kind} {{target}} AS SELECT * FROM {NARROW.name}",
    }
    beside_flat = (
        Question(scenario, "flat table, stock", (STOCK_FLAT,), (STOCK,)),
        Question(scenario, "flat table, ours", (OURS_FLAT,), (OURS,)),
    )
    return SessionCase(
        scenario=scenario,
        source=NARROW,
        statement=statements[part],
        rows=NARROW.rows(wanted.table_size),
        before=(_EMPTY,),
        batched=0,
        arms=(STOCK_ARM, OUR_ARM, *(_FLAT_ARMS if layout.kind else ())),
        questions=(*against(scenario, STOCK), *(beside_flat if layout.kind else ())),
        after=_EMPTY,
        others={STOCK_FLAT: (FLAT,), OURS_FLAT: (FLAT,)},
        first=(f"COPY {NARROW.name} TO '{text}'",) if part == "copy" else (),
    )


def single_row_trials(server: PrivateServer, wanted: Partitions, layout: Layout) -> Iterator[Trial]:
    """pgbench inserts single rows, by each number of clients."""
    arms = (*_SINGLE_ROW_ARMS, *((_SINGLE_ROW_FLAT_ARM,) if layout.kind else ()))
    into_target, into_flat = (_SINGLE_ROW.format(table=one, key=":key") for one in (TARGET, FLAT))
    for clients in map(str, wanted.clients):
        target, statement = Factor("target", layout.label), Factor("statement", "single row")
        scenario = Scenario((Factor("clients", clients), target, statement))
        yield Trial(
            scenario=scenario,
            statement=into_target,
            arms=arms,
            questions=against(scenario, *(arm.name for arm in arms if arm.name != OURS)),
            server={},
            statements={NOT_LOADED: into_target, OURS: into_target, NOT_LOADED_FLAT: into_flat},
            cold=False,
            execute=partial(_pgbench, server, clients, wanted.seconds),
            elsewhere=tuple(arm.name for arm in arms),
        )


def _pgbench(
    server: PrivateServer, clients: str, seconds: int, connection: Session, statement: str, arm: Arm
) -> tuple[float, NodeEvidence | None]:
    """The mean time of a transaction, in empty tables."""
    connection.execute(_EMPTY)
    connection.execute("CHECKPOINT")
    script = server.write_file("single-row.sql", f"{_KEY}\n{statement};\n")
    options = ("-n", "-M", "prepared", "-c", clients, "-j", clients, "-T", str(seconds))
    done = server.run_client("pgbench", *options, "-f", script, env=client_environment(arm))
    found = _TPS.search(done.stdout)
    if found is None or not float(found[1]):
        raise LabError("pgbench inserted nothing", "Give it more --seconds.")
    return int(clients) / float(found[1]) * 1000, None


def _explained(server: PrivateServer, statement: str) -> Iterator[str]:
    """What EXPLAIN (ANALYZE, BUFFERS) says of the statement, not of a session's first."""
    with connect_arm(server, OUR_ARM) as session:
        session.execute(statement)
        for (line,) in session.execute(f"EXPLAIN (ANALYZE, BUFFERS) {statement}").fetchall():
            yield f"-- {line}"


def _measure(run: Run, wanted: Partitions) -> None:
    """Many rows at once, then single ones."""
    inserts = SessionInserts(run, wanted.table_size)
    inserts.start()
    cases = cases_for(wanted, run.server.data_directory / "rows.copy")
    inserts.measure_all(cases, wanted.repetitions)
    if "single-row" not in wanted.parts:
        return
    run.server.restart(_SINGLE_ROW_SETTINGS)
    for layout in _layouts(wanted):
        with run.server.connect() as connection:
            for statement in layout.make():
                connection.execute(statement)
            seen = (
                *(f"-- {name} = {value}" for name, value in _SINGLE_ROW_SETTINGS.items()),
                *_explained(run.server, _SINGLE_ROW.format(table=TARGET, key="1")),
            )
            first, *others = single_row_trials(run.server, wanted, layout)
            first = replace(first, statement="\n".join((first.statement, *seen)))
            inserts.trials.measure_all([first, *others], wanted.repetitions)
            connection.execute(_DROP)


def _settle(wanted: Partitions, explicit: frozenset[str]) -> Partitions:
    """As it is; LabError for values of parts that are not measured."""
    if "single-row" not in wanted.parts:
        refuse_unused(explicit, ("clients", "seconds"), "--parts single-row")
    if set(wanted.parts) == {"single-row"}:
        refuse_unused(explicit, ("table_size",), "--parts insert, copy or new-table")
    return wanted


def _settings(wanted: Partitions) -> dict[str, str]:
    """A statement can lock all leaves."""
    locks = max(wanted.leaves) * 2 // _CONNECTIONS
    return {**INSERT_SETTINGS, "max_locks_per_transaction": str(max(locks, 64))}


def _estimated_seconds(wanted: Partitions) -> float:
    """Layouts are made once for logged, unlogged and single rows."""
    samples = sum(len(case.arms) for case in cases_for(wanted, Path())) * (wanted.repetitions + 1)
    seconds = seconds_of(samples, wanted.table_size)
    if "single-row" in wanted.parts:
        arms = sum(2 + bool(layout.kind) for layout in _layouts(wanted)) * len(wanted.clients)
        seconds += arms * wanted.repetitions * (wanted.seconds + 0.5)
    return seconds + 6 * sum(wanted.leaves) * _SECONDS_PER_LEAF


EXPERIMENT = Experiment(
    name="partitions",
    summary="INSERT ... SELECT, COPY and single rows into partitioned tables, beside flat ones.",
    description="For ranges, and lists by the hash of a text. "
    "The parts: INSERT ... SELECT (insert), COPY from a file of text (copy), CREATE TABLE AS for "
    "comparison (new-table), single rows by pgbench, with a plan (single-row).",
    asked=Partitions,
    settings=_settings,
    needed_bytes=lambda wanted: space_for(wanted.table_size),
    estimated_seconds=_estimated_seconds,
    measure=_measure,
    settle=_settle,
)
