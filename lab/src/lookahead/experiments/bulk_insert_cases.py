"""What is inserted, and into what: the parts of the experiment "bulk-insert", as cases.

All cases of a size write about as many bytes. The narrow rows, an ascending integer, a random one
and a text of 37 characters, are 107 to a page; of rows that are nothing but integers there are as
many as take the same pages. Small statements, of a few rows each, have no size.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lookahead.experiments.arms import arm_of
from lookahead.experiments.conditions import BLOCK_BYTES
from lookahead.experiments.experiment import memory_text
from lookahead.measurements import Arm, Factor, Question, Scenario

STOCK, OURS, COPY, NOT_LOADED = "stock", "ours", "COPY BINARY", "not loaded"
TARGET = "lookahead_target"
_VIEW = "lookahead_target_view"
SWITCH = {"pg_lookahead.enable_bulk_insert": "on"}
STOCK_ARM, OUR_ARM = arm_of(STOCK, ""), arm_of(OURS, "", "on", SWITCH)
# Of a page without its header; tuple header with alignment, and line pointer, of each row.
_PAGE_ROOM, _ROW_OVERHEAD, _ALIGNMENT = BLOCK_BYTES - 24, 24 + 4, 8
_PAD_LETTERS = 37
# A table is appended to by one row for so many that it has.
_APPENDED = 5
# Of a statement that are inserted one by one, at most.
SINGLE_ROWS = 32
# The size up to which a table that a query makes is filled by core: 4 MB, and the page at hand.
_FILLED_BY_CORE_KB = 4096 + 8
# Commits do not wait for the device: a loop of small inserts is shorter than that.
_NO_WAIT = {"synchronous_commit": "off"}


def _row_bytes(data_bytes: int) -> int:
    return -(-data_bytes // _ALIGNMENT) * _ALIGNMENT + _ROW_OVERHEAD


@dataclass(frozen=True)
class Source:
    """A table that rows come from; `values` make its columns of the number `i` of a row."""

    name: str
    columns: str
    values: str
    row_bytes: int

    def rows(self, table_kb: int) -> int:
        """As many as a table of this size has."""
        pages = max(table_kb * 1024 // BLOCK_BYTES, 1)
        return pages * (_PAGE_ROOM // self.row_bytes)

    def fill(self, table_kb: int, seed: int) -> str:
        """The statement that fills it."""
        values = self.values.format(seed=seed)
        rows = self.rows(table_kb)
        return f"INSERT INTO {self.name} SELECT {values} FROM generate_series(1, {rows}) AS i"


NARROW = Source(
    "lookahead_rows",
    "id int, random int, pad text",
    f"i, (hashint8extended(i, {{seed}}) >> 32)::int, rpad(md5(i::text), {_PAD_LETTERS}, 'x')",
    _row_bytes(4 + 4 + 1 + _PAD_LETTERS),
)


def wide_source(columns: int) -> Source:
    """A table of so many columns, all of them integers."""
    numbers = range(1, columns + 1)
    return Source(
        f"lookahead_rows_{columns}",
        ", ".join(f"c{number} int" for number in numbers),
        ", ".join(f"i + {number}" for number in numbers),
        _row_bytes(4 * columns),
    )


@dataclass(frozen=True)
class Case:
    """One insert and who executes it.

    `before` makes the state that each sample finds, `after` removes it; `first` is executed once.
    `opening` begins the transaction of `statement`, and is not measured; `statements` replace the
    statement in the arms that they name, and `others` the tables `targets`. In a statement
    `{target}` stands for the table: of several sessions each takes the next one. It inserts `rows`
    in each of `sessions`. Of small ones
    there are so many `executions` in a loop within the server. Our arm inserts at least `batched`
    rows in batches, and builds so many indexes at the end.
    """

    scenario: Scenario
    source: Source | None
    statement: str
    rows: int
    before: tuple[str, ...]
    batched: int
    arms: tuple[Arm, ...] = (STOCK_ARM, OUR_ARM)
    questions: tuple[Question, ...] = ()
    after: str = f"DROP TABLE IF EXISTS {TARGET}"
    targets: tuple[str, ...] = (TARGET,)
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    opening: tuple[str, ...] = ()
    statements: Mapping[str, str] = field(default_factory=dict)
    sessions: int = 1
    executions: int = 1
    built: int = 0
    counts_extents: bool = False

    def tables_of(self, arm: Arm) -> tuple[str, ...]:
        """What the arm fills."""
        return self.others.get(arm.name, self.targets)

    def statement_of(self, arm: Arm, session: int = 0) -> str:
        """What the arm executes in a session, counted from 0."""
        tables = self.tables_of(arm)
        statement = self.statements.get(arm.name, self.statement)
        return statement.replace("{target}", tables[session % len(tables)])


@dataclass(frozen=True)
class Conditions:
    """What cases are made for, sizes in kB; `file` is one that the server can write."""

    table_kb: int
    columns: tuple[int, ...]
    sessions: tuple[int, ...]
    file: Path


def cases_for(parts: Sequence[str], conditions: Conditions) -> list[Case]:
    """The cases of these parts, those that read the same table side by side."""
    found = [case for part in parts for case in _CASES[part](conditions)]
    sources = list(dict.fromkeys(case.source for case in found))
    return sorted(found, key=lambda case: sources.index(case.source))


def _case(
    part: str,
    name: str,
    table_kb: int,
    source: Source = NARROW,
    *indexing: str,
    unlogged: bool = False,
) -> Case:
    """All rows of a source into an empty table that has these indexes."""
    scenario = _scenario(part, name, Factor("table", memory_text(table_kb)))
    rows = source.rows(table_kb)
    return Case(
        scenario=scenario,
        source=source,
        statement=f"INSERT INTO {TARGET} SELECT * FROM {source.name}",
        rows=rows,
        before=_empty_table(source.columns, *indexing, unlogged=unlogged),
        batched=rows - SINGLE_ROWS,
        questions=against(scenario, STOCK),
    )


def _scenario(part: str, name: str, *factors: Factor) -> Scenario:
    return Scenario((Factor("insert", name), Factor("part", part), *factors))


def against(scenario: Scenario, *opponents: str) -> tuple[Question, ...]:
    """Ours against each of these arms."""
    return tuple(Question(scenario, name, (name,), (OURS,)) for name in opponents)


def _empty_table(columns: str, *indexing: str, unlogged: bool = False) -> tuple[str, ...]:
    kind = "UNLOGGED TABLE" if unlogged else "TABLE"
    made = f"CREATE {kind} {TARGET} ({columns})"
    return (f"DROP TABLE IF EXISTS {TARGET}", made, *indexing)


def _flat(conditions: Conditions) -> Iterator[Case]:
    yield _case("flat", "unlogged", conditions.table_kb, unlogged=True)
    yield _case("flat", "logged", conditions.table_kb)


def _columns(conditions: Conditions) -> Iterator[Case]:
    for number in conditions.columns:
        name = f"{number} column{'s' if number > 1 else ''}"
        yield _case("columns", name, conditions.table_kb, wide_source(number))


def name_of(file: Path) -> str:
    """How statements name a file in the server's data directory: anew in each run, which no result
    needs to know. In quotes."""
    return file.name.replace("'", "''")


def _copy(conditions: Conditions) -> Iterator[Case]:
    """From a file of the same rows, by stock."""
    file = str(conditions.file).replace("'", "''")
    for name in ("unlogged", "logged"):
        case = _case("copy", name, conditions.table_kb, unlogged=name == "unlogged")
        yield replace(
            case,
            arms=(arm_of(COPY, ""), OUR_ARM),
            questions=against(case.scenario, COPY),
            first=(f"COPY {NARROW.name} TO '{file}' (FORMAT binary)",),
            statements={COPY: f"COPY {TARGET} FROM '{name_of(conditions.file)}' (FORMAT binary)"},
        )


def _new_table(conditions: Conditions) -> Iterator[Case]:
    for kind, target in (("TABLE", TARGET), ("MATERIALIZED VIEW", _VIEW)):
        drop = f"DROP {kind} IF EXISTS {target}"
        case = _case("new-table", f"CREATE {kind} AS", conditions.table_kb)
        yield replace(
            case,
            batched=max(case.rows - NARROW.rows(_FILLED_BY_CORE_KB), 0),
            statement=f"CREATE {kind} {target} AS SELECT * FROM {NARROW.name}",
            before=(drop,),
            after=drop,
            targets=(target,),
        )
    yield _after_truncate(_case("new-table", "after TRUNCATE", conditions.table_kb))


def _after_truncate(case: Case) -> Case:
    """In a file that the transaction has made."""
    return replace(case, opening=(f"TRUNCATE {TARGET}",))


_RANDOM_INDEX = f"CREATE INDEX ON {TARGET} (random)"
_BOTH_INDEXES = (f"ALTER TABLE {TARGET} ADD PRIMARY KEY (id)", _RANDOM_INDEX)


def _indexes(conditions: Conditions) -> Iterator[Case]:
    size = conditions.table_kb
    yield _case("indexes", "random key", size, NARROW, _RANDOM_INDEX)
    yield _case("indexes", "two indexes", size, NARROW, *_BOTH_INDEXES)
    made = _case("indexes", "two, after TRUNCATE", size, NARROW, *_BOTH_INDEXES)
    yield replace(_after_truncate(made), built=len(_BOTH_INDEXES))
    yield _appending(size)


def _appending(table_kb: int) -> Case:
    """Further rows for a table that is full already; of other random keys than it has."""
    full = _case("indexes", "two, appending a fifth", table_kb, NARROW, *_BOTH_INDEXES)
    rows = max(full.rows // _APPENDED, 1)
    *table, _, _ = full.before
    return replace(
        full,
        statement=f"INSERT INTO {TARGET} SELECT id + {full.rows}, ~random, pad "
        f"FROM {NARROW.name} LIMIT {rows}",
        rows=rows,
        batched=rows - SINGLE_ROWS,
        before=(*table, full.statement, *_BOTH_INDEXES),
    )


# Executions in a loop, by the rows of the statement: of some hundredths of a second.
_SMALL = {1: 20_000, 10: 5_000, 100: 1_000}


def _small(conditions: Conditions) -> Iterator[Case]:
    """Statements that gain nothing, against sessions without the library."""
    for rows, executions in _SMALL.items():
        name = f"VALUES of {rows} row{'s' if rows > 1 else ''}"
        scenario = _scenario("small", name)
        values = ", ".join(f"({row}, {-row}, '{'x' * _PAD_LETTERS}')" for row in range(rows))
        yield Case(
            scenario=scenario,
            source=None,
            statement=f"INSERT INTO {TARGET} VALUES {values}",
            rows=rows,
            before=_empty_table(NARROW.columns),
            batched=max(rows - SINGLE_ROWS, 0),
            arms=(
                arm_of(NOT_LOADED, "", "not loaded", _NO_WAIT),
                arm_of(OURS, "", "on", {**SWITCH, **_NO_WAIT}),
            ),
            questions=against(scenario, NOT_LOADED),
            executions=executions,
        )


def _sessions(conditions: Conditions) -> Iterator[Case]:
    """All sessions together insert as many rows as one."""
    for number in conditions.sessions:
        name = f"{number} session{'s' if number > 1 else ''}"
        case = _case("sessions", name, conditions.table_kb)
        rows = max(case.rows // number, 1)
        yield replace(
            case,
            statement=f"{case.statement} LIMIT {rows}",
            rows=rows,
            batched=rows - SINGLE_ROWS,
            sessions=number,
        )


_CASES: Mapping[str, Callable[[Conditions], Iterator[Case]]] = {
    "flat": _flat,
    "columns": _columns,
    "copy": _copy,
    "new-table": _new_table,
    "indexes": _indexes,
    "small": _small,
    "sessions": _sessions,
}
PARTS = tuple(_CASES)
