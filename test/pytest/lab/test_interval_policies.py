"""`lookahead partitions` against a server: what it shows, and its exit status."""

import json
from collections.abc import Iterator

import pytest
from extension.probes import Connection
from intervals.policies import maintain, make, set_policy, state
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from lab.outcome import Outcome, run_command
from lookahead.errors import ExitStatus
from lookahead.extension import Stage


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage) as made:
        with made.connect() as connection:
            connection.execute("CREATE DATABASE plain")
            connection.execute("CREATE ROLE stranger LOGIN")
        yield made


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    """A session in a database with the extension in a schema of its own, and no policy."""
    with server.connect() as connection:
        connection.execute("CREATE SCHEMA la; CREATE EXTENSION pg_lookahead SCHEMA la")
        connection.execute("GRANT USAGE ON SCHEMA la TO PUBLIC; SET search_path = la")
        connection.execute("CREATE SCHEMA s")
        yield connection
        connection.execute("DROP SCHEMA s, la CASCADE")


def _show(
    server: WatchedServer, *options: str, database: str = "postgres", user: str = "postgres"
) -> Outcome:
    place = f"host={server.socket_directory} port={server.port}"
    dsn = f"{place} user={user} dbname={database}"
    return run_command("partitions", "--dsn", dsn, *options)


def test_no_policy(server: WatchedServer, session: Connection) -> None:
    del session
    outcome = _show(server)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert outcome.stdout == "no table of this database has an interval policy\n"


def test_all_is_well(server: WatchedServer, session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 2")
    maintain(session)
    outcome = _show(server)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert outcome.stderr == ""
    for text in ("s.p", "good", "partitions", "ahead", "maintenance runs when somebody calls"):
        assert text in outcome.stdout


def test_a_server_that_maintains_by_itself(server_factory: ServerFactory, stage: Stage) -> None:
    settings = {
        "shared_preload_libraries": "pg_lookahead",
        "session_preload_libraries": "",
        "pg_lookahead.maintenance_interval": "1s",
    }
    with server_factory(stage=stage, settings=settings) as made, made.connect() as connection:
        connection.execute("CREATE EXTENSION pg_lookahead; CREATE SCHEMA s")
        make(connection, "int")
        set_policy(connection, "10, premake => 2")
        wait_until(lambda: state(connection, "last_run"), "it is maintained")
        outcome = _show(made)
        assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
        assert outcome.stdout.endswith("maintenance runs by itself\n")
        connection.execute("INSERT INTO s.p VALUES (25)")
        assert "hint: Maintenance runs by itself, and tries again." in _show(made).stderr
        place = ("-h", str(made.socket_directory), "-p", str(made.port), "-U", "postgres")
        told = run_command("doctor", *place, "-d", "postgres").stdout
        assert "ok      1 table has an interval policy, looked after every 1s" in told
        with connection.transaction():
            connection.execute("CREATE TABLE s.q (k int) PARTITION BY RANGE (k)")
            set_policy(connection, "10", "s.q")
            connection.execute(
                "DELETE FROM pg_lookahead_interval_state WHERE parent = 's.q'::regclass"
            )
        assert "by itself, but for s.q: a policy that came with a dump" in _show(made).stdout


def test_a_partition_is_locked(server: WatchedServer, session: Connection) -> None:
    """How many are ahead is not known; the next maintenance takes old ones out all the same."""
    make(session, "int")
    set_policy(session, "10, 0, premake => 2")
    maintain(session)
    session.execute("INSERT INTO s.p VALUES (25)")
    maintain(session)
    set_policy(session, "10, 0, premake => 2, retention => 10, retention_action => 'drop'")
    with server.connect() as other:
        other.execute("BEGIN; LOCK s.p_40")
        outcome = _show(server)
        other.execute("COMMIT")
    assert outcome.status is ExitStatus.FAILURE
    assert "s.p: not known: the table or a partition is locked" in outcome.stderr
    assert "What the next maintenance takes out" in outcome.stdout
    assert "s.p_0" in outcome.stdout


def test_behind(server: WatchedServer, session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 2")
    outcome = _show(server)
    assert outcome.status is ExitStatus.FAILURE
    assert outcome.stderr.startswith(
        "error: 1 of 1 tables need attention: s.p: behind: no partition from 0 on\nhint: CALL"
    )


def test_an_error(server: WatchedServer, session: Connection) -> None:
    """Its message is for the owner of the table, its SQLSTATE for everybody."""
    make(session, "int")
    session.execute("CREATE VIEW s.p_0 AS SELECT 1")
    set_policy(session, "10, premake => 2")
    maintain(session)
    outcome = _show(server)
    assert outcome.status is ExitStatus.FAILURE
    assert 's.p: error 42P07: relation "p_0" already exists' in outcome.stderr
    outcome = _show(server, user="stranger")
    assert outcome.status is ExitStatus.FAILURE
    assert "s.p: error 42P07: the message is for the table's owner" in outcome.stderr


def test_partitions_that_stay_are_no_failure(server: WatchedServer, session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 2, retention => 10, retention_action => 'drop'")
    maintain(session)
    session.execute("CREATE VIEW s.v AS TABLE s.p_0; INSERT INTO s.p VALUES (25)")
    maintain(session)
    outcome = _show(server)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "warning: s.p: p_0: detached, but not dropped: cannot" in outcome.stderr


def test_json(server: WatchedServer, session: Connection) -> None:
    session.execute('CREATE TABLE s."P \x1b[31m" (k int) PARTITION BY RANGE (k)')
    set_policy(session, "10, premake => 2", 's."P \x1b[31m"')
    outcome = _show(server, "--json")
    assert outcome.status is ExitStatus.FAILURE
    found = json.loads(outcome.stdout)
    assert (found["schema"], found["schema_version"]) == ("lookahead-partitions", 1)
    policy = found["policies"][0]
    assert (policy["ahead"], policy["premake"], policy["behind"]) == (-1, 2, True)
    assert policy["problem"] == "behind: no partition from 0 on"
    assert "\x1b" not in outcome.stderr + outcome.stdout


def test_what_goes_next(server: WatchedServer, session: Connection) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 2, retention => 10, retention_action => 'drop'")
    maintain(session)
    session.execute("INSERT INTO s.p VALUES (25)")
    outcome = _show(server)
    assert "behind: no partition from 30 on" in outcome.stderr
    assert "What the next maintenance takes out" in outcome.stdout
    going = json.loads(_show(server, "--json").stdout)["retirement"]
    assert [(one["parent"], one["partition"], one["action"]) for one in going] == [
        ("s.p", "s.p_0", "drop")
    ]
    assert "s.p_10" not in outcome.stdout


@pytest.mark.parametrize(
    ("option", "beginning"),
    [("--markdown", "| s.p | 10 |"), ("--csv", "Tables with an interval policy,s.p,10,")],
)
def test_as_a_table(
    server: WatchedServer, session: Connection, option: str, beginning: str
) -> None:
    make(session, "int")
    set_policy(session, "10, premake => 2")
    maintain(session)
    outcome = _show(server, option)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert any(line.startswith(beginning) for line in outcome.stdout.splitlines())


def test_a_database_without_the_extension(server: WatchedServer) -> None:
    outcome = _show(server, database="plain")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert outcome.stderr.startswith("error: this database has no view pg_lookahead_intervals")
    assert "CREATE EXTENSION pg_lookahead" in outcome.stderr


def test_a_view_of_that_name(server: WatchedServer) -> None:
    """Somebody else's is not read."""
    with server.connect("plain") as connection:
        connection.execute("CREATE VIEW public.pg_lookahead_intervals AS SELECT 1 / 0 AS parent")
        outcome = _show(server, database="plain")
        connection.execute("DROP VIEW public.pg_lookahead_intervals")
    assert outcome.status is ExitStatus.ENVIRONMENT


def test_wrong_options(server: WatchedServer) -> None:
    assert _show(server, "--json", "--csv").status is ExitStatus.USAGE
    assert run_command("partitions", "--dsn", "no such=").status is ExitStatus.USAGE
    assert run_command("partitions", "--dsn", "host=/nowhere").status is ExitStatus.ENVIRONMENT
