"""What is asked for: each page that is not in shared buffers once, and nothing where all are."""

import pytest
from extension.parts import warm_only
from extension.probes import Connection, explain, scalar
from server_log import WatchedServer

from join.tables import OUTER_ROWS, PAGES, cold_loops, drawn, loops, make_cold, stock_rows

_ONE = "SELECT o.id, i.pad FROM outer_rows o JOIN inner_rows i ON i.k = o.ref"
_MANY = "SELECT o.id, m.pad FROM outer_rows o JOIN many m ON m.k = o.id"


def _inner_rows(connection: Connection) -> int:
    """Rows of inner_rows that the outer side has, each on a page of its own."""
    return int(
        scalar(
            connection,
            f"SELECT count(DISTINCT i.k) FROM ({_ONE}) j, inner_rows i, "
            "outer_rows o WHERE j.id = o.id AND i.k = o.ref",
        )
    )


def test_asleep_where_all_is_cached(connection: Connection) -> None:
    for query in (_ONE, _MANY):
        connection.execute(query)
        (loop,) = loops(explain(connection, query))
        assert (loop["Scans"], loop["Prefetched Blocks"], loop["Drawn Rows"]) == (0, 0, 0)


def test_one_row_each(server: WatchedServer, connection: Connection) -> None:
    wanted = _inner_rows(connection)
    (loop,) = cold_loops(server, connection, _ONE)
    index_pages = scalar(connection, "SELECT pg_relation_size('inner_rows_k') / 8192")
    # The page that wakes the join has been read.
    assert wanted - 1 <= loop["Advised Blocks"] <= wanted + index_pages
    assert loop["Scans"] == 1
    assert loop["Drawn Rows"] >= OUTER_ROWS - 5


def test_rows_that_want_one_page(server: WatchedServer, connection: Connection) -> None:
    """Ten rows in a row have the same key: one of them asks."""
    query = (
        "SELECT o.id, i.pad FROM (SELECT id, id / 10 AS ref FROM outer_rows OFFSET 0) o "
        "JOIN inner_rows i ON i.k = o.ref"
    )
    (loop,) = cold_loops(server, connection, query)
    index_pages = scalar(connection, "SELECT pg_relation_size('inner_rows_k') / 8192")
    assert OUTER_ROWS / 10 - 2 <= loop["Advised Blocks"] <= OUTER_ROWS / 10 + index_pages


def test_a_value_from_above_the_join(connection: Connection) -> None:
    """The first rows after a rescan are looked up by its value, not by the one before."""
    connection.execute("SET pg_lookahead.test_start_after = 0")
    query = (
        "SELECT o.id, s.g FROM outer_rows o, LATERAL (SELECT m.g FROM (SELECT k FROM third "
        "WHERE k BETWEEN o.id AND o.id + 2 OFFSET 0) t LEFT JOIN LATERAL (SELECT g FROM many "
        "WHERE name = o.name AND g = t.k OFFSET 0) m ON true OFFSET 0) s WHERE o.id < 60"
    )
    below = loops(explain(connection, query))[-1]
    assert below["Scans"] > 50
    assert below["Prefetched Blocks"] > 50


def test_many_rows_each(server: WatchedServer, connection: Connection) -> None:
    (loop,) = cold_loops(server, connection, _MANY, "many")
    assert PAGES - 20 <= loop["Advised Blocks"] <= PAGES + 20


def test_a_semi_join_asks_for_one_page(server: WatchedServer, connection: Connection) -> None:
    query = (
        "SELECT o.id FROM outer_rows o WHERE o.id < 50 AND EXISTS "
        "(SELECT FROM many m WHERE m.k = o.id AND pad > '')"
    )
    (loop,) = cold_loops(server, connection, query, "many")
    index_pages = scalar(connection, "SELECT pg_relation_size('many_k') / 8192")
    assert 45 <= loop["Advised Blocks"] <= 50 + index_pages


def test_a_semi_join_asks_for_more_where_it_reads_more(
    server: WatchedServer, connection: Connection
) -> None:
    query = (
        "SELECT o.id FROM outer_rows o WHERE o.id < 50 AND EXISTS "
        "(SELECT FROM many m WHERE m.k = o.id AND pad < '')"
    )
    (loop,) = cold_loops(server, connection, query, "many")
    assert loop["Advised Blocks"] > 150


def test_an_index_only_scan_of_pages_that_are_all_visible(
    server: WatchedServer, connection: Connection
) -> None:
    connection.execute("VACUUM third")
    connection.execute("SET enable_indexonlyscan = on")
    query = "SELECT o.id, t.k FROM outer_rows o JOIN third t ON t.k = o.ref"
    (loop,) = cold_loops(server, connection, query, "third")
    assert loop["Advised Blocks"] <= scalar(connection, "SELECT pg_relation_size('third_k') / 8192")


def test_three_levels_ask_for_their_own_pages(
    server: WatchedServer, connection: Connection
) -> None:
    query = f"{_ONE} JOIN third t ON t.k = i.g"
    wanted = _inner_rows(connection)
    for loop in cold_loops(server, connection, query, "inner_rows", "third"):
        assert loop["Scans"] >= 1
        assert loop["Advised Blocks"] <= wanted + 10


def test_a_join_sleeps_and_wakes_again(server: WatchedServer, connection: Connection) -> None:
    """Most rows of a long outer side find the same pages; others come at its end."""
    connection.execute(
        "CREATE TABLE long_rows AS SELECT CASE WHEN i < 50 THEN i WHEN i < 2000 THEN i % 50 "
        "ELSE i % 300 + 60 END AS ref FROM generate_series(0, 2100) i"
    )
    query = "SELECT l.ref, i.pad FROM long_rows l JOIN inner_rows i ON i.k = l.ref"
    (loop,) = cold_loops(server, connection, query)
    assert (loop["Scans"], loop["Restarts"]) == (1, 1)
    assert loop["Drawn Rows"] < 1000
    connection.execute("DROP TABLE long_rows")


@pytest.mark.parametrize("hot", [100, PAGES])
def test_pages_in_shared_buffers_are_not_asked_for(
    server: WatchedServer, connection: Connection, hot: int
) -> None:
    warm_only(server, connection, "inner_rows", range(hot), PAGES)
    wanted = scalar(
        connection,
        f"SELECT count(DISTINCT ref) FROM outer_rows WHERE ref BETWEEN {hot} AND {PAGES - 1}",
    )
    (loop,) = loops(explain(connection, _ONE))
    assert max(wanted - 2, 0) <= loop["Advised Blocks"] <= wanted


def test_what_is_counted_of_the_index(server: WatchedServer, connection: Connection) -> None:
    """Looking ahead does not count pages that it finds."""
    counts = "SELECT idx_blks_hit FROM pg_statio_user_indexes WHERE indexrelname = 'inner_rows_k'"
    seen = []
    for enabled in ("off", "on"):
        connection.execute(f"SET pg_lookahead.enabled = {enabled}")
        make_cold(server, connection, "inner_rows")
        connection.execute("SELECT pg_stat_reset()")
        connection.execute(_ONE)
        connection.execute("SELECT pg_stat_force_next_flush()")
        seen.append(scalar(connection, counts))
    # The read of a leaf counts as look-ahead's, the scan then finds it.
    assert abs(seen[1] - seen[0]) <= 3


def test_look_ahead_ends_when_it_is_switched_off(
    server: WatchedServer, connection: Connection
) -> None:
    make_cold(server, connection, "inner_rows")
    before = drawn(connection)
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {_ONE}")
        seen = connection.execute("FETCH 20 FROM c").fetchall()
        connection.execute("SET LOCAL pg_lookahead.enable_join_prefetch = off")
        seen += connection.execute("FETCH ALL FROM c").fetchall()
    assert 20 < drawn(connection) - before < OUTER_ROWS / 2
    assert seen == stock_rows(connection, _ONE)
