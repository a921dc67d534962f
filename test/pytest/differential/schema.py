"""Random tables and indexes.

Everything is described by frozen values first and turned into SQL at the end, so that
the query generators know which literals fall inside a column's domain and which
expressions an index can answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

# A column stores f(k) for small integers k: ``{v}`` is an SQL expression for k. All of
# these are immutable, so a literal becomes an index condition after constant folding.
TYPES: dict[str, str] = {
    "int2": "({v})::int2",
    "int4": "({v})::int4",
    "int8": "(({v})::int8 * 4294967311)",
    "text": "('k' || lpad(({v})::text, 5, '0'))",
    "numeric": "(({v})::numeric * 0.37)",
    "timestamptz": "to_timestamp(({v}) * 3600)",
    "uuid": "md5(({v})::text)::uuid",
    "bool": "(({v}) % 2 = 0)",
}

# How k follows from the row number ``i`` (0..rows-1), for a domain of ``{d}`` values.
ARRANGEMENTS: dict[str, str] = {
    "correlated": "(i % {n} * {d}::int8 / {n})::int4",
    "reverse": "(({n} - 1 - i % {n}) * {d}::int8 / {n})::int4",
    "random": "(hashint4(i + {salt}) & 2147483647) % {d}",
    "runs": "((i / 37) * 7919) % {d}",
    "skewed": "(hashint4(i + {salt}) & 2147483647) "
    "% (1 + (hashint4(i * 3 + {salt}) & 2147483647) % {d})",
    "constant": "{d} - 1",
}

PERSISTENCE = ("", "UNLOGGED", "TEMPORARY")
SHAPES = ("plain", "partitioned", "inherited")


@dataclass(frozen=True)
class Column:
    """One column; ``domain`` is the number of distinct values, ``nulls`` in sixteenths."""

    name: str
    type: str
    domain: int
    arrangement: str
    salt: int
    nulls: int

    def literal(self, rng: Random) -> str:
        """A constant of the column's type, now and then outside of its domain."""
        key = (
            rng.randrange(self.domain) if rng.random() < 0.93 else rng.choice((-3, self.domain + 3))
        )
        return TYPES[self.type].format(v=key)

    def value(self, rows: int) -> str:
        """SQL that computes the column from the row number ``i``."""
        key = ARRANGEMENTS[self.arrangement].format(d=self.domain, n=max(rows, 1), salt=self.salt)
        stored = TYPES[self.type].format(v=key)
        if self.nulls == 0:
            return stored
        is_null = f"(hashint4(i + {self.salt + 1}) & 15) < {self.nulls}"
        return f"CASE WHEN {is_null} THEN NULL ELSE {stored} END"


@dataclass(frozen=True)
class Key:
    """One key of an index: ``expression`` holds ``{q}`` where a table alias may stand."""

    expression: str
    type: str
    literal: Callable[[Random], str]
    distinct: int
    descending: bool = False
    nulls_first: bool = False

    @property
    def is_column(self) -> bool:
        """Whether the key is a column and not an expression over one."""
        return self.expression.startswith("{q}")

    def sql(self, alias: str) -> str:
        """The key written for a table known as ``alias``."""
        return self.expression.format(q=f"{alias}.")

    def definition(self) -> str:
        """The key as it stands in CREATE INDEX."""
        direction = "DESC" if self.descending else "ASC"
        nulls = "FIRST" if self.nulls_first else "LAST"
        return f"{self.expression.format(q='')} {direction} NULLS {nulls}"

    def order(self, alias: str, backward: bool) -> str:
        """ORDER BY element that the index yields when read forward or backward."""
        direction = "DESC" if self.descending != backward else "ASC"
        nulls = "FIRST" if self.nulls_first != backward else "LAST"
        return f"{self.sql(alias)} {direction} NULLS {nulls}"


@dataclass(frozen=True)
class Index:
    """An index; ``predicate`` holds ``{q}`` like a key's expression.

    A btree, or with one plain column as its key a BRIN, hash or SP-GiST index.
    """

    name: str
    keys: tuple[Key, ...]
    method: str = "btree"
    unique: bool = False
    include: tuple[str, ...] = ()
    predicate: str = ""
    options: str = ""

    def create(self, table: str) -> str:
        """The CREATE INDEX statement."""
        if self.method != "btree":
            key = self.keys[0].expression.format(q="")
            other = f"CREATE INDEX {self.name} ON {table} USING {self.method} ({key})"
            return f"{other} WITH ({self.options})" if self.options else other
        unique = "UNIQUE " if self.unique else ""
        keys = ", ".join(key.definition() for key in self.keys)
        include = f" INCLUDE ({', '.join(self.include)})" if self.include else ""
        options = f" WITH ({self.options})" if self.options else ""
        where = f" WHERE {self.predicate.format(q='')}" if self.predicate else ""
        return f"CREATE {unique}INDEX {self.name} ON {table} ({keys}){include}{options}{where}"


@dataclass(frozen=True)
class Table:
    """A table with its indexes. ``pad_bytes`` widens each row without being TOASTed.

    With ``gist`` there is one more index, on ``point(id, payload)``, with ``gin`` one on an array
    of both.
    """

    name: str
    rows: int
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]
    persistence: str
    shape: str
    pad_bytes: int
    fillfactor: int
    dropped_columns: bool
    gist: bool
    gin: bool
    churn: tuple[str, ...]

    @property
    def is_temporary(self) -> bool:
        return self.persistence == "TEMPORARY"


def random_column(rng: Random, name: str, rows: int) -> Column:
    """A column whose number of duplicates ranges from none to all."""
    kind = rng.choice(tuple(TYPES))
    size = max(rows, 4)
    domain = rng.choice((2, 5, 40, size // 8 + 1, size // 2 + 1, size, size * 3))
    if kind == "bool":
        domain = 2
    if kind == "int2":
        domain = min(domain, 20000)
    return Column(
        name=name,
        type=kind,
        domain=domain,
        arrangement=rng.choices(tuple(ARRANGEMENTS), (3, 2, 6, 2, 2, 1))[0],
        salt=rng.randrange(1, 1 << 20),
        nulls=rng.choice((0, 0, 1, 3, 8)),
    )


def column_key(column: Column) -> Key:
    """The plain key on a column."""
    return Key("{q}" + column.name, column.type, column.literal, column.domain)


def expression_key(rng: Random, column: Column) -> Key:
    """A key that is an expression over one column (the column itself when none fits)."""
    if column.type in ("int4", "int2"):
        divisor = rng.choice((3, 10, 97))
        return Key(
            f"({{q}}{column.name} % {divisor})",
            "int4",
            lambda r: str(r.randrange(divisor)),
            divisor,
        )
    if column.type == "text":
        return Key(
            f"upper({{q}}{column.name})",
            "text",
            lambda r: f"upper({column.literal(r)})",
            column.domain,
        )
    if column.type == "numeric":
        return Key(
            f"floor({{q}}{column.name})",
            "numeric",
            lambda r: f"floor({column.literal(r)})",
            column.domain,
        )
    return column_key(column)


def random_key(rng: Random, column: Column) -> Key:
    """A key on ``column`` with random direction and place of NULLs."""
    base = expression_key(rng, column) if rng.random() < 0.12 else column_key(column)
    descending = rng.random() < 0.3
    nulls_first = descending if rng.random() < 0.8 else not descending
    return replace(base, descending=descending, nulls_first=nulls_first)


def random_predicate(rng: Random, columns: tuple[Column, ...]) -> str:
    """A partial index's condition that keeps a good part of the rows."""
    column = rng.choice(columns)
    return rng.choice(
        (
            "{q}id % 3 <> 0",
            f"{{q}}{column.name} IS NOT NULL",
            f"{{q}}{column.name} >= {TYPES[column.type].format(v=column.domain // 4)}",
            "{q}payload >= 0",
        )
    )


def random_index(rng: Random, name: str, columns: tuple[Column, ...]) -> Index:
    """A btree index over one to three columns, or another one over one column."""
    if rng.random() < 0.25:
        return _other_index(rng, name, rng.choice(columns))
    chosen = rng.sample(columns, rng.choices((1, 2, 3), (5, 4, 2))[0])
    keys = tuple(random_key(rng, column) for column in chosen)
    options = []
    if rng.random() < 0.3:
        options.append(f"fillfactor = {rng.choice((10, 30, 60, 100))}")
    if rng.random() < 0.25:
        options.append("deduplicate_items = off")
    spare = [column.name for column in columns if column not in chosen]
    return Index(
        name,
        keys,
        include=(rng.choice(spare),) if spare and rng.random() < 0.15 else (),
        predicate=random_predicate(rng, columns) if rng.random() < 0.15 else "",
        options=", ".join(options),
    )


def _other_index(rng: Random, name: str, column: Column) -> Index:
    """An index over one column that is no btree."""
    key = (column_key(column),)
    if column.type != "bool" and rng.random() < 0.4:
        return Index(name, key, "brin", options=f"pages_per_range = {rng.choice((1, 3, 16, 128))}")
    method = "spgist" if column.type == "text" and rng.random() < 0.7 else "hash"
    return Index(name, key, method)


def random_table(rng: Random, name: str, *, scale: int) -> Table:
    """A table of nothing, one row, one page or many pages; ``scale`` caps its rows."""
    rows = rng.choices((0, 1, 40, 700, scale), (1, 1, 2, 6, 10))[0]
    columns = tuple(random_column(rng, f"c{n}", rows) for n in range(rng.randint(2, 5)))
    shape = rng.choices(SHAPES, (8, 2, 1))[0]
    identity = Column("id", "int4", max(rows, 2), "correlated", 1, 0)
    indexes = [Index(f"{name}_id", (column_key(identity),), unique=shape == "plain")]
    indexes += [
        random_index(rng, f"{name}_i{n}", (*columns, identity)) for n in range(rng.randint(2, 5))
    ]
    return Table(
        name=name,
        rows=rows,
        columns=columns,
        indexes=tuple(indexes),
        persistence=rng.choices(PERSISTENCE, (7, 2, 2))[0],
        shape=shape,
        pad_bytes=rng.choice((0, 60, 400, 1200, 1800)),
        fillfactor=rng.choice((100, 100, 90, 50, 20)),
        dropped_columns=rng.random() < 0.25,
        gist=rng.random() < 0.4,
        gin=rng.random() < 0.4,
        churn=tuple(rng.choices(CHURN, k=rng.randint(0, 5))),
    )


# What happens to a table after it is filled; population.py gives the SQL.
CHURN = (
    "hot_update",
    "hot_update",
    "key_update",
    "delete_some",
    "delete_range",
    "aborted_insert",
    "aborted_update",
    "vacuum",
    "refill",
    "lock_rows",
    "set_hints",
)
