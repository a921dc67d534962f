"""Logical decoding needs no more memory for toasted values than after stock's inserts.

It keeps the values of a row until the row comes, whatever `logical_decoding_work_mem` says.
"""

from collections.abc import Callable, Iterator, Mapping

import pytest
from extension.probes import QUIET, Connection, need_own_memory, scalar
from server_log import ServerFactory, WatchedServer

from bulk_insert.arms import EXTENTS, STOCK, SWITCH, Counters, choose
from bulk_insert.memory import address_space
from bulk_insert.ways import INSERT, WAYS, Way
from lookahead.extension import Stage

_MB = 1024 * 1024
_ROWS = 240
_LENGTH = 100_000
# How much more memory of the decoder is no fault: values of _ROWS * _LENGTH = 24 MB are decoded.
_MORE = 6 * _MB
_COLUMNS = "i int, p text STORAGE EXTERNAL"
# The first rows are narrow, and some of the others; a page has room for all.
_QUERY = (
    "SELECT i, CASE WHEN i < 20 OR i % 8 = 1 THEN 'narrow' "
    f"ELSE repeat(chr(97 + i % 26), {_LENGTH}) END AS p FROM generate_series(1, {_ROWS}) i"
)
_VALUES = ", ".join(
    f"({i}, repeat('{i % 10}', {_LENGTH if i > 20 and i % 8 else 6}))" for i in range(1, _ROWS + 1)
)
_MAKING = f"DROP TABLE IF EXISTS t; CREATE TABLE t ({_COLUMNS})"


def _into_new_file(way: Way) -> Callable[[Connection], str]:
    def statements(session: Connection) -> str:
        return (
            f"DROP TABLE t; {way.making('t', _COLUMNS, 'i')}; {way.statement(session, 't', _QUERY)}"
        )

    return statements


# The ways are those into a table that was there before.
_OTHERS: Mapping[str, Callable[[Connection], str]] = {
    "values": lambda _: f"INSERT INTO t VALUES {_VALUES}",
    "truncated": lambda session: f"TRUNCATE t; {INSERT.statement(session, 't', _QUERY)}",
    "created as": lambda _: f"DROP TABLE t; CREATE TABLE t AS {_QUERY}",
    "materialized": lambda _: f"CREATE MATERIALIZED VIEW v AS {_QUERY}; DROP MATERIALIZED VIEW v",
    **{f"{way.name}, new file": _into_new_file(way) for way in WAYS},
}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {
        **QUIET,
        SWITCH: "on",
        "wal_level": "logical",
        "logical_decoding_work_mem": "64kB",
        "work_mem": "1MB",
    }
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            need_own_memory(session)
            session.execute("CREATE EXTENSION pg_lookahead")
        yield started


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as opened:
        opened.execute(_MAKING)
        opened.execute("SELECT pg_create_logical_replication_slot('decoding', 'test_decoding')")
        try:
            yield opened
        finally:
            opened.execute("SELECT pg_drop_replication_slot('decoding'); DROP TABLE IF EXISTS t")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_memory_for_rows_of_a_statement(
    server: WatchedServer, session: Connection, way: Way
) -> None:
    making = f"DROP TABLE IF EXISTS t; {way.making('t', _COLUMNS, 'i')}"
    _expect_same(server, session, making, lambda one: way.statement(one, "t", _QUERY))


@pytest.mark.parametrize("name", _OTHERS)
def test_memory_for_rows_of_other_statements(
    server: WatchedServer, session: Connection, name: str
) -> None:
    _expect_same(server, session, _MAKING, _OTHERS[name])


def test_a_file_is_left_once(session: Connection) -> None:
    """Narrow rows between those that core toasts get no pages of their own."""
    rows = "SELECT i, repeat('x', i % 2 * 3000) AS p FROM generate_series(1, 300) i"
    sizes = []
    for arm in (STOCK, EXTENTS):
        choose(session, arm)
        session.execute(f"BEGIN; TRUNCATE t; INSERT INTO t {rows}; COMMIT")
        sizes.append(scalar(session, "SELECT pg_relation_size('t')"))
    assert sizes[1] <= sizes[0] + 2 * 8192


def _expect_same(
    server: WatchedServer,
    session: Connection,
    making: str,
    statements: Callable[[Connection], str],
) -> None:
    """The same changes, streamed or at the commit, decoded in about the same memory."""
    found: list[list[tuple[object, ...]]] = []
    peaks: list[list[int]] = []
    for arm in (STOCK, EXTENTS):
        choose(session, arm)
        session.execute(making)
        before = Counters.of(session).rows
        session.execute(f"BEGIN; {statements(session)}; COMMIT")
        batched = Counters.of(session).rows - before
        decoded = [_decode(server, stream=True), _decode(server, stream=False)]
        session.execute("SELECT pg_replication_slot_advance('decoding', pg_current_wal_lsn())")
        found.append([changes for changes, _ in decoded])
        peaks.append([peak for _, peak in decoded])
    assert found[0] == found[1]
    assert batched > 0
    for stock, ours in zip(*peaks, strict=True):
        assert ours < stock + _MORE, f"{stock // _MB} MB, {ours // _MB} MB"


def _decode(server: WatchedServer, *, stream: bool) -> tuple[tuple[object, ...], int]:
    """Digest of all changes, and the memory of who decoded them."""
    changes = (
        "SELECT count(*), md5(string_agg(md5(data), '' ORDER BY md5(data))) "
        "FROM pg_logical_slot_peek_changes('decoding', NULL, NULL, 'include-xids', '0', "
        f"'stream-changes', '{'on' if stream else 'off'}')"
    )
    with server.connect() as decoder:
        row = decoder.execute(changes).fetchone()
        assert row is not None
        return row, address_space(decoder, peak=True)
