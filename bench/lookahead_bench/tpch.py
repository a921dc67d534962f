"""The experiment "tpch": the 22 queries of TPC-H, cold, by stock and with everything on.

The data are those of tpchgen-cli, a generator of the package index. The tables have their primary
keys, and an index on each foreign key that does not begin one. All plans are the planner's own,
without parallel workers; the rows of both arms are compared before anything is measured.
"""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lookahead.errors import UnavailableError
from lookahead.experiments.arms import arm_of
from lookahead.experiments.conditions import COLD_RESTART_SECONDS, table_facts, table_session
from lookahead.experiments.experiment import (
    REPETITIONS,
    Choice,
    Count,
    Experiment,
    Number,
    Option,
    in_place,
)
from lookahead.experiments.runner import Run
from lookahead.measurements import Arm, Factor, Question, Scenario, Table
from lookahead.server import Session
from lookahead_bench.latency import MAX_LATENCY_US, latency_factor, on_delay_device
from lookahead_bench.trials import Trial, Trials

GENERATOR = "tpchgen-cli"
_STOCK, _OURS = "stock", "ours"
_TEXTS = Path(__file__).with_name("tpch.sql")
_SPACE_AT_SCALE_1, _BUILD_SECONDS_AT_SCALE_1, _QUERY_SECONDS_AT_SCALE_1 = 4_000_000_000, 150.0, 2.5
_COPY_BYTES = 1 << 20
_LATENCY_THAT_DOUBLES_US = 100


@dataclass(frozen=True)
class TpchTable:
    """A table: its columns, its primary key, other columns that have an index each."""

    columns: str
    key: str
    indexed: tuple[str, ...] = ()


TABLES: dict[str, TpchTable] = {
    "region": TpchTable("r_regionkey int, r_name char(25), r_comment varchar(152)", "r_regionkey"),
    "nation": TpchTable(
        "n_nationkey int, n_name char(25), n_regionkey int, n_comment varchar(152)",
        "n_nationkey",
        ("n_regionkey",),
    ),
    "supplier": TpchTable(
        "s_suppkey int, s_name char(25), s_address varchar(40), s_nationkey int, "
        "s_phone char(15), s_acctbal numeric(15,2), s_comment varchar(101)",
        "s_suppkey",
        ("s_nationkey",),
    ),
    "part": TpchTable(
        "p_partkey int, p_name varchar(55), p_mfgr char(25), p_brand char(10), "
        "p_type varchar(25), p_size int, p_container char(10), p_retailprice numeric(15,2), "
        "p_comment varchar(23)",
        "p_partkey",
    ),
    "partsupp": TpchTable(
        "ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost numeric(15,2), "
        "ps_comment varchar(199)",
        "ps_partkey, ps_suppkey",
        ("ps_suppkey",),
    ),
    "customer": TpchTable(
        "c_custkey int, c_name varchar(25), c_address varchar(40), c_nationkey int, "
        "c_phone char(15), c_acctbal numeric(15,2), c_mktsegment char(10), "
        "c_comment varchar(117)",
        "c_custkey",
        ("c_nationkey",),
    ),
    "orders": TpchTable(
        "o_orderkey bigint, o_custkey int, o_orderstatus char(1), o_totalprice numeric(15,2), "
        "o_orderdate date, o_orderpriority char(15), o_clerk char(15), o_shippriority int, "
        "o_comment varchar(79)",
        "o_orderkey",
        ("o_custkey",),
    ),
    "lineitem": TpchTable(
        "l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int, "
        "l_quantity numeric(15,2), l_extendedprice numeric(15,2), l_discount numeric(15,2), "
        "l_tax numeric(15,2), l_returnflag char(1), l_linestatus char(1), l_shipdate date, "
        "l_commitdate date, l_receiptdate date, l_shipinstruct char(25), l_shipmode char(10), "
        "l_comment varchar(44)",
        "l_orderkey, l_linenumber",
        ("l_partkey", "l_suppkey"),
    ),
}


def read_queries() -> dict[str, str]:
    """The text of each query by its name, Q1 to Q22."""
    parts = re.split(r"^-- (Q\d+)\n", _TEXTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        name: text.strip().rstrip(";") for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


QUERIES = read_queries()


@dataclass(frozen=True)
class TpchQueries:
    """What is wanted: which queries, at which scale, and on which device."""

    repetitions: int = REPETITIONS.sized(6)
    scale: float = Option(Number(100), "TPC-H's scale: 1 is 6 million lines, 2 GB.").sized(
        1.0, demo=0.05
    )
    query: tuple[str, ...] = Option(
        Choice(tuple(QUERIES)), f"Which queries: {', '.join(QUERIES)}."
    ).sized(tuple(QUERIES), demo=("Q2", "Q4"))
    latency: int = Option(
        Count(0, MAX_LATENCY_US, "US"),
        "On a device made for the run, as root: microseconds that each read takes longer.",
    ).sized(0)


def _measure(run: Run, wanted: TpchQueries) -> None:
    """Make the tables, then take all samples."""
    trials = Trials(run)
    run.terminal.step(f"making TPC-H's tables at scale {wanted.scale:g}")
    indexes = [
        f"{name}_{of}"
        for name, table in TABLES.items()
        for of in ("pkey", *(f"{column}_idx" for column in table.indexed))
    ]
    with table_session(run, {}, (*TABLES, *indexes)) as connection, TemporaryDirectory() as folder:
        _generate(wanted.scale, Path(folder))
        for name in TABLES:
            trials.add_table(_load(connection, name, Path(folder)))
    trials.measure_all([trial_of(name, wanted) for name in wanted.query], wanted.repetitions)


def find_generator() -> str:
    """The generator's path, beside this Python. LabError when it is not there."""
    found = shutil.which(GENERATOR, path=Path(sys.executable).parent)
    if found is None:
        raise UnavailableError(
            f"{GENERATOR} was not found, which makes TPC-H's data",
            "make setup installs it.",
        )
    return found


def _generate(scale: float, folder: Path) -> None:
    command = [find_generator(), "csv", "-s", f"{scale:g}", "--output-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(
            f"{GENERATOR} failed: {done.stderr.strip()}", "Is there space for the data?"
        )


def _load(connection: Session, name: str, folder: Path) -> Table:
    """Make, fill, index and vacuum one table; its rows are in the order of the generator."""
    table, started = TABLES[name], time.monotonic()
    with connection.transaction():
        connection.execute(f"CREATE TABLE {name} ({table.columns})")
        with connection.cursor().copy(
            f"COPY {name} FROM STDIN (FORMAT csv, HEADER, FREEZE)"
        ) as copy:
            for block in _blocks(folder / f"{name}.csv"):
                copy.write(block)
    connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY ({table.key})")
    for column in table.indexed:
        connection.execute(f"CREATE INDEX ON {name} ({column})")
    connection.execute(f"VACUUM (FREEZE, ANALYZE) {name}")
    connection.execute("CHECKPOINT")
    return table_facts(connection, name, started)


def _blocks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while block := opened.read(_COPY_BYTES):
            yield block


def trial_of(name: str, wanted: TpchQueries) -> Trial:
    """A query by stock and with our joins, too."""
    device = (latency_factor(wanted.latency),) if wanted.latency else ()
    scenario = Scenario((Factor("query", name), Factor("scale", f"{wanted.scale:g}"), *device))
    return Trial(
        scenario=scenario,
        statement=QUERIES[name],
        arms=(
            arm_of(_STOCK, ""),
            arm_of(_OURS, "", "on", {"pg_lookahead.enable_join_prefetch": "on"}),
        ),
        questions=(Question(scenario, _STOCK, (_STOCK,), (_OURS,)),),
        server={},
        compared=(_STOCK, _OURS),
        execute=_execute,
    )


def _execute(connection: Session, statement: str, _arm: Arm) -> tuple[float, None]:
    """Planned and executed to its last row."""
    started = time.monotonic()
    connection.execute(statement).fetchall()
    return (time.monotonic() - started) * 1000, None


def _needed_bytes(wanted: TpchQueries) -> int:
    return int(wanted.scale * _SPACE_AT_SCALE_1)


def _estimated_seconds(wanted: TpchQueries) -> float:
    samples = 2 * (wanted.repetitions + 1) * len(wanted.query)
    slower = 1 + wanted.latency / _LATENCY_THAT_DOUBLES_US
    each = COLD_RESTART_SECONDS + wanted.scale * _QUERY_SECONDS_AT_SCALE_1 * slower
    return wanted.scale * _BUILD_SECONDS_AT_SCALE_1 + samples * each


EXPERIMENT = Experiment(
    name="tpch",
    summary="The 22 queries of TPC-H, cold.",
    description="Whole queries with the planner's own plans: stock, and everything on, joins that "
    "look ahead too. The data are made by a generator that `make setup` installs.",
    asked=TpchQueries,
    needed_bytes=_needed_bytes,
    estimated_seconds=_estimated_seconds,
    measure=_measure,
    surround=lambda request, wanted, terminal: (
        on_delay_device(request, _needed_bytes(wanted), wanted.latency, terminal)
        if wanted.latency
        else in_place(request, wanted, terminal)
    ),
)
