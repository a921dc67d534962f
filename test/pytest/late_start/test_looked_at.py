"""Whoever looks at a statement's nodes finds all of them, as in a statement left to PostgreSQL."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection
from server_log import ServerFactory, WatchedServer

from late_start.tables import TABLES, late_starts, outcome
from lookahead.extension import Stage
from lookahead.installation import Installation

_OFF = "SET LOCAL pg_lookahead.enable_late_start = off;"
_QUERY = "SELECT k FROM p WHERE k = (SELECT k FROM w WHERE id = 3)"
_CURSOR = f"DECLARE c NO SCROLL CURSOR FOR {_QUERY}"


@pytest.mark.parametrize(
    "options",
    ["COSTS OFF", "GENERIC_PLAN", "ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF"],
)
def test_explain(session: Connection, options: str) -> None:
    script = f"EXPLAIN ({options}) {_QUERY}"
    before = late_starts(session)
    assert outcome(session, script) == outcome(session, f"{_OFF} {script}")
    assert late_starts(session) == before


@pytest.mark.parametrize(
    "script",
    [
        f"{_CURSOR}; FETCH c; UPDATE p SET v = 100 WHERE CURRENT OF c RETURNING *",
        f"{_CURSOR}; FETCH c; DELETE FROM p_7 WHERE CURRENT OF c RETURNING *",
        f"{_CURSOR}; UPDATE p SET v = 1 WHERE CURRENT OF c RETURNING *",
        "DECLARE c SCROLL CURSOR FOR SELECT k FROM p WHERE k > (SELECT 300) ORDER BY k;"
        " MOVE 90 FROM c; FETCH BACKWARD 80 FROM c",
        f"DECLARE c CURSOR WITH HOLD FOR {_QUERY}; FETCH 2 FROM c",
    ],
)
def test_cursors(session: Connection, script: str) -> None:
    before = late_starts(session)
    assert outcome(session, script) == outcome(session, f"{_OFF} {script}")
    assert late_starts(session) == before


@pytest.mark.parametrize(
    "query",
    [
        f"{_QUERY} FOR UPDATE",
        f"WITH u AS (UPDATE w SET a = 1 RETURNING id) {_QUERY}",
        f"INSERT INTO w (k) {_QUERY}",
        "DELETE FROM p WHERE k = (SELECT k FROM w WHERE id = 3)",
        f"{_QUERY} AND v = $1",
        f"{_QUERY} AND k < $1",
        f"{_QUERY} AND same(v) = 3",
        f"{_QUERY} AND v = (SELECT max(a) FROM w WHERE w.k = p.k)",
        "SELECT p FROM p WHERE k = (SELECT k FROM w WHERE id = 3)",
    ],
)
def test_left_to_core(session: Connection, query: str) -> None:
    """Only one of these starts late: that with a parameter which does not prune."""
    session.execute(
        "CREATE OR REPLACE FUNCTION same(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS"
        " 'BEGIN RETURN $1; END'"
    )
    call = "EXECUTE q (4)" if "$1" in query else "EXECUTE q"
    script = f"PREPARE q AS {query}; {call}"
    before = late_starts(session)
    assert outcome(session, script) == outcome(session, f"{_OFF} {script}")
    assert (late_starts(session) > before) == (query.endswith("v = $1"))


def test_parallel(session: Connection) -> None:
    session.execute("SET debug_parallel_query = on; SET parallel_setup_cost = 0")
    before = late_starts(session)
    assert outcome(session, _QUERY) == outcome(session, f"{_OFF} {_QUERY}")
    assert late_starts(session) == before


def test_few_children(session: Connection) -> None:
    """Where there are few they all start."""
    before = late_starts(session)
    session.execute("SET pg_lookahead.test_late_children = 41")
    session.execute(_QUERY)
    assert late_starts(session) == before + 1
    session.execute("SET pg_lookahead.test_late_children = 42")
    session.execute(_QUERY)
    assert late_starts(session) == before + 1


@pytest.fixture(scope="module", params=["pg_lookahead,auto_explain", "auto_explain,pg_lookahead"])
def explained(
    request: pytest.FixtureRequest,
    server_factory: ServerFactory,
    test_stage: Stage,
    installation: Installation,
) -> Iterator[WatchedServer]:
    if not (installation.pkglibdir / "auto_explain.so").exists():
        pytest.skip("this server comes without auto_explain")
    settings = {**QUIET, "session_preload_libraries": request.param}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            session.execute(TABLES)
        yield started


@pytest.mark.parametrize("analyze", ["on", "off"])
def test_auto_explain(explained: WatchedServer, analyze: str) -> None:
    """It prints all children, whether it counts their rows or not."""
    plans = []
    for late in ("on", "off"):
        with explained.connect() as session:
            session.execute(f"SET pg_lookahead.enable_late_start = {late}")
            session.execute(_QUERY)
            assert late_starts(session) == (late == "on")
            session.execute(
                f"SET auto_explain.log_analyze = {analyze}; SET auto_explain.log_timing = off"
            )
            session.execute("SET auto_explain.log_min_duration = 0")
            logged = len(explained.read_log())
            session.execute(_QUERY)
            log = explained.read_log()[logged:]
            plans.append([line for line in log.splitlines() if "Scan" in line])
    assert len(plans[0]) > 40
    assert plans[0] == plans[1]
