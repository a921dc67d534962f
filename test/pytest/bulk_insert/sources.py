"""Random queries that give the rows of an insert: `count` of them, of i = `first` and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from bulk_insert.columns import Column
from bulk_insert.tables import TABLE, Table

_MOST_VALUES = 120
DIVISION = "/ (i - i)"


@dataclass(frozen=True)
class Source:
    """`making` fills the tables that `query` reads."""

    kind: str
    making: Sequence[str]
    query: str


def random_source(rng: Random, table: Table, first: int, fault: str) -> Source:
    """`fault` is an expression for the key, `i` where no row is faulty."""
    kinds = list(_KINDS)
    if table.in_order and not table.unique and fault == "i":
        kinds.append("self")
    kind = rng.choice(kinds)
    if kind == "self":
        names = ", ".join(column.name for column in table.inserted)
        return Source(kind, [], f"SELECT {names} FROM {TABLE}")
    columns = [_faulty(column, fault) for column in table.inserted]
    return _KINDS[kind](kind, columns, first, table.rows)


def _faulty(column: Column, fault: str) -> tuple[Column, str]:
    assert column.value is not None
    return column, fault if column.value == "i" and column.name == "k" else column.value


_Values = Sequence[tuple[Column, str]]


def _values(columns: _Values) -> str:
    return ", ".join(f"{value} AS {column.name}" for column, value in columns)


def _names(columns: _Values) -> str:
    return ", ".join(column.name for column, _ in columns)


def _rows(first: int, count: int) -> str:
    return f"generate_series({first}, {first + count - 1}) i"


def _series(kind: str, columns: _Values, first: int, count: int) -> Source:
    rows = _rows(first, count)
    queries = {
        "series": f"SELECT {_values(columns)} FROM {rows}",
        "sorted series": f"SELECT {_values(columns)} FROM {rows} ORDER BY i DESC",
        "union": f"SELECT {_values(columns)} FROM {_rows(first, count // 2)} UNION ALL "
        f"SELECT {_values(columns)} FROM {_rows(first + count // 2, count - count // 2)}",
        "limit": f"SELECT {_values(columns)} FROM {_rows(first, count + 50)} LIMIT {count}",
        "recursive": f"WITH RECURSIVE r (i) AS (SELECT {first} WHERE {count} > 0 UNION ALL "
        f"SELECT i + 1 FROM r WHERE i < {first + count - 1}) SELECT {_values(columns)} FROM r",
        "offset": f"SELECT * FROM (SELECT {_values(columns)} FROM {rows} OFFSET 0) o",
    }
    return Source(kind, [], queries[kind])


def _of_values(kind: str, columns: _Values, first: int, count: int) -> Source:
    rows = []
    for i in range(first, first + min(count, _MOST_VALUES)):
        values = (re.sub(r"\bi\b", f"{i}", value) for _, value in columns)
        rows.append(f"({', '.join(values)})")
    return (
        Source(kind, [], "VALUES " + ", ".join(rows))
        if rows
        else _series("series", columns, first, 0)
    )


def _stored(kind: str, columns: _Values, first: int, count: int) -> Source:
    """Rows of a table that has the columns in their order, and storage of its own."""
    key, fault = columns[0]
    if DIVISION in fault:
        # Not while the table is filled.
        kind = "projection"
        columns = [(key, "i"), *columns[1:]]
    definition = ", ".join(f"{column.name} {_source_type(column)}" for column, _ in columns)
    making = [
        f"CREATE TABLE s ({definition})",
        f"INSERT INTO s SELECT {_values(columns)} FROM {_rows(first, count)}",
    ]
    names = _names(columns)
    queries = {
        "scan": f"SELECT {names} FROM s",
        "projection": f"SELECT {_projected(columns, fault)} FROM s",
        "sort": f"SELECT {names} FROM s ORDER BY {names.split(',')[0]} DESC NULLS LAST",
        "junk": f"SELECT {names} FROM s ORDER BY md5(k::text), k",
        "join": f"SELECT {names} FROM s JOIN {_rows(first, count)} ON i = s.k",
        "with": f"WITH m AS MATERIALIZED (SELECT {names} FROM s) SELECT * FROM m",
        "filter": f"SELECT {names} FROM s WHERE k % 7 <> 3 OR k IS NULL",
        "window": f"SELECT {names} FROM (SELECT *, row_number() OVER (ORDER BY k) r FROM s) o",
        "narrower": f"SELECT {names} FROM s",
    }
    if kind == "narrower":
        # Its rows lack the last columns.
        last = columns[-1][0].name
        if len(columns) > 1 and not columns[-1][0].definition.startswith("label"):
            kept = [pair for pair in columns if pair[0].name != last]
            short = ", ".join(f"{column.name} {_source_type(column)}" for column, _ in kept)
            making = [
                f"CREATE TABLE s ({short})",
                f"INSERT INTO s SELECT {_values(kept)} FROM {_rows(first, count)}",
                f"ALTER TABLE s ADD {last} {_source_type(columns[-1][0])}",
            ]
    return Source(kind, making, queries[kind])


def _source_type(column: Column) -> str:
    return f"text STORAGE {column.storage}" if column.is_text else column.type


def _projected(columns: _Values, fault: str) -> str:
    """Each value by an expression, which the executor computes; the key's may fail."""
    values = [f"coalesce({column.name}, NULL)" for column, _ in columns]
    if DIVISION in fault:
        values[0] = re.sub(r"\bi\b", columns[0][0].name, fault)
    return ", ".join(values)


_KINDS: dict[str, Callable[[str, _Values, int, int], Source]] = {
    "series": _series,
    "sorted series": _series,
    "union": _series,
    "limit": _series,
    "recursive": _series,
    "offset": _series,
    "values": _of_values,
    "scan": _stored,
    "projection": _stored,
    "sort": _stored,
    "junk": _stored,
    "join": _stored,
    "with": _stored,
    "filter": _stored,
    "window": _stored,
    "narrower": _stored,
}
