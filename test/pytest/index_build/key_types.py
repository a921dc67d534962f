"""Types of index keys, and SQL that makes values of them from integers.

A variant is an expression of `{v}`, an integer from 0 on; which values are near each other, alike
or hard to compare is what the variants differ in. Special values are mixed in by the table.
"""

from __future__ import annotations

from dataclasses import dataclass

# Hexadecimal digits of hashes hold nothing that could be compressed away.
_LONG = "(SELECT string_agg(md5(({{v}})::text || j), '' ORDER BY j) FROM generate_series(1, {n}) j)"
_MAX_KEY_BYTES = 2692  # an index row of 2704 without its header and the length of the text


@dataclass(frozen=True)
class KeyType:
    """A column's type. `expressions` are index expressions of a column `{c}`."""

    name: str
    variants: tuple[str, ...]
    specials: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()
    opclasses: tuple[str, ...] = ("",)
    collatable: bool = False
    weight: int = 2


def _wide(low: int, spread: int) -> str:
    """Texts of `low` to `low + spread - 1` characters that do not compress."""
    return f"left({_LONG.format(n=low // 32 + 8)}, {low} + ({{v}}) % {spread})"


_TEXTS = (
    "('user_' || lpad(({v})::text, 8, '0'))",
    "md5(({v})::text)",
    "left(md5(({v})::text), ({v}) % 33)",
    "(repeat('common prefix ', 3) || ({v})::text)",
    "(chr(65 + ({v}) % 26) || chr(224 + ({v}) % 31) || chr(97 + ({v}) % 7) || ({v}) / 9)",
    "(CASE ({v}) % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'A' ELSE 'á' END || ({v}) / 3)",
    "(chr(1 + ({v}) % 120) || chr(128512 + ({v}) % 40))",
    # Compressed in the table and in the index; kept out of line, then cut to fit.
    "repeat(md5(({v})::text), 1 + ({v}) % 200)",
)
WIDE_TEXTS = (
    _wide(400, 40),
    _wide(_MAX_KEY_BYTES - 90, 91),
    # Some exceed the limit by a few bytes.
    _wide(_MAX_KEY_BYTES - 90, 94),
)
_TEXT_SPECIALS = ("''", "' '", "chr(1)", "'ÿ'", "'zzzzzzzzzzzzzzzz'", "repeat('x', 2000)")
_SECONDS = "({v}) * interval '97.300001 s'"
_TIMES = ("'infinity'", "'-infinity'", "'epoch'")
_FLOATS = ("'NaN'", "'-0'", "'0'", "'Infinity'", "'-Infinity'", "'1e-40'", "'-3.4e38'")

KEY_TYPES = (
    KeyType(
        "int2",
        ("(({v}) % 60000 - 30000)::int2", "(({v}) % 200)::int2"),
        ("-32768", "32767", "0"),
        ("({c} % 10)", "(-{c}::int4)"),
    ),
    KeyType(
        "int4",
        ("({v})", "(({v}) % 60000 * 71582::int8 - 2147483648)::int4"),
        ("-2147483648", "2147483647", "0", "-1"),
        ("({c} % 97)", "({c} / 3)", "({c}::text)"),
        weight=4,
    ),
    KeyType(
        "int8",
        ("({v})::int8", "(({v}) % 60000 * 153722867280912 - 4611686018427387904)"),
        ("-9223372036854775808", "9223372036854775807", "0", "-1"),
        ("({c} % 1000)", "({c} # 255)"),
        weight=5,
    ),
    KeyType("oid", ("({v})::int8::oid",), ("0", "4294967295", "2147483648")),
    KeyType("bool", ("(({v}) % 2 = 0)",), (), ("(NOT {c})",)),
    KeyType(
        "date", ("(date '1990-01-01' + ({v}))",), ("'infinity'", "'-infinity'", "'4713-01-01 BC'")
    ),
    KeyType("time", (f"(time '00:00' + {_SECONDS})",), ("'00:00'", "'24:00'", "'23:59:59.999999'")),
    KeyType("timestamp", (f"(timestamp '1999-12-31 23:00' + {_SECONDS})",), _TIMES),
    KeyType(
        "timestamptz", (f"(timestamptz '1999-12-31 23:00+00' + {_SECONDS})",), _TIMES, weight=3
    ),
    KeyType("float4", ("(({v})::float4 * 0.37 - 99)",), _FLOATS, ("(-{c})",)),
    KeyType(
        "float8",
        ("(({v})::float8 * 0.37 - 99)", "(1 / (1 + ({v})::float8))"),
        (*_FLOATS, "'4.9e-324'"),
        ("(-{c})", "(abs({c}))"),
        weight=3,
    ),
    KeyType(
        "uuid",
        ("md5(({v})::text)::uuid", "lpad(to_hex(({v})), 32, '0')::uuid"),
        ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
        weight=3,
    ),
    KeyType(
        "numeric",
        ("(({v})::numeric * 0.37)", "(({v})::numeric)", "(({v})::numeric ^ 7 - 1e12)"),
        # Equal values of another scale, other signs of nothing, and what no machine word holds.
        ("'NaN'", "'Infinity'", "'-Infinity'", "0", "0.00", "1.0", "1.000", "1e300", "-1e-300"),
        ("(floor({c}))", "(-{c})"),
        weight=3,
    ),
    KeyType(
        "text",
        _TEXTS,
        _TEXT_SPECIALS,
        ("(upper({c}))", "(left({c}, 3))", "({c} || 'x')"),
        ("", "", "", "text_pattern_ops"),
        collatable=True,
        weight=6,
    ),
    KeyType(
        "varchar(4000)",
        _TEXTS,
        _TEXT_SPECIALS,
        ("(lower({c}))",),
        ("", "", "varchar_pattern_ops"),
        collatable=True,
    ),
    # Left to core, or not: the pages are the same.
    KeyType("bytea", ("decode(md5(({v})::text), 'hex')",), ("''", "'\\x00'"), weight=1),
    KeyType("char(12)", ("md5(({v})::text)",), ("''", "' '"), collatable=True, weight=1),
    KeyType("name", ("('n' || ({v})::text)::name",), ("''",), weight=1),
    KeyType("inet", ("('10.0.0.0'::inet + ({v}))",), ("'::1'", "'10.0.0.0/8'"), weight=1),
    KeyType("interval", (f"({_SECONDS})",), ("'1 month'", "'30 days'", "'-1 day'"), weight=1),
    KeyType("int4[]", ("ARRAY[({v}) % 9, ({v})]",), ("'{}'", "'{NULL}'"), weight=1),
)
