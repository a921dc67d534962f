"""Pages that nodes below do not come to are not asked for; and joins sleep that gain nothing."""

import pytest
from extension.parts import cached_but, need_counted_reads
from extension.probes import Connection, explain, nodes
from server_log import WatchedServer

from join.tables import PAGES, cold_loops, drawn, loops, make_cold

_STOPPING = {
    "semi join": "SELECT o.id, s.n FROM outer_rows o, LATERAL (SELECT count(*) AS n "
    "FROM inner_rows a WHERE a.k = o.ref AND EXISTS (SELECT FROM many b WHERE b.k = o.id "
    "AND b.g <> -1 - a.g)) s",
    "run condition": "SELECT o.id, s.g FROM outer_rows o, LATERAL (SELECT * FROM (SELECT m.g, "
    "row_number() OVER (ORDER BY m.g) AS n FROM many m WHERE m.k = o.id) w WHERE n <= 1) s",
}


@pytest.mark.parametrize("name", list(_STOPPING))
def test_a_node_that_stops_early(server: WatchedServer, connection: Connection, name: str) -> None:
    """Of eight pages for each of fifty rows one is read, or two."""
    make_cold(server, connection, "many")
    connection.execute("SELECT count(pad) FROM inner_rows")
    connection.execute("SET enable_sort = off; SET enable_seqscan = off")
    top = loops(explain(connection, _STOPPING[name]))[0]
    assert 20 < top["Advised Blocks"] <= 150


def test_both_sides_of_a_bitmap(server: WatchedServer, connection: Connection) -> None:
    """Most pages of each are not read."""
    connection.execute(
        "CREATE TABLE crossed (a int, b int, pad text); "
        "ALTER TABLE crossed ALTER pad SET STORAGE PLAIN; "
        "INSERT INTO crossed SELECT i % 20, i / 20, repeat('x', 5000) "
        "FROM generate_series(0, 399) i; CREATE INDEX crossed_a ON crossed (a); "
        "CREATE INDEX crossed_b ON crossed (b); ANALYZE crossed; "
        "SET enable_bitmapscan = on; SET enable_indexscan = off; SET enable_seqscan = off"
    )
    query = (
        "SELECT o.id, c.pad "
        "FROM (SELECT id, id % 20 AS a, id / 20 AS b FROM outer_rows OFFSET 0) o "
        "JOIN crossed c ON c.a = o.a AND c.b = o.b"
    )
    make_cold(server, connection, "crossed")
    plan = explain(connection, query)
    connection.execute("DROP TABLE crossed")
    assert [node for node in nodes(plan) if node["Node Type"] == "BitmapAnd"]
    (loop,) = loops(plan)
    assert loop["Reason"] == "inner side"


def test_rows_with_nulls(server: WatchedServer, connection: Connection) -> None:
    """That nothing is looked up for most rows does not say that the others gain nothing."""
    query = (
        "SELECT o.id, i.pad FROM (SELECT id, CASE WHEN id % 3 = 0 THEN id % 400 END AS ref "
        "FROM generate_series(0, 1199) id OFFSET 0) o LEFT JOIN inner_rows i ON i.k = o.ref"
    )
    (loop,) = cold_loops(server, connection, query)
    assert loop["Drawn Rows"] > 1100
    assert loop["Restarts"] == 0


def test_the_outer_side_of_a_unique_join(server: WatchedServer, connection: Connection) -> None:
    """All its rows are read: eight for each of the first rows, too."""
    connection.execute("CREATE UNIQUE INDEX third_k_is_unique ON third (k)")
    query = (
        "SELECT o.id, s.n FROM outer_rows o, LATERAL (SELECT sum(m.g * t.g) AS n "
        "FROM many m JOIN third t ON t.k = m.g WHERE m.k = o.id) s WHERE o.id < 50"
    )
    connection.execute("SET pg_lookahead.test_start_after = 0; SET enable_seqscan = off")
    make_cold(server, connection, "many")
    top = loops(explain(connection, query))[0]
    connection.execute("DROP INDEX third_k_is_unique")
    assert top["Advised Blocks"] > 350


@pytest.mark.parametrize(("rows", "is_ahead"), [(12, False), (300, True)])
def test_few_rows_of_many_partitions(
    server: WatchedServer, connection: Connection, rows: int, is_ahead: bool
) -> None:
    """To judge all partitions takes longer than to read a few pages."""
    connection.execute(
        "CREATE TABLE slices (id int, ref int) PARTITION BY LIST (id); "
        "DO $$ BEGIN FOR i IN 0..199 LOOP EXECUTE format('CREATE TABLE slice_%s PARTITION "
        "OF slices FOR VALUES IN (%s)', i, i); END LOOP; END $$"
    )
    connection.execute(
        f"INSERT INTO slices SELECT i % 200, i FROM generate_series(1, {rows}) i; ANALYZE slices"
    )
    query = "SELECT s.id, i.pad FROM slices s JOIN inner_rows i ON i.k = s.ref"
    (loop,) = cold_loops(server, connection, query)
    connection.execute("DROP TABLE slices")
    assert (loop["Drawn Rows"] > 200) if is_ahead else (loop["Drawn Rows"] == 0)


def test_a_join_that_is_left_with_its_first_row(
    server: WatchedServer, connection: Connection
) -> None:
    """It sleeps again where all pages are in shared buffers, though it draws no row ahead."""
    query = (
        "SELECT count(*) FROM (SELECT i % 50 AS k FROM generate_series(1, 2000) i OFFSET 0) o "
        "WHERE o.k < 0 OR EXISTS (SELECT FROM many m JOIN inner_rows i ON i.k = m.g "
        "WHERE m.k = o.k AND i.g > -1 - o.k)"
    )
    connection.execute("SET enable_seqscan = off")
    (loop,) = cold_loops(server, connection, query)
    assert 0 < loop["Scans"] < 400


def test_a_row_that_is_alone(server: WatchedServer, connection: Connection) -> None:
    """Its page would be asked for when it is read."""
    connection.execute(
        "CREATE TABLE between (id int PRIMARY KEY, ref int); "
        "INSERT INTO between SELECT id, ref FROM outer_rows; ANALYZE between; "
        "SET join_collapse_limit = 1; SET enable_seqscan = off"
    )
    query = (
        "SELECT count(i.pad) FROM outer_rows o "
        "LEFT JOIN (between b JOIN inner_rows i ON i.k = b.ref) ON b.id = o.id"
    )
    above, below = cold_loops(server, connection, query)
    connection.execute("DROP TABLE between")
    assert above["Advised Blocks"] == 0
    assert below["Requests"] == 0


_LOOK_UP = "SELECT o.id, i.pad FROM outer_rows o JOIN inner_rows i ON i.k = o.ref WHERE {}"
_FORTY = "o.id BETWEEN 5 AND 44"
_TWICE_TWENTY = "(o.id BETWEEN 5 AND 24 OR o.id BETWEEN 60 AND 79)"
_SLOW = "pg_sleep(0.0005)::text = ''"


@pytest.mark.parametrize(
    ("outer", "rows"),
    [
        ("Seq Scan", _FORTY),
        ("Bitmap Heap Scan", _TWICE_TWENTY),
        ("Bitmap Heap Scan", f"{_TWICE_TWENTY} AND {_SLOW}"),
    ],
    ids=["in sequence", "bitmap", "bitmap of slow rows"],
)
def test_few_rows_of_the_system_cache(
    server: WatchedServer, connection: Connection, outer: str, rows: str
) -> None:
    """How the outer rows are found does not matter, nor how long they take."""
    need_counted_reads(server.data_directory)
    if outer != "Seq Scan":
        connection.execute("CREATE INDEX outer_rows_id ON outer_rows (id)")
        connection.execute("SET enable_bitmapscan = on; SET enable_seqscan = off")
    cached_but(server, connection, "inner_rows", (), PAGES)
    plan = explain(connection, _LOOK_UP.format(rows))
    connection.execute("DROP INDEX IF EXISTS outer_rows_id")
    (loop,) = loops(plan)
    assert outer in {node["Node Type"] for node in nodes(plan)}
    assert (loop["Scans"], loop["Drawn Rows"]) == (0, 0)


def test_few_slow_rows(server: WatchedServer, connection: Connection) -> None:
    """Where rows take long, one page from the device is enough."""
    cached_but(server, connection, "inner_rows", (15 * 11, 35 * 11), PAGES)
    slow = f"{_LOOK_UP.format(_FORTY)} AND {_SLOW}"
    (loop,) = loops(explain(connection, slow))
    assert loop["Drawn Rows"] > 0


def test_slow_rows_fetched_one_by_one(server: WatchedServer, connection: Connection) -> None:
    """Their time is that of all fetches; the pages from the device are those of later rows."""
    cached_but(server, connection, "inner_rows", (30 * 11, 35 * 11), PAGES)
    before = drawn(connection)
    slow = _LOOK_UP.format(_SLOW)
    with connection.transaction():
        connection.execute(f"DECLARE c CURSOR FOR {slow}")
        for _ in range(90):
            connection.execute("FETCH 1 FROM c")
    assert drawn(connection) > before


def test_many_rows_of_the_system_cache(server: WatchedServer, connection: Connection) -> None:
    """One page of six comes from the device."""
    cached_but(server, connection, "inner_rows", range(5, PAGES, 6), PAGES)
    (loop,) = loops(explain(connection, _LOOK_UP.format("o.id > 0")))
    assert loop["Drawn Rows"] > 0
