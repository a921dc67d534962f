"""Random tables to index: their columns, how they are filled, and what their rows went through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from differential.schema import ARRANGEMENTS, PERSISTENCE

from index_build.key_types import KEY_TYPES, WIDE_TEXTS, KeyType

# Rows, and how often. Most tables span several leaf pages, some levels of internal pages.
_SIZES = ((0, 1), (1, 1), (2, 1), (40, 2), (700, 5), (4000, 8), (40_000, 1))
_MAX_WIDE_ROWS = 700


@dataclass(frozen=True)
class Column:
    """A column of `domain` distinct values; NULLs and special values in sixteenths of the rows."""

    name: str
    type: KeyType
    variant: str
    collation: str
    domain: int
    arrangement: str
    salt: int
    nulls: int
    specials: int

    def definition(self) -> str:
        """The column as it stands in CREATE TABLE."""
        collation = f" COLLATE {self.collation}" if self.collation else ""
        return f"{self.name} {self.type.name}{collation}"

    def value(self, rows: int) -> str:
        """SQL that computes the column from the row number `i`."""
        key = ARRANGEMENTS[self.arrangement].format(d=self.domain, n=max(rows, 1), salt=self.salt)
        cases = []
        if self.nulls:
            cases.append(f"WHEN (hashint4(i + {self.salt + 1}) & 15) < {self.nulls} THEN NULL")
        if self.specials and self.type.specials:
            choices = [f"({value})::{self.type.name}" for value in self.type.specials]
            pick = f"1 + (hashint4(i + {self.salt + 3}) & 1023) % {len(choices)}"
            chosen = f"(ARRAY[{', '.join(choices)}])[{pick}]"
            if self.type.name.endswith("[]"):  # an array of arrays would be something else
                chosen = choices[self.salt % len(choices)]
            cases.append(
                f"WHEN (hashint4(i + {self.salt + 2}) & 15) < {self.specials} THEN {chosen}"
            )
        stored = f"({self.variant.format(v=key)})::{self.type.name}"
        return f"CASE {' '.join(cases)} ELSE {stored} END" if cases else stored


@dataclass(frozen=True)
class Table:
    """A table with an `id` (the row's number), its key columns, a payload and a pad."""

    name: str
    rows: int
    columns: tuple[Column, ...]
    persistence: str
    fillfactor: int
    pad_bytes: int
    drops_column: bool

    @property
    def is_temporary(self) -> bool:
        return self.persistence == "TEMPORARY"

    def definition(self) -> list[str]:
        """Statements that make the table, empty."""
        columns = ", ".join(column.definition() for column in self.columns)
        dropped = "gone text, " if self.drops_column else ""
        statements = [
            f"CREATE {self.persistence} TABLE {self.name} "
            f"(id int, {dropped}{columns}, payload int, pad text) "
            f"WITH (fillfactor = {self.fillfactor}, autovacuum_enabled = off)"
        ]
        if self.drops_column:
            statements.append(f"ALTER TABLE {self.name} DROP COLUMN gone")
        return statements

    def insert(self, first: int, rows: int) -> str:
        """INSERT of the rows numbered from `first` on."""
        names = ", ".join(column.name for column in self.columns)
        values = ", ".join(column.value(self.rows) for column in self.columns)
        return (
            f"INSERT INTO {self.name} (id, {names}, payload, pad) SELECT i, {values}, i % 7, "
            f"repeat('x', {self.pad_bytes}) FROM generate_series({first}, {first + rows - 1}) i"
        )


def random_column(rng: Random, name: str, rows: int, collations: Sequence[str]) -> Column:
    """A column of any type, with few or many duplicates, in any order."""
    kind = rng.choices(KEY_TYPES, [one.weight for one in KEY_TYPES])[0]
    variants = kind.variants
    if kind.name == "text" and rows <= _MAX_WIDE_ROWS and rng.random() < 0.4:
        variants = WIDE_TEXTS
    size = max(rows, 4)
    return Column(
        name=name,
        type=kind,
        variant=rng.choice(variants),
        collation=rng.choice(collations) if kind.collatable and rng.random() < 0.7 else "",
        domain=rng.choice((2, 5, 201, size // 8 + 1, size // 2 + 1, size, size * 3)),
        arrangement=rng.choice(tuple(ARRANGEMENTS)),
        salt=rng.randrange(1, 1 << 20),
        nulls=rng.choice((0, 0, 1, 3, 8, 16)),
        specials=rng.choice((0, 0, 1, 4)),
    )


def random_table(rng: Random, name: str, collations: Sequence[str]) -> Table:
    """A table of two to five columns."""
    rows = rng.choices(*zip(*_SIZES, strict=True))[0]
    return Table(
        name=name,
        rows=rows,
        columns=tuple(
            random_column(rng, f"c{number}", rows, collations)
            for number in range(rng.randint(2, 5))
        ),
        persistence=rng.choices(PERSISTENCE, (7, 1, 1))[0],
        fillfactor=rng.choice((100, 100, 90, 50)),
        pad_bytes=rng.choice((0, 0, 60, 400)),
        drops_column=rng.random() < 0.2,
    )


def change_keys(rng: Random, table: Table) -> str:
    """UPDATE of a key column of some rows: HOT where there is room and no index."""
    column = rng.choice(table.columns)
    value = "NULL" if rng.random() < 0.2 else column.value(max(table.rows, 1))
    source = f"(SELECT id AS i FROM {table.name} WHERE id % 4 = {rng.randrange(4)}) s"
    return f"UPDATE {table.name} t SET {column.name} = {value} FROM {source} WHERE t.id = s.i + 1"


def random_changes(rng: Random, table: Table) -> list[str]:
    """Statements that insert, update or delete rows."""
    name, part = table.name, rng.randrange(5)
    choices = [
        f"UPDATE {name} SET payload = payload + 1 WHERE id % 5 = {part}",
        change_keys(rng, table),
        f"DELETE FROM {name} WHERE id % 5 = {part}",
        table.insert(table.rows + 1000 * part, table.rows // 5 + 1),
    ]
    return rng.sample(choices, rng.randint(1, 3))


def random_history(rng: Random, table: Table, length: int) -> list[str]:
    """What happens to the rows; each element is sent as one transaction of its own.

    No index hinders HOT updates of key columns: to an old snapshot their chains are broken.
    """
    name = table.name
    history: list[str] = []
    for _ in range(length):
        changes = "; ".join(random_changes(rng, table))
        history += rng.choice(
            (
                [f"SELECT count(payload) FROM {name}"],  # sets hint bits, prunes
                [f"VACUUM {name}"],
                [f"VACUUM (FREEZE) {name}"],
                [changes],
                [changes],
                [f"BEGIN; {changes}; ROLLBACK"],
                [f"BEGIN; {changes}; SAVEPOINT s; {changes}; ROLLBACK TO s; COMMIT"],
                [f"DELETE FROM {name} WHERE id < {table.rows // 5}", f"VACUUM {name}", changes],
                [
                    f"BEGIN; SELECT 1 FROM {name} WHERE id % 6 = 0 FOR KEY SHARE; SAVEPOINT s; "
                    f"SELECT 1 FROM {name} WHERE id % 12 = 0 FOR UPDATE; COMMIT"
                ],
            )
        )
    return history
