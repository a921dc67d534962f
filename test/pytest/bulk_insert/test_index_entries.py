"""Index entries of inserted rows: collected and sorted, or the whole index built at the end."""

import psycopg
import pytest
from extension.probes import Connection, scalar

from bulk_insert.arms import DEFAULT, STOCK, choose
from bulk_insert.facts import as_found_by_a_row

# Past 4 MB, in an order that is not that of the keys.
_ROWS = 60_000
_SOURCE = (
    "SELECT (i::bigint * 7919 % 1000003)::int AS k, i AS n, repeat('x', 80) AS pad "
    f"FROM generate_series(1, {_ROWS}) i"
)
_INDEXES = (
    "CREATE INDEX i_key ON t (k)",
    "CREATE UNIQUE INDEX i_unique ON t (n DESC)",
    "CREATE INDEX i_part ON t (k, pad) INCLUDE (n) WHERE k % 3 = 0",
    "CREATE INDEX i_expression ON t ((n % 100), lower(pad))",
    "CREATE INDEX i_hash ON t USING hash (k)",
    "CREATE INDEX i_brin ON t USING brin (n)",
)
_IN_TRANSACTION = ("", "TRUNCATE t; ")


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
    connection.execute("DROP TABLE IF EXISTS t")
    connection.execute("CREATE TABLE t (k int, n int, pad text)")
    for statement in _INDEXES:
        connection.execute(statement)
    choose(connection, DEFAULT)


def _sorted_entries(session: Connection) -> int:
    return int(
        scalar(
            session,
            "SELECT sorted_entries FROM pg_stat_lookahead WHERE feature = 'bulk_insert'",
        )
    )


def _built(session: Connection) -> int:
    return int(scalar(session, "SELECT scans FROM pg_stat_lookahead WHERE feature = 'index_build'"))


def _emptied(session: Connection) -> int:
    """Builds so far, those of the empty table included."""
    session.execute("TRUNCATE t")
    return _built(session)


def _verify(session: Connection, rows: int) -> None:
    assert scalar(session, "SELECT count(*) FROM t") == rows
    assert session.execute("SELECT * FROM verify_heapam('t')").fetchall() == []
    for name in ("i_key", "i_unique", "i_part", "i_expression"):
        session.execute(f"SELECT bt_index_parent_check('{name}', true, true)")
    session.execute("SET enable_seqscan = off")
    for name, count in (("hash (k)", 1), ("btree (n)", 1)):
        column = name.split("(")[1].rstrip(")")
        value = scalar(session, f"SELECT max({column}) FROM t")
        assert scalar(session, f"SELECT count(*) FROM t WHERE {column} = {value}") >= count
    session.execute("RESET enable_seqscan")


@pytest.mark.parametrize("before", [0, 1000, 200_000], ids=["empty", "few", "many"])
def test_entries_are_sorted(connection: Connection, before: int) -> None:
    choose(connection, STOCK)
    connection.execute(f"INSERT INTO t SELECT i, -i, 'before' FROM generate_series(1, {before}) i")
    choose(connection, DEFAULT)
    counted = _sorted_entries(connection)
    connection.execute(f"INSERT INTO t {_SOURCE}")
    assert _sorted_entries(connection) > counted + 40_000
    _verify(connection, _ROWS + before)


def test_indexes_of_a_new_file_are_built(connection: Connection) -> None:
    with connection.transaction():
        built = _emptied(connection)
        connection.execute(f"INSERT INTO t {_SOURCE}")
    assert _built(connection) == built + 4
    _verify(connection, _ROWS)
    with connection.transaction():
        connection.execute("TRUNCATE t")
        connection.execute("INSERT INTO t SELECT i, -i, 'before' FROM generate_series(1, 500) i")
        connection.execute(f"INSERT INTO t {_SOURCE}")
        connection.execute(f"INSERT INTO t {_SOURCE.replace('i AS n', f'i + {_ROWS} AS n')}")
    _verify(connection, 2 * _ROWS + 500)


def test_planner_statistics_stay(connection: Connection) -> None:
    with connection.transaction():
        connection.execute("TRUNCATE t")
        connection.execute(f"INSERT INTO t {_SOURCE}")
    rows = connection.execute(
        "SELECT relname, reltuples FROM pg_class WHERE relname IN ('t', 'i_key') ORDER BY relname"
    ).fetchall()
    assert rows == [("i_key", 0.0), ("t", -1.0)] or all(count <= 0 for _, count in rows)


def test_few_rows_build_nothing(connection: Connection) -> None:
    """Whatever number of rows the planner expects."""
    with connection.transaction():
        built = _emptied(connection)
        connection.execute(
            "INSERT INTO t SELECT a, a, 'x' FROM unnest((SELECT array_agg(x) FROM "
            "generate_series(1, 60) x)) a, generate_series(1, (SELECT 1)) b, "
            "jsonb_to_recordset('[{\"c\": 1}]') AS r(c int)"
        )
    assert _built(connection) == built
    _verify(connection, 60)


def test_savepoint_keeps_the_index(connection: Connection) -> None:
    """A file made before the savepoint is not emptied after it."""
    with connection.transaction():
        built = _emptied(connection)
        connection.execute("INSERT INTO t SELECT i, -i, 'before' FROM generate_series(1, 500) i")
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
            connection.execute(f"INSERT INTO t {_SOURCE} UNION ALL SELECT 1, 1, 'again'")
        assert _built(connection) == built
    _verify(connection, 500)


@pytest.mark.parametrize("first", _IN_TRANSACTION, ids=["sorted", "built"])
@pytest.mark.parametrize("duplicate", [2, 30, 1000, _ROWS - 1])
def test_duplicate_keys(connection: Connection, first: str, duplicate: int) -> None:
    """PostgreSQL's error in every field, but that an index built at the end says "duplicated"."""
    query = _SOURCE.replace(
        "i AS n", f"CASE i WHEN {duplicate + 1} THEN {duplicate} ELSE i END AS n"
    )
    fields = []
    for arm in (STOCK, DEFAULT):
        choose(connection, arm)
        with pytest.raises(psycopg.errors.UniqueViolation) as raised, connection.transaction():
            if first:
                connection.execute("TRUNCATE t")
            connection.execute(f"INSERT INTO t {query}")
        diagnosis = raised.value.diag
        detail = diagnosis.message_detail or ""
        fields.append(
            (
                diagnosis.message_primary,
                as_found_by_a_row(detail) if first else detail,
                diagnosis.schema_name,
                diagnosis.table_name,
                diagnosis.constraint_name,
                diagnosis.context,
            )
        )
    assert fields[0] == fields[1]


def test_error_of_an_index_function_stays(connection: Connection) -> None:
    connection.execute(
        "CREATE OR REPLACE FUNCTION boom(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS "
        "$$ BEGIN IF i = 59000 THEN RAISE unique_violation USING MESSAGE = 'my own'; END IF; "
        "RETURN i; END $$"
    )
    connection.execute("CREATE INDEX i_boom ON t (boom(n))")
    for arm in (STOCK, DEFAULT):
        choose(connection, arm)
        with (
            pytest.raises(psycopg.errors.UniqueViolation, match="my own"),
            connection.transaction(),
        ):
            connection.execute("TRUNCATE t")
            connection.execute(f"INSERT INTO t {_SOURCE}")


def test_cursor_of_a_function(connection: Connection) -> None:
    """An index that a function of the statement may have open is not built anew."""
    connection.execute(
        "CREATE OR REPLACE FUNCTION opens(i int) RETURNS int STABLE LANGUAGE plpgsql AS "
        "$$ DECLARE c refcursor := 'kept'; x int; BEGIN IF i = 50000 THEN "
        "OPEN c FOR SELECT k FROM t WHERE k >= 0 ORDER BY k; FETCH c INTO x; END IF; "
        "RETURN i; END $$"
    )
    with connection.transaction():
        built = _emptied(connection)
        connection.execute("SET LOCAL enable_seqscan = off")
        connection.execute("INSERT INTO t SELECT i, -i, 'before' FROM generate_series(1, 500) i")
        connection.execute(f"INSERT INTO t {_SOURCE.replace('i AS n', 'opens(i) AS n')}")
        assert len(connection.execute("FETCH ALL FROM kept").fetchall()) == 499
    assert _built(connection) == built
    _verify(connection, _ROWS + 500)


@pytest.mark.parametrize("constraint", ["UNIQUE (n) DEFERRABLE", "EXCLUDE USING btree (n WITH =)"])
def test_constraints_that_are_checked_row_by_row(connection: Connection, constraint: str) -> None:
    connection.execute("DROP INDEX i_unique")
    connection.execute(f"ALTER TABLE t ADD CONSTRAINT checked {constraint}")
    connection.execute(f"INSERT INTO t {_SOURCE}")
    with pytest.raises(psycopg.errors.IntegrityError):
        connection.execute(f"INSERT INTO t {_SOURCE}")
    assert scalar(connection, "SELECT count(*) FROM t") == _ROWS
    connection.execute("SELECT bt_index_parent_check('checked', true, true)")


def test_temp_file_limit(connection: Connection) -> None:
    """An insert needs no more temporary files than PostgreSQL's."""
    connection.execute(f"CREATE TEMP TABLE source AS {_SOURCE}")
    connection.execute("SET temp_file_limit = 0")
    connection.execute("SET work_mem = '64kB'")
    connection.execute("INSERT INTO t SELECT * FROM source")
    connection.execute("RESET temp_file_limit")
    connection.execute("RESET work_mem")
    connection.execute("DROP TABLE source")
    _verify(connection, _ROWS)


@pytest.mark.parametrize(
    ("columns", "key", "query"),
    [
        (
            "a int",
            f"({' || '.join(f'md5((a + {n})::text)' for n in range(10))})",
            "SELECT i FROM (SELECT generate_series(1, 160000) i) r",
        ),
        (
            "a int, p text STORAGE EXTERNAL",
            "p",
            "SELECT i, repeat(md5(i::text), CASE WHEN i > 80000 THEN 75 ELSE 1 END) "
            "FROM (SELECT generate_series(1, 82000) i) r",
        ),
    ],
    ids=["expression", "out of line"],
)
def test_temp_file_limit_and_long_keys(
    connection: Connection, columns: str, key: str, query: str
) -> None:
    """Keys of the rows of one page are many times longer than the rows there."""
    connection.execute(f"DROP TABLE IF EXISTS w; CREATE TABLE w ({columns})")
    connection.execute(f"CREATE INDEX w_key ON w ({key})")
    connection.execute("SET temp_file_limit = 0")
    connection.execute("SET work_mem = '64kB'")
    counted = _sorted_entries(connection)
    connection.execute(f"INSERT INTO w {query}")
    assert _sorted_entries(connection) > counted + 1000
    connection.execute("RESET temp_file_limit")
    connection.execute("SELECT bt_index_parent_check('w_key', true, true)")
    connection.execute("DROP TABLE w")


def test_two_sessions_with_the_same_keys(connection: Connection, server: object) -> None:
    """The second waits for the first, and fails when that has committed."""
    with server.connect() as other:  # type: ignore[attr-defined]
        choose(other, DEFAULT)
        other.execute("SET lock_timeout = '300ms'")
        with connection.transaction():
            connection.execute(f"INSERT INTO t {_SOURCE}")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute(f"INSERT INTO t {_SOURCE}")
        with pytest.raises(psycopg.errors.UniqueViolation):
            other.execute(f"INSERT INTO t {_SOURCE}")
    _verify(connection, _ROWS)


def test_function_that_inserts_into_the_same_table(connection: Connection) -> None:
    """A stable function may call a volatile one: what both insert into a new file stays."""
    connection.execute(
        "CREATE OR REPLACE FUNCTION adds(i int) RETURNS int VOLATILE LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO fresh SELECT -i, repeat('v', 500) FROM generate_series(1, 30); "
        "RETURN i; END $$"
    )
    connection.execute(
        "CREATE OR REPLACE FUNCTION calls(i int) RETURNS int STABLE LANGUAGE plpgsql AS "
        "$$ BEGIN IF i % 10000 = 0 THEN RETURN adds(i); END IF; RETURN i; END $$"
    )
    with connection.transaction():
        connection.execute("CREATE TABLE fresh (i int, p text)")
        connection.execute(
            "INSERT INTO fresh SELECT calls(i), repeat('x', 500) FROM generate_series(1, 100000) i"
        )
    assert scalar(connection, "SELECT count(*) FROM fresh") == 100_300
    assert connection.execute("SELECT * FROM verify_heapam('fresh')").fetchall() == []
    connection.execute("DROP TABLE fresh")


def test_builds_need_no_temporary_files(connection: Connection) -> None:
    connection.execute(f"CREATE TEMP TABLE source AS {_SOURCE}")
    connection.execute("SET temp_file_limit = 0")
    connection.execute("SET maintenance_work_mem = '1MB'")
    with connection.transaction():
        built = _emptied(connection)
        connection.execute("INSERT INTO t SELECT * FROM source")
    assert _built(connection) == built
    for name in ("temp_file_limit", "maintenance_work_mem"):
        connection.execute(f"RESET {name}")
    connection.execute("DROP TABLE source")
    _verify(connection, _ROWS)
