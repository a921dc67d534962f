"""Random COPY statements that give a table the rows of a random file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bulk_insert.columns import KEY, Column
from bulk_insert.tables import TABLE, Table

_FORMATS = ("text", "text", "csv", "csv", "binary")
_NULL = "NIX"
_DEFAULT = "@"


@dataclass(frozen=True)
class Copy:
    """`writing` writes the file that `statement` reads."""

    writing: str
    statement: str


def random_copy(
    rng: Random, table: Table, first: int, path: str, *, fault: str, new_file: bool
) -> Copy:
    """`fault` is an expression for the key. `new_file`: the COPY may ask for FREEZE."""
    columns = list(table.inserted)
    if rng.random() < 0.3:
        rng.shuffle(columns)
    kind = rng.choice(_FORMATS)
    both = [f"FORMAT {kind}"]
    reading = ["FREEZE"] if new_file and not table.partitioned and rng.random() < 0.2 else []
    if kind == "binary":
        values = [_value(column, fault) for column in columns]
        writing = []
    else:
        values = _fields(rng, columns, fault, reading)
        writing = _reading_text(rng, kind, columns, both, reading)
    rows = f"generate_series({first}, {first + table.rows - 1}) i"
    names = [column.name for column in columns]
    named = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
    listed = f" ({', '.join(names)})"
    if names == [column.name for column in table.columns] and rng.random() < 0.5:
        listed = ""
    return Copy(
        f"COPY (SELECT {named} FROM {rows}) TO '{path}' ({', '.join([*both, *writing])})",
        f"COPY {TABLE}{listed} FROM '{path}' ({', '.join([*both, *reading])})",
    )


def _value(column: Column, fault: str) -> str:
    assert column.value is not None
    return fault if column.name == KEY else column.value


def _fields(rng: Random, columns: Sequence[Column], fault: str, reading: list[str]) -> list[str]:
    """Values as texts; adds what `reading` says of them."""
    fields = {column.name: f"({_value(column, fault)})::text" for column in columns}
    if rng.random() < 0.3:
        reading.append(f"DEFAULT '{_DEFAULT}'")
        for name in fields:
            if name != KEY and rng.random() < 0.3 and len(fields) < 100:
                fields[name] = f"CASE WHEN i % 9 = 2 THEN '{_DEFAULT}' ELSE {fields[name]} END"
    return [fields[column.name] for column in columns]


def _reading_text(
    rng: Random, kind: str, columns: Sequence[Column], both: list[str], reading: list[str]
) -> list[str]:
    """Adds options of both statements, and of the reading one; returns those of the writing one."""
    writing = []
    if rng.random() < 0.4:
        both.append(f"NULL '{_NULL}'")
    if rng.random() < 0.4:
        both.append("DELIMITER '|'")
    if rng.random() < 0.2:
        both.append("ENCODING 'latin1'")
    if rng.random() < 0.4:
        writing.append("HEADER")
        reading.append(f"HEADER {rng.choice(('true', 'match'))}")
    if kind == "csv":
        texts = [column.name for column in columns if column.is_text]
        if rng.random() < 0.5:
            writing.append("FORCE_QUOTE *")
        for option in ("FORCE_NULL", "FORCE_NOT_NULL"):
            if texts and rng.random() < 0.3:
                reading.append(f"{option} ({rng.choice(texts)})")
    return writing
