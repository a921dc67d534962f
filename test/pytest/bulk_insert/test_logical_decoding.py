"""Logical decoding shows the same rows in the same order as of stock's inserts."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, Connection, scalar
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, STOCK, SWITCH, Counters, choose
from bulk_insert.ways import INSERT, INSERT_PARTITIONS, WAYS, Way
from lookahead.extension import Stage

_ARMS = {
    "default": DEFAULT,
    "one page": ONE_PAGE,
    "extents": EXTENTS,
    "handed back": EXTENTS.with_settings(test_insert_hand_back=601),
}
_COLUMNS = "i int, p text STORAGE EXTERNAL, q text STORAGE EXTERNAL"
_SLOT = "SELECT pg_create_logical_replication_slot('decoding', 'test_decoding')"
_CHANGES = (
    "SELECT data FROM pg_logical_slot_get_changes('decoding', NULL, NULL, "
    "'skip-empty-xacts', '1', 'include-xids', '0')"
)
# Of all widths: on a page many, a few, toasted in one column or in both.
_WIDTHS = {
    "narrow": ("i % 40", "1"),
    "some toasted": ("CASE i % 43 WHEN 0 THEN 5000 ELSE 20 END", "1000"),
    "both toasted": ("CASE i % 3 WHEN 0 THEN 3000 ELSE 20 END", "CASE i % 4 WHEN 0 THEN 9000 END"),
    "all toasted": ("3000", "i"),
}
# What a subscriber follows.
_PUBLISHED = {"flat": INSERT, "partitioned": INSERT_PARTITIONS}


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {
        **QUIET,
        SWITCH: "on",
        "wal_level": "logical",
        "max_prepared_transactions": "4",
        "logical_decoding_work_mem": "64kB",
    }
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
        yield started


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    with server.connect() as opened:
        opened.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({_COLUMNS})")
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
    _expect_same_changes(session, INSERT, arm, widths, new_file=new_file)


@pytest.mark.parametrize("widths", _WIDTHS)
@pytest.mark.parametrize("way", WAYS[1:], ids=lambda way: way.name)
@pytest.mark.parametrize("new_file", [False, True], ids=["", "new file"])
def test_same_changes_in_other_ways(
    session: Connection, way: Way, widths: str, *, new_file: bool
) -> None:
    """Each partition's are in stock's order."""
    _expect_same_changes(session, way, "extents", widths, new_file=new_file)


def _expect_same_changes(
    session: Connection, way: Way, arm: str, widths: str, *, new_file: bool
) -> None:
    p, q = _WIDTHS[widths]
    rows = f"SELECT i, repeat('x', {p}), repeat('y', {q}) FROM generate_series(1, 900) i"
    put = way.statement(session, "t", rows)
    decoded = []
    before = Counters.of(session).rows
    for one in (STOCK, _ARMS[arm]):
        choose(session, one)
        session.execute(f"DROP TABLE t; {way.making('t', _COLUMNS, 'i')}")
        making = f"DROP TABLE t; {way.making('t', _COLUMNS, 'i')}; " if new_file else ""
        session.execute(f"BEGIN; {making}{put}; {put}; COMMIT")
        decoded.append(sorted(_changes(session), key=_table))
    assert decoded[0] == decoded[1]
    assert sum("INSERT" in change for change in decoded[1]) == 1800
    assert widths == "all toasted" or Counters.of(session).rows > before


def _table(change: str) -> str:
    """The table of a row; other changes come first."""
    return change.split(":")[0] if change.startswith("table ") else ""


def test_new_table_keeps_its_order(server: WatchedServer) -> None:
    """Behind a row that is toasted, from which on core inserts them, too."""
    with server.connect() as session:
        choose(session, DEFAULT)
        before = Counters.of(session).rows
        session.execute(
            "CREATE TABLE made AS SELECT i, repeat('x', CASE i WHEN 60000 THEN 3000 ELSE 100 END) "
            "FROM generate_series(1, 100000) i"
        )
        assert Counters.of(session).rows > before
        rows = "SELECT i, lag(i) OVER (ORDER BY ctid) AS last FROM made"
        found = scalar(session, f"SELECT count(*) FROM ({rows}) r WHERE last > i")
        session.execute("DROP TABLE made")
    assert found == 0


def test_toasted_row_lies_behind_those_before(server: WatchedServer) -> None:
    """Core inserts it, but not on the page that it had when pages of ours began."""
    with server.connect() as session:
        choose(session, DEFAULT)
        session.execute("DROP TABLE IF EXISTS filled; CREATE TABLE filled (i int, s text)")
        session.execute(
            "INSERT INTO filled SELECT i, repeat('x', CASE i WHEN 60000 THEN 3000 ELSE 100 END) "
            "FROM generate_series(1, 100000) i"
        )
        found = scalar(
            session,
            "SELECT count(*) FROM filled WHERE i < 59000 "
            "AND ctid > (SELECT ctid FROM filled WHERE i = 60000)",
        )
        session.execute("DROP TABLE filled")
    assert found == 0


@pytest.fixture
def subscriber(
    server: WatchedServer, server_factory: ServerFactory
) -> Iterator[tuple[Connection, Connection]]:
    """Sessions of a publisher, of both tables, and of a subscriber without the library."""
    columns = "i int, p text STORAGE EXTERNAL, q text STORAGE EXTERNAL, k int PRIMARY KEY"
    making = "; ".join(
        f"DROP TABLE IF EXISTS {table}; {way.making(table, columns, 'k')}"
        for table, way in _PUBLISHED.items()
    )
    settings = {**QUIET, "max_prepared_transactions": "4"}
    with (
        server_factory(settings=settings) as follower,
        server.connect() as source,
        follower.connect() as session,
    ):
        for one in (source, session):
            one.execute(making)
        source.execute(
            "CREATE PUBLICATION all_rows FOR TABLE flat (i, q, k) WHERE (k % 3 <> 0), "
            "partitioned WITH (publish_via_partition_root = true)"
        )
        conninfo = f"host={server.socket_directory} port={server.port} user=postgres"
        session.execute(
            f"CREATE SUBSCRIPTION follows CONNECTION '{conninfo} dbname=postgres' "
            "PUBLICATION all_rows WITH (streaming = on, two_phase = true)"
        )
        not_ready = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"
        wait_until(lambda: scalar(session, not_ready) == 0, "tables are followed")
        try:
            yield source, session
        finally:
            session.execute("DROP SUBSCRIPTION follows")
            source.execute("DROP PUBLICATION all_rows")


def test_subscriber_has_the_same_rows(subscriber: tuple[Connection, Connection]) -> None:
    """By a column list and a row filter, from the root of partitions, streamed, prepared."""
    source, follower = subscriber
    before = Counters.of(source).rows
    choose(source, EXTENTS)
    for number, way in enumerate(WAYS):
        table = "partitioned" if way.partitioned else "flat"
        for turn, end in enumerate(("COMMIT", "ROLLBACK", "COMMIT PREPARED", "ROLLBACK PREPARED")):
            first = (number * 4 + turn) * 10_000
            rows = (
                "SELECT i % 7, repeat('x', i % 3000), repeat('y', 3000 * (i % 41 / 40)), i "
                f"FROM generate_series({first}, {first + 2000}) i"
            )
            source.execute("BEGIN")
            source.execute(way.statement(source, table, rows))
            if end.endswith("PREPARED"):
                source.execute("PREPARE TRANSACTION 'rows'")
                source.execute(f"{end} 'rows'")
            else:
                source.execute(end)
    assert Counters.of(source).rows > before
    position = scalar(source, "SELECT pg_current_wal_insert_lsn()")
    done = f"SELECT confirmed_flush_lsn >= '{position}' FROM pg_replication_slots"
    wait_until(lambda: bool(scalar(source, done)), "the subscriber has the rows")
    for table, columns, where in (("flat", "i, q, k", "k % 3 <> 0"), ("partitioned", "*", "true")):
        contents = (
            "SELECT count(*), md5(string_agg(r::text, '' ORDER BY k)) "
            f"FROM (SELECT {columns} FROM {table} WHERE {where}) r"
        )
        expected = source.execute(contents).fetchone()
        assert expected is not None and expected[0] > 4000
        assert follower.execute(contents).fetchone() == expected
