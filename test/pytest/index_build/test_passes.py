"""What is written to files: entries that do not fit into memory go there twice, whatever their keys
have in common, and once where to distribute them would be of little use."""

import pytest
from extension.probes import Connection, scalar

from index_build.twins import Counters, Twins, complaint

_ZERO = "CASE WHEN hashint4(i) % 2 = 0 THEN '-0' ELSE '0' END"
_UUID = "lpad(to_hex(hashint4(i) & 1048575), 32, '0')::uuid"
# Columns of a table, and an index on them.
_KEYS = {
    "common_prefix": ("repeat('p', 400) || md5((i % 20000)::text) AS s", 's COLLATE "C"'),
    # Equal, with different bytes: no later word divides them.
    "zeros": (f"({_ZERO})::float8 AS f", "f"),
    "zeros_float4": (f"({_ZERO})::float4 AS f", "f DESC"),
    "zeros_twice": (f"({_ZERO})::float8 AS f, (-({_ZERO})::float4) AS g", "f, g DESC"),
    # Rows whose first column is NULL stand apart: what the others' words are says nothing.
    "nulls": ("NULL::int AS n, hashint4(i) AS m", "n, m"),
    "nulls_among_others": ("NULLIF(i % 20, i % 20 % 19) AS n, hashint4(i) AS m", "n, m"),
    "alike_but_for_their_ends": (f"'abc' AS s, {_UUID} AS u", 's COLLATE "C", u'),
}
_ROWS = 100_000


def _temporary_bytes(session: Connection) -> int:
    session.execute("SELECT pg_stat_force_next_flush()")
    query = "SELECT temp_bytes FROM pg_stat_database WHERE datname = current_database()"
    return int(scalar(session, query))


def _check_written(
    twins: Twins, columns: str, rows: int, order: str, most: float, memory: str = "2MB"
) -> None:
    """An index as by stock, with less than so many times the table's size written to files."""
    session = twins.connection
    session.execute(
        f"SET maintenance_work_mem = '{memory}'; SET max_parallel_maintenance_workers = 0"
    )
    session.execute(
        "CREATE TABLE l WITH (autovacuum_enabled = off) AS "
        f"SELECT {columns} FROM generate_series(1, {rows}) i"
    )
    create = f"CREATE INDEX l_i ON l ({order})"
    stock = twins.build("stock", create, "l_i")
    session.execute("DROP INDEX l_i")
    before = _temporary_bytes(session)
    ours = twins.build("ours", create, "l_i")
    written = _temporary_bytes(session) - before
    size = int(scalar(session, "SELECT pg_relation_size('l')"))
    session.execute("DROP TABLE l")
    assert complaint(stock, ours) == ""
    assert twins.tally.built == 1
    if most == 0:
        assert written == 0
    else:
        assert size / 2 < written < most * size


@pytest.mark.parametrize("keys", _KEYS)
def test_passes(twins: Twins, keys: str) -> None:
    columns, order = _KEYS[keys]
    _check_written(twins, columns, _ROWS if keys != "common_prefix" else _ROWS // 5, order, 3)


def test_rows_in_the_order_of_the_key_are_written_once(twins: Twins) -> None:
    columns = "lpad(i::text, 9, '0') || repeat('x', 20) AS s"
    _check_written(twins, columns, 2 * _ROWS, 's COLLATE "C"', 1.5)


_TWO_VALUED = [f"((hashint4(i + {n}) & 1))::int8 AS c{n}" for n in range(14)]
# Columns of a table, and an index on them, with 1 MB; where words divide the rows poorly.
_POOR = {
    "columns_of_two_values": (", ".join(_TWO_VALUED), ", ".join(f"c{n}" for n in range(14))),
    "nulls_among_them": (
        "NULLIF(hashint4(i) % 3, 0) AS n, " + ", ".join(_TWO_VALUED),
        "n NULLS FIRST, " + ", ".join(f"c{n}" for n in range(14)),
    ),
    "texts_of_two_values": (
        ", ".join(f"lpad((hashint4(i + {n}) & 1)::text, 12, '0') AS t{n}" for n in range(8)),
        ", ".join(f't{n} COLLATE "C"' for n in range(8)),
    ),
    "nearly_in_order": ("i + hashint4(i) % 50 AS n, md5(i::text) AS s", 'n, s COLLATE "C"'),
    "in_reverse_order": ("-i AS n, md5(i::text) AS s", 'n, s COLLATE "C"'),
}


@pytest.mark.parametrize("keys", _POOR)
def test_what_words_divide_poorly_is_written_once(twins: Twins, keys: str) -> None:
    columns, order = _POOR[keys]
    _check_written(twins, columns, _ROWS, order, 1.5, "1MB")


def test_growing_keys_are_written_once(twins: Twins) -> None:
    """Each is a little longer than another and else the same."""
    columns = "repeat('k', i % 500) || i AS s"
    _check_written(twins, columns, _ROWS // 5, 's COLLATE "C"', 1.5, "1MB")


@pytest.mark.parametrize(
    ("columns", "order", "memory"),
    [
        ("i / 10 AS n, md5(i::text)::uuid AS u", "n, u", "2MB"),
        ("i / 5000 AS n, md5(i::text) AS s", 'n, s COLLATE "C"', "2MB"),
        # Of these the words are in order, too.
        ("(i / 5000)::int8 AS n, md5(i::text) AS s", 'n, s COLLATE "C"', "4MB"),
    ],
)
def test_rows_in_the_order_of_the_first_column_are_written_once(
    twins: Twins, columns: str, order: str, memory: str
) -> None:
    _check_written(twins, columns, 2 * _ROWS, order, 1.5, memory)


@pytest.mark.parametrize("columns", ["'10.0.0.7'::inet AS a", "7::numeric AS a"])
def test_equal_keys_in_memory_are_not_written(twins: Twins, columns: str) -> None:
    """Whatever of the memory is for sorting: there is nothing to sort."""
    _check_written(twins, columns, _ROWS, "a", 0, "32MB")


def test_what_fits_into_memory_is_not_written(twins: Twins) -> None:
    """Of what buckets do not divide, all is sorted at once where memory suffices."""
    columns = "repeat('k', i % 900) || i AS s"
    _check_written(twins, columns, 12_000, 's COLLATE "C"', 0, "5MB")


def test_too_long_row_among_what_words_divide_poorly(twins: Twins) -> None:
    """PostgreSQL refuses the index, as ever, also where its sort has the other rows."""
    session = twins.connection
    hexadecimal = "(SELECT string_agg(md5(j::text), '') FROM generate_series(1, 200) j)"
    session.execute("SET maintenance_work_mem = '1MB'; SET max_parallel_maintenance_workers = 0")
    session.execute(
        "CREATE TABLE l WITH (autovacuum_enabled = off) AS "
        f"SELECT {', '.join(_TWO_VALUED)}, CASE WHEN i = {_ROWS} THEN {hexadecimal} END AS long "
        f"FROM generate_series(1, {_ROWS}) i"
    )
    create = f'CREATE INDEX l_i ON l ({", ".join(f"c{n}" for n in range(14))}, long COLLATE "C")'
    stock = twins.build("stock", create, "l_i")
    before = Counters.of(session)
    ours = twins.build("ours", create, "l_i")
    after = Counters.of(session)
    session.execute("DROP TABLE l")
    assert stock.failure is not None
    assert complaint(stock, ours) == ""
    assert after.left.get("row size", 0) == before.left.get("row size", 0) + 1
