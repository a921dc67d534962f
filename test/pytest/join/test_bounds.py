"""What a join holds while rows are ahead: some memory, and nothing that cancels or others hurt."""

import pytest
from extension.probes import PINNED, Connection, explain, need_extension, nodes, scalar
from interrupting import Moments, interrupt_repeatedly, interrupted
from server_log import WatchedServer

from join.tables import MIXED, cold_loops, drawn, loops, make_cold, stock_rows

_JOIN = "outer_rows o JOIN inner_rows i ON i.k = o.ref"
_HITS = 10
SLICES = 1000


# Of the contexts that hold the rows of rings, blocks included.
_HELD = (
    "SELECT coalesce(sum(total_bytes), 0)::bigint FROM pg_backend_memory_contexts "
    "WHERE name = 'pg_lookahead outer rows'"
)


def _row_bytes(connection: Connection) -> int:
    return int(scalar(connection, _HELD))


def test_memory_of_wide_rows(server: WatchedServer, connection: Connection) -> None:
    """Of rows of 100 kB there are 1 MB, and one."""
    query = (
        "SELECT o.id, length(o.w), i.g, held() FROM (SELECT id, ref, repeat(name, 12000) w "
        "FROM outer_rows ORDER BY id OFFSET 0) o JOIN inner_rows i ON i.k = o.ref"
    )
    connection.execute(
        "CREATE OR REPLACE FUNCTION held() RETURNS bigint LANGUAGE sql STABLE AS $$ "
        f"{_HELD} $$; SET pg_lookahead.test_start_after = 0"
    )
    before = drawn(connection)
    held = [row[3] for row in connection.execute(query).fetchall()]
    assert drawn(connection) > before + 200
    assert 512 * 1024 < max(held) < 1024 * 1024 + 300 * 1024


def test_memory_of_narrow_rows(server: WatchedServer, connection: Connection) -> None:
    make_cold(server, connection, "inner_rows")
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR SELECT o.id, i.g FROM {_JOIN}")
        connection.execute("FETCH 100 FROM c")
        assert 0 < _row_bytes(connection) < 128 * 1024


@pytest.mark.parametrize("columns", [400, 1500])
@pytest.mark.parametrize("distance", [64, 1000])
def test_rows_of_many_columns(
    server: WatchedServer, connection: Connection, columns: int, distance: int
) -> None:
    """Slots for the longest ring would take all that a statement has: it is shorter."""
    nulls = ", ".join(f"NULL::int AS c{number}" for number in range(columns))
    connection.execute(
        f"DROP TABLE IF EXISTS broad; CREATE TABLE broad AS SELECT id, ref, {nulls} "
        "FROM outer_rows; ANALYZE broad; SET pg_lookahead.test_start_after = 0; "
        f"SET pg_lookahead.prefetch_distance = {distance}".encode()
    )
    called = "(SELECT i.g FROM inner_rows i WHERE i.k = b.ref)"
    joined = "SELECT b.*, i.g FROM broad b JOIN inner_rows i ON i.k = b.ref"
    for query in (joined, f"SELECT b.id, {called} FROM broad b"):
        expected = stock_rows(connection, query)
        make_cold(server, connection, "inner_rows")
        assert connection.execute(query.encode()).fetchall() == expected
        (node,) = [
            one["Lookahead"]
            for one in nodes(explain(connection, query))
            if one["Node Type"] == ("Nested Loop" if query == joined else "Seq Scan")
            and "Prefetched Blocks" in one.get("Lookahead", {})
        ]
        assert node["Prefetched Blocks"] > 100
    connection.execute("DROP TABLE broad")


def test_joins_above_each_other(connection: Connection) -> None:
    """A hundred and fifty joins that are awake at once share 4 MB, and the rest of them sleeps."""
    connection.execute(
        "SET pg_lookahead.test_start_after = 0; SET enable_seqscan = off; "
        "SET join_collapse_limit = 1; SET geqo = off"
    )
    joined = " ".join(f"JOIN inner_rows i{n} ON i{n}.k = o.ref" for n in range(150))
    reasons = [
        loop.get("Reason")
        for loop in loops(explain(connection, f"SELECT count(*) FROM outer_rows o {joined}"))
    ]
    assert set(reasons) == {None, "memory"}
    assert 20 < reasons.count(None) < 140


def test_joins_behind_each_other(connection: Connection) -> None:
    """One that has come to its end leaves its memory to others."""
    connection.execute("SET pg_lookahead.test_start_after = 0; SET enable_seqscan = off")
    one = f"(SELECT o.id, i.g FROM {_JOIN})"
    behind = loops(explain(connection, " UNION ALL ".join([one] * 150)))
    assert {loop.get("Reason") for loop in behind} == {None}
    assert all(loop["Drawn Rows"] > 0 for loop in behind)


def test_joins_that_begin_anew(connection: Connection) -> None:
    """Those that were rescanned keep memory: 4 MB are given out, in blocks that are larger."""
    connection.execute(
        "CREATE OR REPLACE FUNCTION held() RETURNS bigint LANGUAGE sql STABLE AS $$ "
        f"{_HELD} $$; SET pg_lookahead.test_start_after = 0; SET enable_seqscan = off; "
        "SET pg_lookahead.enable_index_prefetch = off"
    )
    one = f"(SELECT o.id, i.g FROM {_JOIN} WHERE o.id < x)"
    query = (
        "SELECT max(n), max(held()) FROM generate_series(100, 103) x, "
        f"LATERAL (SELECT count(*) AS n FROM ({' UNION ALL '.join([one] * 200)}) u) c"
    )
    rows, held = connection.execute(query).fetchall()[0]
    connection.execute("SET pg_lookahead.enable_join_prefetch = off")
    assert connection.execute(query).fetchall()[0][0] == rows
    assert 1024 * 1024 < held < 7 * 1024 * 1024


def test_joins_that_are_left_early(connection: Connection) -> None:
    """Of each outer row all begin anew, and those that were left keep no memory from others."""
    count = 80
    connection.execute(
        "SET pg_lookahead.test_start_after = 0; SET pg_lookahead.enable_index_prefetch = off"
    )
    one = (
        "(SELECT s.r + 1000 * {} AS key FROM generate_series(1, 20) s(r) "
        "JOIN inner_rows i ON i.k = s.r OFFSET 0)"
    )
    joins = " UNION ALL ".join(one.format(n) for n in range(count))
    query = (
        f"SELECT x FROM generate_series({count - 1}, 0, -1) x "
        f"WHERE EXISTS (SELECT FROM ({joins}) u WHERE u.key >= x * 1000 + 15)"
    )
    scans = [loop.get("Scans") for loop in loops(explain(connection, query))]
    assert scans == list(range(count, 0, -1))


def test_rows_into_a_partition_without_an_index(
    server: WatchedServer, connection: Connection
) -> None:
    """Thousands of them cost nothing that the rows behind them want."""
    connection.execute(
        "CREATE TABLE low_first AS SELECT i, "
        "CASE WHEN i < 3000 THEN i % 90 ELSE 100 + i % 50 END AS k "
        "FROM generate_series(0, 3290) i; "
        "SET enable_seqscan = off; SET pg_lookahead.test_start_after = 0"
    )
    query = "SELECT l.i, m.g FROM low_first l JOIN mixed m ON m.k = l.k"
    (loop,) = cold_loops(server, connection, query, *MIXED)
    assert loop["Prefetched Blocks"] > 250
    assert connection.execute(query).fetchall() == stock_rows(connection, query)
    connection.execute("DROP TABLE low_first")


def test_partitions_of_one_statement(server: WatchedServer, connection: Connection) -> None:
    """Of a thousand that are all looked up, each is, and memory is left for the rows."""
    connection.execute("CREATE TABLE slices (k int, g int) PARTITION BY RANGE (k)")
    for i in range(0, SLICES, 100):
        connection.execute(
            "; ".join(
                f"CREATE TABLE slice_{n} PARTITION OF slices FOR VALUES FROM ({n}) TO ({n + 1})"
                for n in range(i, i + 100)
            )
        )
    connection.execute(
        f"INSERT INTO slices SELECT i, i FROM generate_series(0, {SLICES - 1}) i; "
        "CREATE INDEX ON slices (k); ANALYZE slices; "
        f"CREATE TABLE all_slices AS SELECT i % {SLICES} AS k FROM generate_series(0, 3999) i; "
        "SET enable_seqscan = off; SET pg_lookahead.test_start_after = 0; "
        "SET pg_lookahead.enable_index_prefetch = off"
    )
    query = (
        "SELECT a.k, s.g FROM all_slices a "
        "LEFT JOIN LATERAL (SELECT g FROM slices s WHERE s.k = a.k OFFSET 0) s ON true"
    )
    (loop,) = loops(explain(connection, query))
    assert loop["Prefetched Blocks"] > 2500
    assert loop["Drawn Rows"] > 3500
    connection.execute("DROP TABLE slices, all_slices")


def test_cancels(server: WatchedServer, connection: Connection, seed: int) -> None:
    need_extension(connection, "pg_buffercache")
    moments = Moments(seed)
    query = f"SELECT count(i.pad) FROM {_JOIN}"
    connection.execute("SET pg_lookahead.test_start_after = 0")

    def attempt() -> float:
        make_cold(server, connection, "inner_rows")
        return interrupted(connection, query, moments, connection.cancel)

    interrupt_repeatedly(_HITS, attempt)
    assert scalar(connection, PINNED) == 0
    assert connection.execute(query).fetchall() == stock_rows(connection, query)


def test_what_others_change_meanwhile(server: WatchedServer, connection: Connection) -> None:
    """Index pages that rows wait for are split, emptied, deleted and used again."""
    connection.execute(
        "CREATE TABLE moving AS SELECT k, g, left(pad, 100) pad FROM third, "
        "generate_series(1, 30); "
        "CREATE INDEX moving_k ON moving (k); ANALYZE moving"
    )
    query = "SELECT o.id, m.k, m.g FROM outer_rows o JOIN moving m ON m.k = o.ref"
    connection.execute("SET default_transaction_isolation = 'repeatable read'")
    make_cold(server, connection, "moving")
    with server.connect() as other, connection.transaction():
        connection.execute(f"DECLARE ours NO SCROLL CURSOR FOR {query}")
        seen = connection.execute("FETCH 50 FROM ours").fetchall()
        other.execute("INSERT INTO moving SELECT k, -1, pad FROM moving")
        other.execute("UPDATE moving SET k = k + 1 WHERE g <> -1")
        other.execute("DELETE FROM moving WHERE g = -1")
        other.execute("VACUUM moving")
        other.execute("INSERT INTO moving SELECT -k, -1, pad FROM moving WHERE k < 100")
        seen += connection.execute("FETCH ALL FROM ours").fetchall()
        assert seen == stock_rows(connection, query)
    connection.execute("DROP TABLE moving")
