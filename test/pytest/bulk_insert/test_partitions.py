"""Rows that go to partitions: which one, where in it, and what has the statement go on in core."""

from __future__ import annotations

import psycopg
import pytest
from extension.probes import Connection, need_extension, need_icu, scalar
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, STOCK, Arm, Counters, choose
from bulk_insert.partitioned import SIZE, WHERE, from_to, lists, make, ranges, series

_ARMS = [DEFAULT, ONE_PAGE, EXTENTS]
# The key, how it is partitioned, partitions, and the keys of rows i.
_KEYS = {
    "smallint": ("smallint", "RANGE (k)", from_to("MINVALUE", "-5", "0", "90"), "i % 90 - 40"),
    "int": ("int", "RANGE (k)", from_to("-10", "0", "77", "2000", "MAXVALUE"), "i - 5"),
    "bigint": (
        "bigint",
        "RANGE (k)",
        from_to("MINVALUE", "-1", "4294967296", "9223372036854775807", "MAXVALUE"),
        "CASE i % 4 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -i WHEN 2 THEN i::bigint * 9999999 "
        "ELSE -9223372036854775807 - 1 END",
    ),
    "date": (
        "date",
        "RANGE (k)",
        from_to("'-infinity'", "'2000-01-01'", "'2000-06-01'", "'infinity'", "MAXVALUE"),
        "CASE WHEN i % 9 = 0 THEN 'infinity' ELSE date '1999-07-01' + i END",
    ),
    "timestamp": (
        "timestamp",
        "RANGE (k)",
        from_to("MINVALUE", "'2000-01-01'", "'2000-01-02'", "MAXVALUE"),
        "CASE WHEN i % 9 = 0 THEN '-infinity' "
        "ELSE timestamp '1999-12-31' + i * interval '1 min' END",
    ),
    "timestamptz": (
        "timestamptz",
        "RANGE (k)",
        from_to("MINVALUE", "'2000-01-01 00:00+02'", "MAXVALUE"),
        "timestamptz '1999-12-31 22:00+00' + (i - 1000) * interval '1 min'",
    ),
    "uuid": (
        "uuid",
        "RANGE (k)",
        from_to(
            "MINVALUE",
            "'00000000-0000-0000-0000-000000000000'",
            "'40000000-0000-0000-0000-000000000001'",
            "'80000000-0000-0000-8000-000000000000'",
            "'80000000-0000-0000-8000-000000000001'",
            "MAXVALUE",
        ),
        "CASE i % 5 WHEN 0 THEN '80000000-0000-0000-8000-000000000000' "
        "WHEN 1 THEN '40000000-0000-0000-0000-000000000001' "
        "WHEN 2 THEN '00000000-0000-0000-0000-000000000000' ELSE md5(i::text)::uuid END",
    ),
    "text in bytes": (
        'text COLLATE "C"',
        "RANGE (k)",
        from_to("MINVALUE", "'abcdefgh'", "'abcdefghi'", "'b'", "'é'", "MAXVALUE"),
        "(ARRAY['', 'a', 'abcdefg', 'abcdefgh', 'abcdefghh', 'abcdefghi', 'b', 'zz', 'é', 'éa', "
        "repeat('x', 3000)])[i % 11 + 1]",
    ),
    "text in words": (
        'text COLLATE "und-x-icu"',
        "RANGE (k)",
        from_to("MINVALUE", "'b'", "'C'", "MAXVALUE"),
        "(ARRAY['A', 'b', 'B', 'c', 'C', 'd'])[i % 6 + 1]",
    ),
    "texts": (
        'text COLLATE "und-x-icu"',
        "LIST (k)",
        lists("'b', 'A'", "'a', 'B'", "'', 'abcdefgh'", "'abcdefghi'")
        + "; CREATE TABLE others PARTITION OF p DEFAULT",
        "(ARRAY['A', 'b', 'B', 'a', '', 'abcdefgh', 'abcdefghi', 'c'])[i % 8 + 1]",
    ),
    "in no list": (
        "int",
        "LIST (k)",
        lists("1", "2, 4", "6") + "; CREATE TABLE others PARTITION OF p DEFAULT",
        "i % 9",
    ),
    "varchar": ("varchar(9)", "LIST (k)", lists("'x1', 'x3'", "'x2', 'x0'"), "'x' || i % 4"),
    "char": ("char(5)", "LIST (k)", lists("'x1', 'x3'", "'x2', 'x0'"), "'x' || i % 4"),
    "hash of a text": (
        "text",
        "LIST ((abs(hashtext(k) % 5)))",
        lists("0, 3", "1", "2, 4"),
        "'key' || i",
    ),
    "null": ("int", "LIST (k)", lists("1, NULL", "2", "0"), "nullif(i % 4, 3)"),
    "bool": ("bool", "LIST (k)", lists("true", "false"), "i % 3 = 0"),
    "numeric": ("numeric", "RANGE (k)", from_to("MINVALUE", "1.5", "MAXVALUE"), "i / 900.0"),
    "hash": (
        "int",
        "HASH (k)",
        ranges({f"h{n}": f"FOR VALUES WITH (MODULUS 3, REMAINDER {n})" for n in range(3)}),
        "i",
    ),
    "two columns": (
        "int",
        "RANGE (k, s)",
        from_to("MINVALUE, MINVALUE", "7, 'x5'", "MAXVALUE, MAXVALUE"),
        "i % 15",
    ),
    "other columns": (
        "int",
        "RANGE (k)",
        "CREATE TABLE p0 (s text, gone int, k int, CHECK (k >= 0)); "
        "ALTER TABLE p0 DROP COLUMN gone; "
        "ALTER TABLE p ATTACH PARTITION p0 FOR VALUES FROM (0) TO (1500); "
        "CREATE TABLE p1 PARTITION OF p DEFAULT",
        "i",
    ),
}


@pytest.mark.parametrize("arm", _ARMS, ids=lambda arm: arm.name)
@pytest.mark.parametrize("case", _KEYS)
def test_rows_are_where_core_puts_them(connection: Connection, case: str, arm: Arm) -> None:
    key, by, partitions, value = _KEYS[case]
    if "icu" in key:
        need_icu(connection)
    found = []
    for one in (STOCK, arm):
        choose(connection, one)
        make(connection, key, by, partitions)
        before = Counters.of(connection).rows
        connection.execute(series(value))
        found.append(connection.execute(WHERE).fetchall())
    assert len(found[0]) == 2000
    assert found[0] == found[1]
    # What is toasted goes by itself.
    assert Counters.of(connection).rows - before > 1700


@pytest.mark.parametrize("arm", _ARMS, ids=lambda arm: arm.name)
def test_row_without_a_partition(connection: Connection, arm: Arm) -> None:
    errors = []
    for one in (STOCK, arm):
        choose(connection, one)
        make(connection, "int", "RANGE (k)", from_to("0", "1000", "1200"))
        with pytest.raises(psycopg.errors.CheckViolation) as raised:
            connection.execute(series("i"))
        diag = raised.value.diag
        errors.append((diag.message_primary, diag.message_detail, diag.table_name))
    assert errors[0] == errors[1]


def test_rows_beside_toasted_ones_share_pages(connection: Connection) -> None:
    """A row that is inserted by itself does not give those before it a page of their own."""
    pages = []
    wide = "CASE WHEN hashint4(i) % 50 = 0 THEN repeat('w', 3000) ELSE repeat('n', 100) END"
    for arm in (STOCK, EXTENTS):
        choose(connection, arm)
        make(connection, "int", "LIST (k)", lists("1"))
        connection.execute("ALTER TABLE p0 ALTER s SET STORAGE EXTERNAL")
        connection.execute(f"INSERT INTO p SELECT 1, {wide} FROM generate_series(1, 60000) i")
        pages.append(int(scalar(connection, SIZE)) // 8192)
    assert pages[1] <= pages[0] * 1.2


def test_memory_of_toasted_rows(connection: Connection) -> None:
    """No partition keeps its last row in memory until the statement ends."""
    with connection.transaction(force_rollback=True):
        choose(connection, DEFAULT)
        make(connection, "int", "LIST (k)", lists(*map(str, range(100))))
        connection.execute(
            "CREATE TABLE memory (bytes bigint); CREATE FUNCTION note() RETURNS trigger "
            "LANGUAGE plpgsql AS $$ BEGIN INSERT INTO memory SELECT sum(total_bytes) "
            "FROM pg_backend_memory_contexts; RETURN NULL; END $$; "
            "CREATE TRIGGER g AFTER INSERT ON p EXECUTE FUNCTION note()"
        )
        connection.execute(
            "INSERT INTO p SELECT i, repeat('x', 2000000) FROM generate_series(0, 99) i"
        )
        assert int(scalar(connection, "SELECT bytes FROM memory")) < 60_000_000


def test_foreign_keys_of_partitions(connection: Connection) -> None:
    """Checked at the end, as PostgreSQL does, though rows come in another order."""
    with connection.transaction(force_rollback=True):
        choose(connection, EXTENTS)
        connection.execute(
            "CREATE TABLE parent (id int PRIMARY KEY); "
            "INSERT INTO parent SELECT generate_series(0, 1999)"
        )
        make(connection, "int REFERENCES parent", "RANGE (k)", from_to("0", "500", "9999"))
        connection.execute(series("i % 2000"))
        connection.execute("SAVEPOINT a")
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match=r"violates .*p_k_fkey"):
            connection.execute(series("i"))
        connection.execute("ROLLBACK TO a")
        assert scalar(connection, "SELECT count(*) FROM p") == 2000


def test_partition_of_a_partitioned_table(connection: Connection) -> None:
    """An insert into the middle of a tree: rows must belong into it."""
    choose(connection, EXTENTS)
    make(
        connection,
        "int",
        "RANGE (k)",
        "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (1001) PARTITION BY HASH (s); "
        "CREATE TABLE low0 PARTITION OF low FOR VALUES WITH (MODULUS 2, REMAINDER 0); "
        "CREATE TABLE low1 PARTITION OF low FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    )
    into_low = series("i", 1000).replace("INTO p ", "INTO low ")
    connection.execute(into_low)
    assert scalar(connection, "SELECT count(*) FROM low") == 1000
    with pytest.raises(psycopg.errors.CheckViolation, match='relation "low" violates'):
        connection.execute(series("i", 1001).replace("INTO p ", "INTO low "))


@pytest.mark.parametrize("arm", [EXTENTS, DEFAULT], ids=lambda arm: arm.name)
def test_many_partitions_in_little_memory(connection: Connection, arm: Arm) -> None:
    """Rows of 300 partitions in random order; there is room for a few rows of each."""
    need_extension(connection, "amcheck")
    choose(connection, arm)
    make(connection, "int", "LIST (k)", lists(*map(str, range(300))) + "; CREATE INDEX ON p (s)")
    connection.execute("SET work_mem = '64kB'")
    before = Counters.of(connection)
    connection.execute(series("(i::bigint * 7919 % 300)::int", 30_000))
    after = Counters.of(connection)
    connection.execute("RESET work_mem")
    assert after.rows - before.rows > 29_000
    # Core alone would need one for each row.
    assert after.batches - before.batches < 15_000
    assert scalar(connection, "SELECT count(*) FROM p") == 30_000
    leaves = "(SELECT relid FROM pg_partition_tree('p') WHERE isleaf) leaf"
    found = f"SELECT count(*) FROM {leaves}, verify_heapam(relid)"
    assert scalar(connection, found) == 0
    connection.execute(
        "SELECT bt_index_check(indexrelid, true) FROM pg_index "
        f"WHERE indrelid IN (SELECT relid FROM {leaves})"
    )


def test_pages_of_partitions_are_full(connection: Connection) -> None:
    """No partition is much longer than PostgreSQL's: of rows that wait, only full pages are put."""
    sizes = []
    for arm in (STOCK, EXTENTS.with_settings(bulk_extend_size=1)):
        choose(connection, arm)
        make(connection, "int", "LIST (k)", lists(*map(str, range(40))))
        # So all rows that wait are inserted now and then.
        connection.execute("CREATE INDEX ON p (k)")
        connection.execute(series("(i::bigint * 7919 % 40)::int", 60_000))
        sizes.append(int(scalar(connection, SIZE)))
    assert sizes[1] <= sizes[0] * 1.1


def test_prepared_insert_finds_new_partitions(connection: Connection) -> None:
    choose(connection, ONE_PAGE)
    make(connection, "int", "RANGE (k)", from_to("0", "500"))
    connection.execute(f"PREPARE ins (int) AS {series('i + $1', 400)}")
    connection.execute("EXECUTE ins (0)")
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("EXECUTE ins (400)")
    connection.execute("CREATE TABLE more PARTITION OF p FOR VALUES FROM (500) TO (5000)")
    connection.execute("EXECUTE ins (400)")
    connection.execute("ALTER TABLE p DETACH PARTITION more")
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("EXECUTE ins (400)")
    connection.execute("DEALLOCATE ins; DROP TABLE more")
    assert scalar(connection, "SELECT count(*) FROM p") == 499


def test_partitions_that_change_meanwhile(server: WatchedServer, connection: Connection) -> None:
    """Others attach and detach partitions while a statement routes rows; none gets lost."""
    choose(connection, EXTENTS)
    make(connection, "int", "RANGE (k)", from_to("0", "500", "1000"))
    connection.execute("CREATE TABLE others PARTITION OF p DEFAULT")
    with server.connect() as loader, server.connect() as other:
        for session in (loader, other):
            session.execute("SET lock_timeout = '20s'")
        choose(loader, EXTENTS)
        for round_ in range(10):
            with loader.transaction():
                loader.execute(series("i % 1000", 3000))
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    other.execute("SET lock_timeout = '10ms'; DROP TABLE p1")
                other.execute("SET lock_timeout = '20s'")
            other.execute(
                "ALTER TABLE p DETACH PARTITION p1; "
                "ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (500) TO (1000)"
            )
            assert scalar(other, "SELECT count(*) FROM p") == 3000 * (round_ + 1)
