"""`lookahead check --cold`: what is evicted before each execution, and what is said of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer

from lab.orders import QUERY, dsn_of, orders_server, run_check
from lookahead.check.statement import StatementCancelled
from lookahead.check.target import cold_maker
from lookahead.errors import ExitStatus
from lookahead.extension import Stage
from lookahead.guarded_connection import GuardedConnection


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    """A server on which no session has the library unless it loads it."""
    with orders_server(server_factory, stage) as made:
        yield made


def test_cold_needs_a_way_to_empty_caches(server: WatchedServer) -> None:
    outcome = run_check(server, QUERY, "--measure", "--cold")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "--cold is not possible here" in outcome.stderr
    assert "CREATE EXTENSION pg_lookahead" in outcome.stderr


def test_cold_with_nothing_to_evict(server: WatchedServer) -> None:
    """Statements inside functions would be measured warm."""
    outcome = run_check(server, "SELECT looks(7)", "--measure", "--cold")
    assert outcome.status is ExitStatus.USAGE
    assert "error: --cold has nothing to empty: the plan reads no table" in outcome.stderr


def test_cold_evicts_the_tables_and_indexes_of_the_plan(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION pg_lookahead")
    try:
        outcome = run_check(server, QUERY, "--measure", "--cold", "--repetitions", "1", "--json")
    finally:
        with server.connect() as connection:
            connection.execute("DROP EXTENSION pg_lookahead")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    measured = json.loads(outcome.stdout)["measurement"]
    assert measured["caches"] == "cold: 2 relations evicted"
    # All pages of the table that it hits, and leaves of the index.
    assert all(sample["shared_read_blocks"] > 1000 for sample in measured["samples"])


@contextmanager
def _extension(server: WatchedServer) -> Iterator[psycopg.Connection[Any]]:
    """The extension, and a session that has it."""
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION pg_lookahead")
        try:
            yield connection
        finally:
            connection.execute("DROP EXTENSION pg_lookahead")


def test_what_stays_in_memory_is_not_cold(server: WatchedServer) -> None:
    """A session that keeps a page in use."""
    with _extension(server) as connection, connection.transaction():
        connection.execute("DECLARE held CURSOR FOR TABLE odd; FETCH held")
        outcome = run_check(server, "TABLE odd", "--measure", "--cold", "--repetitions", "1")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "caches:     not cold: " in outcome.stdout
    assert " stayed in memory when 1 relations were evicted" in outcome.stdout


def _scan(table: str) -> dict[str, str]:
    return {"Node Type": "Seq Scan", "Schema": "public", "Relation Name": table}


def test_an_eviction_has_the_time_that_is_left(server: WatchedServer) -> None:
    with _extension(server) as connection, connection.transaction():
        connection.execute("LOCK odd")
        with pytest.raises(StatementCancelled, match="an eviction was ended"):
            cold_maker(dsn_of(server), _scan("odd"))(0.1)


def test_all_evictions_together_have_the_time_that_is_left(
    server: WatchedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    monkeypatch.setattr(GuardedConnection, "limit_time", lambda _, limit, **__: given.append(limit))
    plan = {"Plans": [_scan("odd"), _scan("orders")], "Node Type": "Append"}
    with _extension(server):
        evict = cold_maker(dsn_of(server), plan)
        monkeypatch.setattr("lookahead.check.target.monotonic", iter((100, 103, 107)).__next__)
        assert evict(10).startswith("cold: 2 relations")
        assert given == [7, 3]
        monkeypatch.setattr("lookahead.check.target.monotonic", iter((100, 103, 110)).__next__)
        with pytest.raises(StatementCancelled, match="an eviction was ended"):
            evict(10)
    assert given == [7, 3, 7]


def test_tables_of_other_schemas_are_not_evicted(server: WatchedServer) -> None:
    """A planner that knows no better order would call the function before it looks at schemas."""
    dsn = f"{dsn_of(server)} options='-c geqo_threshold=2'"
    with _extension(server) as connection:
        connection.execute("CREATE SCHEMA other; CREATE VIEW other.odd AS TABLE odd")
        try:
            for table in ("odd", "gone"):
                assert cold_maker(dsn, _scan(table))(60) == "cold: 1 relations evicted"
        finally:
            connection.execute("DROP SCHEMA other CASCADE")


def test_an_eviction_that_is_refused(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute(
            "CREATE EXTENSION pg_lookahead; GRANT EXECUTE ON FUNCTION pg_lookahead_evict TO reader;"
            "ALTER ROLE reader SET session_preload_libraries = 'pg_lookahead'"
        )
    try:
        outcome = run_check(server, QUERY, "--measure", "--cold", user="reader")
    finally:
        with server.connect() as connection:
            connection.execute(
                "DROP EXTENSION pg_lookahead; ALTER ROLE reader RESET session_preload_libraries"
            )
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert 'error: cannot evict "public.orders": ' in outcome.stderr
