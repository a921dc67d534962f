"""Where the rows of a COPY FROM come from, and what happens beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import Connection, scalar
from psycopg.pq import DiagnosticField, ExecStatus
from server_log import WatchedServer
from waiting import wait_until

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, STOCK, Arm, Counters, choose
from bulk_insert.copying import MANY, Case, copy, execute, lines, look, make
from bulk_insert.facts import failure_of

_INTO_FUNCTION = """
    CREATE FUNCTION load(name text) RETURNS bigint LANGUAGE plpgsql AS $$
        DECLARE found bigint;
        BEGIN
            EXECUTE format('COPY t FROM %L', name);
            GET DIAGNOSTICS found = ROW_COUNT;
            RETURN found + (SELECT count(*) FROM t);
        END $$"""
_FIELDS = (
    DiagnosticField.SQLSTATE,
    DiagnosticField.MESSAGE_PRIMARY,
    DiagnosticField.CONTEXT,
)
_DUPLICATES = Case("CREATE TABLE t (k int PRIMARY KEY, s text)", lines() + lines(1, 800))


@pytest.fixture(scope="module")
def path(server: WatchedServer) -> str:
    """A file that the server can read."""
    return str(server.write_file("rows.txt", lines()))


def _both(session: Connection, case: Case, statement: str) -> None:
    make(session, STOCK, case)
    stock = execute(session, case, statement)
    make(session, EXTENTS, case)
    assert execute(session, case, statement) == stock


@pytest.mark.parametrize(
    "source",
    ["'{}'", "PROGRAM 'cat {}'", "PROGRAM 'cat {}; exit 3'", "PROGRAM 'cat {} | head -c 9'"],
)
@pytest.mark.parametrize("making", [Case.making, "CREATE TABLE t (k int CHECK (k < 2000), s text)"])
def test_file_and_program(connection: Connection, path: str, source: str, making: str) -> None:
    _both(connection, Case(making), f"COPY t FROM {source.format(path)}")


@pytest.mark.parametrize("name", ["/nonexistent", "/", "relative"])
def test_no_such_file(connection: Connection, name: str) -> None:
    _both(connection, Case(), f"COPY t FROM '{name}'")


def test_user_who_may_not_read_files(connection: Connection, path: str) -> None:
    case = Case(f"{Case.making}; GRANT ALL ON SCHEMA copying TO PUBLIC; GRANT ALL ON t TO PUBLIC")
    connection.execute("CREATE ROLE reader IN ROLE pg_read_server_files; CREATE ROLE stranger")
    for role in ("reader", "stranger"):
        for source in (f"'{path}'", f"PROGRAM 'cat {path}'"):
            found = []
            for arm in (STOCK, EXTENTS):
                make(connection, arm, case)
                connection.execute(f"SET ROLE {role}")
                found.append(execute(connection, case, f"COPY t FROM {source}"))
            assert found[0] == found[1]
            assert found[0].failed == (role == "stranger" or "PROGRAM" in source)


def test_in_a_function(connection: Connection, path: str) -> None:
    case = Case(f"{Case.making}; {_INTO_FUNCTION}", after=f"SELECT load('{path}'), load('{path}')")
    found = []
    for arm in (STOCK, ONE_PAGE):
        make(connection, arm, case)
        found.append(execute(connection, case, f"SELECT load('{path}')"))
    assert found[0] == found[1]
    assert found[0].after == [(3 * MANY, 4 * MANY)]


def test_error_in_a_function(connection: Connection, server: WatchedServer) -> None:
    """Its context has the line, then the function."""
    name = server.write_file("duplicates.txt", _DUPLICATES.bytes.decode())
    case = Case(f"{_DUPLICATES.making}; {_INTO_FUNCTION}")
    _both(connection, case, f"SELECT load('{name}')")


def test_prepared_by_a_kept_plan(connection: Connection, path: str) -> None:
    """The statement tree of a function is used again and again."""
    function = f"""
        CREATE FUNCTION again() RETURNS bigint LANGUAGE plpgsql AS $$
            BEGIN
                COPY t (k, s) FROM '{path}';
                RETURN count(*) FROM t;
            END $$"""
    make(connection, EXTENTS, Case(f"{Case.making}; {function}"))
    counts = [scalar(connection, "SELECT again()") for _ in range(3)]
    assert counts == [MANY, 2 * MANY, 3 * MANY]


def test_psql(server: WatchedServer, connection: Connection, path: str) -> None:
    make(connection, EXTENTS, Case())
    done = server.run_client(
        "psql",
        "-Xc",
        EXTENTS.statement,
        "-c",
        f"\\copy copying.t from '{path}'",
        "-c",
        "SELECT 'batched ' || batched_rows FROM pg_stat_lookahead WHERE feature = 'bulk_insert'",
        "-At",
    )
    assert f"COPY {MANY}" in done.stdout
    assert f"batched {MANY}" in done.stdout


def test_client_gives_up(connection: Connection) -> None:
    """It sends CopyFail, which psycopg's own copy() keeps to itself."""
    found = []
    for arm in (STOCK, EXTENTS):
        make(connection, arm, Case())
        raw = connection.pgconn
        assert raw.exec_(b"COPY t FROM STDIN").status == ExecStatus.COPY_IN
        raw.put_copy_data(lines().encode() * 20)
        raw.put_copy_end(b"the client gives up")
        result = raw.get_result()
        assert result is not None and raw.get_result() is None
        found.append([result.error_field(field) for field in _FIELDS])
        assert scalar(connection, "SELECT count(*) FROM t") == 0
    assert found[0] == found[1]
    assert found[0][1] == b"COPY from stdin failed: the client gives up"


def test_many_copies_in_one_session(connection: Connection) -> None:
    """None leaves anything behind, neither a small one nor one that fails."""
    case = Case("CREATE TABLE t (k int CHECK (k < 5000), s text)")
    make(connection, EXTENTS, case)
    for first in (1, 4990, 1, 4990, 2000):
        result = copy(connection, Case(case.making, lines(1000, first)))
        assert result.failed == (first == 4990)
    for k in range(50):
        copy(connection, Case(data=lines(1, k)))
    assert scalar(connection, "SELECT count(*) FROM t") == 3050


@pytest.fixture
def watcher(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as session:
        yield session


@pytest.mark.parametrize("arm", [STOCK, ONE_PAGE, EXTENTS], ids=lambda arm: arm.name)
def test_progress(connection: Connection, watcher: Connection, arm: Arm) -> None:
    """As stock shows it, but that rows are counted when they come, not when a thousand have."""
    make(connection, arm, Case())
    data = lines(30_000)
    progress = (
        "SELECT command, type, bytes_processed, bytes_total, tuples_processed "
        "FROM pg_stat_progress_copy"
    )
    with connection.cursor().copy("COPY t FROM STDIN") as stream:
        stream.write(data)
        wait_until(
            lambda: (watcher.execute(progress).fetchone() or (0, 0, 0))[2] > 100_000, "bytes"
        )
        found = watcher.execute(progress).fetchone()
    assert found is not None
    command, kind, processed, total, tuples = found
    assert (command, kind, total) == ("COPY FROM", "PIPE", 0)
    assert 0 < tuples <= 30_000
    assert processed <= len(data)
    assert watcher.execute(progress).fetchone() is None


def test_cancel(connection: Connection, watcher: Connection) -> None:
    found = []
    for arm in (STOCK, EXTENTS):
        make(connection, arm, Case())
        pid = connection.info.backend_pid
        ended = threading.Event()

        def cancel(ended: threading.Event = ended, pid: int = pid) -> None:
            while not ended.wait(0.05):
                watcher.execute("SELECT pg_cancel_backend(%s)", (pid,))

        thread = threading.Thread(target=cancel)
        with (
            pytest.raises(psycopg.errors.QueryCanceled) as raised,
            connection.cursor().copy("COPY t FROM STDIN") as stream,
        ):
            thread.start()
            for _ in range(100_000):
                stream.write(lines(100))
        ended.set()
        thread.join()
        # The line is that of the moment.
        found.append(failure_of(raised.value)[:5])
        assert _rows_after_interruption(connection) == 0
    assert found[0] == found[1]


def _rows_after_interruption(session: Connection) -> int:
    for _ in range(10):
        try:
            return int(scalar(session, "SELECT count(*) FROM t"))
        except psycopg.errors.QueryCanceled:
            continue
    raise AssertionError("cancelled again and again")


def test_what_is_counted(connection: Connection) -> None:
    case = Case("CREATE TABLE t (k int, s text)", lines())
    make(connection, EXTENTS, case)
    before = Counters.of(connection)
    copy(connection, case)
    after = Counters.of(connection)
    assert (after.nodes, after.rows) == (before.nodes + 1, before.rows + MANY)
    assert after.batches > before.batches
    assert after.extended > before.extended
    assert after.left == before.left


def test_table_grows_by_several_pages_at_a_time(
    connection: Connection, server: WatchedServer
) -> None:
    """Also below the threshold, and by few buffers at a time, as in stock."""
    path = server.write_file("wide.txt", "".join(f"{k}\t{'x' * 870}\n" for k in range(3500)))
    extended = (
        "SELECT context, extends, round(extend_bytes / 8192) "
        "FROM pg_stat_get_backend_io(pg_backend_pid()) "
        "WHERE object = 'relation' AND context <> 'vacuum' ORDER BY context"
    )
    found = []
    for arm in (STOCK, DEFAULT):
        make(connection, arm, Case())
        connection.execute("SELECT pg_stat_reset_backend_stats(pg_backend_pid())")
        connection.execute(f"COPY t FROM '{path}'")
        connection.execute("SELECT pg_stat_force_next_flush()")
        found.append({name: counts for name, *counts in connection.execute(extended).fetchall()})
    (stock_times, stock_pages), (times, pages) = (counts["bulkwrite"] for counts in found)
    assert stock_pages > 400
    assert stock_times < 100
    assert times <= stock_times + 5
    assert abs(pages - stock_pages) <= 64
    assert found[1]["normal"][0] <= found[0]["normal"][0] + 5


_LEFT = {
    "FREEZE": Case(options="(FREEZE)", inside="TRUNCATE t"),
    "ON_ERROR": Case(data="x\ty\n" + lines(), options="(ON_ERROR ignore)"),
    "WHERE": Case(options="WHERE k % 3 = 0"),
    "bulk_extend_size is 0": Case(inside="SET LOCAL pg_lookahead.bulk_extend_size = 0"),
    "row trigger": Case(
        f"{Case.making}; CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RETURN NEW; END'; "
        "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
    ),
    "transition table": Case(
        f"{Case.making}; CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RETURN NULL; END'; CREATE TRIGGER a AFTER INSERT ON t "
        "REFERENCING NEW TABLE AS n EXECUTE FUNCTION f()"
    ),
    "subpartitions": Case(
        "CREATE TABLE t (k int, s text) PARTITION BY LIST ((k % 2));"
        "CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1) PARTITION BY RANGE (k);"
        "CREATE TABLE t10 PARTITION OF t1 FOR VALUES FROM (0) TO (700);"
        "CREATE TABLE t11 PARTITION OF t1 DEFAULT"
    ),
    "system catalog": Case(f"{Case.making}; ALTER TABLE t SET (user_catalog_table = true)"),
}
_LOOKS = (
    "CREATE FUNCTION f(int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1 + count(*)::int FROM t'"
)
_VOLATILE = {
    "check": Case(f"{Case.making}; {_LOOKS}; ALTER TABLE t ADD CHECK (f(k) > 0)"),
    "default": Case(
        f"{Case.making}; {_LOOKS}; ALTER TABLE t ADD n int DEFAULT f(1)", target="t (k, s)"
    ),
    "domain": Case(
        f"{Case.making}; {_LOOKS}; CREATE DOMAIN d AS int CHECK (f(VALUE) > 0); "
        "ALTER TABLE t ALTER k TYPE d"
    ),
}


@pytest.mark.parametrize("name", _LEFT)
def test_copy_is_left_to_core(connection: Connection, name: str) -> None:
    reason = "COPY option" if name in ("FREEZE", "ON_ERROR", "WHERE") else name
    _assert_left(connection, _LEFT[name], reason)


@pytest.mark.parametrize("name", _VOLATILE)
def test_functions_that_look_for_rows(connection: Connection, name: str) -> None:
    _assert_left(connection, _VOLATILE[name], "volatile function")


def _assert_left(session: Connection, case: Case, reason: str) -> None:
    make(session, STOCK, case)
    stock = copy(session, case)
    make(session, EXTENTS, case)
    before = Counters.of(session)
    assert copy(session, case) == stock
    after = Counters.of(session)
    assert after.rows == before.rows
    assert after.left[reason] == before.left.get(reason, 0) + 1


def test_waiting_for_a_lock(connection: Connection, watcher: Connection) -> None:
    """A lock on the table is waited for, and its timeout is that of stock."""
    found = []
    for arm in (STOCK, EXTENTS):
        case = Case()
        make(connection, arm, case)
        connection.execute("SET lock_timeout = '200ms'")
        with watcher.transaction():
            watcher.execute("LOCK TABLE copying.t")
            with (
                pytest.raises(psycopg.errors.LockNotAvailable) as raised,
                connection.cursor().copy("COPY t FROM STDIN") as stream,
            ):
                stream.write(lines())
        found.append((failure_of(raised.value), look(connection, case, (), [])))
        connection.execute("RESET lock_timeout")
        choose(connection, STOCK)
    assert found[0] == found[1]
