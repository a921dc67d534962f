"""Cursors over table scans: what an idle one holds, and what may change between two fetches."""

import pytest
from extension.probes import PINNED, Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

from heap_scan.probes import (
    BITMAP_SCANS,
    FORCED,
    OFF,
    SEQ_SCANS,
    TAKEN_OVER,
    make_cold,
    make_pages,
)

_PAGES = 800
_SCANS = {
    "bitmap": (BITMAP_SCANS, "SELECT k, pad FROM c WHERE r < 1200"),
    "dense_bitmap": (BITMAP_SCANS, "SELECT k, pad FROM c WHERE k BETWEEN 5 AND 1590"),
    "seq": (SEQ_SCANS, "SELECT k, pad FROM c"),
}
_FETCHES = [1, 1, 2, 5, 1, 40, 1]


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    if scalar(connection, "SELECT to_regclass('c') IS NULL"):
        make_pages(connection, "c", _PAGES)


def _keys(session: Connection, sql: str) -> list[int]:
    return [row[0] for row in session.execute(sql).fetchall()]


def _pins_while_idle(
    server: WatchedServer, watcher: Connection, scan: str, settings: str, *, cold: bool
) -> list[int]:
    """The pages that a cursor holds after each of some fetches."""
    path, sql = _SCANS[scan]
    with server.connect() as owner:
        owner.execute(f"{path}; {settings}")
        if cold:
            make_cold(watcher, "c")
        pins = []
        with owner.transaction():
            owner.execute(f"DECLARE c NO SCROLL CURSOR FOR {sql}")
            for count in _FETCHES:
                owner.execute(f"FETCH {count} FROM c")
                pins.append(scalar(watcher, PINNED))
    wait_until(lambda: scalar(watcher, PINNED) == 0, "the cursor's pins are gone")
    return pins


@pytest.mark.parametrize("scan", _SCANS)
def test_idle_cursor_holds_no_more_cached_pages_than_stocks(
    server: WatchedServer, connection: Connection, scan: str
) -> None:
    stock = max(_pins_while_idle(server, connection, scan, OFF, cold=False))
    for settings in ("SET jit = off", FORCED, TAKEN_OVER):
        pins = _pins_while_idle(server, connection, scan, settings, cold=False)
        assert min(pins) >= 1
        assert max(pins) <= stock


@pytest.mark.parametrize("scan", _SCANS)
def test_idle_cursor_holds_few_cold_pages(
    server: WatchedServer, connection: Connection, scan: str
) -> None:
    """How many depends on how fast reads are done; there is a limit. One page is the row's."""
    read_of_pages = int(scalar(connection, "SHOW io_combine_limit").removesuffix("kB")) // 8
    concurrency = int(scalar(connection, "SHOW effective_io_concurrency"))
    # Of a bitmap scan no read is in flight but the page's; others have the stream's, as stock's.
    reads = 1 if "bitmap" in scan else concurrency + 1
    limit = reads * read_of_pages + 1
    for settings in ("SET jit = off", FORCED, TAKEN_OVER):
        pins = _pins_while_idle(server, connection, scan, settings, cold=True)
        assert min(pins) >= 1
        assert max(pins) <= limit


@pytest.mark.parametrize("forced", [FORCED, TAKEN_OVER], ids=["forced", "taken_over"])
@pytest.mark.parametrize("scan", _SCANS)
def test_settings_change_between_fetches(connection: Connection, scan: str, forced: str) -> None:
    path, sql = _SCANS[scan]
    connection.execute(f"{path}; {OFF}")
    expected = _keys(connection, sql)
    connection.execute(f"SET pg_lookahead.enabled = on; {forced}")
    make_cold(connection, "c")
    changes = (
        "pg_lookahead.gap_limit = 256",
        "pg_lookahead.prefetch_distance = 1000",
        "pg_lookahead.bulk_read_size = 8192",
        "pg_lookahead.enabled = off",
        "pg_lookahead.enable_bitmap_prefetch = off",
        "pg_lookahead.enable_seq_prefetch = off",
        "effective_io_concurrency = 1000",
        "pg_lookahead.test_start_after = -1",
        "io_combine_limit = 1",
    )
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {sql}")
        seen = _keys(connection, "FETCH 30 FROM c")
        for change in changes:
            connection.execute(f"SET LOCAL {change}")
            seen += _keys(connection, "FETCH 30 FROM c")
        seen += _keys(connection, "FETCH ALL FROM c")
    assert seen == expected


@pytest.mark.parametrize("how", ["session", "reload"])
@pytest.mark.parametrize("scan", ["bitmap", "seq"])
def test_nothing_is_asked_for_once_it_is_switched_off(
    server: WatchedServer, connection: Connection, scan: str, how: str
) -> None:
    """A cursor that was looking ahead goes on without that."""
    path, sql = _SCANS[scan]
    connection.execute(
        f"{path}; SET pg_lookahead.bulk_read_size = 2; SET pg_lookahead.prefetch_distance = 4"
    )
    asked = "SELECT sum(advised_blocks) FROM pg_stat_lookahead"
    expected = _keys(connection, sql)
    advised = []
    for switched in (False, True):
        make_cold(connection, "c")
        before = scalar(connection, asked)
        with connection.transaction():
            connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {sql}")
            seen = _keys(connection, "FETCH 100 FROM c")
            if switched and how == "session":
                connection.execute("SET LOCAL pg_lookahead.enabled = off")
            elif switched:
                _reload(server, connection, "on")
            if switched:
                seen += _keys(connection, "FETCH ALL FROM c")
                assert seen == expected
        advised.append(scalar(connection, asked) - before)
    if how == "reload":
        _reload(server, connection, "off")
    # What the kernel reads ahead by itself decides how many of a sequence are asked for at first.
    assert all(20 < count < _PAGES // 2 for count in advised)


def test_a_rescan_asks_in_requests_of_the_size_set_by_then(connection: Connection) -> None:
    """0 counts at once: nothing more is asked for."""
    path, sql = _SCANS["seq"]
    query = f"SELECT l.k FROM generate_series(1, 4) g CROSS JOIN LATERAL ({sql} OFFSET 0 * g) l"
    # A query is counted when it ends.
    asked = "FROM pg_stat_lookahead WHERE feature = 'seq_scan'"
    connection.execute(f"{path}; {FORCED}; SET enable_material = off; SET enable_memoize = off")
    expected = _keys(connection, sql) * 4
    requests: dict[int, int] = {}
    blocks: dict[int, int] = {}
    for size in (2, 16, 0):
        make_cold(connection, "c")
        requests[size] = -scalar(connection, f"SELECT requests {asked}")
        blocks[size] = -scalar(connection, f"SELECT advised_blocks {asked}")
        with connection.transaction():
            connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}")
            seen = _keys(connection, f"FETCH {len(expected) // 4} FROM c")
            connection.execute(f"SET LOCAL pg_lookahead.bulk_read_size = {size}")
            seen += _keys(connection, "FETCH ALL FROM c")
        assert seen == expected
        requests[size] += scalar(connection, f"SELECT requests {asked}")
        blocks[size] += scalar(connection, f"SELECT advised_blocks {asked}")
    assert 0 < requests[0] <= _PAGES // 2 < requests[16]
    assert blocks[16] - blocks[0] > 8 * (requests[16] - requests[0])
    assert blocks[2] - blocks[0] <= 2 * (requests[2] - requests[0])


def _reload(server: WatchedServer, session: Connection, disable: str) -> None:
    """Until the session knows."""
    with server.connect() as administrator:
        administrator.execute(f"ALTER SYSTEM SET pg_lookahead.disable = {disable}")
        administrator.execute("SELECT pg_reload_conf()")
    wait_until(
        lambda: scalar(session, "SHOW pg_lookahead.disable") == disable, "the settings are reloaded"
    )


def test_distance_grows_between_rescans(connection: Connection) -> None:
    """A rescan takes the distance that is set by then; what it keeps must have grown with it."""
    query = (
        "SELECT g, l.n FROM generate_series(1, 40) g CROSS JOIN LATERAL "
        "(SELECT count(pad) AS n FROM c WHERE r BETWEEN g AND g + 300) l"
    )
    connection.execute(f"{BITMAP_SCANS}; {FORCED}; SET pg_lookahead.prefetch_distance = 1")
    make_cold(connection, "c")
    seen = []
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}")
        for distance in (1, 2, 100, 3, 1000, 0):
            connection.execute(f"SET LOCAL pg_lookahead.prefetch_distance = {distance}")
            seen += connection.execute("FETCH 5 FROM c").fetchall()
        seen += connection.execute("FETCH ALL FROM c").fetchall()
    assert seen == [(g, 301) for g in range(1, 41)]


@pytest.mark.parametrize("forced", [FORCED, TAKEN_OVER], ids=["forced", "taken_over"])
@pytest.mark.parametrize("scan", _SCANS)
def test_cursor_outlives_failed_subtransactions(
    connection: Connection, scan: str, forced: str
) -> None:
    path, sql = _SCANS[scan]
    connection.execute(f"{path}; {forced}")
    expected = _keys(connection, sql)
    make_cold(connection, "c")
    seen: list[int] = []
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {sql}")
        for number in range(40):
            connection.execute(f"SAVEPOINT s{number}")
            seen += _keys(connection, f"FETCH {1 + number % 9} FROM c")
            connection.execute(f"{'ROLLBACK TO' if number % 2 else 'RELEASE'} s{number}")
        seen += _keys(connection, "FETCH ALL FROM c")
    assert seen == expected


@pytest.mark.parametrize("forced", [FORCED, TAKEN_OVER], ids=["forced", "taken_over"])
@pytest.mark.parametrize("scan", _SCANS)
def test_rows_may_change_under_a_cursor(connection: Connection, scan: str, forced: str) -> None:
    """What comes later in the transaction is not seen; the row it stands on can be changed."""
    path, sql = _SCANS[scan]
    connection.execute(f"{path}; {forced}")
    expected = _keys(connection, sql)
    with connection.transaction(force_rollback=True):
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {sql}")
        seen = _keys(connection, "FETCH 10 FROM c")
        changed = connection.execute("UPDATE c SET r = -1 WHERE CURRENT OF c RETURNING k")
        assert changed.fetchall() == [(seen[-1],)]
        connection.execute("DELETE FROM c WHERE k % 3 = 0")
        connection.execute("INSERT INTO c SELECT k, r, pad FROM c LIMIT 500")
        seen += _keys(connection, "FETCH ALL FROM c")
    assert seen == expected


def test_cursor_that_may_turn_is_left_to_core(connection: Connection) -> None:
    """How far 18.6 goes back depends on the time that reads take, unless all are in buffers."""
    sql = "SELECT k, ctid FROM c WHERE k >= 0"
    walks = []
    for settings in (OFF, f"SET pg_lookahead.enabled = on; {FORCED}"):
        connection.execute(f"{SEQ_SCANS}; {settings}")
        connection.execute("SELECT count(*) FROM c")
        with connection.transaction():
            connection.execute(f"DECLARE c SCROLL CURSOR FOR {sql}")
            steps = ("FETCH 15", "FETCH BACKWARD ALL", "FETCH 3", "FETCH LAST", "FETCH -2")
            walks.append([connection.execute(f"{step} FROM c").fetchall() for step in steps])
            connection.execute("CLOSE c")
    assert walks[0] == walks[1]
    left = "SELECT sum((fallbacks ->> 'scrollable cursor')::int) FROM pg_stat_lookahead"
    assert scalar(connection, left) == 1
