"""What is written to files: entries that do not fit into memory go there twice, whatever their keys
have in common. Where to distribute them would be of little use, PostgreSQL builds the index."""

import pytest
from extension.probes import Connection, scalar

from index_build.twins import Twins, complaint, with_workers

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
    session.execute(f"SET maintenance_work_mem = '{memory}'; {with_workers(0)}")
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
# Columns of a table, and an index on them; where words divide the rows poorly.
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
    # Each is a little longer than another and else the same.
    "growing": ("repeat('k', i % 500) || i AS s", 's COLLATE "C"'),
}


@pytest.mark.parametrize(
    ("keys", "workers"), [*((keys, 0) for keys in _POOR), ("columns_of_two_values", 2)]
)
def test_what_words_divide_poorly_is_left(twins: Twins, keys: str, workers: int) -> None:
    session = twins.connection
    columns, order = _POOR[keys]
    session.execute(
        f"SET maintenance_work_mem = '{16 if workers else 2}MB'; "
        "SET max_parallel_maintenance_workers = 2"
    )
    session.execute(
        f"CREATE TABLE l WITH (autovacuum_enabled = off, parallel_workers = {workers}) AS "
        f"SELECT {columns} FROM generate_series(1, {2 * _ROWS}) i"
    )
    create = f"CREATE INDEX l_i ON l ({order})"
    stock = twins.build("stock", create, "l_i")
    session.execute("DROP INDEX l_i")
    ours = twins.build("ours", create, "l_i")
    session.execute("DROP TABLE l")
    assert complaint(stock, ours) == ""
    assert (twins.tally.built, twins.tally.left) == (0, {"memory": 1})


def test_first_pages_are_not_taken_for_all_rows(twins: Twins) -> None:
    """They are among those left to PostgreSQL together; memory holds what words hardly divide."""
    session = twins.connection
    columns, order = _POOR["columns_of_two_values"]
    session.execute(
        "SET maintenance_work_mem = '3MB'; CREATE TABLE l WITH (autovacuum_enabled = off) AS "
        f"SELECT {columns} FROM generate_series(1, {_ROWS // 5}) i"
    )
    create = f"CREATE INDEX CONCURRENTLY l_i ON l ({order})"
    stock = twins.build("stock", create, "l_i")
    session.execute("DROP INDEX l_i")
    ours = twins.build("ours", create, "l_i")
    session.execute("DROP TABLE l")
    assert complaint(stock, ours) == ""
    assert twins.tally.built == 1


@pytest.mark.parametrize(
    ("columns", "order"),
    [
        ("i + hashint4(i) % 50 AS n, md5(i::text) AS s", 'n, s COLLATE "C"'),
        ("-i AS n, md5(i::text) AS s", 'n, s COLLATE "C"'),
        ("i / 10 AS n, md5(i::text)::uuid AS u", "n, u"),
        ("(i / 5000)::int8 AS n, md5(i::text) AS s", 'n, s COLLATE "C"'),
    ],
)
def test_rows_nearly_in_order(twins: Twins, columns: str, order: str) -> None:
    """What has come does not foretell what will: it goes to files four times at most."""
    _check_written(twins, columns, 2 * _ROWS, order, 4)


def test_what_the_first_rows_do_not_foretell(twins: Twins) -> None:
    """Words divide those, but not the others: these are moved twice, and PostgreSQL sorts them."""
    first = f"CASE WHEN i <= {_ROWS // 5} THEN hashint8(i) ELSE hashint4(i) & 1 END::int8 AS c0"
    columns = ", ".join([first, *_TWO_VALUED[1:]])
    order = ", ".join(f"c{n}" for n in range(14))
    _check_written(twins, columns, 3 * _ROWS, order, 5)


@pytest.mark.parametrize("columns", ["'10.0.0.7'::inet AS a", "7::numeric AS a"])
def test_equal_keys_in_memory_are_not_written(twins: Twins, columns: str) -> None:
    """Whatever of the memory is for sorting: there is nothing to sort."""
    _check_written(twins, columns, _ROWS, "a", 0, "32MB")


def test_what_fits_into_memory_is_not_written(twins: Twins) -> None:
    """Of what buckets do not divide, all is sorted at once where memory suffices."""
    columns = "repeat('k', i % 900) || i AS s"
    _check_written(twins, columns, 12_000, 's COLLATE "C"', 0, "5MB")


def test_what_comes_in_the_order_of_the_first_column_is_not_written(twins: Twins) -> None:
    """It is moved in memory, where there is no room for sorting half of it at once."""
    columns = f"(i / {_ROWS // 2})::int8 AS n, md5(i::text)::uuid AS u"
    _check_written(twins, columns, _ROWS, "n, u", 0, "8MB")


def test_what_comes_in_the_order_of_the_first_column_is_written_once(twins: Twins) -> None:
    """Entries of one value are sorted in memory, some values at a time."""
    _check_written(twins, "(i / 10)::int8 AS n, md5(i::text)::uuid AS u", 2 * _ROWS, "n, u", 1.5)


def test_a_large_bucket_leaves_others_their_memory(twins: Twins) -> None:
    """Wide entries of one word that memory just holds come before those of ten, many and narrow."""
    wide = "(SELECT string_agg(md5(i || ':' || j), '') FROM generate_series(1, 59) j)"
    narrow = "md5(i::text) || md5(i || 'b') || md5(i || 'c')"
    letter = "chr(98 + (hashint4(i) & 1023) % 10)"
    columns = (
        f"CASE WHEN i % 55 = 0 THEN repeat('a', 8) || {wide} "
        f"ELSE repeat({letter}, 8) || {narrow} END AS s"
    )
    _check_written(twins, columns, 81_440, 's COLLATE "C"', 1.3, "4MB")
