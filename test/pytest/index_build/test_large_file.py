"""An index of more than one file: requests of many pages end where a segment ends."""

import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from index_build.twins import ARMS, choose
from lookahead.experiments.built_index import pages_sha256

# Two entries fill a page of which a tenth may be used.
_CREATE = (
    'CREATE INDEX large_k ON large (repeat(md5(i::text), 15) COLLATE "C") WITH (fillfactor = 10)'
)


@pytest.mark.long
def test_index_goes_on_in_the_next_segment(server: WatchedServer, connection: Connection) -> None:
    segment_bytes = scalar(connection, "SELECT pg_size_bytes(current_setting('segment_size'))")
    rows = segment_bytes // 8192 * 2 + 5000
    connection.execute(f"CREATE UNLOGGED TABLE large AS SELECT i FROM generate_series(1, {rows}) i")
    connection.execute("SET maintenance_work_mem = '256MB'")
    digests = set()
    for arm in ARMS:
        choose(connection, arm)
        connection.execute(_CREATE)
        path = scalar(connection, "SELECT pg_relation_filepath('large_k')")
        assert scalar(connection, "SELECT pg_relation_size('large_k')") > segment_bytes
        digests.add(pages_sha256(server.data_directory / path))
        connection.execute("DROP INDEX large_k")
    connection.execute("DROP TABLE large")
    assert len(digests) == 1
