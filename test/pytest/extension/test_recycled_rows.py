"""Index entries read ahead whose rows have been replaced before the row is looked at.

An entry is only a place in the table. While it waits in the ring, VACUUM may free the place (the
row was dead to everyone) and another transaction may put a new row there. The snapshot cannot see
the newcomer, so the scan must pass it over.
"""

from concurrent.futures import ThreadPoolExecutor

from server_log import WatchedServer
from waiting import wait_until

from extension.probes import (
    INDEX_SCANS_ONLY,
    STREAM_ALWAYS,
    Connection,
    need_extension,
    scalar,
    stands_at,
)

# One row to a page, so that the place that was freed is found again by its page number. The index
# exists before the insertion that fails, or it would have no entries for the failed rows.
_MAKE = (
    "DROP TABLE IF EXISTS r",
    "CREATE TABLE r (k int, note text, pad text)",
    "ALTER TABLE r ALTER pad SET STORAGE PLAIN",
    "CREATE INDEX ON r (k)",
    "INSERT INTO r SELECT i, 'old', repeat('x', 5000) FROM generate_series(1, 80) i",
    "BEGIN",
    "INSERT INTO r SELECT i, 'aborted', repeat('x', 5000) FROM generate_series(100, 139) i",
    "ROLLBACK",
    "INSERT INTO r SELECT i, 'old', repeat('x', 5000) FROM generate_series(140, 180) i",
)
_PLACES = "SELECT array_agg(ctid ORDER BY ctid) FROM r WHERE note = 'new'"


def _run(server: WatchedServer, reader: Connection, setting: str) -> tuple[list[int], list[str]]:
    """Keys seen by a cursor under which the places ahead are reused, and the places reused."""
    with server.connect() as writer:
        for statement in _MAKE:
            writer.execute(statement)
        reader.execute("RESET ALL")
        reader.execute(INDEX_SCANS_ONLY)
        reader.execute(setting)
        with reader.transaction():
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute(
                "DECLARE c NO SCROLL CURSOR FOR SELECT k, note FROM r WHERE k >= 1 ORDER BY k"
            )
            seen = reader.execute("FETCH 78 FROM c").fetchall()
            writer.execute("VACUUM r")
            writer.execute(
                "INSERT INTO r SELECT i, 'new', repeat('x', 5000) FROM generate_series(100, 139) i"
            )
            seen += reader.execute("FETCH ALL FROM c").fetchall()
        assert {note for _, note in seen} == {"old"}
        return [key for key, _ in seen], list(scalar(writer, _PLACES))


def test_reused_places_ahead_of_a_cursor(server: WatchedServer, connection: Connection) -> None:
    stock, _ = _run(server, connection, "SET pg_lookahead.enabled = off")
    ours, places = _run(server, connection, STREAM_ALWAYS)
    assert ours == stock == [*range(1, 81), *range(140, 181)]
    # New rows do stand where entries read ahead pointed to: pages 80 to 119 held the aborted ones.
    reused = [place for place in places if 80 <= int(place.strip("()").split(",")[0]) < 120]
    assert len(reused) > 20


_POINT = "pg-lookahead-before-fetch"


def test_reused_places_ahead_of_a_statement(server: WatchedServer, connection: Connection) -> None:
    """The same inside one statement: it is stopped when the entries are queued, none looked at."""
    with server.connect() as writer:
        need_extension(writer, "injection_points")
        for statement in _MAKE:
            writer.execute(statement)
        connection.execute(STREAM_ALWAYS)
        connection.execute("SET pg_lookahead.test_depth = 200")
        writer.execute(f"SELECT injection_points_attach('{_POINT}', 'wait')")
        try:
            with ThreadPoolExecutor(1) as pool:
                reading = pool.submit(
                    connection.execute, "SELECT k, note FROM r WHERE k >= 1 ORDER BY k"
                )
                wait_until(
                    lambda: stands_at(writer, _POINT), "the scan stands before its first row"
                )
                writer.execute("VACUUM r")
                writer.execute(
                    "INSERT INTO r SELECT i, 'new', repeat('x', 5000) "
                    "FROM generate_series(100, 139) i"
                )
                writer.execute(f"SELECT injection_points_detach('{_POINT}')")
                writer.execute(f"SELECT injection_points_wakeup('{_POINT}')")
                seen = reading.result(60).fetchall()
        finally:
            connection.cancel()
        places = list(scalar(writer, _PLACES))
    assert seen == [(key, "old") for key in (*range(1, 81), *range(140, 181))]
    assert len([place for place in places if 80 <= int(place.strip("()").split(",")[0]) < 120]) > 20
