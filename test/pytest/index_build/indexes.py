"""Random btree indexes over a random table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from index_build.tables import Column, Table

INDEX = "twin"


@dataclass(frozen=True)
class Index:
    """An index named `INDEX`; `order` is what ORDER BY has to say to be answered by it."""

    table: str
    keys: tuple[str, ...]
    order: str
    unique: str
    include: str
    predicate: str
    options: str

    def create(self, *, concurrently: bool = False) -> str:
        """The CREATE INDEX statement."""
        mode = "CONCURRENTLY " if concurrently else ""
        unique = "UNIQUE " if self.unique else ""
        nulls = f" {self.unique}" if self.unique.startswith("NULLS") else ""
        include = f" INCLUDE ({self.include})" if self.include else ""
        where = f" WHERE {self.predicate}" if self.predicate else ""
        return (
            f"CREATE {unique}INDEX {mode}{INDEX} ON {self.table} ({', '.join(self.keys)})"
            f"{include}{nulls}{f' WITH ({self.options})' if self.options else ''}{where}"
        )


def random_index(rng: Random, table: Table, collations: Sequence[str]) -> Index:
    """One to four keys; now and then unique, whether the rows are so or not."""
    columns = table.columns
    chosen = rng.sample(columns, min(len(columns), rng.choices((1, 2, 3, 4), (8, 4, 2, 1))[0]))
    parts = [_random_key(rng, column, collations) for column in chosen]
    unique = rng.choices(("", "UNIQUE", "NULLS NOT DISTINCT"), (8, 2, 1))[0]
    if unique and rng.random() < 0.6:
        parts.append(("id", "id"))
    spare = [column.name for column in columns if column not in chosen]
    return Index(
        table=table.name,
        keys=tuple(definition for definition, _ in parts),
        order=", ".join(order for _, order in parts),
        unique=unique,
        include=", ".join(rng.sample(spare, min(len(spare), 2))) if rng.random() < 0.2 else "",
        predicate=_random_predicate(rng, chosen[0]) if rng.random() < 0.2 else "",
        options=_random_options(rng),
    )


def _random_key(rng: Random, column: Column, collations: Sequence[str]) -> tuple[str, str]:
    """A key as CREATE INDEX and as ORDER BY write it."""
    key, opclass = column.name, rng.choice(column.type.opclasses)
    if column.type.expressions and rng.random() < 0.2:
        key, opclass = rng.choice(column.type.expressions).format(c=column.name), ""
    collation = ""
    if column.type.collatable and rng.random() < 0.4:
        collation = f" COLLATE {rng.choice(collations)}"
    descending = rng.random() < 0.35
    nulls_first = descending if rng.random() < 0.7 else not descending
    way = f"{'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
    using = way
    if opclass:
        using = f"USING {'~>~' if descending else '~<~'} NULLS {way.rpartition(' ')[2]}"
    return f"{key}{collation} {opclass} {way}", f"{key}{collation} {using}"


def _random_predicate(rng: Random, column: Column) -> str:
    return rng.choice(
        (
            "id % 3 <> 0",
            f"{column.name} IS NOT NULL",
            f"{column.name} IS NULL",
            "payload > 2",
            "id < 0",
        )
    )


def _random_options(rng: Random) -> str:
    options = []
    if rng.random() < 0.25:
        options.append(f"fillfactor = {rng.choice((10, 33, 70, 100))}")
    if rng.random() < 0.2:
        options.append("deduplicate_items = off")
    return ", ".join(options)
