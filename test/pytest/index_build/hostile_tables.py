"""Tables whose keys lie at the limits of what an index, a chunk of a sort and a page can take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from index_build.key_types import KeyType
from index_build.tables import Column, Table, random_column, random_table

# Bytes at which something ends: short headers of values, what is kept of a sort key, strings kept
# with records, an index row (2704) without and with its header, a chunk of a sort, a page.
_LIMITS = (126, 256, 1016, 2000, 2692, 2704, 8160, 8172, 8191)
_NEAR = 33  # lengths around a limit
_PREFIX_BYTES = (8, 16, 100, 156, 900, 2600, 8000)
# No two values of these digits are alike, and nothing of them can be compressed away.
_DIGITS = (
    "(SELECT string_agg(md5(({{v}})::text || j), '' ORDER BY j) FROM generate_series(1, {n}) j)"
)
_COMMON = "(SELECT string_agg(md5(j::text), '' ORDER BY j) FROM generate_series(1, 250) j)"
_TAILS = ("({v})", "md5(({v})::text)", "(({v}) % 7)", "lpad(({v})::text, 9, '0')")
_STORAGES = ("EXTENDED", "EXTENDED", "EXTERNAL", "MAIN", "PLAIN")
_PLAIN_BYTES = 3500  # twice as much and a row does not fit into its page
_MAX_INT = 2**31 - 1

_OPCLASSES = ("", "", "", "text_pattern_ops")
_TEXT = KeyType(
    "text",
    (),
    ("''", "chr(1)", "repeat('b', 3000)", "repeat('x', 255)"),
    ("(upper({c}))", "(left({c}, 300))", "({c} || 'x')", "(md5({c}))"),
    _OPCLASSES,
    collatable=True,
)
_VARCHAR = replace(_TEXT, name="varchar", opclasses=("", "varchar_pattern_ops"))
_BYTEA = KeyType("bytea", (), ("''", "'\\x00'", "'\\xff'"), ("(substr({c}, 1, 300))",))
_NUMERIC = KeyType("numeric", (), ("'NaN'", "'Infinity'", "0"), ("(-{c})",))


@dataclass(frozen=True)
class Shape:
    """SQL that makes a text of an integer `{v}`, how many bytes that takes, and the longest."""

    variant: str
    bytes: int
    longest: int


@dataclass(frozen=True)
class HostileTable:
    """A table, and the statements that come between its definition and its rows."""

    table: Table
    storage: tuple[str, ...]

    def statements(self) -> list[str]:
        """What makes the table, rows and all."""
        return [
            *self.table.definition(),
            *self.storage,
            self.table.insert(0, self.table.rows),
        ]


def _near_a_limit(rng: Random) -> Shape:
    limit = rng.choice(_LIMITS)
    digits = _DIGITS.format(n=limit // 32 + 2)
    return Shape(f"left({digits}, {limit - _NEAR + 8} + ({{v}}) % {_NEAR})", 4 * limit, limit + 8)


def _common_prefix(rng: Random) -> Shape:
    size = rng.choice(_PREFIX_BYTES)
    prefix = rng.choice((f"repeat('b', {size})", f"left({_COMMON}, {size})"))
    return Shape(f"({prefix} || {rng.choice(_TAILS)})", size + 20, size + 32)


def _prefixes_of_each_other(rng: Random) -> Shape:
    return rng.choice(
        (
            # Sorted word by word, these are as many steps deep as the longest is long.
            Shape("(repeat('k', ({v}) % 900) || ({v}))", 450, 910),
            Shape("(repeat('b', 8 * (({v}) % 4000)) || 'a')", 8000, 32_000),
            Shape("repeat('c', ({v}) % 2600)", 1300, 2600),
            Shape("(repeat('ab', ({v}) % 70) || md5(({v})::text))", 150, 172),
            # Each is compressed to a few hundred bytes.
            Shape("(repeat('b', 30000) || ({v}))", 30_000, 30_010),
        )
    )


def _few_or_none(rng: Random) -> Shape:
    return rng.choice(
        (
            Shape("'same'", 10, 10),
            Shape("''", 10, 10),
            Shape("NULL::text", 10, 10),
            Shape("repeat('same', 500)", 50, 2000),
            Shape("md5((({v}) % 3)::text)", 50, 32),
            Shape("md5(({v})::text)", 50, 32),
        )
    )


def _mixed(rng: Random) -> Shape:
    """Inline, compressed and external values side by side."""
    parts = [_plain_shape(rng) for _ in range(3)]
    cases = " ".join(f"WHEN {n} THEN {part.variant}" for n, part in enumerate(parts))
    cost = sum(part.bytes for part in parts) // len(parts) + 1
    longest = max(part.longest for part in parts)
    return Shape(f"(CASE ({{v}}) % 3 {cases} END)", cost, longest)


def _plain_shape(rng: Random) -> Shape:
    makers = (_near_a_limit, _common_prefix, _prefixes_of_each_other, _few_or_none)
    return rng.choices(makers, (3, 4, 5, 2))[0](rng)


def _hostile_column(rng: Random, name: str, shape: Shape, column: Column) -> Column:
    """`column` with the values of a shape; its arrangement decides which and in what order."""
    kind = rng.choices((_TEXT, _VARCHAR, _BYTEA, _NUMERIC), (8, 2, 2, 1))[0]
    variant = shape.variant
    if kind is _BYTEA:
        variant = f"convert_to({variant}, 'UTF8')"
    elif kind is _NUMERIC:
        # As many digits as the text has bytes, the last ones of them the row's own.
        variant = f"(('1' || repeat('7', octet_length({variant}) % 3000))::numeric + ({{v}}))"
    return replace(
        column,
        name=name,
        type=kind,
        variant=variant,
        collation=column.collation if kind.collatable else "",
    )


def random_hostile_table(
    rng: Random, name: str, collations: Sequence[str], most_bytes: int
) -> HostileTable:
    """One or two hostile columns among ordinary ones; about `most_bytes` to make at most."""
    ordinary = random_table(rng, name, collations)
    shapes = [_mixed(rng) if rng.random() < 0.3 else _plain_shape(rng) for _ in range(2)]
    shapes = shapes[: rng.randint(1, 2)]
    row_bytes = 60 + sum(shape.bytes for shape in shapes)
    rows = min(rng.choice((300, 3000, 12_000, 60_000, 400_000)), most_bytes // row_bytes)
    columns: list[Column] = []
    storage: list[str] = []
    for number, shape in enumerate(shapes):
        column = random_column(rng, f"h{number}", rows, collations)
        if rng.random() < 0.5:  # mostly all different
            column = replace(column, domain=max(rows, 4), nulls=0)
        columns.append(_hostile_column(rng, f"h{number}", shape, replace(column, collation="")))
        kind = rng.choice(_STORAGES)
        if columns[-1].type is _NUMERIC or (kind == "PLAIN" and shape.longest > _PLAIN_BYTES):
            kind = "EXTENDED" if columns[-1].type is not _NUMERIC else "MAIN"
        storage.append(f"ALTER TABLE {name} ALTER COLUMN h{number} SET STORAGE {kind}")
    columns += [
        random_column(rng, f"c{n}", rows, collations) for n in range(rng.choice((0, 0, 1, 2)))
    ]
    computable = tuple(_computable(column, rows) for column in columns)
    table = replace(ordinary, rows=rows, columns=computable, pad_bytes=0)
    return HostileTable(table, tuple(storage))


def _computable(column: Column, rows: int) -> Column:
    """Without an arrangement that multiplies beyond an int."""
    product = column.arrangement in ("correlated", "reverse")
    if product and rows * column.domain > _MAX_INT:
        return replace(column, arrangement="random")
    return column
