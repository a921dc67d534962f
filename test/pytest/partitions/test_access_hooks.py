"""Libraries that decide about access hear of every object, as from a statement."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import loadable_library
from extension.probes import Connection
from server_log import WatchedServer

from lookahead.installation import Installation
from partitions.asking import RANGES, make, run

_SOURCE = Path(__file__).with_name("access_watch.c")
_STATEMENT = "CREATE TABLE s.p_{low} PARTITION OF s.p FOR VALUES FROM ({low}) TO ({high})"


@pytest.fixture(scope="module")
def watch(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that tells, built for the server under test."""
    return loadable_library(_SOURCE, tmp_path_factory, installation)


def _make_parent(session: Connection) -> None:
    make(session, "int NOT NULL CHECK (k > -9) DEFAULT 3")
    session.execute("ALTER TABLE s.p ADD PRIMARY KEY (k); CREATE INDEX ON s.p (t)")


@pytest.mark.parametrize("way", ["direct"])
def test_the_same_objects_are_told(
    server: WatchedServer, session: Connection, watch: Path, way: str
) -> None:
    heard: list[str] = []
    _make_parent(session)
    session.execute(f"LOAD '{watch}'; SET client_min_messages = notice")
    session.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    for low in (0, 10):
        session.execute(_STATEMENT.format(low=low, high=low + 10))
    expected, heard[:] = list(heard), []
    session.execute("SET client_min_messages = warning; DROP TABLE s.p")
    _make_parent(session)
    session.execute("SET client_min_messages = notice")
    run(session, f"{RANGES} 0, 10, 2, way => '{way}')")
    assert len(expected) > 20
    assert heard == expected
