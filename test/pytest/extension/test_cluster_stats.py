"""pg_stat_lookahead of a server that was started with the library, and what becomes of others'."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from compiling import loadable_library
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from extension.probes import AWAKE, INDEX_SCANS_ONLY, QUIET, Connection, make_shuffled, scalar
from lookahead.extension import Stage
from lookahead.installation import Installation

_SCANNING = f"{INDEX_SCANS_ONLY}; {AWAKE}"
_SCAN = "SELECT count(pad) FROM s WHERE k >= 0"
_WITH = {"shared_preload_libraries": "pg_lookahead", "session_preload_libraries": ""}
_WITHOUT = {"shared_preload_libraries": "", "session_preload_libraries": ""}


@pytest.fixture(scope="module")
def preloaded(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=test_stage, settings={**QUIET, **_WITH}) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            make_shuffled(session, "s", 2_000)
            session.execute("CREATE INDEX ON s USING gist (point(k, k))")
        yield server


@pytest.fixture
def observer(preloaded: WatchedServer) -> Iterator[Connection]:
    """A session of its own, which scans nothing; counts begin at zero."""
    with preloaded.connect() as session:
        session.execute("SELECT pg_lookahead_stats_reset()")
        yield session


def _count(session: Connection, column: str = "scans") -> int:
    return int(scalar(session, f"SELECT {column} FROM pg_stat_lookahead"))


def _flush(session: Connection) -> None:
    session.execute("SELECT pg_stat_force_next_flush()")


def test_counts_are_those_of_all_sessions(preloaded: WatchedServer, observer: Connection) -> None:
    assert scalar(observer, "SELECT scope FROM pg_stat_lookahead") == "cluster"
    for done in (1, 2, 3):
        with preloaded.connect() as session:
            session.execute(_SCANNING)
            assert scalar(session, _SCAN) == 2_000
            _flush(session)
            assert _count(observer) == done
    assert _count(observer, "nodes") == 3
    assert _count(observer, "prefetched_blocks + direct_blocks + repeated_blocks") > 3 * 1_900


def test_a_session_reports_each_scan_once(preloaded: WatchedServer, observer: Connection) -> None:
    with preloaded.connect() as session:
        session.execute(_SCANNING)
        for done in (1, 2, 3):
            session.execute(_SCAN)
            _flush(session)
            assert _count(observer) == done


def test_counts_of_sessions_that_are_gone(preloaded: WatchedServer, observer: Connection) -> None:
    """The end of a session reports, whichever way it ends."""
    with preloaded.connect() as session:
        session.execute(_SCANNING)
        session.execute(_SCAN)
    wait_until(lambda: _count(observer) == 1, "the session that ended has reported")
    session = preloaded.connect()
    session.execute(_SCANNING)
    session.execute("BEGIN")
    session.execute("DECLARE c NO SCROLL CURSOR FOR SELECT pad FROM s WHERE k >= 0")
    session.execute("FETCH 100 FROM c")
    assert _count(observer) == 1
    assert scalar(observer, f"SELECT pg_terminate_backend({session.info.backend_pid})")
    wait_until(lambda: _count(observer) == 2, "the terminated session has reported")
    session.close()


def test_a_failing_query_counts(preloaded: WatchedServer, observer: Connection) -> None:
    with preloaded.connect() as session:
        session.execute(_SCANNING)
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.execute("SELECT sum(1 / (k - 1999)) FROM s WHERE k >= 0 AND pad > ''")
        _flush(session)
        assert _count(observer) == 1


def test_reasons_are_added_up(preloaded: WatchedServer, observer: Connection) -> None:
    for done in (1, 2):
        with preloaded.connect() as session:
            session.execute("SET enable_seqscan = off; SET enable_sort = off")
            session.execute("SELECT k FROM s ORDER BY point(k, k) <-> point(1, 1) LIMIT 1")
            _flush(session)
        reasons = scalar(observer, "SELECT fallbacks FROM pg_stat_lookahead")
        assert reasons == {"ordering operator": done}


def test_reset_sets_to_zero_and_says_when(preloaded: WatchedServer, observer: Connection) -> None:
    with preloaded.connect() as session:
        session.execute(_SCANNING)
        session.execute(_SCAN)
        _flush(session)
    assert _count(observer) == 1
    before = scalar(observer, "SELECT clock_timestamp()")
    observer.execute("SELECT pg_lookahead_stats_reset()")
    assert _count(observer) == _count(observer, "nodes") == 0
    assert scalar(observer, "SELECT stats_reset FROM pg_stat_lookahead") >= before


def test_consistency_within_a_transaction(preloaded: WatchedServer, observer: Connection) -> None:
    """stats_fetch_consistency applies as to PostgreSQL's own statistics."""
    with observer.transaction():
        assert _count(observer) == 0
        with preloaded.connect() as session:
            session.execute(_SCANNING)
            session.execute(_SCAN)
            _flush(session)
            session.execute("SELECT 1")
        assert _count(observer) == 0
    assert _count(observer) == 1


def test_nobody_loses_statistics(server_factory: ServerFactory, test_stage: Stage) -> None:
    """The library comes, goes and comes again: PostgreSQL's statistics survive each restart."""
    with server_factory(stage=test_stage, settings={**QUIET, **_WITHOUT}) as server:
        with server.connect() as session:
            make_shuffled(session, "s", 2_000)
        log_size = 0
        for settings in (_WITH, _WITHOUT, _WITH, _WITH, _WITHOUT):
            server.stop()
            server.start(settings)
            with server.connect() as session:
                session.execute(_SCANNING)
                inserted = scalar(
                    session, "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 's'"
                )
                assert inserted == 2_000, settings
                session.execute(_SCAN)
                if settings is _WITH:
                    session.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
                    assert scalar(session, "SELECT scope FROM pg_stat_lookahead") == "cluster"
                    since = "SELECT stats_reset >= pg_postmaster_start_time() - interval '1 hour'"
                    assert scalar(session, f"{since} FROM pg_stat_lookahead")
            complaints = [
                line
                for line in server.read_log()[log_size:].splitlines()
                if "statistics file" in line or "WARNING" in line or "stats kind" in line
            ]
            assert not complaints
            log_size = len(server.read_log())


@pytest.mark.parametrize(
    "order", ["injection_points, pg_lookahead", "pg_lookahead, injection_points"]
)
def test_beside_other_kinds_of_statistics(
    server_factory: ServerFactory, test_stage: Stage, installation: Installation, order: str
) -> None:
    """Another library with numbers of its own, loaded before and after ours."""
    if not (installation.pkglibdir / "injection_points.so").exists():
        pytest.skip("this server comes without injection_points")
    settings = {
        **QUIET,
        **_WITH,
        "shared_preload_libraries": order,
        "injection_points.stats": "on",
    }
    with server_factory(stage=test_stage, settings=settings) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            make_shuffled(session, "s", 2_000)
            session.execute(_SCANNING)
            session.execute(_SCAN)
            _flush(session)
            assert scalar(session, "SELECT scope FROM pg_stat_lookahead") == "cluster"
            assert _count(session) == 1
        taken = re.findall(r'cumulative statistics "(\w+)" with ID (\d+)', server.read_log())
        assert len({number for _, number in taken}) == len(taken) == 3
        assert all(int(number) > 24 for name, number in taken if name == "pg_lookahead")


@pytest.mark.parametrize("order", ["pg_lookahead, {}", "{}, pg_lookahead"])
def test_beside_a_library_with_a_fixed_number(
    server_factory: ServerFactory,
    test_stage: Stage,
    installation: Installation,
    tmp_path_factory: pytest.TempPathFactory,
    order: str,
) -> None:
    """The server starts in either order, and both count."""
    source = Path(__file__).with_name("fixed_statistics.c")
    library = loadable_library(source, tmp_path_factory, installation)
    settings = {**QUIET, **_WITH, "shared_preload_libraries": order.format(library)}
    with server_factory(stage=test_stage, settings=settings) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            assert scalar(session, "SELECT scope FROM pg_stat_lookahead") == "cluster"
        taken = re.findall(r'cumulative statistics "(\w+)" with ID (\d+)', server.read_log())
        assert taken == [("fixed_statistics", "32"), ("pg_lookahead", "31")]


def test_counts_after_a_crash_begin_again(server_factory: ServerFactory, test_stage: Stage) -> None:
    with server_factory(stage=test_stage, settings={**QUIET, **_WITH}) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            make_shuffled(session, "s", 2_000)
            session.execute(_SCANNING)
            session.execute(_SCAN)
            _flush(session)
            assert _count(session) == 1
        server.stop("immediate")
        server.start()
        with server.connect() as session:
            assert _count(session) == 0
            assert scalar(session, "SELECT stats_reset IS NOT NULL FROM pg_stat_lookahead")
