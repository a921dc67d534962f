"""A standby without the library replays builds, and every page that it makes is checked."""

from collections.abc import Iterator

import pytest
from extension.probes import QUIET, need_extension, scalar
from replication import standby_of, wait_for_replay
from server_log import ServerFactory, WatchedServer

from index_build.pages import first_difference, read_image, without_free_space
from index_build.twins import SWITCH, Counters, check_tree, choose
from lookahead.extension import Stage

_INDEXES = ("t_id", "t_k", "t_s", "t_few", "t_part")


@pytest.fixture(scope="module")
def primary(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, SWITCH: "on", "wal_consistency_checking": "all"}
    with server_factory(stage=stage, settings=settings) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "amcheck")
        yield server


@pytest.fixture(scope="module")
def standby(primary: WatchedServer, server_factory: ServerFactory) -> Iterator[WatchedServer]:
    """A base backup that follows; its server has no pg_lookahead."""
    with standby_of(primary, server_factory, QUIET) as copy:
        yield copy


def test_standby_replays_what_was_built(primary: WatchedServer, standby: WatchedServer) -> None:
    with primary.connect() as source, standby.connect() as copy:
        choose(source, "ours")
        source.execute(
            "CREATE TABLE t AS SELECT i AS id, hashint8(i) AS k, md5(i::text) AS s, i % 20 AS few "
            "FROM generate_series(1, 30000) i"
        )
        for statement in (
            "CREATE UNIQUE INDEX t_id ON t (id)",
            "CREATE INDEX t_k ON t (k)",
            "CREATE INDEX CONCURRENTLY t_s ON t (s)",
            "CREATE INDEX t_few ON t (few DESC)",
            "CREATE INDEX t_part ON t (k) INCLUDE (s) WHERE few < 3",
            "REINDEX INDEX CONCURRENTLY t_k",
            "CHECKPOINT",
        ):
            source.execute(statement)
        assert Counters.of(source).built == 6
        wait_for_replay(source, copy)
        copy.execute("CHECKPOINT")  # replayed pages are in shared buffers
        for name in _INDEXES:
            path = scalar(source, f"SELECT pg_relation_filepath('{name}')")
            images = [
                without_free_space(read_image(server.data_directory / path))
                for server in (primary, standby)
            ]
            found = first_difference(*images)
            assert found is None, f"{name}: {found}"
        # Later changes of the same pages refer to what was replayed.
        source.execute("DELETE FROM t WHERE id % 3 = 0; UPDATE t SET k = k + 1 WHERE id % 5 = 0")
        source.execute("VACUUM t")
        wait_for_replay(source, copy)
        for name in _INDEXES:
            copy.execute("SELECT bt_index_check(%s, heapallindexed => true)", (name,))
            check_tree(source, name)
    assert "inconsistent page found" not in standby.read_log()


def test_promoted_standby_goes_on(primary: WatchedServer, standby: WatchedServer) -> None:
    with primary.connect() as source, standby.connect() as copy:
        choose(source, "ours")
        source.execute("CREATE INDEX t_late ON t (s, id)")
        wait_for_replay(source, copy)
        assert scalar(copy, "SELECT pg_promote(true, 60)")
        copy.execute("INSERT INTO t SELECT i, i, 'new', 3 FROM generate_series(40000, 42000) i")
        copy.execute("REINDEX INDEX t_k")
        for name in (*_INDEXES, "t_late"):
            check_tree(copy, name)
