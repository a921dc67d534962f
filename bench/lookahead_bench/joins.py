"""The experiment "joins": nested loops that look their inner side up in a cold table, row by row.

The inner table has a key in random order: each look-up by it reads a page of its own, and `tens`
gives ten rows on ten pages. The outer table is small, with a column for each kind of join. Stock's
nested loop, and ours with pg_lookahead.enable_join_prefetch; hash and merge joins are off in both.
A copy of the inner table has its rows in partitions, ranges of the key, of which each outer row
wants one.

The index is cold as the table, or hot: read once after each cold start, by stock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lookahead.experiments.arms import NESTED_LOOP, SEQ_SCAN, arm_of
from lookahead.experiments.conditions import (
    COLD_RESTART_SECONDS,
    available_methods,
    check_layout,
    fill_table,
    table_session,
)
from lookahead.experiments.experiment import (
    IO_METHOD,
    IO_METHODS,
    MAX_PAGES,
    REPETITIONS,
    TABLE_PAGES,
    Choice,
    Count,
    Experiment,
    Option,
)
from lookahead.experiments.runner import Run
from lookahead.experiments.scan_table import (
    PAD_BYTES,
    ROWS_PER_PAGE,
    keys_in_random_order,
    table_bytes,
)
from lookahead.measurements import Arm, Factor, Question, Scenario, Table
from lookahead.server import Session
from lookahead_bench.trials import Trial, Trials

OUTER, INNER = "lookahead_outer", "lookahead_inner"
TENS_INDEX = f"{INNER}_tens"
PARTITIONS, PARTED = "partitions", "lookahead_parted"
LEAVES = tuple(f"{PARTED}_{number}" for number in range(8))
STOCK, OURS = "stock", "ours"
_INNER_COLUMNS = "id int NOT NULL, k int NOT NULL, tens int NOT NULL, pad text STORAGE PLAIN"
_TENS_BYTES = 4  # of a row, which its filler has less
_ROWS_EACH = 10
_SAME_VALUE = 10  # outer rows that have one in common, for Memoize
_CACHED_EXECUTIONS = 4
# A statement with LIMIT takes about a millisecond: see scan_table.py.
_LIMIT_ROUNDS_FACTOR = 4
_COLD, _HOT, _CACHED = "index cold", "index hot", "cached"
_SPACE_FACTOR = 3.0
# What estimates of a run's time go by; measured on a virtual machine with two processors.
_BUILD_BYTES_PER_SECOND, _READ_SECONDS = 20e6, 4e-5


@dataclass(frozen=True)
class Shape:
    """A join; with the index hot our loop must ask for so many `pages` of each outer row.

    `plan` is the node that looks ahead, `indexes` are table and column of what is hot.
    """

    select: str
    pages: int = 0
    plan: str = NESTED_LOOP
    indexes: tuple[tuple[str, str], ...] = ((INNER, "k"), (INNER, "tens"))
    temperatures: tuple[str, ...] = (_COLD,)
    rounds_factor: int = 1


def _joined(on: str, join: str = "JOIN", pad: str = "i.pad", inner: str = INNER) -> str:
    return f"SELECT o.n, {pad} FROM {OUTER} o {join} {inner} i ON {on}"


_BY_KEY = _joined("i.k = o.k")
_OF_TENS = f"FROM {INNER} i WHERE i.tens = o.tens"
_ONE_OF_TENS = f"(SELECT pad {_OF_TENS} ORDER BY i.k LIMIT 1)"
_SEMI = f"SELECT o.n FROM {OUTER} o WHERE"
SHAPES: dict[str, Shape] = {
    "key": Shape(_BY_KEY, pages=1, temperatures=(_COLD, _HOT, _CACHED)),
    "ten-rows": Shape(_joined("i.tens = o.tens"), pages=_ROWS_EACH, temperatures=(_COLD, _HOT)),
    "three-tables": Shape(
        _joined("i.k = o.k", pad="j.pad") + f" JOIN {INNER} j ON j.k = i.id",
        pages=1,
        temperatures=(_COLD, _HOT),
    ),
    PARTITIONS: Shape(
        _joined("i.k = o.k", inner=PARTED),
        pages=1,
        indexes=tuple((leaf, "k") for leaf in LEAVES),
        temperatures=(_COLD, _HOT),
    ),
    "left": Shape(_joined("i.k = o.missing", "LEFT JOIN")),
    "semi": Shape(f"{_SEMI} EXISTS (SELECT {_OF_TENS} AND i.pad > '')"),
    "anti": Shape(f"{_SEMI} NOT EXISTS (SELECT {_OF_TENS} AND length(i.pad) < 1)"),
    "memoize": Shape(_joined("i.k = o.few")),
    "lateral-limit": Shape(f"SELECT o.n, i.pad FROM {OUTER} o CROSS JOIN LATERAL {_ONE_OF_TENS} i"),
    "as-of": Shape(
        f"SELECT o.n, i.pad FROM {OUTER} o CROSS JOIN LATERAL "
        f"(SELECT pad {_OF_TENS} AND i.k <= o.k ORDER BY i.k DESC LIMIT 1) i"
    ),
    "subplan": Shape(
        f"SELECT o.n, (SELECT i.pad FROM {INNER} i WHERE i.k = o.k) FROM {OUTER} o",
        plan=SEQ_SCAN,
        temperatures=(_COLD, _HOT, _CACHED),
    ),
    "subplan-exists": Shape(
        f"{_SEMI} o.n < 0 OR EXISTS (SELECT {_OF_TENS} AND i.id >= o.n - {MAX_PAGES} "
        "AND i.pad > '')",
        plan=SEQ_SCAN,
    ),
    "subplan-last": Shape(
        f"SELECT o.n, (SELECT pad {_OF_TENS} ORDER BY i.k DESC LIMIT 1) FROM {OUTER} o",
        plan=SEQ_SCAN,
    ),
    "limit-1": Shape(f"{_BY_KEY} LIMIT 1", rounds_factor=_LIMIT_ROUNDS_FACTOR),
    "limit-100": Shape(f"{_BY_KEY} LIMIT 100", rounds_factor=_LIMIT_ROUNDS_FACTOR),
}

ROWS = Option(Count(100, MAX_PAGES), "Rows of the outer table.")
SHAPE = Option(Choice(tuple(SHAPES)), f"Which joins: {', '.join(SHAPES)}.")


@dataclass(frozen=True)
class Joins:
    """What is wanted: which joins, of how many outer rows."""

    repetitions: int = REPETITIONS.sized(6, full=8)
    io_method: tuple[str, ...] = IO_METHOD.sized(("worker",), full=IO_METHODS)
    table_pages: int = TABLE_PAGES.sized(125_000, demo=24_000, full=280_000)
    rows: int = ROWS.sized(2_000, demo=1_000, full=20_000)
    shape: tuple[str, ...] = SHAPE.sized(tuple(SHAPES), demo=("key", "ten-rows"))


class _Warming:
    """Reads the indexes after a cold start, while a trial that wants them hot is measured."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._wanted: tuple[tuple[str, str], ...] = ()

    @contextmanager
    def of(self, shape: Shape, temperature: str) -> Iterator[None]:
        """While inside, for scenarios of this shape and temperature."""
        self._wanted = shape.indexes if temperature == _HOT else ()
        yield
        self._wanted = ()

    def after_start(self) -> None:
        """By index-only scans, which leave the table alone: all its pages are all-visible."""
        if not self._wanted:
            return
        with self._run.server.connect() as connection:
            connection.execute("SET pg_lookahead.enabled = off; SET enable_seqscan = off")
            for table, column in self._wanted:
                connection.execute(
                    f"SELECT count(*) FROM (SELECT {column} FROM {table} "
                    f"WHERE {column} >= 0 ORDER BY {column}) q"
                )


def measure(run: Run, wanted: Joins, also: tuple[Factor, ...] = ()) -> None:
    """Make the tables, then take all samples; `also` names what else holds for all scenarios."""
    methods, warming = available_methods(run, wanted.io_method), _Warming(run)
    trials = Trials(run, on_start=warming.after_start)
    _prepare(run, trials, wanted, methods[0])
    for method in methods:
        for name in wanted.shape:
            shape = SHAPES[name]
            for temperature in shape.temperatures:
                trial = trial_of(name, temperature, wanted.rows, method, also)
                if not trial.cold:
                    run.server.restart(trial.server)
                with warming.of(shape, temperature):
                    trials.measure_all([trial], wanted.repetitions * shape.rounds_factor)


def _prepare(run: Run, trials: Trials, wanted: Joins, method: str) -> None:
    pages, seed = wanted.table_pages, run.document.parameters.seed
    size = table_bytes(pages) / 1e9
    run.terminal.step(f"making an inner table of {pages:,} pages ({size:.1f} GB)")
    leaves = LEAVES if PARTITIONS in wanted.shape else ()
    relations = (OUTER, INNER, TENS_INDEX, *leaves, *map(_key_index, (INNER, *leaves)))
    with table_session(run, {"io_method": method}, relations) as connection:
        connection.execute("SET work_mem = '256MB'")
        for table in build_tables(connection, pages, wanted.rows, seed):
            trials.add_table(table)
        if leaves:
            for table in build_partitions(connection, pages):
                trials.add_table(table)


def build_tables(connection: Session, pages: int, rows: int, seed: int) -> Iterator[Table]:
    """Make the inner and the outer table; LabError when the layout is not the intended one."""
    width, total = PAD_BYTES - _TENS_BYTES, pages * ROWS_PER_PAGE
    inner = fill_table(
        connection,
        INNER,
        _INNER_COLUMNS,
        f"INSERT INTO {INNER} SELECT id, k, k / {_ROWS_EACH}, "
        f"left(repeat(md5(id::text), {width // 32 + 1}), {width}) "
        f"FROM {keys_in_random_order(pages, seed)}",
        _index_of_key(INNER),
        f"CREATE INDEX {TENS_INDEX} ON {INNER} (tens, k)",
    )
    yield check_layout(connection, inner, pages=pages, rows=total)
    key = f"((hashint8extended(n, {seed}) & 2147483647) % {total})::int"
    yield fill_table(
        connection,
        OUTER,
        "n int, k int, tens int, missing int, few int",
        f"INSERT INTO {OUTER} SELECT n, k, k / {_ROWS_EACH}, "
        f"CASE WHEN n % 4 = 0 THEN k + {total} ELSE k END, "
        f"((hashint8extended(n % {rows // _SAME_VALUE}, {seed}) & 2147483647) % {total})::int "
        f"FROM (SELECT n, {key} AS k FROM generate_series(0, {rows - 1}) AS n) AS drawn",
    )


def build_partitions(connection: Session, pages: int) -> Iterator[Table]:
    """Copy the inner table to ranges of its key, whose rows are in the same random order."""
    total = pages * ROWS_PER_PAGE
    connection.execute(f"CREATE TABLE {PARTED} ({_INNER_COLUMNS}) PARTITION BY RANGE (k)")
    for number, leaf in enumerate(LEAVES):
        first, end = (total * part // len(LEAVES) for part in (number, number + 1))
        table = fill_table(
            connection,
            leaf,
            _INNER_COLUMNS,
            f"INSERT INTO {leaf} SELECT * FROM {INNER} WHERE k >= {first} AND k < {end} "
            "ORDER BY id",
            _index_of_key(leaf),
        )
        rows = end - first
        yield check_layout(connection, table, pages=-(-rows // ROWS_PER_PAGE), rows=rows)
        connection.execute(
            f"ALTER TABLE {PARTED} ATTACH PARTITION {leaf} FOR VALUES FROM ({first}) TO ({end})"
        )
    connection.execute(_index_of_key(PARTED))  # takes the indexes that its partitions have
    connection.execute(f"ANALYZE {PARTED}")


def _key_index(table: str) -> str:
    return f"{table}_k"


def _index_of_key(table: str) -> str:
    return f"CREATE UNIQUE INDEX {_key_index(table)} ON {table} (k)"


def trial_of(
    name: str, temperature: str, rows: int, method: str, also: tuple[Factor, ...] = ()
) -> Trial:
    """A join by stock's nested loop and by ours."""
    shape = SHAPES[name]
    factors = (Factor("join", name), Factor("data", temperature), Factor("I/O method", method))
    scenario = Scenario((*factors, *also))
    ours = {"pg_lookahead.enable_join_prefetch": "on"}
    arms = (
        _arm(shape, arm_of(STOCK, NESTED_LOOP)),
        _arm(shape, arm_of(OURS, NESTED_LOOP, "on", ours)),
    )
    stock, ahead = (arm.name for arm in arms)
    return Trial(
        scenario=scenario,
        statement=shape.select,
        arms=arms,
        questions=(Question(scenario, stock, (stock,), (ahead,)),),
        server={"io_method": method},
        prefetched=shape.pages * rows if temperature == _HOT else 0,
        cold=temperature != _CACHED,
        compared=(stock, ahead),
        executions=_CACHED_EXECUTIONS if temperature == _CACHED else 1,
    )


def _arm(shape: Shape, arm: Arm) -> Arm:
    """With the settings of loops, also for the plan that looks ahead in a shape without one."""
    if shape.plan == NESTED_LOOP:
        return arm
    return replace(arm, name=f"{arm.name} {shape.plan.lower()}", plan=shape.plan)


def join_space(wanted: Joins) -> int:
    """Bytes of the disk that a run needs."""
    return int(_SPACE_FACTOR * _inner_bytes(wanted))


def _inner_bytes(wanted: Joins) -> int:
    """Of the inner table, and of its copy."""
    return table_bytes(wanted.table_pages) * (2 if PARTITIONS in wanted.shape else 1)


def join_seconds(wanted: Joins) -> float:
    """About how long a run takes."""
    seconds = _inner_bytes(wanted) / _BUILD_BYTES_PER_SECOND
    for name in wanted.shape:
        shape = SHAPES[name]
        sample = COLD_RESTART_SECONDS + _ROWS_EACH * wanted.rows * _READ_SECONDS
        samples = 2 * wanted.repetitions * shape.rounds_factor * len(shape.temperatures)
        seconds += len(wanted.io_method) * samples * sample
    return seconds


EXPERIMENT = Experiment(
    name="joins",
    summary="Cold nested loops and correlated subqueries that look up rows by an index.",
    description="By primary key, ten rows each, three tables, one of eight partitions each, left, "
    "semi and anti joins, Memoize, LATERAL with LIMIT, subqueries, LIMIT; with the index cold and "
    "hot, and cached. Hash and merge joins are off in both arms.",
    asked=Joins,
    needed_bytes=join_space,
    estimated_seconds=join_seconds,
    measure=measure,
)
