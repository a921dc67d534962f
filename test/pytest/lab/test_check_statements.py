"""Odd statements, names and types that `lookahead check` meets on a user's server."""

import io
import os
import sys
from collections.abc import Iterator

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer

from lab.outcome import Outcome, run_command
from lookahead.check.statement import explained_errors, has_parameters
from lookahead.errors import ExitStatus, LabError
from lookahead.extension import Stage
from lookahead.guarded_connection import query_failed

_TABLES = """
    CREATE TYPE mood AS ENUM ('sad', 'happy');
    CREATE TYPE pair AS (x int, y mood);
    CREATE TABLE moods (id int, m mood, p pair, a mood[]);
    INSERT INTO moods VALUES (1, 'sad', (1, 'sad'), '{sad,happy}'), (2, NULL, NULL, NULL);
    CREATE FUNCTION nothing() RETURNS void IMMUTABLE LANGUAGE sql AS 'SELECT';
    CREATE MATERIALIZED VIEW stored AS SELECT 1;
    CREATE TABLE silent (id int);
    CREATE RULE r AS ON INSERT TO silent DO INSTEAD NOTHING;
    CREATE TABLE loud (id int);
    CREATE RULE r AS ON INSERT TO loud DO INSTEAD NOTIFY loud;
    CREATE TABLE telling (id int);
    CREATE RULE r AS ON INSERT TO telling DO INSTEAD SELECT 7 AS told;
    CREATE TABLE doubled (id int);
    CREATE RULE r AS ON INSERT TO doubled DO ALSO INSERT INTO silent VALUES (1);
    CREATE RULE s AS ON INSERT TO doubled DO INSTEAD (SELECT 1; SELECT 2);
"""
# Of types that psycopg would make into objects of Python, and of others.
_VALUES = r"""
    SELECT ARRAY[1, NULL], ARRAY['a b', '{'], '[1,2)'::int4range, '{[1,2)}'::nummultirange,
        ARRAY['[,2020-01-01]'::daterange], ROW(1, 'x'), ARRAY[ROW(1, NULL)], '{"a": 1}'::jsonb,
        interval '1 mon', 'infinity'::timestamptz, ARRAY['-infinity'::date], 'NaN'::numeric,
        ARRAY['1.2.3.4/8'::inet], B'101', '\xff'::bytea, ARRAY['\x00'::bytea], '(1,2)'::point,
        'a b'::tsvector, 'x'::"char", time '24:00', '4000-01-01 BC'::date, 'pg_am'::regclass, ctid
    FROM moods"""
_EVIL = "\x1b]0;owned\x07\u202e\x9b31m\r"
_EVIL_SHOWN = r"\x1b]0;owned\x07\u202e\x9b31m\r"


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage) as made:
        with made.connect() as connection:
            connection.execute(_TABLES)
            connection.execute(f'CREATE TABLE "{_EVIL}" (id int)')
            connection.execute('CREATE TABLE "a\nYES: b" (id int)')
        yield made


def _check(server: WatchedServer, statement: str, *options: str) -> Outcome:
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    return run_command("check", statement, "--dsn", place, *options)


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT m FROM moods", 2),
        ("SELECT m, p, a FROM moods", 2),
        ("SELECT nothing() FROM moods", 2),
        ("SELECT FROM moods", 2),
        ("SELECT pg_typeof(m), ROW(m, 1), m::text FROM moods", 2),
        (_VALUES, 2),
    ],
)
def test_any_type_is_compared(server: WatchedServer, statement: str, rows: int) -> None:
    outcome = _check(server, statement, "--measure", "--repetitions", "1")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert f"rows:       {rows}, the same" in outcome.stdout


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("INSERT INTO silent VALUES (1)", "NO"),
        ("INSERT INTO loud VALUES (1)", "NO"),
        ("/* a */ -- b\nVACUUM", "NO"),
        ("CREATE EXTENSION plpgsql", "NO"),
        ("CREATE TABLE likewise (LIKE moods INCLUDING ALL)", "NO"),
        ("CREATE TABLE plain (id int DEFAULT $1)", "NO"),
        ("GRANT SELECT ON moods TO public", "NO"),
        ("COMMIT", "NO"),
        ("REFRESH MATERIALIZED VIEW stored", "DON'T KNOW"),
        ("CALL nobody(1)", "DON'T KNOW"),
    ],
)
def test_what_has_no_plan(server: WatchedServer, statement: str, verdict: str) -> None:
    outcome = _check(server, statement)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert outcome.stdout.startswith(f"{verdict}: EXPLAIN has no plan of it")
    measured = _check(server, statement, "--measure")
    assert measured.status is ExitStatus.USAGE
    assert "error: the statement is no query" in measured.stderr


def test_an_error_in_a_command_has_its_place(server: WatchedServer) -> None:
    """Not that at which EXPLAIN stops to read it."""
    outcome = _check(server, "CREATE TABLE new (\n  id int DEFALT 7)")
    assert outcome.status is ExitStatus.USAGE
    assert outcome.stderr.splitlines()[:3] == [
        'error: the server refuses the statement: syntax error at or near "DEFALT"',
        "  LINE 2:   id int DEFALT 7)",
        f"{' ' * 19}^",
    ]


def test_what_rules_make_of_a_statement(server: WatchedServer) -> None:
    assert _check(server, "INSERT INTO telling VALUES (1)").status is ExitStatus.SUCCESS
    outcome = _check(server, "INSERT INTO telling VALUES (1)", "--measure")
    assert outcome.status is ExitStatus.USAGE
    assert "error: the statement writes: " in outcome.stderr
    outcome = _check(server, "INSERT INTO doubled VALUES (1)")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    outcome = _check(server, "INSERT INTO doubled VALUES (1)", "--measure")
    assert outcome.status is ExitStatus.USAGE
    assert "rules make several statements of it" in outcome.stderr


def test_a_cursor_has_a_plan_and_no_rows(server: WatchedServer) -> None:
    statement = "DECLARE c CURSOR FOR TABLE moods"
    assert _check(server, statement).status is ExitStatus.SUCCESS
    outcome = _check(server, statement, "--measure")
    assert outcome.status is ExitStatus.USAGE
    assert "error: the statement returns no rows" in outcome.stderr


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT 1\0; nonsense", "the statement holds a zero byte"),
        ("SELECT '\udcff'", "the statement is not UTF-8"),
    ],
)
def test_what_cannot_be_sent_whole(server: WatchedServer, statement: str, words: str) -> None:
    outcome = _check(server, statement)
    assert outcome.status is ExitStatus.USAGE
    assert f"error: {words}" in outcome.stderr


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        (b"SELECT '\xff'", ExitStatus.USAGE, "error: the statement is not UTF-8"),
        (None, ExitStatus.USAGE, "error: the server refuses the statement: syntax error at end"),
        (b" " * (16 << 20) + b"1", ExitStatus.USAGE, "error: the statement is too long"),
        (b"SELECT 1 \0 junk", ExitStatus.USAGE, "error: the statement holds a zero byte"),
        ("SELECT '\N{SNOWMAN}'".encode(), ExitStatus.SUCCESS, ""),
    ],
)
def test_standard_input(
    server: WatchedServer,
    monkeypatch: pytest.MonkeyPatch,
    given: bytes | None,
    status: ExitStatus,
    words: str,
) -> None:
    """None: it is closed."""
    stdin = None if given is None else io.TextIOWrapper(io.BytesIO(given), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", stdin)
    outcome = _check(server, "-")
    assert outcome.status is status
    assert words in outcome.stderr


def test_standard_input_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of nohup, which is open for writing."""
    with os.fdopen(os.open(os.devnull, os.O_WRONLY)) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        outcome = run_command("check", "-")
    assert outcome.status is ExitStatus.USAGE
    assert "error: standard input cannot be read: Bad file descriptor" in outcome.stderr


@pytest.mark.parametrize(
    ("statement", "has_some"),
    [
        ("SELECT $1", True),
        ("SELECT 'a' 'b' WHERE k IN($1)", True),
        ("SELECT E'a\\\\', $1", True),
        (r"SELECT E'it\'s $1', '\', '$1', \"$1\", $a$ $1 $a$ -- $1", False),
        ("SELECT 1 AS col$1", False),
    ],
)
def test_parameters_are_told_from_texts(statement: str, has_some: bool) -> None:
    assert has_parameters(statement) is has_some


@pytest.mark.parametrize(
    "error", [psycopg.errors.LockNotAvailable, psycopg.errors.TransactionTimeout]
)
def test_time_limits_are_no_fault_of_the_statement(error: type[psycopg.Error]) -> None:
    finished = pytest.raises(LabError, match="was not finished: late")
    with finished as caught, explained_errors("SELECT 1"):
        raise error("late")
    assert caught.value.status is ExitStatus.FAILURE
    told = query_failed(psycopg.errors.QueryCanceled("late"))
    assert told.message == "a query of lookahead failed: late"
    assert told.hint.startswith("It has a minute at most; limits and rights of the role")
    other = query_failed(psycopg.errors.ObjectNotInPrerequisiteState("restricted"))
    assert other.message == "a query of lookahead failed: restricted"
    for lost in (psycopg.OperationalError("gone"), psycopg.errors.AdminShutdown("gone")):
        assert query_failed(lost).message == "the connection is lost: gone"


@pytest.mark.parametrize("called", ["check.advise_on", "check.judge_top"])
def test_what_ends_a_query_of_the_labs_own(monkeypatch: pytest.MonkeyPatch, called: str) -> None:
    """Such as a limit of the transaction, or a view that a role may not read."""

    def run(error: psycopg.Error) -> Outcome:
        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr(f"lookahead.commands.{called}", fail)
        return run_command("check", *(["SELECT 1"] if "advise" in called else ["--top", "1"]))

    for kind in (psycopg.errors.TransactionTimeout, psycopg.errors.InsufficientPrivilege):
        outcome = run(kind("late"))
        assert outcome.status is ExitStatus.FAILURE
        assert outcome.stderr.startswith("error: a query of lookahead failed: late\nhint: ")
    with pytest.raises(psycopg.ProgrammingError):
        run(psycopg.ProgrammingError("a mistake of ours"))


def test_names_do_not_reach_the_terminal_as_they_are(server: WatchedServer) -> None:
    outcome = _check(server, f'TABLE "{_EVIL}"')
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert f"Seq Scan on public.{_EVIL_SHOWN}" in outcome.stdout
    failed = _check(server, f'SELECT no FROM "{_EVIL}"')
    assert failed.status is ExitStatus.USAGE
    for text in (outcome.stdout, failed.stderr):
        assert not any(character in text for character in _EVIL if not character.isprintable())


def test_a_name_makes_no_line_of_its_own(server: WatchedServer) -> None:
    outcome = _check(server, 'TABLE "a\nYES: b"')
    assert r"Seq Scan on public.a\nYES: b" in outcome.stdout
    assert not any(line.startswith("YES") for line in outcome.stdout.splitlines())


def test_markup_and_emoji_codes_stay_as_they_are(server: WatchedServer) -> None:
    outcome = _check(server, 'TABLE "[bold]:warning:[/]"')
    assert 'relation "[bold]:warning:[/]" does not exist' in outcome.stderr


def test_a_plan_that_is_nested_deeply(server: WatchedServer) -> None:
    """Deeper than Python recurses; OFFSET keeps the levels apart."""
    statement = "SELECT id FROM moods"
    for _ in range(700):
        statement = f"SELECT id FROM ({statement} OFFSET 1) AS t"
    outcome = _check(server, statement)
    assert outcome.status is ExitStatus.FAILURE
    assert "error: the plan is nested too deeply to be read" in outcome.stderr
