"""What is asked for: each page that is not in shared buffers once, and nothing where all are."""

import pytest
from extension.parts import warm_only
from extension.probes import Connection, explain, nodes, scalar
from server_log import WatchedServer

from join.tables import (
    MIXED,
    OUTER_ROWS,
    PAGES,
    PARTITIONS,
    cold_loops,
    drawn,
    loops,
    make_cold,
    stock_rows,
)

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
    # The pages that wake the join have been read.
    assert wanted - 4 <= loop["Advised Blocks"] <= wanted + index_pages
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
    assert OUTER_ROWS / 10 - 5 <= loop["Advised Blocks"] <= OUTER_ROWS / 10 + index_pages


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


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Index Scan", "SET enable_indexonlyscan = off"),
        ("Index Only Scan", "SET enable_indexonlyscan = on"),
        ("Bitmap Heap Scan", "SET enable_bitmapscan = on; SET enable_indexscan = off"),
    ],
)
def test_the_inner_scan_does_not_ask_again(
    server: WatchedServer, connection: Connection, kind: str, settings: str
) -> None:
    """The pages of a row whose entries are all on one leaf, which some rows of a leaf are not."""
    connection.execute(settings)
    query = "SELECT o.id, m.k, m.g FROM outer_rows o JOIN many m ON m.k = o.id"
    make_cold(server, connection, "many")
    scans = [
        node["Lookahead"]["Advised Blocks"]
        for node in nodes(explain(connection, query))
        if node["Node Type"] == kind and "Lookahead" in node
    ]
    assert len(scans) == 1
    assert sum(scans) <= 20


def test_a_row_of_many_pages(server: WatchedServer, connection: Connection) -> None:
    """The join asks for 64 of the hundred pages of a row, its scan for the rest."""
    connection.execute(
        "CREATE TABLE heavy (k int, pad text); ALTER TABLE heavy ALTER pad SET STORAGE PLAIN; "
        "INSERT INTO heavy SELECT k % 4, pad FROM third; "
        "CREATE INDEX heavy_k ON heavy (k); ANALYZE heavy"
    )
    query = "SELECT o.id, h.pad FROM outer_rows o JOIN heavy h ON h.k = o.id WHERE o.id < 4"
    connection.execute("SET pg_lookahead.test_start_after = 0")
    make_cold(server, connection, "heavy")
    plan = explain(connection, query)
    (scan,) = (node for node in nodes(plan) if node["Node Type"] == "Index Scan")
    assert scan["Lookahead"]["Advised Blocks"] > 150
    connection.execute("DROP TABLE heavy")


def test_the_partition_that_a_row_wants(server: WatchedServer, connection: Connection) -> None:
    query = _ONE.replace("inner_rows", "parts")
    wanted = _inner_rows(connection)
    (loop,) = cold_loops(server, connection, query, *PARTITIONS)
    index_pages = scalar(
        connection,
        "SELECT sum(pg_relation_size(indexrelid)) / 8192 FROM pg_index WHERE indrelid = ANY "
        "(ARRAY['parts_low', 'parts_high']::regclass[])",
    )
    # The page that wakes the join has been read, and the first row of a partition that is new.
    assert wanted - 5 <= loop["Advised Blocks"] <= wanted + index_pages


def test_a_row_that_wants_several_partitions(server: WatchedServer, connection: Connection) -> None:
    query = "SELECT o.id, i.pad FROM outer_rows o JOIN parts i ON i.g = o.id AND i.k >= o.{}"
    for column, is_asked in (("ref", False), ("id", True)):
        where = " WHERE o.ref < 50" if column == "ref" else " WHERE o.id > 200"
        (loop,) = cold_loops(server, connection, query.format(column) + where, *PARTITIONS)
        assert (loop["Prefetched Blocks"] > 0) == is_asked


def test_forced_again_and_again(connection: Connection) -> None:
    """Pages that are in the system's cache make no other join of a forced session sleep."""
    connection.execute("SET pg_lookahead.test_start_after = 0")
    for _ in range(6):
        scalar(connection, "SELECT buffers_evicted FROM pg_lookahead_evict('inner_rows')")
        (loop,) = loops(explain(connection, _ONE))
        assert loop["Drawn Rows"] > OUTER_ROWS / 2


def test_a_scan_that_does_not_run_is_asked_for_no_more(
    server: WatchedServer, connection: Connection
) -> None:
    """What another scan of the inner side finds nothing for; of eight rows each."""
    query = (
        "SELECT o.id FROM outer_rows o LEFT JOIN LATERAL (SELECT m.g FROM inner_rows i "
        "JOIN many m ON m.k = o.id % 50 WHERE i.k = o.ref AND i.g < 0 OFFSET 0) s ON true"
    )
    found = cold_loops(server, connection, query, "inner_rows", "many")
    assert sum(loop.get("Drawn Rows", 0) for loop in found) > OUTER_ROWS / 2
    assert sum(loop.get("Advised Blocks", 0) for loop in found) < 1.5 * OUTER_ROWS + 100


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


def test_a_semi_join_whose_rows_read_one_page_more_now_and_then(
    server: WatchedServer, connection: Connection
) -> None:
    """Rows that were asked for before it knew better do not make it ask for more and more."""
    query = (
        "SELECT o.id FROM outer_rows o WHERE o.id < 50 AND EXISTS (SELECT FROM many m "
        "WHERE m.k = o.id AND m.g / 50 >= 1 + (o.id % 10 = 0)::int AND pad > '')"
    )
    (loop,) = cold_loops(server, connection, query, "many")
    index_pages = scalar(connection, "SELECT pg_relation_size('many_k') / 8192")
    assert 90 <= loop["Advised Blocks"] <= 2.4 * 50 + index_pages


def test_few_rows_are_not_worth_it(server: WatchedServer, connection: Connection) -> None:
    make_cold(server, connection, "inner_rows")
    (loop,) = loops(explain(connection, f"{_ONE} WHERE o.id BETWEEN 5 AND 7"))
    assert (loop["Scans"], loop["Drawn Rows"]) == (0, 0)


def test_reads_of_other_tables(server: WatchedServer, connection: Connection) -> None:
    """They tell a semi join nothing about how many pages a row wants."""
    query = (
        "SELECT o.id FROM outer_rows o WHERE o.id < 50 AND EXISTS (SELECT FROM many m "
        "WHERE m.k = o.id AND (SELECT length(t.pad) FROM third t WHERE t.k = m.g) > 0)"
    )
    (loop,) = cold_loops(server, connection, query, "many", "third")
    assert loop["Advised Blocks"] <= 60


def test_a_semi_join_learns_from_rows_that_it_looked_up(
    server: WatchedServer, connection: Connection
) -> None:
    """Most rows are looked up by core alone; the last fifty, rings later, want one page of six."""
    connection.execute("SET enable_seqscan = off; SET pg_lookahead.test_start_after = 0")
    query = (
        "SELECT o.i FROM (SELECT i, CASE WHEN i < 600 THEN i % 100 ELSE 100 + i % 50 END AS k "
        "FROM generate_series(0, 649) i OFFSET 0) o "
        "WHERE EXISTS (SELECT FROM mixed m WHERE m.k = o.k AND pad > '')"
    )
    (loop,) = cold_loops(server, connection, query, *MIXED)
    index_pages = scalar(connection, "SELECT pg_relation_size('mixed_high_k_idx') / 8192")
    assert 45 <= loop["Advised Blocks"] <= 60 + index_pages


def test_a_limit_below_asks_for_one_page(server: WatchedServer, connection: Connection) -> None:
    query = (
        "SELECT o.id, l.pad FROM outer_rows o CROSS JOIN LATERAL "
        "(SELECT pad FROM many m WHERE m.k = o.id ORDER BY m.g LIMIT 1) l WHERE o.id < 50"
    )
    (loop,) = cold_loops(server, connection, query, "many")
    index_pages = scalar(connection, "SELECT pg_relation_size('many_k') / 8192")
    assert 45 <= loop["Advised Blocks"] <= 50 + index_pages


def test_near_pages_are_asked_for_together(server: WatchedServer, connection: Connection) -> None:
    """Rows in the order of the table want page after page; in another order each on its own.

    After 64 pages in order a trial begins.
    """
    connection.execute(
        "CREATE TABLE sorted (k int, pad text); ALTER TABLE sorted ALTER pad SET STORAGE PLAIN; "
        "INSERT INTO sorted SELECT k, pad FROM third ORDER BY k; "
        "CREATE INDEX ON sorted (k); ANALYZE sorted"
    )
    query = "SELECT o.id, s.pad FROM outer_rows o JOIN sorted s ON s.k = o.{}"
    (loop,) = cold_loops(server, connection, f"{query.format('id')} WHERE o.id < 60", "sorted")
    assert loop["Advised Blocks"] >= 45
    assert loop["Requests"] * 3 < loop["Advised Blocks"]
    (loop,) = cold_loops(server, connection, query.format("ref"), "sorted")
    assert loop["Requests"] * 2 > loop["Advised Blocks"]
    connection.execute("DROP TABLE sorted")


def test_bitmaps_that_workers_read(server: WatchedServer, connection: Connection) -> None:
    """This process reads no page from the device: the index is in shared buffers."""
    warm_only(server, connection, "inner_rows", (), PAGES)
    connection.execute("SET enable_bitmapscan = on; SET enable_indexscan = off")
    connection.execute("SET pg_lookahead.enable_bitmap_prefetch = off")
    (loop,) = loops(explain(connection, _ONE))
    assert loop["Advised Blocks"] >= _inner_rows(connection) - 5


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
    """Most rows of a long outer side find the same pages; others come at its end.

    These are so few that nobody can tell whether asking for them was of use.
    """
    connection.execute(
        "CREATE TABLE long_rows AS SELECT CASE WHEN i < 20 THEN i WHEN i < 2000 THEN i % 20 "
        "ELSE i % 300 + 60 END AS ref FROM generate_series(0, 2100) i"
    )
    query = "SELECT l.ref, i.pad FROM long_rows l JOIN inner_rows i ON i.k = l.ref"
    (loop,) = cold_loops(server, connection, query)
    assert (loop["Scans"], loop["Restarts"]) == (1, 1)
    assert loop["Drawn Rows"] < 1000
    connection.execute("DROP TABLE long_rows")


def test_a_join_that_wakes_in_vain_sleeps_longer(
    server: WatchedServer, connection: Connection
) -> None:
    """The pages that are read belong to a function of the inner side.

    Those that it reads for the first rows come from a device.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS tiny AS SELECT 1 AS a; CREATE TABLE IF NOT EXISTS thrice AS "
        "SELECT i % 300 AS k FROM generate_series(0, 2999) i; "
        "CREATE OR REPLACE FUNCTION reads(int) RETURNS bool LANGUAGE plpgsql STABLE AS $$ BEGIN "
        "PERFORM pg_lookahead_evict('tiny'); PERFORM a FROM tiny; "
        "PERFORM pad FROM inner_rows WHERE k = $1; RETURN true; END $$"
    )
    query = "SELECT o.k, t.g FROM thrice o JOIN third t ON t.k = o.k WHERE reads(t.k)"
    connection.execute(query)
    make_cold(server, connection, "inner_rows")
    (loop,) = loops(explain(connection, query))
    assert (loop["Scans"], loop["Advised Blocks"]) == (1, 0)
    assert 2 <= loop["Restarts"] <= 5


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
    assert max(wanted - 5, 0) <= loop["Advised Blocks"] <= wanted


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
    assert 20 < drawn(connection) - before < OUTER_ROWS - 50
    assert seen == stock_rows(connection, _ONE)
