"""Steps and values of every type of key: their bounds and names, and partitions that exist."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from extension.probes import Connection, scalar

from partitions.asking import LISTS, RANGES, children, ends, make, run

# By name: column, key, start and step, bounds and names expected of two partitions.
_KEYS = {
    "smallint": ("smallint", "k", "-5, 5", ends("'-5'", "'0'", "'5'"), ("m5", "0")),
    "int": ("int", "k", "0, 1000", ends("0", "1000", "2000"), ("0", "1000")),
    "bigint": (
        "bigint",
        "k",
        "'9223372036854775605', 100::numeric",
        ends("'9223372036854775605'", "'9223372036854775705'", "'9223372036854775805'"),
        ("9223372036854775605", "9223372036854775705"),
    ),
    "numeric": (
        "numeric",
        "k",
        "-0.5, 0.25",
        ends("'-0.50'", "'-0.25'", "0.00"),
        ("m0_50", "m0_25"),
    ),
    "numeric of two digits": (
        "numeric(5,2)",
        "k",
        "1, 0.125",
        ends("1.00", "1.13", "1.25"),
        ("1_000", "1_125"),
    ),
    "date": (
        "date",
        "k",
        "'2026-01-31', '1 month'",
        ends("'2026-01-31'", "'2026-02-28'", "'2026-03-31'"),
        ("20260131", "20260228"),
    ),
    "date before Christ": (
        "date",
        "k",
        "'0001-12-31 BC', interval '1 day'",
        ends("'0001-12-31 BC'", "'0001-01-01'", "'0001-01-02'"),
        ("00011231bc", "00010101"),
    ),
    "timestamp": (
        "timestamp",
        "k",
        "date '2026-02-27', '2 days'",
        ends("'2026-02-27 00:00:00'", "'2026-03-01 00:00:00'", "'2026-03-03 00:00:00'"),
        ("20260227", "20260301"),
    ),
    "timestamp in minutes": (
        "timestamp",
        "k",
        "'2026-02-27', '15 minutes'",
        ends("'2026-02-27 00:00:00'", "'2026-02-27 00:15:00'", "'2026-02-27 00:30:00'"),
        ("20260227_0000", "20260227_0015"),
    ),
    "timestamp in seconds": (
        "timestamp",
        "k",
        "'2026-02-27 10:00:07', '1 day'",
        ends("'2026-02-27 10:00:07'", "'2026-02-28 10:00:07'", "'2026-03-01 10:00:07'"),
        ("20260227_100007", "20260228_100007"),
    ),
    "timestamp in microseconds": (
        "timestamp",
        "k",
        "'2026-02-27', '1 microsecond'",
        ends(
            "'2026-02-27 00:00:00'", "'2026-02-27 00:00:00.000001'", "'2026-02-27 00:00:00.000002'"
        ),
        ("20260227_000000_000000", "20260227_000000_000001"),
    ),
    "timestamptz by day over a change of clocks": (
        "timestamptz",
        "k",
        "'2026-03-29', '1 day'",
        ends("'2026-03-29 00:00:00+01'", "'2026-03-30 00:00:00+02'", "'2026-03-31 00:00:00+02'"),
        ("20260329", "20260330"),
    ),
    "timestamptz by hour over a change of clocks": (
        "timestamptz",
        "k",
        "'2026-10-25 02:00+02', '1 hour'",
        ends("'2026-10-25 02:00:00+02'", "'2026-10-25 02:00:00+01'", "'2026-10-25 03:00:00+01'"),
        ("20261025_0000z", "20261025_0100z"),
    ),
    "uuid": (
        "uuid",
        "k",
        "'2026-01-01 00:00+00', '1 hour'",
        ends(
            "'019b76da-a800-0000-0000-000000000000'",
            "'019b7711-9680-0000-0000-000000000000'",
            "'019b7748-8500-0000-0000-000000000000'",
        ),
        ("20260101_0000z", "20260101_0100z"),
    ),
    "expression": ("int", "(k % 100)", "0, 50", ends("0", "50", "100"), ("0", "50")),
    "expression of time": (
        "timestamptz",
        "((k AT TIME ZONE 'UTC')::date)",
        "'2026-01-01', '1 year'",
        ends("'2026-01-01'", "'2027-01-01'", "'2028-01-01'"),
        ("20260101", "20270101"),
    ),
    "domain": ("around.positive", "k", "0, 7", ends("'0'", "'7'", "'14'"), ("0", "7")),
}


@pytest.mark.parametrize("way", ["direct", "attached"])
@pytest.mark.parametrize("name", _KEYS)
def test_steps_in_each_type(session: Connection, name: str, way: str) -> None:
    column, key, steps, bounds, names = _KEYS[name]
    session.execute("SET timezone = 'Europe/Berlin'")
    make(session, column, f"RANGE ({key})")
    assert run(session, f"{RANGES} {steps}, 2, way => '{way}')")[:2] == (2, 0)
    assert children(session) == [
        (f"p_{name}", bound) for name, bound in zip(names, bounds, strict=True)
    ]


@pytest.mark.parametrize("name", _KEYS)
def test_statements_with_these_bounds_store_the_same(session: Connection, name: str) -> None:
    column, key, steps, bounds, names = _KEYS[name]
    session.execute("SET timezone = 'Europe/Berlin'")
    stored = "SELECT relname, relpartbound FROM pg_class WHERE relname LIKE 'p\\_%' ORDER BY oid"
    make(session, column, f"RANGE ({key})")
    run(session, f"{RANGES} {steps}, 2)")
    ours = session.execute(stored).fetchall()
    session.execute("DROP TABLE s.p")
    make(session, column, f"RANGE ({key})")
    for child, bound in zip(names, bounds, strict=True):
        dynamic: Any = f'CREATE TABLE s."p_{child}" PARTITION OF s.p FOR VALUES {bound}'
        session.execute(dynamic)
    assert session.execute(stored).fetchall() == ours


@pytest.mark.parametrize("style", ["SQL, DMY", "German", "Postgres, MDY", "ISO, YMD"])
@pytest.mark.parametrize("column", ["date", "timestamp", "timestamptz", "uuid"])
def test_bounds_do_not_depend_on_how_dates_are_written(
    session: Connection, column: str, style: str
) -> None:
    session.execute("SET timezone = 'America/New_York'")
    make(session, column)
    start = "timestamptz '2026-02-03 00:00-05'"
    run(session, f"{RANGES} {start}, '1 day', 5)")
    expected = children(session)
    session.execute("DROP TABLE s.p")
    make(session, column)
    session.execute(f"SET datestyle = '{style}'; SET intervalstyle = sql_standard")
    run(session, f"{RANGES} {start}, interval '1 day', 5)")
    session.execute("RESET datestyle")
    assert children(session) == expected


def test_floats_keep_their_digits(session: Connection) -> None:
    make(session, "float8", "LIST (k)")
    session.execute("SET extra_float_digits = -10")
    run(session, f"{LISTS} ARRAY[0.1::float8 + 0.2::float8, 1 / 3::float8])")
    session.execute("INSERT INTO s.p VALUES (0.1::float8 + 0.2::float8), (1 / 3::float8)")
    assert scalar(session, "SHOW extra_float_digits") == "-10"


def test_blanks_at_the_end_are_no_part_of_a_value(session: Connection) -> None:
    make(session, "text", "LIST (k)")
    run(session, f"{LISTS} ARRAY['de', 'f']::char(3)[])")
    assert children(session) == [("p_de", "IN ('de')"), ("p_f", "IN ('f')")]


def test_values_of_a_list(session: Connection) -> None:
    make(session, "text COLLATE around.bytes", "LIST (k)")
    run(session, f"{LISTS} ARRAY['b', 'B', NULL, 'it''s', '\\'])")
    assert children(session) == [
        ("p_b", "IN ('b')"),
        ("p_B", "IN ('B')"),
        ("p_null", "IN (NULL)"),
        ("p_it's", "IN ('it''s')"),
        ("p_\\", "IN ('\\')"),
    ]
    assert run(session, f"{LISTS} '{{b,NULL,c}}')")[:2] == (1, 2)


def test_modulus_of_an_expression(session: Connection) -> None:
    make(session, "bigint", "LIST ((k % 3))")
    assert run(session, f"{LISTS} modulus => 3)") == (3, 0, "direct", None)
    assert children(session) == [(f"p_{i}", f"IN ('{i}')") for i in range(3)]
    session.execute("INSERT INTO s.p SELECT i FROM generate_series(1, 30) i")
    assert scalar(session, "SELECT count(*) FROM s.p_1") == 10


@pytest.mark.parametrize("column", ["date[]", "around.mood", "bool", "char(3)", "timestamptz"])
def test_values_of_other_types(session: Connection, column: str) -> None:
    values = {
        "date[]": "ARRAY['{2026-01-01,2026-01-02}']",
        "around.mood": "ARRAY['sad', 'happy']::around.mood[]",
        "bool": "ARRAY[true, false]",
        "char(3)": "'{a,bc}'",
        "timestamptz": "ARRAY[timestamptz '2026-01-01']",
    }[column]
    make(session, column, "LIST (k)")
    created, present = run(session, f"{LISTS} {values}, names => '{{parent}}{{number}}')")[:2]
    assert (created, present) == (len(children(session)), 0)
    assert run(session, f"{LISTS} {values})")[:2] == (0, created)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("text", "ARRAY[true, false]"),
        ("text", "ARRAY[timestamp '2027-01-01 00:00']"),
        ("text", "ARRAY[inet '10.0.0.1', NULL]"),
        ("text", "ARRAY['de', 'f  ']::char(3)[]"),
        ("int", "ARRAY[1.0, 2.6]"),
        ("numeric", "ARRAY[0.1::float8 + 0.2::float8, 1e-7]"),
        ("date", "ARRAY[timestamptz '2027-01-01 00:00']"),
        ("int", "ARRAY['1', '2']"),
        ("text", "ARRAY['sad', 'happy']::around.mood[]"),
    ],
)
def test_values_are_cast_as_in_a_statement(session: Connection, column: str, values: str) -> None:
    make(session, column, "LIST (k)")
    elements = values.removeprefix("ARRAY[").partition("]")[0].split(", ")
    cast = values.partition("]::")[2].removesuffix("[]")
    for i, element in enumerate(elements):
        value = f"{element}::{cast}" if cast else element
        dynamic: Any = f"CREATE TABLE s.n{i} PARTITION OF s.p FOR VALUES IN ({value})"
        session.execute(dynamic)
    expected = [bound for _, bound in children(session)]
    session.execute("DROP TABLE s.p")
    make(session, column, "LIST (k)")
    run(session, f"{LISTS} {values}, names => '{{parent}}{{number}}')")
    assert [bound for _, bound in children(session)] == expected


def test_long_names_are_cut_within_the_table_s(session: Connection) -> None:
    parent = "ä" * 31 + "x"
    session.execute(f'CREATE TABLE s."{parent}" (k int) PARTITION BY RANGE (k)')
    run(
        session,
        f"SELECT pg_lookahead_create_range_partitions('s.\"{parent}\"', 99999, 1, 2)",
    )
    names = [
        name
        for (name,) in session.execute(
            "SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid ORDER BY oid"
        ).fetchall()
        if name.startswith("ä")
    ]
    assert names == ["ä" * 28 + "_99999", "ä" * 28 + "_100000"]
    assert [len(name.encode()) for name in names] == [62, 63]


def test_existing_partitions(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE TABLE s.mine PARTITION OF s.p FOR VALUES FROM (20) TO (30)")
    assert run(session, f"{RANGES} 0, 10, 5)")[:2] == (4, 1)
    assert ("mine", "FROM (20) TO (30)") in children(session)
    session.execute("DROP TABLE s.p; CREATE TABLE s.p (k int) PARTITION BY RANGE (k)")
    session.execute("CREATE TABLE s.mine PARTITION OF s.p FOR VALUES FROM (25) TO (27)")
    with pytest.raises(psycopg.errors.InvalidObjectDefinition) as caught:
        run(session, f"{RANGES} 0, 10, 5)")
    assert 'partition "p_20" would overlap partition "mine"' in str(caught.value)
    assert len(children(session)) == 1


@pytest.mark.parametrize("bounds", ["(MINVALUE) TO (10)", "(0) TO (MAXVALUE)", "(-5) TO (10)"])
def test_a_wider_partition_is_in_the_way(session: Connection, bounds: str) -> None:
    make(session, "int")
    session.execute(f"CREATE TABLE s.wide PARTITION OF s.p FOR VALUES FROM {bounds}")
    with pytest.raises(psycopg.errors.InvalidObjectDefinition):
        run(session, f"{RANGES} 0, 10, 1)")


def test_lists_with_more_values_are_in_the_way(session: Connection) -> None:
    make(session, "int", "LIST (k)")
    session.execute("CREATE TABLE s.two PARTITION OF s.p FOR VALUES IN (1, 2)")
    session.execute("CREATE TABLE s.null PARTITION OF s.p FOR VALUES IN (NULL, 3)")
    for value in ("{1}", "{NULL}", "{3}"):
        with pytest.raises(psycopg.errors.InvalidObjectDefinition, match="would overlap"):
            run(session, f"{LISTS} '{value}')")
    assert run(session, f"{LISTS} '{{4}}')")[:2] == (1, 0)
