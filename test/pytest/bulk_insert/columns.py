"""Random columns: a type, and an expression for the value of row `i`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

TYPES = (
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE TYPE grade AS ENUM ('low', 'middle', 'high')",
    "CREATE DOMAIN natural_number AS int CHECK (VALUE >= 0)",
    "CREATE DOMAIN label AS text NOT NULL",
)
KEY = "k"

# Type, and value of row i.
_NARROW = (
    ("int", "i * 7919 % 1000"),
    ("bigint", "i::bigint * 4294967311"),
    ("smallint", "(i % 30000)::smallint"),
    ("numeric", "i::numeric / 7"),
    ("float8", "sqrt(i)"),
    ("bool", "i % 3 = 0"),
    ("date", "date '2000-01-01' + i"),
    ("uuid", "md5(i::text)::uuid"),
    ("name", "('n' || i)::name"),
    ('"char"', 'chr(65 + i % 26)::"char"'),
    ("char(20)", "('c' || i)::char(20)"),
    ("bytea", "decode(md5(i::text), 'hex')"),
    ("int[]", "ARRAY[i, NULL, i % 7]"),
    ("text[]", "ARRAY[md5(i::text), 'x']"),
    ("pair", "ROW(i, 'b' || i)::pair"),
    ("grade", "(enum_range(NULL::grade))[abs(i % 3) + 1]"),
    ("grade[]", "enum_range(NULL::grade)"),
    ("varbit", "(i % 8)::bit(3)::varbit"),
    ("bit(11)", "(i % 2048)::bit(11)"),
    ("bit varying(9)", "(i % 512)::bit(9)::bit varying(9)"),
)
# Inserts into tables with such a column are left to PostgreSQL.
_DOMAINS = (
    ("natural_number", "CASE WHEN i % 5 <> 0 THEN abs(i) END::natural_number"),
    ("label", "('l' || i)::label"),
)
_DOMAIN_SHARE = 0.1  # of the tables
# Their values are all of one length.
_FIXED = {"int", "bigint", "smallint", "float8", "bool", "date", "uuid", "name", "char(20)"}
# Bytes of texts. The threshold of toasting is at 2,032 bytes of a row.
_LENGTHS = (1, 31, 126, 127, 300, 900, 1990, 2030, 2100, 4000, 8100, 16_000)
_STORAGES = ("PLAIN", "MAIN", "EXTERNAL", "EXTENDED")
_LONGEST_PLAIN = 900  # of which a page has several, with others beside them


@dataclass(frozen=True)
class Column:
    """`definition` follows the name; `value` is of row `i`, None of a column that gets none."""

    name: str
    definition: str
    value: str | None
    type: str
    storage: str = ""
    bytes: int = 8

    @property
    def is_fixed(self) -> bool:
        """Does it take the same room in every row?"""
        if self.value is None:
            return self.type in _FIXED
        return self.type in _FIXED and "CASE" not in self.value

    @property
    def is_text(self) -> bool:
        return self.type == "text"


def random_columns(rng: Random, compressions: Sequence[str]) -> list[Column]:
    """The key first; mostly a few, sometimes as many as a table may have."""
    count = rng.choices((1, 3, 6, 12, 60, 300, 1590), (4, 12, 12, 8, 2, 1, 0.4))[0]
    columns = [Column(KEY, "int", "i", "int")]
    for number in range(1, count):
        columns.append(_column(rng, f"c{number}", compressions, many=count > 12))
    if rng.random() < _DOMAIN_SHARE:
        type_, value = rng.choice(_DOMAINS)
        columns.insert(1, Column("d0", type_, value, type_, bytes=24))
    if count <= 60:
        columns += _computed(rng)
    return columns


def _column(rng: Random, name: str, compressions: Sequence[str], *, many: bool) -> Column:
    if many:
        type_, value = rng.choice((("int", "i"), ("bool", "true"), ("smallint", "1::smallint")))
        return Column(name, type_, _sometimes_null(rng, value), type_, bytes=4)
    if rng.random() < 0.4:
        return _text(rng, name, compressions)
    type_, value = rng.choice(_NARROW)
    return Column(name, type_, _sometimes_null(rng, value), type_, bytes=24)


def _text(rng: Random, name: str, compressions: Sequence[str]) -> Column:
    storage = rng.choice(_STORAGES)
    length = rng.choice(_LENGTHS)
    if storage == "PLAIN":
        length = min(length, _LONGEST_PLAIN)
    unit = rng.choice(("md5(i::text)", "'abcd'"))
    value = f"left(repeat({unit}, {length // 4 + 1}), {length} - i % 3)"
    if rng.random() < 0.5:
        # Most rows short, a few long.
        value = f"CASE WHEN i % {rng.randint(2, 40)} = 0 THEN {value} ELSE 's' || i END"
    compression = f" COMPRESSION {rng.choice(compressions)}" if rng.random() < 0.4 else ""
    definition = f"text STORAGE {storage}{compression}"
    return Column(name, definition, _sometimes_null(rng, value), "text", storage, length)


def _sometimes_null(rng: Random, value: str) -> str:
    """A value that is missing never, in some rows, or in all."""
    share = rng.choices((0, 3, 16), (6, 3, 1))[0]
    return value if not share else f"CASE WHEN i & 15 >= {share} THEN {value} END"


def _computed(rng: Random) -> list[Column]:
    """Columns that an insert does not name."""
    possible = (
        Column("d1", "int DEFAULT 42", None, "int"),
        Column("d2", "text DEFAULT 'd' || current_date", None, "text"),
        Column("d3", "bigint DEFAULT nextval('numbers')", None, "bigint"),
        Column("g1", "int GENERATED ALWAYS AS (k * 2) STORED", None, "int"),
        Column("g2", "text GENERATED ALWAYS AS (repeat('g', k % 50)) STORED", None, "text"),
        Column("v1", "int GENERATED ALWAYS AS (k + 1) VIRTUAL", None, "int"),
        Column(
            "id", f"int GENERATED {rng.choice(('ALWAYS', 'BY DEFAULT'))} AS IDENTITY", None, "int"
        ),
    )
    return [column for column in possible if rng.random() < 0.15]
