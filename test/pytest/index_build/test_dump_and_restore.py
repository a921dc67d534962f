"""pg_restore builds its indexes through us, and stock's programs know nothing of it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from extension.probes import QUIET, need_extension, scalar
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from index_build.pages import first_difference, read_image
from index_build.twins import ARMS, SWITCH, Arm, check_tree
from lookahead.extension import Stage

_TABLES = (
    "CREATE TABLE a (id int PRIMARY KEY, k bigint, s text UNIQUE)",
    "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a, few int)",
    "CREATE INDEX a_k ON a (k) WITH (fillfactor = 70)",
    'CREATE INDEX a_s ON a (s COLLATE "C" DESC) INCLUDE (k)',
    "CREATE INDEX b_few ON b (few) WHERE few > 2",
    "INSERT INTO a SELECT i, hashint8(i), 'row ' || i FROM generate_series(1, 5000) i",
    "INSERT INTO b SELECT i, i, i % 9 FROM generate_series(1, 5000) i",
)
_INDEXES = ("a_pkey", "a_s_key", "b_pkey", "a_k", "a_s", "b_few")


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """With the test build, whose sessions tell what they did even when a program owns them."""
    with server_factory(stage=test_stage, settings=QUIET) as started:
        yield started


@pytest.fixture(scope="module")
def dump(server: WatchedServer) -> Path:
    """A dump of a database with tables, keys and indexes, in pg_dump's directory format."""
    with server.connect() as session:
        session.execute("CREATE DATABASE source")
    with server.connect("source") as session:
        for statement in _TABLES:
            session.execute(statement)
    path = server.work_directory / "dump"
    server.run_client("pg_dump", "-Fd", "-f", path, "source")
    return path


def _restore(server: WatchedServer, dump: Path, arm: Arm) -> int:
    """Restore with two jobs; how many indexes we have built, as sessions say when they end."""
    with server.connect() as session:
        session.execute(f"DROP DATABASE IF EXISTS {arm}")
        session.execute(f"CREATE DATABASE {arm}")
    counters = server.data_directory / f"counters.{arm}"
    settings = {
        SWITCH: "on" if arm == "ours" else "off",
        "pg_lookahead.test_counter_file": counters,
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    server.run_client("pg_restore", "-j2", "-d", arm, dump, env={"PGOPTIONS": options})
    with server.connect() as session:
        others = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{arm}'"
        wait_until(lambda: scalar(session, others) == 0, "the sessions have ended")
    text = counters.read_text() if counters.exists() else ""
    return sum(map(int, re.findall(r"index_build\.scans=(\d+)", text)))


def test_restored_indexes_are_the_same(server: WatchedServer, dump: Path) -> None:
    images: dict[str, dict[str, bytes]] = {}
    for arm in ARMS:
        assert _restore(server, dump, arm) == (len(_INDEXES) if arm == "ours" else 0)
        with server.connect(arm) as session:
            need_extension(session, "amcheck")
            session.execute("CHECKPOINT")
            images[arm] = {}
            for name in _INDEXES:
                path = scalar(session, f"SELECT pg_relation_filepath('{name}')")
                images[arm][name] = read_image(server.data_directory / path)
                check_tree(session, name)
    for name in _INDEXES:
        found = first_difference(images["stock"][name], images["ours"][name])
        assert found is None, f"{name}: {found}"


def test_dump_names_nothing_of_ours(server: WatchedServer, dump: Path) -> None:
    text = server.run_client("pg_restore", "-f", "-", dump).stdout
    assert "CREATE INDEX a_k ON public.a USING btree (k)" in text
    assert "lookahead" not in text
