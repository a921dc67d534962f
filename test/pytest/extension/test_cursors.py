"""Cursors: what an idle one holds, how it ends, and which ones are left to stock."""

import pytest
from server_log import WatchedServer
from waiting import wait_until

from extension.probes import (
    AWAKE,
    PINNED,
    STREAM_ALWAYS,
    Connection,
    make_shuffled,
    need_extension,
    scalar,
)

# A stock index scan holds one page, and ours does.
MAX_PINS = 1


@pytest.fixture(autouse=True)
def _table(server: WatchedServer, connection: Connection) -> None:
    """Table v: 20,000 rows in random order over about 900 pages."""
    need_extension(connection, "pg_buffercache")
    if scalar(connection, "SELECT to_regclass('v') IS NULL"):
        make_shuffled(connection, "v", 20_000)


def _keys(connection: Connection, sql: str) -> list[int]:
    return [row[0] for row in connection.execute(sql).fetchall()]


@pytest.mark.parametrize(
    "stream", [AWAKE, STREAM_ALWAYS, "SET jit = off"], ids=["mid_scan", "forced", "default"]
)
@pytest.mark.parametrize("fetches", [[3000], [1, 2, 5, 100, 2000], [7] * 40])
def test_idle_cursor_holds_few_pins(
    server: WatchedServer, connection: Connection, fetches: list[int], stream: str
) -> None:
    server.restart()
    with server.connect() as watcher, server.connect() as owner:
        owner.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        owner.execute(stream)
        with owner.transaction():
            owner.execute(
                "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM v WHERE k >= 0 ORDER BY k"
            )
            seen: list[int] = []
            for count in fetches:
                seen += _keys(owner, f"FETCH {count} FROM c")
                assert 1 <= scalar(watcher, PINNED) <= MAX_PINS
            assert seen == list(range(sum(fetches)))
            assert _keys(owner, "FETCH ALL FROM c") == list(range(len(seen), 20_000))
        wait_until(lambda: scalar(watcher, PINNED) == 0, "the cursor's pins are gone")


def test_vacuum_finishes_beside_an_idle_cursor(
    server: WatchedServer, connection: Connection
) -> None:
    """An aggressive VACUUM waits for pinned pages that need freezing; there are none here."""
    connection.execute("VACUUM (FREEZE) v")
    with server.connect() as other, connection.transaction():
        connection.execute(STREAM_ALWAYS)
        connection.execute(
            "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM v WHERE k >= 0 ORDER BY k"
        )
        connection.execute("FETCH 500 FROM c")
        other.execute("SET statement_timeout = '60s'")
        other.execute("VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) v")
        assert _keys(connection, "FETCH 10 FROM c") == list(range(500, 510))


def test_vacuum_skips_few_pages_because_of_an_idle_cursor(
    server: WatchedServer, connection: Connection
) -> None:
    """Rows of an aborted insertion are removed from every page but those the cursor pins."""
    need_extension(connection, "pageinspect")
    connection.execute("DROP TABLE IF EXISTS a")
    connection.execute("CREATE TABLE a (k int, pad text) WITH (fillfactor = 50)")
    connection.execute(
        "INSERT INTO a SELECT i * 7919 % 5000, repeat('x', 300) FROM generate_series(0, 4999) i"
    )
    connection.execute("CREATE INDEX a_k ON a (k)")
    connection.execute("VACUUM ANALYZE a")
    connection.execute("BEGIN; UPDATE a SET pad = pad; ROLLBACK")
    spoiled = (
        "SELECT count(DISTINCT b) FROM generate_series(0, pg_relation_size('a') / 8192 - 1) b, "
        "heap_page_items(get_raw_page('a', b)) WHERE lp_flags = 1 AND t_xmin::text::bigint > "
        "(SELECT min(t_xmin::text::bigint) FROM heap_page_items(get_raw_page('a', 0)))"
    )
    assert scalar(connection, spoiled) > 100
    with server.connect() as other, connection.transaction():
        connection.execute(STREAM_ALWAYS)
        connection.execute(
            "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM a WHERE k >= 0 ORDER BY k"
        )
        connection.execute("FETCH 20 FROM c")
        other.execute("VACUUM a")
        assert scalar(other, spoiled) <= MAX_PINS
        assert len(_keys(connection, "FETCH ALL FROM c")) == 4980


def test_scroll_cursor_goes_back_and_forth(connection: Connection) -> None:
    connection.execute(STREAM_ALWAYS)
    with connection.transaction():
        connection.execute(
            "DECLARE c SCROLL CURSOR FOR "
            "SELECT k FROM v WHERE k IN (1, 5, 9, 13) AND pad IS NOT NULL"
        )
        assert _keys(connection, "FETCH 2 FROM c") == [1, 5]
        assert _keys(connection, "FETCH BACKWARD 1 FROM c") == [1]
        assert _keys(connection, "FETCH 3 FROM c") == [5, 9, 13]
        assert _keys(connection, "FETCH BACKWARD ALL FROM c") == [9, 5, 1]


def test_scroll_cursor_over_several_leaves(connection: Connection) -> None:
    connection.execute(STREAM_ALWAYS)
    with connection.transaction():
        connection.execute(
            "DECLARE c SCROLL CURSOR FOR SELECT k, pad FROM v WHERE k >= 0 ORDER BY k"
        )
        assert _keys(connection, "FETCH 3000 FROM c") == list(range(3000))
        assert _keys(connection, "FETCH BACKWARD 2999 FROM c") == list(range(2998, -1, -1))
        assert _keys(connection, "FETCH FORWARD 5 FROM c") == [1, 2, 3, 4, 5]
        assert _keys(connection, "FETCH ABSOLUTE 19999 FROM c") == [19_998]


def test_row_of_a_streaming_cursor_can_be_changed(connection: Connection) -> None:
    connection.execute(STREAM_ALWAYS)
    with connection.transaction(force_rollback=True):
        connection.execute(
            "DECLARE c NO SCROLL CURSOR FOR SELECT k FROM v WHERE k >= 100 ORDER BY k FOR UPDATE"
        )
        connection.execute("FETCH 50 FROM c")
        changed = connection.execute(
            "UPDATE v SET pad = 'z' WHERE CURRENT OF c RETURNING k"
        ).fetchall()
        assert changed == [(149,)]
        connection.execute("DELETE FROM v WHERE k BETWEEN 160 AND 170")
        # The cursor's snapshot still sees them, but a row lock skips what its own transaction
        # has deleted.
        assert _keys(connection, "FETCH 12 FROM c") == [*range(150, 160), 171, 172]


def test_cursor_outlives_failed_subtransactions(connection: Connection) -> None:
    connection.execute(STREAM_ALWAYS)
    seen: list[int] = []
    with connection.transaction():
        connection.execute(
            "DECLARE c NO SCROLL CURSOR FOR SELECT k, pad FROM v WHERE k >= 0 ORDER BY k"
        )
        for number in range(60):
            connection.execute(f"SAVEPOINT s{number}")
            seen += _keys(connection, f"FETCH {1 + number % 9} FROM c")
            connection.execute(f"{'ROLLBACK TO' if number % 2 else 'RELEASE'} s{number}")
        seen += _keys(connection, "FETCH ALL FROM c")
    assert seen == list(range(20_000))


def test_held_cursor_fails_while_it_is_kept(connection: Connection) -> None:
    """COMMIT runs a WITH HOLD cursor to its end, and there it may meet an error."""
    connection.execute(STREAM_ALWAYS)
    connection.execute("BEGIN")
    connection.execute(
        "DECLARE c NO SCROLL CURSOR WITH HOLD FOR "
        "SELECT k, 1 / (k - 15000) FROM v WHERE k >= 0 ORDER BY k"
    )
    assert _keys(connection, "FETCH 100 FROM c") == list(range(100))
    with pytest.raises(Exception, match="division by zero"):
        connection.execute("COMMIT")
    wait_until(lambda: scalar(connection, PINNED) == 0, "the cursor's pins are gone")
    assert scalar(connection, "SELECT count(pad) FROM v WHERE k >= 0") == 20_000
