"""A new build of the library replaces the file while sessions have the old one open."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import (
    INDEX_SCANS_ONLY,
    QUIET,
    STREAM_ALWAYS,
    Connection,
    explain,
    lookahead,
    make_shuffled,
    scalar,
)
from lookahead.extension import Stage, stage_at

_QUERY = "SELECT count(*), sum(k), min(pad) FROM u WHERE k >= 100"


@pytest.fixture
def own_stage(tmp_path_factory: pytest.TempPathFactory, test_stage: Stage) -> Stage:
    """A copy of the test build that a test may overwrite."""
    directory = tmp_path_factory.mktemp("upgrade") / "stage"
    shutil.copytree(test_stage.directory, directory)
    return stage_at(directory)


@pytest.fixture
def upgraded(server_factory: ServerFactory, own_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=own_stage, settings=QUIET) as server:
        yield server


def _replace_library(server: WatchedServer, build: Stage) -> None:
    """Rename another build over the library that the server's new processes will load."""
    assert server.stage is not None
    target = server.stage.library_directory / "pg_lookahead.so"
    new = target.with_suffix(".new")
    shutil.copyfile(build.library_directory / "pg_lookahead.so", new)
    new.chmod(0o755)
    new.rename(target)


def _scanner(server: WatchedServer) -> Connection:
    session = server.connect()
    session.execute(INDEX_SCANS_ONLY)
    session.execute(
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
        "SET min_parallel_index_scan_size = 0; "
        "SET min_parallel_table_scan_size = 0; SET random_page_cost = 0; SET cpu_tuple_cost = 1; "
        "SET max_parallel_workers_per_gather = 2"
    )
    return session


def test_open_sessions_and_their_workers_go_on(upgraded: WatchedServer, stage: Stage) -> None:
    """The leader keeps the old build, its workers load the new one: another build id, which even
    lacks settings that the old one has."""
    with _scanner(upgraded) as session:
        make_shuffled(session, "u", 20_000)
        expected = session.execute(_QUERY).fetchone()
        assert ["Workers" in group for group in lookahead(explain(session, _QUERY))] == [False]
        assert expected == (19_900, sum(range(100, 20_000)), expected[2] if expected else None)
        session.execute("BEGIN")
        session.execute(
            "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM u WHERE k >= 0 ORDER BY k"
        )
        session.execute("FETCH 50 FROM c")
        _replace_library(upgraded, stage)
        for _ in range(5):
            assert session.execute(_QUERY).fetchone() == expected
        # What the other build counts does not reach this one, which says so.
        (group,) = lookahead(explain(session, _QUERY))
        assert group["Workers"] == "uncounted"
        assert len(session.execute("FETCH ALL FROM c").fetchall()) == 19_950
        session.execute("COMMIT")
        assert scalar(session, "SELECT count(*) FROM u WHERE k < 10 AND pad > ''") == 10


# Called within EXPLAIN, which shows what the leader has counted.
_BUILD = """
    CREATE FUNCTION build(name text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      EXECUTE format('CREATE INDEX %1$s_k ON %1$s (k)', name);
    END $$"""


def _pages_of_build(session: Connection, table: str) -> int:
    (plan,) = scalar(session, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT build('{table}')")
    return int(plan["Plan"]["Shared Hit Blocks"]) + int(plan["Plan"]["Shared Read Blocks"])


def test_workers_of_the_new_build_count_nothing(
    server_factory: ServerFactory, own_stage: Stage, stage: Stage
) -> None:
    """They do not take part in an index build, and what is counted there is memory used before:
    by the build of a large table, where that memory is the server's own."""
    settings = {**QUIET, "min_dynamic_shared_memory": "64MB"}
    with (
        server_factory(stage=own_stage, settings=settings) as server,
        server.connect() as session,
    ):
        session.execute(_BUILD)
        for table, rows in (("large", 400_000), ("small", 400)):
            session.execute(
                f"CREATE TABLE {table} WITH (autovacuum_enabled = off, parallel_workers = 1) AS "
                f"SELECT i AS k, repeat('x', 200) AS pad FROM generate_series(1, {rows}) i"
            )
        session.execute("SET max_parallel_maintenance_workers = 1")
        assert _pages_of_build(session, "large") > 400_000 / 40
        _replace_library(server, stage)
        assert _pages_of_build(session, "small") < 1_000


def test_new_sessions_take_the_new_build(upgraded: WatchedServer, stage: Stage) -> None:
    with _scanner(upgraded) as old:
        make_shuffled(old, "u", 5_000)
        # Not set: parallel workers of the new build would refuse a setting they do not know.
        assert scalar(old, "SHOW pg_lookahead.test_start_after") == "-1"
        _replace_library(upgraded, stage)
        with _scanner(upgraded) as new:
            with pytest.raises(psycopg.errors.InvalidName):
                new.execute(STREAM_ALWAYS)
            assert old.execute(_QUERY).fetchone() == new.execute(_QUERY).fetchone()


def test_library_that_is_gone_refuses_clearly(upgraded: WatchedServer, own_stage: Stage) -> None:
    """Open sessions go on; new ones are refused, and a superuser can still get in."""
    assert upgraded.stage is not None
    library: Path = upgraded.stage.library_directory / "pg_lookahead.so"
    with upgraded.connect() as old:
        make_shuffled(old, "u", 5_000)
        library.unlink()
        assert scalar(old, "SELECT count(pad) FROM u WHERE k >= 0") == 5_000
    with pytest.raises(psycopg.OperationalError, match="pg_lookahead"):
        upgraded.connect().close()
    with upgraded.connect(options="-c session_preload_libraries=") as rescuer:
        assert scalar(rescuer, "SELECT count(pad) FROM u WHERE k >= 0") == 5_000
    assert own_stage.directory.exists()


def test_view_of_another_version_is_an_error(
    server_factory: ServerFactory, test_stage: Stage
) -> None:
    """After a new library and before ALTER EXTENSION UPDATE the function has other columns."""
    with (
        server_factory(stage=test_stage, settings=QUIET, stop_timeout_seconds=30) as server,
        server.connect() as session,
    ):
        session.execute(
            "CREATE FUNCTION other_version(OUT feature text, OUT nodes bigint, "
            "OUT scans bigint, OUT fallbacks text) RETURNS SETOF record "
            "AS 'pg_lookahead', 'pg_lookahead_stats' LANGUAGE C"
        )
        with pytest.raises(psycopg.Error) as error:
            session.execute("SELECT * FROM other_version()")
        assert error.value.sqlstate is not None, "the backend crashed"
        assert scalar(session, "SELECT 1") == 1
