"""`lookahead check` against a server: what it shows, what it refuses, and that nothing changes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from server_log import ServerFactory, WatchedServer

from lab.orders import QUERY, dsn_of, orders_server, run_check
from lab.outcome import run_command
from lookahead.check.measure import _with_length
from lookahead.check.statement import explain
from lookahead.errors import ExitStatus
from lookahead.extension import Stage


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    """A server on which no session has the library unless it loads it."""
    with orders_server(server_factory, stage) as made:
        yield made


def _content(server: WatchedServer) -> Any:
    with server.connect() as connection:
        return connection.execute(
            "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM pg_class)"
        ).fetchone()


def test_shows_each_scan_and_a_conclusion(server: WatchedServer) -> None:
    outcome = run_check(server, QUERY)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    verdict, first, second, third = outcome.stdout.splitlines()
    assert verdict.startswith("WHEN COLD: about 1,")
    assert first == "Index Scan using orders_k on public.orders"
    assert second.startswith("  would read ahead: about 1,")
    assert third.endswith("MB, fits into shared buffers")


def test_says_why_a_scan_stays_with_stock(server: WatchedServer) -> None:
    dsn = f"{dsn_of(server)} options='-c pg_lookahead.enabled=off'"
    outcome = run_command("check", QUERY, "--dsn", dsn)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "  left to PostgreSQL: disabled; about 1," in outcome.stdout
    verdict = "NO: every scan is left to PostgreSQL (disabled): see docs/troubleshooting.md"
    assert outcome.stdout.startswith(verdict)


def test_measures_pairs_and_compares_rows(server: WatchedServer) -> None:
    outcome = run_check(server, QUERY, "--measure", "--repetitions", "2", "--json")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    found = json.loads(outcome.stdout)
    assert (found["schema"], found["schema_version"]) == ("lookahead-check", 3)
    assert found["verdict"] == "when cold"
    assert found["nodes"][0]["attached"] is True
    measured = found["measurement"]
    arms = [sample["arm"] for sample in measured["samples"]]
    assert arms == ["stock", "lookahead", "lookahead", "stock"]
    assert all(sample["shared_hit_blocks"] > 1000 for sample in measured["samples"])
    assert (measured["rows"], measured["same_order"]) == (2901, True)
    text = run_check(server, QUERY, "--measure", "--repetitions", "2").stdout
    assert "rows:       2,901, the same with the library on and off, in the same order" in text


def test_values_without_a_counterpart_in_python(server: WatchedServer) -> None:
    outcome = run_check(server, "SELECT * FROM odd", "--measure", "--repetitions", "1")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "rows:       3, the same" in outcome.stdout


def test_rows_that_differ_are_an_error(server: WatchedServer) -> None:
    statement = "SELECT current_setting('pg_lookahead.enabled')"
    outcome = run_check(server, statement, "--measure")
    assert outcome.status is ExitStatus.DIFFERENT_ROWS
    words = "error: the rows differ: 1 with the library off, the same ones in 5 executions; 1 with"
    assert words in outcome.stderr
    assert "this is a bug of pg_lookahead" in outcome.stderr


@pytest.mark.parametrize(
    "statement", ["SELECT random()", "SELECT id FROM orders TABLESAMPLE SYSTEM (10)"]
)
def test_rows_that_vary_by_themselves_say_nothing(server: WatchedServer, statement: str) -> None:
    options = ("--measure", "--allow-volatile", "--repetitions", "1")
    outcome = run_check(server, statement, *options)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert ", others in each execution, so they say nothing" in outcome.stdout
    measured = json.loads(run_check(server, statement, *options, "--json").stdout)["measurement"]
    assert measured["same_order"] is None


def test_a_statement_with_parameters(server: WatchedServer) -> None:
    """As pg_stat_statements has it; what is in quotes or a comment is no parameter."""
    outcome = run_check(server, "SELECT * FROM orders WHERE k = ANY ($1) ORDER BY k LIMIT $2")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "Index Scan using orders_k on public.orders" in outcome.stdout
    measured = run_check(server, "SELECT * FROM orders WHERE k = $1", "--measure")
    assert measured.status is ExitStatus.USAGE
    assert "error: the statement has parameters, so it cannot be executed" in measured.stderr
    quoted = "SELECT '$1', $$ $1 $$ /* $1 */ -- $1"
    outcome = run_check(server, quoted, "--measure", "--repetitions", "1")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr


@pytest.mark.parametrize(
    "statement", ["SELECT $1; DROP TABLE orders", "SELECT $1; COMMIT; DROP TABLE orders"]
)
def test_parameters_do_not_let_a_second_statement_in(server: WatchedServer, statement: str) -> None:
    before = _content(server)
    outcome = run_check(server, statement)
    assert outcome.status is ExitStatus.USAGE
    assert "cannot insert multiple commands" in outcome.stderr
    assert _content(server) == before


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM orders WHERE k = 1", "the statement writes: its plan modifies a table"),
        (
            "WITH gone AS (DELETE FROM orders RETURNING k) SELECT * FROM gone",
            "the statement writes: its plan modifies a table",
        ),
        ("CREATE TABLE copied AS SELECT 1", "cannot execute CREATE TABLE AS in a read-only"),
        ("SELECT k FROM orders FOR UPDATE", "cannot execute SELECT FOR UPDATE in a read-only"),
        ("SELECT lo_create(0)", "cannot execute lo_create() in a read-only"),
        ("SELECT 1; DROP TABLE orders", "cannot insert multiple commands"),
        ("SELECT 1; COMMIT; DROP TABLE orders", "cannot insert multiple commands"),
        ("ANALYZE SELECT 1", 'syntax error at or near "SELECT"'),
    ],
)
def test_nothing_that_writes_is_executed(server: WatchedServer, statement: str, words: str) -> None:
    before = _content(server)
    outcome = run_check(server, statement, "--measure", "--allow-volatile")
    assert outcome.status is ExitStatus.USAGE
    assert words in outcome.stderr
    assert "hint: " in outcome.stderr
    assert _content(server) == before


def test_a_write_is_explained_without_being_executed(server: WatchedServer) -> None:
    before = _content(server)
    outcome = run_check(server, "DELETE FROM orders WHERE k BETWEEN 100 AND 3000")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "Index Scan using orders_k on public.orders" in outcome.stdout
    assert _content(server) == before


def test_the_place_of_an_error_is_shown(server: WatchedServer) -> None:
    outcome = run_check(server, "SELECT k,\n       padd\nFROM orders")
    assert outcome.status is ExitStatus.USAGE
    assert outcome.stderr.splitlines() == [
        'error: the server refuses the statement: column "padd" does not exist',
        "  LINE 2:        padd",
        "                 ^",
        'hint: Perhaps you meant to reference the column "orders.pad".',
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "",
        " ; ",
        "SELECT 1 +",
        "CREATE INDEX ON missing (a)",
        "VACUUM (",
        "SELECT '\N{SNOWMAN}",
        "VALUES (1), (2, 3)",  # the grammar takes it, and the error is one of syntax
    ],
)
def test_what_cannot_be_explained_is_refused(server: WatchedServer, statement: str) -> None:
    outcome = run_check(server, statement)
    assert outcome.status is ExitStatus.USAGE
    assert outcome.stderr.startswith("error: the server refuses")
    is_hinted = "One statement that EXPLAIN takes is checked." in outcome.stderr
    assert is_hinted == ("missing" not in statement)


def test_a_library_that_is_disabled_is_not_compared(
    server_factory: ServerFactory, stage: Stage
) -> None:
    with server_factory(stage=stage, settings={"pg_lookahead.disable": "on"}) as made:
        outcome = run_check(made, "SELECT 1", "--measure")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "pg_lookahead.disable is on" in outcome.stderr


def test_measuring_takes_few_executions_and_says_which(server: WatchedServer) -> None:
    outcome = run_check(server, QUERY, "--measure")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    first, *steps = outcome.stderr.splitlines()
    assert first == "executes the statement 26 times, at most 60 s in all"
    assert len(steps) == 26
    assert steps[0] == "execution 1 of 26: library off, compares rows"
    assert steps[-1] == "execution 26 of 26: library off, pair 12 of 12"
    assert "executed:   26 times in " in outcome.stdout
    assert "pages:      none read into shared buffers" in outcome.stdout


def test_one_pair_has_no_interval(server: WatchedServer) -> None:
    outcome = run_check(server, QUERY, "--measure", "--repetitions", "1")
    (line,) = [line for line in outcome.stdout.splitlines() if line.startswith("measured:")]
    assert line.endswith(" as fast in one pair, too few to tell")
    assert ", 1 pair timed, read-only" in outcome.stdout


@pytest.mark.expects_in_log("statement timeout")
def test_what_is_finished_within_the_time_counts(server: WatchedServer) -> None:
    statement = "SELECT count(*) FROM pg_sleep(0.1)"
    options = ("--measure", "--allow-volatile", "--repetitions", "1000", "--time-limit", "3")
    outcome = run_check(server, statement, *options)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "the time limit of 3 s left time for " in outcome.stdout
    measured = json.loads(run_check(server, statement, *options, "--json").stdout)["measurement"]
    pairs = [sample["pair"] for sample in measured["samples"]]
    assert pairs == [pair for pair in range(len(pairs) // 2) for _ in range(2)]
    assert measured["wanted_pairs"] == 1000
    assert measured["executions"] >= len(pairs) + 2


@pytest.mark.expects_in_log("statement timeout")
def test_time_for_no_pair(server: WatchedServer) -> None:
    statement = "SELECT count(*) FROM pg_sleep(600)"
    outcome = run_check(server, statement, "--measure", "--allow-volatile", "--time-limit", "2")
    assert outcome.status is ExitStatus.FAILURE
    assert "error: the time limit of 2 s ended the measurement in execution 1 of 26" in (
        outcome.stderr
    )
    assert "hint: Raise it with --time-limit" in outcome.stderr


@pytest.mark.expects_in_log("statement timeout")
def test_a_time_limit_of_the_users_stays(server: WatchedServer) -> None:
    dsn = f"{dsn_of(server)} options='-c statement_timeout=1000'"
    outcome = run_command(
        "check", "SELECT pg_sleep(90)", "--dsn", dsn, "--measure", "--allow-volatile"
    )
    assert outcome.status is ExitStatus.FAILURE
    assert "canceling statement due to statement timeout" in outcome.stderr


def test_an_end_of_the_session_is_told(server: WatchedServer) -> None:
    statement = "SELECT pg_terminate_backend(pg_backend_pid())"
    outcome = run_check(server, statement, "--measure", "--allow-volatile")
    assert outcome.status is ExitStatus.FAILURE
    assert "error: the statement was not finished: terminating connection" in outcome.stderr


def test_a_role_that_may_not_load_the_library(server: WatchedServer) -> None:
    outcome = run_check(server, QUERY, user="reader")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "role reader may not load it" in outcome.stderr
    assert "session_preload_libraries" in outcome.stderr
    # Standbys get those, and without the library nobody connects there.
    assert "role or database" not in outcome.stderr


@pytest.mark.expects_in_log("could not access file")
def test_a_role_that_a_library_keeps_out(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute("ALTER ROLE reader SET session_preload_libraries = 'gone'")
    try:
        outcome = run_check(server, QUERY, user="reader")
    finally:
        with server.connect() as connection:
            connection.execute("ALTER ROLE reader RESET session_preload_libraries")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "hint: A library that a setting names is not there: docs/install.md" in outcome.stderr


def test_a_role_whose_sessions_have_the_library(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute("ALTER ROLE reader SET session_preload_libraries = 'pg_lookahead'")
    try:
        outcome = run_check(server, QUERY, "--measure", "--repetitions", "1", user="reader")
    finally:
        with server.connect() as connection:
            connection.execute("ALTER ROLE reader RESET session_preload_libraries")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "would read ahead" in outcome.stdout


def test_values_are_read_as_for_a_client(
    server: WatchedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents: list[dict[str, Any]] = []

    def noting(*arguments: Any) -> Any:
        found = explain(*arguments)
        documents.extend(found)
        return found

    monkeypatch.setattr("lookahead.check.measure.explain", noting)
    statement = "SELECT pad, '{}'::aclitem[] FROM orders WHERE k < 9"  # without a binary form
    outcome = run_check(server, statement, "--measure", "--repetitions", "1")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert sum("Serialization" in document for document in documents) == 2


def test_rows_are_told_apart_wherever_their_values_end() -> None:
    rows = [(b"a", b"b\x1e\x01c"), (b"a\x1e\x01b", b"c"), (b"a", None), (b"a", b""), (b"a", b"N")]
    assert len({b"".join(map(_with_length, row)) for row in rows}) == len(rows)


def test_a_server_without_the_library(server_factory: ServerFactory) -> None:
    with server_factory() as stock:
        outcome = run_check(stock, "SELECT 1")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "error: pg_lookahead cannot be loaded: could not access file" in outcome.stderr
    assert "make install" in outcome.stderr


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--dsn", "host=/nowhere"], ExitStatus.ENVIRONMENT, "no connection to the server"),
        (["--dsn", "nonsense"], ExitStatus.USAGE, "--dsn is no connection string"),
        (["--cold"], ExitStatus.USAGE, "--cold needs --measure"),
        (["--allow-volatile"], ExitStatus.USAGE, "--allow-volatile needs --measure"),
        (["--repetitions", "0"], ExitStatus.USAGE, "0 is not in the range"),
        (["--time-limit", "0"], ExitStatus.USAGE, "'0' is not a number above 0"),
        (["--measure", "--time-limit", "soon"], ExitStatus.USAGE, "'soon' is not a number"),
    ],
)
def test_bad_options(options: list[str], status: ExitStatus, words: str) -> None:
    outcome = run_command("check", "SELECT 1", *options)
    assert outcome.status is status
    assert words in outcome.stderr
    assert "hint: " in outcome.stderr
    assert outcome.stdout == ""
