"""What table scans keep in memory: scans of many partitions, one after the other, add up little."""

from extension.probes import Connection

from heap_scan.probes import BITMAP_SCANS, FORCED, OFF

_PARTS = 200
_ROWS = 20  # of a partition, one on each page
_BYTES_A_SCAN = 4_096  # of ours, for a scan that is over


def _used_by_executor(connection: Connection, settings: str) -> int:
    """Bytes that a statement holds when it comes to the end of the last partition."""
    connection.execute(settings)
    with connection.transaction():
        connection.execute("DECLARE c NO SCROLL CURSOR FOR SELECT k, part FROM m WHERE k > 0")
        rows = connection.execute(f"FETCH {_PARTS * _ROWS - 1} FROM c").fetchall()
        assert len(rows) == _PARTS * _ROWS - 1
        used = connection.execute(
            "SELECT max(used_bytes) FROM pg_backend_memory_contexts WHERE name = 'ExecutorState'"
        ).fetchone()
        assert used is not None
        return int(used[0])


def test_scans_of_many_partitions(connection: Connection) -> None:
    connection.execute("CREATE TABLE m (k int, part int, pad text) PARTITION BY LIST (part)")
    connection.execute("ALTER TABLE m ALTER pad SET STORAGE PLAIN")
    connection.execute(
        f"DO $$ BEGIN FOR i IN 1..{_PARTS} LOOP "
        "EXECUTE format('CREATE TABLE m_%s PARTITION OF m FOR VALUES IN (%s)', i, i); "
        "END LOOP; END $$"
    )
    connection.execute(
        "INSERT INTO m SELECT i, p, repeat('x', 7000) "
        f"FROM generate_series(1, {_ROWS}) i, generate_series(1, {_PARTS}) p"
    )
    connection.execute("CREATE INDEX ON m (k)")
    connection.execute("ANALYZE m")
    connection.execute(BITMAP_SCANS)
    stock = _used_by_executor(connection, OFF)
    for settings in ("SET jit = off", FORCED):
        ours = _used_by_executor(connection, f"SET pg_lookahead.enabled = on; {settings}")
        assert ours - stock < _PARTS * _BYTES_A_SCAN
