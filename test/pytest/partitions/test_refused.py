"""What is refused, before anything is made."""

from __future__ import annotations

import psycopg
import pytest
from extension.probes import Connection

from partitions.asking import LISTS, RANGES, children, make, run

# By name: column, key, arguments, and the state and text of the error.
_REFUSED = {
    "no step": ("int", "RANGE (k)", "0, 0, 1", "22023", "greater than zero"),
    "step back": ("date", "RANGE (k)", "'2026-01-01', '-1 day', 1", "22023", "greater than zero"),
    "mixed step": (
        "timestamp",
        "RANGE (k)",
        "'2026-01-01', '1 month -30 days', 3",
        "22023",
        "greater than zero",
    ),
    "step without a unit": ("date", "RANGE (k)", "'2026-01-01', '7', 1", "22023", "has no unit"),
    "step of seconds for a date": (
        "date",
        "RANGE (k)",
        "'2026-01-01', '7 seconds', 1",
        "22023",
        "whole days",
    ),
    "infinite start": ("date", "RANGE (k)", "'infinity', '1 day', 1", "22023", "must be finite"),
    "infinite step": (
        "timestamp",
        "RANGE (k)",
        "'2026-01-01', interval 'infinity', 1",
        "22023",
        "greater than zero",
    ),
    "not a number": ("numeric", "RANGE (k)", "'NaN', 1, 1", "22023", "must be finite"),
    "infinite number": ("numeric", "RANGE (k)", "1, 'Infinity', 1", "22023", "greater than zero"),
    "end beyond smallint": ("smallint", "RANGE (k)", "32000, 300, 3", "22003", "type smallint"),
    "end beyond int": ("int", "RANGE (k)", "0, 1000000, 3000", "22003", "type integer"),
    "end beyond bigint": (
        "bigint",
        "RANGE (k)",
        "0, 9223372036854775807, 2",
        "22003",
        "type bigint",
    ),
    "end beyond dates": ("date", "RANGE (k)", "'2026-01-01', '999999 years', 7", "22008", ""),
    "end beyond timestamps": (
        "timestamptz",
        "RANGE (k)",
        "'2026-01-01', '2147483647 days', 1000000",
        "22008",
        "",
    ),
    "uuid before 1970": ("uuid", "RANGE (k)", "'1969-12-31 23:59+00', '1 day', 1", "22008", "uuid"),
    "uuid steps too small": (
        "uuid",
        "RANGE (k)",
        "'2026-01-01', '10 microseconds', 3",
        "42P17",
        "empty range bound",
    ),
    "steps lost by rounding": ("numeric(5,0)", "RANGE (k)", "0, 0.1, 3", "42P17", "empty range"),
    "no number": ("int", "RANGE (k)", "'x', 1, 1", "22P02", "invalid input syntax"),
    "no partitions": ("int", "RANGE (k)", "0, 1, 0", "22023", '"count" must be between'),
    "too many partitions": ("int", "RANGE (k)", "0, 1, 1000001", "22023", '"count" must be'),
    "null start": ("int", "RANGE (k)", "NULL, 1, 1", "22004", '"start" must not be null'),
    "null count": ("int", "RANGE (k)", "1, 1, NULL", "22004", '"count" must not be null'),
    "text": ("text", "RANGE (k)", "'a', 1, 1", "0A000", "cannot make steps in type text"),
    "two columns": ("int", "RANGE (k, t)", "1, 1, 1", "0A000", "more than one column"),
    "list": ("int", "LIST (k)", "1, 1, 1", "42809", "is not partitioned by range"),
    "hash": ("int", "HASH (k)", "1, 1, 1", "42809", "is not partitioned by range"),
    "unknown way": ("int", "RANGE (k)", "1, 1, 1, way => 'fast'", "22023", "unknown way"),
    "same names": ("int", "RANGE (k)", "1, 1, 2, names => 'x'", "42P07", "two partitions"),
    "name of a table": ("int", "RANGE (k)", "1, 1, 2, names => 'p'", "42P07", '"p" already exists'),
    "empty name": ("int", "RANGE (k)", "1, 1, 1, names => ''", "42602", "no partition can be"),
    "brace in a name": ("int", "RANGE (k)", "1, 1, 1, names => '{x}'", "22023", "invalid pattern"),
    "long name": (
        "int",
        "RANGE (k)",
        "1, 1, 1, names => repeat('n', 60) || '{parent}{number}___'",
        "42622",
        "no partition can be called",
    ),
    "two statements": (
        "int",
        "RANGE (k)",
        "1, 1, 1, subpartition_by => 'LIST (k); DROP TABLE s.p'",
        "42601",
        "invalid options",
    ),
    "other clauses": (
        "int",
        "RANGE (k)",
        "1, 1, 1, storage => 'fillfactor = 70) ON COMMIT DROP --'",
        "42601",
        "",
    ),
    "no such option": (
        "int",
        "RANGE (k)",
        "1, 1, 1, storage => 'fill = 70'",
        "22023",
        'unrecognized parameter "fill"',
    ),
    "no such tablespace": ("int", "RANGE (k)", "1, 1, 1, tablespace => 'none'", "42704", "none"),
    "shared tablespace": (
        "int",
        "RANGE (k)",
        "1, 1, 1, tablespace => 'pg_global'",
        "22023",
        "only shared relations",
    ),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_refused_before_anything_is_made(session: Connection, name: str) -> None:
    column, key, arguments, state, text = _REFUSED[name]
    make(session, column, key)
    with pytest.raises(psycopg.Error) as caught:
        run(session, f"{RANGES} {arguments})")
    assert (caught.value.sqlstate, children(session)) == (state, [])
    assert text in str(caught.value)


# By name: key, what is there already, arguments, and the error.
_REFUSED_LISTS = {
    "twice the same": ("text", "ARRAY['a', 'a']", "42P07", "two partitions would be called"),
    "equal to the key": (
        "numeric",
        "ARRAY[1.0, 1.00], names => 'n{number}'",
        "42P17",
        'partition "n2" would overlap partition "n1"',
    ),
    "null twice": ("int", "'{NULL,NULL}', names => 'n{number}'", "42P17", "would overlap"),
    "neither": ("int", "NULL", "22023", 'either "bounds" or "modulus"'),
    "both": ("int", "'{1}', modulus => 3", "22023", 'either "bounds" or "modulus"'),
    "no array": ("int", "7", "42804", "must be an array"),
    "malformed": ("int", "'1,2'", "22P02", "malformed array literal"),
    "not of the type": ("int", "'{a}'", "22P02", "invalid input syntax for type integer"),
    "long value": ("text", "ARRAY[repeat('x', 100)]", "42622", "no partition can be called"),
}


@pytest.mark.parametrize("name", _REFUSED_LISTS)
def test_refused_lists(session: Connection, name: str) -> None:
    column, arguments, state, text = _REFUSED_LISTS[name]
    make(session, column, "LIST (k)")
    with pytest.raises(psycopg.Error) as caught:
        run(session, f"{LISTS} {arguments})")
    assert (caught.value.sqlstate, children(session)) == (state, [])
    assert text in str(caught.value)
