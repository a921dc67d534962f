"""What `lookahead check` says of rows that are inserted, and whether they then are in batches."""

from collections.abc import Iterator
from typing import Any

import pytest
from extension.probes import Connection
from server_log import ServerFactory, WatchedServer

from lab.outcome import Outcome, run_command
from lookahead.errors import ExitStatus
from lookahead.extension import Stage

_TABLES = """
    CREATE TABLE big AS SELECT id, repeat('x', 300) AS pad FROM generate_series(1, 30000) AS id;
    CREATE TABLE few AS SELECT generate_series(1, 100) AS x;
    CREATE FUNCTION v(int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN true; END';
    CREATE FUNCTION s(int) RETURNS bool LANGUAGE plpgsql STABLE AS 'BEGIN RETURN true; END';
    CREATE FUNCTION i(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
    CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
    CREATE TABLE plain (id int CHECK (i(id) AND now() > '2000-1-1'), pad text);
    CREATE TABLE checked (id int CHECK (v(id)), pad text);
    CREATE TABLE stable (id int CHECK (s(id)), pad text);
    CREATE TABLE thrown (id int CHECK (random() < 2), pad text);
    CREATE TABLE sized (id int, pad text CHECK (pg_column_size(pad) > 1));
    CREATE TABLE fired (id int, pad text);
    CREATE TRIGGER t AFTER INSERT ON fired FOR EACH ROW
        WHEN (pg_column_size(new.pad) = 0) EXECUTE FUNCTION same();
    CREATE TABLE others (id int, pad text) PARTITION BY RANGE (id);
    CREATE TABLE other PARTITION OF others FOR VALUES FROM (0) TO (90000);
    CREATE TRIGGER t BEFORE UPDATE ON others FOR EACH ROW WHEN (v(new.id)) EXECUTE FUNCTION same();
    CREATE VIEW seen AS TABLE fired;
    CREATE TRIGGER t INSTEAD OF INSERT ON seen FOR EACH ROW EXECUTE FUNCTION same();
    CREATE TABLE parts (id int, pad text) PARTITION BY RANGE (id);
    CREATE TABLE part PARTITION OF parts (CHECK (v(id))) FOR VALUES FROM (0) TO (90000);
"""
_DOUBT = "DON'T KNOW: inserting: its rows (about 30,000) would be inserted in batches, unless"
_ELSEWHERE = "LITTLE: inserting: PostgreSQL inserts its rows, as in a WITH, a view or"
# The verdict, and whether the rows are then in batches.
_STATEMENTS = {
    "INSERT INTO plain TABLE big": ("YES: ", True),
    "INSERT INTO checked TABLE big": (_DOUBT, False),
    "INSERT INTO stable TABLE big": (_DOUBT, False),
    "INSERT INTO thrown TABLE big": (_DOUBT, True),  # one of few that may be
    "INSERT INTO sized TABLE big": (_DOUBT, False),
    "INSERT INTO fired TABLE big": (_DOUBT, False),
    "INSERT INTO parts TABLE big": (_DOUBT, False),
    "INSERT INTO others TABLE big": ("YES: ", True),  # its trigger is for UPDATE
    "INSERT INTO plain SELECT * FROM big WHERE id > (SELECT min(x) FROM few)": ("YES: ", True),
    "INSERT INTO plain SELECT * FROM big WHERE id < 500": ("LITTLE: inserting: too few", True),
    "WITH w AS (INSERT INTO plain TABLE big RETURNING id) SELECT count(*) FROM w": (
        _ELSEWHERE,
        False,
    ),
    "INSERT INTO seen TABLE big": (_ELSEWHERE, False),
    "CREATE TABLE made AS TABLE big": ("YES: ", True),
    "CREATE TABLE made AS SELECT id FROM big": ("LITTLE: inserting: PostgreSQL inserts", False),
    "CREATE TABLE made AS TABLE big LIMIT 3000": ("LITTLE: inserting: PostgreSQL", False),
    "SELECT id INTO made FROM big LIMIT 20000": ("LITTLE: inserting: PostgreSQL", False),
}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage, settings={"autovacuum": "off"}) as made:
        with made.connect() as connection:
            connection.execute(_TABLES)
            connection.execute("VACUUM ANALYZE big, few")
        yield made


def _check(server: WatchedServer, statement: str, settings: str = "") -> Outcome:
    options = " ".join(f"-c {setting}" for setting in settings.split())
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    return run_command("check", statement, "--dsn", f"{place} options='{options}'")


def _batches(connection: Connection, statement: str) -> int:
    """Of all nodes and of a new table, when the statement is executed; nothing stays of it."""
    with connection.transaction(force_rollback=True):
        row = connection.execute(
            f"EXPLAIN (ANALYZE, LOOKAHEAD, FORMAT JSON) {statement}".encode()
        ).fetchone()
    assert row is not None
    return sum(_found(row[0]))


def _found(part: Any) -> Iterator[int]:
    if isinstance(part, dict):
        yield int(part.get("Batches", 0))
    for value in part.values() if isinstance(part, dict) else part:
        if isinstance(value, (dict, list)):
            yield from _found(value)


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_inserts(server: WatchedServer, statement: str) -> None:
    verdict, batched = _STATEMENTS[statement]
    outcome = _check(server, statement)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert outcome.stdout.startswith(verdict), outcome.stdout
    with server.connect() as connection:
        assert (_batches(connection, statement) > 0) == batched


@pytest.mark.parametrize("table", ["fired", "sized"])
def test_copy_into_tables_that_look_at_how_rows_are_stored(
    server: WatchedServer, table: str
) -> None:
    assert _check(server, f"COPY {table} FROM STDIN").stdout.startswith("DON'T KNOW: its rows")


def test_new_tables_without_rows(server: WatchedServer) -> None:
    made = "CREATE TABLE made AS SELECT *, 'with no data' FROM big"
    empty = _check(server, f"{made} WITH NO DATA; ").stdout
    assert empty.startswith("NO: WITH NO DATA executes nothing")
    assert _check(server, made).stdout.startswith("YES: ")
    left = _check(server, made, "pg_lookahead.bulk_extend_size=0").stdout
    assert left.startswith("LITTLE: inserting: PostgreSQL inserts its rows one by one: pg_look")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO plain TABLE big",
        "CREATE TABLE m AS TABLE big",
        "UPDATE plain SET id = 1",
        "WITH gone AS (DELETE FROM plain RETURNING id) SELECT * FROM gone",
    ],
)
def test_where_nothing_may_be_written(server: WatchedServer, statement: str) -> None:
    outcome = _check(server, statement, "default_transaction_read_only=on")
    assert outcome.status is ExitStatus.USAGE
    assert "server refuses the statement: default_transaction_read_only is on" in outcome.stderr
