"""Beside other libraries with executor and EXPLAIN hooks, loaded before and after ours."""

import json
from collections.abc import Iterator, Mapping
from itertools import permutations

import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import (
    AWAKE,
    INDEX_SCANS_ONLY,
    QUIET,
    explain,
    lookahead,
    make_shuffled,
    nodes,
    scalar,
)
from lookahead.extension import Stage
from lookahead.installation import Installation

_OTHERS = ("pg_stat_statements", "auto_explain", "pg_overexplain")
_SCAN = "SELECT count(pad) FROM o WHERE k < 900"
_LOGGING = {
    **QUIET,
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_format": "json",
    "auto_explain.log_nested_statements": "on",
}
# The same libraries, ours first, in the middle and last; pg_stat_statements needs the server start.
_ORDERS = [
    order
    for order in permutations(("pg_lookahead", *_OTHERS))
    if order.index("pg_stat_statements") < order.index("auto_explain")
]


@pytest.fixture(scope="module", autouse=True)
def _contrib(installation: Installation) -> None:
    missing = [name for name in _OTHERS if not (installation.pkglibdir / f"{name}.so").exists()]
    if missing:
        pytest.skip(f"this server comes without {', '.join(missing)}")


@pytest.fixture(scope="module")
def loading(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A server that is started anew for each order of the libraries."""
    with server_factory(stage=test_stage, settings=_LOGGING) as server:
        with server.connect() as session:
            make_shuffled(session, "o", 5_000)
        server.restart({"shared_preload_libraries": "pg_stat_statements"})
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_stat_statements")
        yield server


def _check(server: WatchedServer, settings: Mapping[str, str]) -> None:
    """Rows are right, the scan was streamed, and each library did its part."""
    server.restart(settings)
    logged = len(server.read_log())
    with server.connect() as session:
        session.execute(f"{INDEX_SCANS_ONLY}; {AWAKE}")
        session.execute("SELECT pg_stat_statements_reset()")
        assert scalar(session, _SCAN) == 900
        plan = explain(session, _SCAN, "ANALYZE, LOOKAHEAD, DEBUG, RANGE_TABLE")
        assert [group["Scans"] for group in lookahead(plan)] == [1]
        assert any("Disabled Nodes" in node for node in nodes(plan))  # from pg_overexplain
        with session.transaction(force_rollback=True):
            session.execute(
                "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM o WHERE k >= 0 ORDER BY k"
            )
            assert [row[0] for row in session.execute("FETCH 100 FROM c").fetchall()] == list(
                range(100)
            )
            with pytest.raises(Exception, match="division by zero"):
                session.execute("SELECT sum(1 / (k - 700)) FROM o WHERE k >= 0 AND pad > ''")
        calls = scalar(
            session,
            "SELECT sum(calls) FROM pg_stat_statements "
            "WHERE query LIKE 'SELECT count(pad) FROM o%'",
        )
        assert calls == 1
    assert '"Index Scan"' in server.read_log()[logged:]  # from auto_explain


@pytest.mark.parametrize("order", _ORDERS, ids="-".join)
def test_any_order_at_server_start(loading: WatchedServer, order: tuple[str, ...]) -> None:
    libraries = ", ".join(order)
    _check(loading, {"shared_preload_libraries": libraries, "session_preload_libraries": ""})


@pytest.mark.parametrize("order", list(permutations(("pg_lookahead", *_OTHERS[1:]))), ids="-".join)
def test_any_order_at_session_start(loading: WatchedServer, order: tuple[str, ...]) -> None:
    settings = {
        "shared_preload_libraries": "pg_stat_statements",
        "session_preload_libraries": ", ".join(order),
    }
    _check(loading, settings)


def test_loaded_by_hand(server_factory: ServerFactory, test_stage: Stage) -> None:
    """LOAD in a session that has already run queries; loading again changes nothing."""
    settings = {**QUIET, "session_preload_libraries": ""}
    with server_factory(stage=test_stage, settings=settings) as server, server.connect() as session:
        make_shuffled(session, "o", 5_000)
        session.execute(INDEX_SCANS_ONLY)
        stock = json.dumps(explain(session, _SCAN, "COSTS OFF"))
        for _ in range(2):
            session.execute(f"LOAD 'pg_lookahead'; {AWAKE}")
            assert [group["Scans"] for group in lookahead(explain(session, _SCAN))] == [1]
        assert json.dumps(explain(session, _SCAN, "COSTS OFF")) == stock
