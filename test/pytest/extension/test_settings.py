"""Settings: who may change them, within which bounds, and that bad ones are refused."""

from collections.abc import Iterator

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from extension.probes import (
    INDEX_SCANS_ONLY,
    QUIET,
    Connection,
    Plan,
    explain,
    lookahead,
    make_shuffled,
    scalar,
    streamed_scans,
)
from lookahead.extension import Stage

_SCAN = "SELECT count(pad) FROM g WHERE k < 500"
_TEST_SETTINGS = (
    "test_counter_file",
    "test_depth",
    "test_ring_size",
    "test_start_after",
    "test_stop_seed",
    "test_trial_gains",
    "test_trial_pages",
)


@pytest.fixture(scope="module")
def released(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    """A server with the library as users get it."""
    with server_factory(stage=stage, settings=QUIET) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            make_shuffled(session, "g", 5_000)
            session.execute("CREATE ROLE plain LOGIN")
            session.execute("GRANT SELECT ON g TO plain")
        yield started


@pytest.fixture
def session(released: WatchedServer) -> Iterator[Connection]:
    with released.connect() as connection:
        connection.execute(INDEX_SCANS_ONLY)
        yield connection


def _cold_plan(session: Connection, query: str = _SCAN) -> Plan:
    """The plan of a query that has run on a cold table: a scan sleeps in memory."""
    assert scalar(session, "SELECT buffers_skipped FROM pg_lookahead_evict('g')") == 0
    return explain(session, query)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prefetch_distance", "-1"),
        ("prefetch_distance", "1001"),
        ("prefetch_distance", "'many'"),
        ("enabled", "'maybe'"),
        ("enable_index_prefetch", "7"),
    ],
)
def test_values_out_of_bounds_are_refused(session: Connection, name: str, value: str) -> None:
    before = scalar(session, f"SHOW pg_lookahead.{name}")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=rf"pg_lookahead\.{name}"):
        session.execute(f"SET pg_lookahead.{name} = {value}")
    assert scalar(session, f"SHOW pg_lookahead.{name}") == before


@pytest.mark.parametrize("name", ["prefech_distance", "x", *_TEST_SETTINGS])
def test_unknown_settings_are_refused(session: Connection, name: str) -> None:
    """A misspelt one, and those that only a test build has."""
    with pytest.raises(psycopg.errors.InvalidName, match=name):
        session.execute(f"SET pg_lookahead.{name} = '1'")


def test_released_library_has_no_test_setting(session: Connection) -> None:
    names = session.execute(
        "SELECT name FROM pg_settings WHERE name LIKE 'pg\\_lookahead.%' ORDER BY 1"
    ).fetchall()
    assert names
    assert not [name for (name,) in names if ".test_" in name or ".debug_" in name]


@pytest.mark.parametrize("name", _TEST_SETTINGS)
def test_test_settings_are_for_superusers(server: WatchedServer, name: str) -> None:
    with server.connect() as owner:
        owner.execute("DROP ROLE IF EXISTS tester")
        owner.execute("CREATE ROLE tester LOGIN")
    with (
        server.connect(user="tester") as session,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        session.execute(f"SET pg_lookahead.{name} = '1'")


def test_anyone_may_change_behaviour_but_not_disable(released: WatchedServer) -> None:
    with released.connect(user="plain") as session:
        session.execute("SET pg_lookahead.enabled = off")
        session.execute("SET pg_lookahead.prefetch_distance = 1000")
        with pytest.raises(psycopg.errors.CantChangeRuntimeParam):
            session.execute("SET pg_lookahead.disable = on")


@pytest.mark.parametrize("name", ["enabled", "enable_index_prefetch"])
def test_off_attaches_nothing(session: Connection, name: str) -> None:
    assert streamed_scans(_cold_plan(session)) == 1
    session.execute(f"SET pg_lookahead.{name} = off")
    assert [group["Reason"] for group in lookahead(_cold_plan(session))] == ["disabled"]


def test_disable_overrides_every_session_at_once(
    released: WatchedServer, session: Connection
) -> None:
    session.execute("SET pg_lookahead.enabled = on")
    with released.connect() as administrator:
        try:
            for value, streams in (("on", 0), ("off", 1)):
                administrator.execute(f"ALTER SYSTEM SET pg_lookahead.disable = {value}")
                administrator.execute("SELECT pg_reload_conf()")
                wait_until(
                    lambda value=value: scalar(session, "SHOW pg_lookahead.disable") == value,  # type: ignore[misc]
                    "the session has read the configuration again",
                )
                assert streamed_scans(_cold_plan(session)) == streams
        finally:
            administrator.execute("ALTER SYSTEM RESET pg_lookahead.disable")
            administrator.execute("SELECT pg_reload_conf()")


def test_settings_show_in_explain(session: Connection) -> None:
    session.execute("SET pg_lookahead.prefetch_distance = 17")
    text = "\n".join(row[0] for row in session.execute(f"EXPLAIN (SETTINGS) {_SCAN}").fetchall())
    assert "pg_lookahead.prefetch_distance = '17'" in text


@pytest.mark.parametrize("distance", [1, 2, 30, 1000])
def test_distance_bounds_what_is_in_flight(session: Connection, distance: int) -> None:
    """The largest number of pages asked for and not yet used."""
    session.execute(f"SET pg_lookahead.prefetch_distance = {distance}")
    (group,) = lookahead(_cold_plan(session, "SELECT count(pad) FROM g WHERE k >= 0"))
    assert group["Scans"] == 1
    # Beside the reads in flight the stream holds the page it hands out, and it looks for the next
    # page before it hands that out.
    assert group["Max Distance"] <= distance + 2
