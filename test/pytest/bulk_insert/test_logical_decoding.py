"""Logical decoding shows the same rows in the same order as of stock's inserts."""

import threading
from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection, scalar
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, STOCK, SWITCH, Arm, Counters, choose
from lookahead.extension import Stage

_ARMS = {
    "default": DEFAULT,
    "one page": ONE_PAGE,
    "extents": EXTENTS,
    "handed back": EXTENTS.with_settings(test_insert_hand_back=601),
}
_COLUMNS = "(i int, p text STORAGE EXTERNAL, q text STORAGE EXTERNAL)"
_SLOT = "SELECT pg_create_logical_replication_slot('decoding', 'test_decoding')"
_CHANGES = (
    "SELECT data FROM pg_logical_slot_get_changes('decoding', NULL, NULL, "
    "'skip-empty-xacts', '1', 'include-xids', '0')"
)
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
# Of all widths: on a page many, a few, toasted in one column or in both.
_WIDTHS = {
    "narrow": ("i % 40", "1"),
    "some toasted": ("CASE i % 43 WHEN 0 THEN 5000 ELSE 20 END", "1000"),
    "both toasted": ("CASE i % 3 WHEN 0 THEN 3000 ELSE 20 END", "CASE i % 4 WHEN 0 THEN 9000 END"),
    "all toasted": ("3000", "i"),
}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, SWITCH: "on", "wal_level": "logical"}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
        yield started


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as opened:
        opened.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t {_COLUMNS}")
        opened.execute(_SLOT)
        try:
            yield opened
        finally:
            opened.execute("SELECT pg_drop_replication_slot('decoding')")


def _changes(session: Connection) -> list[str]:
    return [str(row[0]) for row in session.execute(_CHANGES).fetchall()]


@pytest.mark.parametrize("widths", _WIDTHS)
@pytest.mark.parametrize("arm", _ARMS)
@pytest.mark.parametrize("new_file", [False, True], ids=["", "new file"])
def test_same_changes(session: Connection, arm: str, widths: str, *, new_file: bool) -> None:
    p, q = _WIDTHS[widths]
    rows = f"SELECT i, repeat('x', {p}), repeat('y', {q}) FROM generate_series(1, 900) i"
    decoded = []
    before = Counters.of(session).rows
    for one in (STOCK, _ARMS[arm]):
        choose(session, one)
        making = f"DROP TABLE t; CREATE TABLE t {_COLUMNS};" if new_file else "TRUNCATE t; COMMIT;"
        session.execute(f"BEGIN; {making} INSERT INTO t {rows}; INSERT INTO t {rows}; COMMIT")
        decoded.append(_changes(session))
    assert decoded[0] == decoded[1]
    assert sum("INSERT" in change for change in decoded[1]) == 1800
    assert widths == "all toasted" or Counters.of(session).rows > before


def test_toasted_row_whose_page_others_have_taken(
    server: WatchedServer, session: Connection
) -> None:
    """A row was toasted for a page that is not there any more: its values are decoded."""
    session.execute("CREATE TABLE source AS SELECT generate_series(1, 60) AS i")
    arm: Arm = EXTENTS.with_settings(bulk_extend_size=16)
    choose(session, arm)
    with server.connect() as other, server.connect() as holder:
        choose(other, STOCK)
        for toasted in range(40, 50):
            session.execute("TRUNCATE t")
            holder.execute("BEGIN; SELECT FROM source WHERE i = 39 FOR UPDATE")
            insert = (
                f"INSERT INTO t SELECT i, repeat('x', CASE i WHEN {toasted} THEN 5000 ELSE 9 END), "
                "repeat('z', 1000) FROM source FOR UPDATE"
            )
            thread = threading.Thread(target=session.execute, args=(insert,))
            thread.start()
            wait_until(lambda: scalar(holder, _WAITING) == 1, "the insert waits")
            pages = scalar(other, "SELECT pg_relation_size('t')")
            other.execute("VACUUM (TRUNCATE false) t")
            rows = "SELECT 0, 'y', repeat('y', 1900) FROM generate_series(1, 90)"
            other.execute(f"INSERT INTO t {rows}")
            # Nothing was added: the pages of the insert were taken.
            assert pages - 8192 <= scalar(other, "SELECT pg_relation_size('t')")
            holder.execute("ROLLBACK")
            thread.join()
            ours = [change for change in _changes(session) if "p[text]:'x" in change]
            assert len(ours) == 60, f"row {toasted}"
            assert sum(len(change) > 6000 for change in ours) == 1
