"""Rows at and over the limits of a btree: refused when and in which words stock refuses them."""

from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import Connection, need_icu, need_own_memory
from server_log import WatchedServer

from index_build.lone_worker import gated, lone_worker
from index_build.stories import compare
from index_build.twins import Counters, Failure, Twins, choose, with_workers
from lookahead_bench.build_watch import BuildWatch

# Hexadecimal digits hardly compress. Most text of an index row is 2704 bytes less its headers.
_HEX = "(SELECT string_agg(md5(i || ':' || j), '') FROM generate_series(1, 256) j)"
_LARGEST = 2704 - 8 - 4


def _table(column: str, length: str, rows: int = 100) -> tuple[str, ...]:
    return (
        f"CREATE TABLE r (k int, body text STORAGE {column}) WITH (autovacuum_enabled = off)",
        f"INSERT INTO r SELECT i, left({_HEX}, {length}) FROM generate_series(1, {rows}) i",
    )


@pytest.fixture(scope="module", autouse=True)
def _collations(server: WatchedServer) -> Iterator[None]:
    with server.connect() as session:
        session.execute(
            "CREATE COLLATION glibc (provider = libc, locale = 'C.UTF-8'); "
            "CREATE COLLATION cu (provider = builtin, locale = 'C.UTF-8')"
        )
        yield
        session.execute("DROP COLLATION glibc, cu CASCADE")  # of what the last story left


def _refused(twins: Twins, *statements: str, state: str = "54000") -> Failure:
    """The last statement fails with stock's words; they come back."""
    told = compare(twins, statements, fails=[state], exactly=True)
    failure = told.failures[-1]
    assert failure is not None
    return failure


# Collations whose keys are the bytes, sort keys of ICU, of the C library; none (abbreviated keys).
_KEYS = {
    "C": 'body COLLATE "C"',
    "builtin": "body COLLATE cu",
    "icu": 'body COLLATE "und-x-icu"',
    "libc": "body COLLATE glibc",
    "bytea": "(body::bytea)",
    "second": 'k, body COLLATE "C"',
    "include": "k) INCLUDE (body",
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("length", [_LARGEST + 8, 7950, 8172])
@pytest.mark.parametrize("keys", _KEYS)
def test_too_long_row(
    connection: Connection, twins: Twins, keys: str, length: int, workers: int
) -> None:
    """A few rows of many are; the one that stock names is the first in the index's order."""
    if keys == "icu":
        need_icu(connection)
    connection.execute(f"SET maintenance_work_mem = '160MB'; {with_workers(workers)}")
    rows = _table("EXTERNAL", f"CASE WHEN i % 40 = 13 THEN {length} ELSE 40 END")
    failure = _refused(twins, *rows, f"CREATE INDEX r_i ON r ({_KEYS[keys]})")
    if length < 8172:
        assert "exceeds btree version 4 maximum 2704" in failure.message
        assert 'in relation "r"' in failure.detail


@pytest.mark.parametrize("storage", ["PLAIN", "EXTERNAL", "MAIN"])
@pytest.mark.parametrize("keys", _KEYS)
def test_longest_row(twins: Twins, keys: str, storage: str) -> None:
    """Rows of just the largest size are indexed, by us; some more bytes are compressed away."""
    if keys == "icu":
        need_icu(twins.connection)
    length = f"{_LARGEST - 8 if keys in ('second', 'include') else _LARGEST} - i % 20"
    compare(twins, [*_table(storage, length), f"CREATE INDEX r_i ON r ({_KEYS[keys]})"], built=1)


@pytest.mark.parametrize("kind", ["TEMP", "UNLOGGED"])
def test_too_long_row_of_other_tables(twins: Twins, kind: str) -> None:
    make, fill = _table("EXTERNAL", "3000")
    make = make.replace("CREATE TABLE", f"CREATE {kind} TABLE")
    _refused(twins, make, fill, "CREATE INDEX r_i ON r (k) INCLUDE (body)")


def test_too_long_row_concurrently_and_again(twins: Twins) -> None:
    """What CONCURRENTLY leaves behind is refused by REINDEX too."""
    rows = _table("EXTERNAL", "3000")
    create = "CREATE INDEX CONCURRENTLY r_i ON r (k) INCLUDE (body)"
    again = ("REINDEX INDEX r_i", "REINDEX INDEX CONCURRENTLY r_i")
    told = compare(twins, (*rows, create, *again), fails=["54000"] * 3, exactly=True)
    assert not told.indexes["r_i"].facts[0]  # indisvalid


def test_duplicates_come_before_a_too_long_row(twins: Twins) -> None:
    """They are found while stock sorts, the other when it loads what is sorted."""
    rows = _table("EXTERNAL", "CASE WHEN i = 1 THEN 3000 ELSE 40 END")
    again = "INSERT INTO r VALUES (77, 'again')"
    create = "CREATE UNIQUE INDEX r_i ON r (k) INCLUDE (body)"
    failure = _refused(twins, *rows, again, create, state="23505")
    assert failure.detail == "Key (k)=(77) is duplicated."


def test_error_of_an_expression_comes_before_a_too_long_row(twins: Twins) -> None:
    rows = _table("EXTERNAL", "CASE WHEN i = 1 THEN 3000 ELSE 40 END")
    _refused(twins, *rows, "CREATE INDEX r_i ON r (body, (1 / (k - 99)))", state="22012")


def test_too_long_row_that_is_dead_is_let_through(twins: Twins) -> None:
    rows = _table("EXTERNAL", "CASE WHEN i = 50 THEN 3000 ELSE 40 END")
    compare(
        twins,
        (*rows, "DELETE FROM r WHERE k = 50", "CREATE INDEX r_i ON r (k) INCLUDE (body)"),
        built=1,
    )


def test_too_long_row_that_a_worker_meets(server: WatchedServer, connection: Connection) -> None:
    """The leader has not seen it, nor any other entry of the worker's."""
    choose(connection, "ours")
    for statement in _table("EXTERNAL", "CASE WHEN i = 80 THEN 3000 ELSE 1800 END", 160):
        connection.execute(statement)
    refused = pytest.raises(psycopg.errors.ProgramLimitExceeded, match="index row size")
    with gated(connection), refused, lone_worker(server, connection.info.backend_pid):
        connection.execute('CREATE INDEX r_i ON r (gated(k), body COLLATE "C")')
    connection.execute("DROP TABLE r")
    assert Counters.of(connection).left["row size"] == 1


def test_temporary_files_are_gone_before_postgresql_builds(connection: Connection) -> None:
    """Its own are below the limit, and so were ours; together they are not."""
    choose(connection, "ours")
    connection.execute(
        "CREATE TABLE r WITH (autovacuum_enabled = off) AS "
        f"SELECT CASE WHEN i < 200000 THEN md5(i::text) ELSE left({_HEX}, 3000) END AS body "
        "FROM generate_series(1, 200000) i"
    )
    connection.execute("SET maintenance_work_mem = '2MB'; SET temp_file_limit = '18MB'")
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="index row size"):
        connection.execute('CREATE INDEX r_i ON r (body COLLATE "C")')
    connection.execute("DROP TABLE r")
    assert Counters.of(connection).left["row size"] == 1


def test_megabytes_are_refused_before_their_sort_keys_are_made(
    server: WatchedServer, connection: Connection
) -> None:
    """A sort key would be larger than the text, and so is what it is made of."""
    need_icu(connection)
    need_own_memory(connection)
    connection.execute(
        "CREATE TABLE r AS SELECT string_agg(md5(i::text), '') AS body "
        "FROM generate_series(1, 200000) i"
    )
    create = 'CREATE INDEX r_i ON r (body COLLATE "und-x-icu")'
    with server.connect() as session, server.connect() as watcher:
        choose(session, "ours")
        session.execute("CREATE INDEX r_n ON r (length(body)); DROP INDEX r_n")
        refused = pytest.raises(psycopg.errors.ProgramLimitExceeded, match="index row requires")
        with BuildWatch(watcher, session.info.backend_pid) as watch, refused:
            session.execute(create)
    connection.execute("DROP TABLE r")
    assert watch.peak_memory_bytes is not None
    # The text, and what its compression made; both arms take 2 of it, with the sort key it was 5.
    assert watch.peak_memory_bytes < 3.5 * 32 * 200_000
