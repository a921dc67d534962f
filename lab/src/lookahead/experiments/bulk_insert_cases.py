"""What is inserted, and into what: the parts of the experiment "bulk-insert", as cases.

All cases of a size write about as many bytes. The rows, an ascending integer, a random one and a
text of 37 characters, are 107 to a page.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lookahead.experiments.arms import arm_of
from lookahead.experiments.conditions import BLOCK_BYTES
from lookahead.experiments.experiment import memory_text
from lookahead.measurements import Arm, Factor, Question, Scenario

STOCK, OURS = "stock", "ours"
TARGET = "lookahead_target"
_VIEW = "lookahead_target_view"
SWITCH = {"pg_lookahead.enable_bulk_insert": "on"}
STOCK_ARM, OUR_ARM = arm_of(STOCK, ""), arm_of(OURS, "", "on", SWITCH)
# Of a page without its header; tuple header with alignment, and line pointer, of each row.
_PAGE_ROOM, _ROW_OVERHEAD, _ALIGNMENT = BLOCK_BYTES - 24, 24 + 4, 8
PAD_LETTERS = 37
# A table is appended to by one row for so many that it has.
_APPENDED = 5
# Of a statement that are inserted one by one, at most.
SINGLE_ROWS = 32
# The size up to which a table that a query makes is filled by core, at most: 4 MB, and the pages
# by which core extends it in advance (MAX_BUFFERS_TO_EXTEND_BY of hio.c).
_FILLED_BY_CORE_KB = 4096 + 64 * 8


def row_bytes(data_bytes: int) -> int:
    """Of a row with so many bytes of data, whatever belongs to it on its page."""
    return -(-data_bytes // _ALIGNMENT) * _ALIGNMENT + _ROW_OVERHEAD


@dataclass(frozen=True)
class Source:
    """A table that rows come from; `values` make its columns of the number `i` of a row."""

    name: str
    columns: str
    values: str
    row_bytes: int

    def rows(self, table_kb: int) -> int:
        pages = max(table_kb * 1024 // BLOCK_BYTES, 1)
        return pages * (_PAGE_ROOM // self.row_bytes)

    def fill(self, table_kb: int, seed: int) -> str:
        values = self.values.format(seed=seed)
        rows = self.rows(table_kb)
        return f"INSERT INTO {self.name} SELECT {values} FROM generate_series(1, {rows}) AS i"


NARROW = Source(
    "lookahead_rows",
    "id int, random int, pad text",
    f"i, (hashint8extended(i, {{seed}}) >> 32)::int, rpad(md5(i::text), {PAD_LETTERS}, 'x')",
    row_bytes(4 + 4 + 1 + PAD_LETTERS),
)


@dataclass(frozen=True)
class Case:
    """One insert and who executes it.

    `before` makes the state that each sample finds, `after` removes it. `opening` begins the
    transaction of `statement`, and is not measured. Our arm inserts at least `batched` of the
    `rows` in batches, and builds so many indexes at the end.
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
    opening: tuple[str, ...] = ()
    built: int = 0

    def tables_of(self, arm: Arm) -> tuple[str, ...]:
        return self.targets

    def statement_of(self, arm: Arm) -> str:
        return self.statement


CaseT = TypeVar("CaseT", bound=Case)


def cases_for(parts: Sequence[str], table_kb: int) -> list[Case]:
    """The cases of these parts, of tables of this size."""
    return [case for part in parts for case in _CASES[part](table_kb)]


def insert_all(
    part: str,
    name: str,
    table_kb: int,
    source: Source = NARROW,
    *indexing: str,
    unlogged: bool = False,
) -> Case:
    """All rows of a source into an empty table that has these indexes."""
    scenario = scenario_of(part, name, Factor("table", memory_text(table_kb)))
    rows = source.rows(table_kb)
    return Case(
        scenario=scenario,
        source=source,
        statement=f"INSERT INTO {TARGET} SELECT * FROM {source.name}",
        rows=rows,
        before=empty_table(source.columns, *indexing, unlogged=unlogged),
        batched=rows - SINGLE_ROWS,
        questions=against(scenario, STOCK),
    )


def scenario_of(part: str, name: str, *factors: Factor) -> Scenario:
    return Scenario((Factor("insert", name), Factor("part", part), *factors))


def against(scenario: Scenario, *opponents: str) -> tuple[Question, ...]:
    return tuple(Question(scenario, name, (name,), (OURS,)) for name in opponents)


def empty_table(columns: str, *indexing: str, unlogged: bool = False) -> tuple[str, ...]:
    """What makes the target, with these indexes."""
    kind = "UNLOGGED TABLE" if unlogged else "TABLE"
    made = f"CREATE {kind} {TARGET} ({columns})"
    return (f"DROP TABLE IF EXISTS {TARGET}", made, *indexing)


def _flat(table_kb: int) -> Iterator[Case]:
    yield insert_all("flat", "unlogged", table_kb, unlogged=True)
    yield insert_all("flat", "logged", table_kb)


def _new_table(table_kb: int) -> Iterator[Case]:
    for kind, target in (("TABLE", TARGET), ("MATERIALIZED VIEW", _VIEW)):
        drop = f"DROP {kind} IF EXISTS {target}"
        case = insert_all("new-table", f"CREATE {kind} AS", table_kb)
        yield replace(
            case,
            batched=max(case.rows - NARROW.rows(_FILLED_BY_CORE_KB), 0),
            statement=f"CREATE {kind} {target} AS SELECT * FROM {NARROW.name}",
            before=(drop,),
            after=drop,
            targets=(target,),
        )
    yield _after_truncate(insert_all("new-table", "after TRUNCATE", table_kb))


def _after_truncate(case: Case) -> Case:
    """In a file that the transaction has made."""
    return replace(case, opening=(f"TRUNCATE {TARGET}",))


_RANDOM_INDEX = f"CREATE INDEX ON {TARGET} (random)"
_BOTH_INDEXES = (f"ALTER TABLE {TARGET} ADD PRIMARY KEY (id)", _RANDOM_INDEX)


def _indexes(table_kb: int) -> Iterator[Case]:
    yield insert_all("indexes", "random key", table_kb, NARROW, _RANDOM_INDEX)
    yield insert_all("indexes", "two indexes", table_kb, NARROW, *_BOTH_INDEXES)
    made = insert_all("indexes", "two, after TRUNCATE", table_kb, NARROW, *_BOTH_INDEXES)
    yield replace(_after_truncate(made), built=len(_BOTH_INDEXES))
    yield _appending(table_kb)


def _appending(table_kb: int) -> Case:
    """Further rows for a table that is full already; of other random keys than it has."""
    full = insert_all("indexes", "two, appending a fifth", table_kb, NARROW, *_BOTH_INDEXES)
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


_CASES: Mapping[str, Callable[[int], Iterator[Case]]] = {
    "flat": _flat,
    "new-table": _new_table,
    "indexes": _indexes,
}
PARTS = tuple(_CASES)
