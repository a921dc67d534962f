"""`lookahead check --top`: the statements of pg_stat_statements, judged by their generic plans."""

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer

from lab.outcome import Outcome, run_command
from lookahead.check.workload import Judged, workload_lines
from lookahead.errors import ExitStatus, UnavailableError
from lookahead.extension import Stage
from lookahead.installation import Installation

_TABLES = """
    CREATE EXTENSION pg_stat_statements;
    CREATE TABLE orders AS SELECT id, id * 7919 % 50000 AS k, repeat('x', 200) AS pad
        FROM generate_series(0, 49999) AS id;
    CREATE INDEX orders_k ON orders (k);
    CREATE TABLE skewed AS SELECT CASE WHEN id % 10 = 0 THEN id ELSE 0 END AS k, pad FROM orders;
    CREATE INDEX ON skewed (k);
    CREATE TABLE gone AS SELECT id FROM orders;
    ALTER DATABASE postgres SET enable_bitmapscan = off;
    ALTER DATABASE postgres SET enable_seqscan = off;
    CREATE ROLE reader LOGIN;
    CREATE ROLE second SUPERUSER LOGIN;
    CREATE ROLE mallory LOGIN;
    ALTER ROLE mallory SET session_preload_libraries = pg_lookahead;
    CREATE SCHEMA AUTHORIZATION mallory;
"""
# Planning folds the function that is declared immutable, whatever that one calls.
_TRAP = """
    CREATE TABLE mallory.t AS SELECT i AS a, repeat('x', 500) AS pad
        FROM generate_series(1, 6000) AS i;
    CREATE FUNCTION mallory.h() RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN
        IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            RAISE 'the trap was called'; END IF;
        RETURN 1; END $$;
    CREATE FUNCTION mallory.f() RETURNS int LANGUAGE plpgsql IMMUTABLE
        AS $$ BEGIN RETURN mallory.h(); END $$;
"""


@pytest.fixture(scope="module")
def server(
    server_factory: ServerFactory, stage: Stage, installation: Installation
) -> Iterator[WatchedServer]:
    if not (installation.pkglibdir / "pg_stat_statements.so").exists():
        pytest.skip("this server has no pg_stat_statements")
    settings = {"shared_preload_libraries": "pg_stat_statements", "shared_buffers": "1MB"}
    with server_factory(stage=stage, settings=settings) as made:
        with made.connect() as connection:
            connection.execute(_TABLES)
            connection.execute("VACUUM ANALYZE orders, gone, skewed")
        with made.connect() as connection:
            connection.execute("SELECT pg_stat_statements_reset()")
            connection.execute("SELECT sum(length(pad)) FROM orders WHERE k BETWEEN 100 AND 20000")
            connection.execute("SELECT count(*) FROM gone WHERE id > 3")
            connection.execute("SELECT min(pad) FROM skewed WHERE k = 0")
            values = ", ".join(str(number * 97) for number in range(500))
            connection.execute(f"SELECT avg(length(pad)) FROM orders WHERE k IN ({values})")
            connection.execute("SELECT count(pad) FROM orders WHERE interval '1 d' > '1 h'")
            connection.execute("VACUUM (DISABLE_PAGE_SKIPPING) orders")
            connection.execute("DROP TABLE gone")
        with made.connect(user="second") as connection:
            connection.execute("SELECT max(pad) FROM orders WHERE k BETWEEN 100 AND 9000")
        with made.connect(user="mallory") as connection:
            connection.execute(_TRAP)
            connection.execute("SELECT count(pad) FROM mallory.t WHERE a = mallory.f()")
        yield made


def _top(server: WatchedServer, *options: str, user: str = "postgres") -> Outcome:
    place = f"host={server.socket_directory} port={server.port} user={user} dbname=postgres"
    return run_command("check", "--dsn", place, "--top", "20", *options)


def test_statements_with_most_reads_come_first(server: WatchedServer) -> None:
    outcome = _top(server)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    workload, first, verdict, *_ = outcome.stdout.splitlines()
    assert " statements would gain; they have " in workload
    assert (
        " call of postgres: SELECT sum(length(pad)) FROM orders WHERE k BETWEEN $1 AND $2" in first
    )
    assert verdict.startswith("  WHEN COLD: about ")
    found = json.loads(_top(server, "--json").stdout)
    assert (found["schema"], found["schema_version"]) == ("lookahead-check-top", 1)
    reads = [one["reads"] for one in found["statements"]]
    assert reads == sorted(reads, reverse=True)
    assert sum(one["share"] for one in found["statements"]) <= 1.0001


def test_a_statement_that_cannot_be_planned_is_not_known(server: WatchedServer) -> None:
    lines = _top(server).stdout.splitlines()
    (place,) = [number for number, line in enumerate(lines) if "FROM gone WHERE" in line]
    assert lines[place + 1] == (
        '  DON\'T KNOW: the server refuses the statement: relation "gone" does not exist'
    )


def test_what_is_no_statement_as_it_is_kept(server: WatchedServer) -> None:
    found = _judged(server, "SELECT count(pad) FROM orders")
    assert found["reason"].endswith('syntax error at or near "$1": check it with the values')


def test_commands_are_told_in_few_words(server: WatchedServer) -> None:
    found = _judged(server, "VACUUM ")
    assert (found["verdict"], found["reason"][:25]) == ("no", "EXPLAIN has no plan of it")


def test_statements_of_others_are_left_out(server: WatchedServer) -> None:
    """Whose text a role may not see."""
    with server.connect() as connection:
        connection.execute("ALTER ROLE reader SET session_preload_libraries = 'pg_lookahead'")
    outcome = _top(server, user="reader")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "orders" not in outcome.stdout


def _judged(server: WatchedServer, beginning: str, user: str = "postgres") -> Any:
    found = json.loads(_top(server, "--json", user=user).stdout)["statements"]
    (one,) = (one for one in found if one["query"].startswith(beginning))
    return one


def test_statements_of_others_are_not_planned(server: WatchedServer) -> None:
    """Their role's functions would be called with the rights of who asks."""
    trap = _judged(server, "SELECT count(pad) FROM mallory.t")
    assert (trap["role"], trap["verdict"]) == ("mallory", "unknown")
    assert trap["reason"].startswith("planning it could call its role's functions")
    second = _judged(server, "SELECT max(pad) FROM orders")
    assert (second["role"], second["verdict"]) == ("second", "when cold")
    own = _judged(server, "SELECT count(pad) FROM mallory.t", user="mallory")
    assert (own["role"], own["verdict"]) == ("mallory", "little")


def test_a_list_of_values_is_not_known(server: WatchedServer) -> None:
    """It is kept as its first value, and so planned as one."""
    found = _judged(server, "SELECT avg(length(pad)) FROM orders")
    assert " IN ($1 /*, ... */)" in found["query"]
    assert (found["verdict"], found["reason"][:23]) == ("unknown", "its list of values is k")


def test_a_statement_that_reads_more_than_its_generic_plan_is_not_known(
    server: WatchedServer,
) -> None:
    found = _judged(server, "SELECT min(pad) FROM skewed")
    assert found["reads"] > 1000
    assert found["verdict"] == "unknown"
    assert re.fullmatch(r"it read [\d,]+ pages a call, its generic plan \d+ at .*", found["reason"])


def test_what_is_cached_is_asked_once(
    server: WatchedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("lookahead.check.workload.cached_bytes", lambda _: asked.append(1))
    monkeypatch.setattr("lookahead.check.opinion.cached_bytes", lambda _: asked.append(2))
    assert _top(server).status is ExitStatus.SUCCESS
    assert asked == [1]


def test_what_was_only_planned_is_left_out(server: WatchedServer) -> None:
    """It has read, and no calls by which to divide that."""
    with server.connect() as connection:
        connection.execute("SET pg_stat_statements.track_planning = on")
        connection.execute(
            "CREATE FUNCTION counted() RETURNS int LANGUAGE plpgsql IMMUTABLE "
            "AS $$ BEGIN RETURN (SELECT count(pad) FROM orders); END $$"
        )
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT k / (k - k) FROM orders WHERE id < counted()")
        planned = connection.execute(
            "SELECT FROM pg_stat_statements WHERE calls = 0 AND plans > 0 AND shared_blks_read > 0"
        )
        assert planned.fetchall()
    outcome = _top(server)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "FROM orders WHERE id < counted()" not in outcome.stdout


def test_a_text_that_is_not_utf_8(server: WatchedServer) -> None:
    """As a database without an encoding may have it; the rest is judged."""
    create = "CREATE DATABASE plain ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C'"
    with server.connect() as connection:
        connection.execute(f"{create} TEMPLATE template0")
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=plain"
    try:
        with server.connect("plain") as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
            connection.execute(
                "CREATE TABLE kept AS SELECT repeat('x', 900) AS pad FROM generate_series(1, 9000)"
            )
            connection.execute(b'SELECT count(pad) AS "\xe9" FROM kept')
            connection.execute('SELECT min(pad) AS "\xe9" FROM kept'.encode())
        outcome = run_command("check", "--dsn", place, "--top", "20")
    finally:
        with server.connect() as connection:  # to other databases, that text is an error
            connection.execute(
                "SELECT pg_stat_statements_reset(0, oid, 0) FROM pg_database WHERE datname='plain'"
            )
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    lines = outcome.stdout.splitlines()
    (place_of_it,) = (at for at, line in enumerate(lines) if "SELECT count(pad)" in line)
    assert lines[place_of_it].endswith(r'AS "\udce9" FROM kept')
    assert lines[place_of_it + 1] == "  DON'T KNOW: the statement is not UTF-8"
    (other,) = (at for at, line in enumerate(lines) if 'SELECT min(pad) AS "\xe9"' in line)
    assert lines[other + 1].startswith("  LITTLE: ")


def test_a_server_that_goes_away(server: WatchedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise UnavailableError("no connection to the server: gone")

    monkeypatch.setattr("lookahead.check.workload.advise_on", gone)
    outcome = _top(server)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert outcome.stdout == ""


@pytest.mark.parametrize(
    "query", ["SELECT 1/0, 0", "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)"]
)
def test_what_is_cached_may_not_be_told(
    server: WatchedServer, installation: Installation, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    if not (installation.pkglibdir / "pg_buffercache.so").exists():
        pytest.skip("this server has no pg_buffercache")
    monkeypatch.setattr("lookahead.check.facts._CACHED", query)
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION pg_buffercache")
        try:
            assert "WHEN COLD: about " in _top(server).stdout
            place = f"host={server.socket_directory} port={server.port} user=postgres"
            one = run_command("check", "SELECT max(pad) FROM orders WHERE k > 9", "--dsn", place)
        finally:
            connection.execute("DROP EXTENSION pg_buffercache")
    assert one.stdout.startswith("WHEN COLD: "), one.stderr


def test_planning_has_an_end(server: WatchedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookahead.check.opinion.PLANNING_LIMIT_S", 0.1)
    with server.connect() as connection:
        connection.execute(
            "CREATE FUNCTION sleeps() RETURNS int LANGUAGE plpgsql IMMUTABLE "
            "AS $$ BEGIN PERFORM pg_sleep(60); RETURN 1; END $$"
        )
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    outcome = run_command("check", "SELECT FROM orders WHERE k = sleeps()", "--dsn", place)
    assert outcome.status is ExitStatus.FAILURE
    assert "canceling statement due to statement timeout" in outcome.stderr


def test_a_database_without_the_extension(server: WatchedServer) -> None:
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=template1"
    outcome = run_command("check", "--dsn", place, "--top", "5")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "error: this database has no extension pg_stat_statements" in outcome.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name either a statement or --top"),
        (("SELECT 1", "--top", "3"), "name either a statement or --top"),
        (("--top", "3", "--measure"), "--top measures nothing"),
        (("--top", "0"), "0 is not in the range"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], words: str) -> None:
    outcome = run_command("check", *arguments)
    assert outcome.status is ExitStatus.USAGE
    assert words in outcome.stderr


def test_what_is_said_of_the_workload() -> None:
    judged = [
        Judged(
            "app", "SELECT  *\n FROM a" + " " * 9 + "WHERE " + "b" * 99, 10, 6e6, 0.6, "yes", "x"
        ),
        Judged("app", "SELECT f($1)", 1, 1e6, 0.1, "unknown", "y"),
    ]
    assert list(workload_lines(judged)) == [
        "1 of 2 statements would gain; they have 60% of the reads of this database, all that are "
        "shown 70%",
        f"60% of the reads, 6,000,000 in 10 calls of app: SELECT * FROM a WHERE {'b' * 47}...",
        "  YES: x",
        "10% of the reads, 1,000,000 in 1 call of app: SELECT f($1)",
        "  DON'T KNOW: y",
    ]
    (line,) = workload_lines([])
    assert line.startswith("NO: ")
