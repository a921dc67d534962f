"""Tables of several segments, and what PostgreSQL reads them with: as stock fills them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from extension.probes import QUIET, Connection, need_extension
from server_log import ServerFactory, WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, STOCK, SWITCH, Arm, Counters, choose
from bulk_insert.ways import INSERT, WAYS, Way, check_sound, size
from lookahead.extension import Stage
from lookahead.installation import Installation

_COLUMNS, _KEY = "i int PRIMARY KEY, s text", "i"
# Texts of every length up to 1900 bytes, so short of being toasted.
_QUERY = "SELECT i, repeat('x', i % 1900) FROM generate_series(1, {}) i"
_SOME_ROWS = 20_000
_SEGMENT_PAGES = 131_072
_MANY_ROWS = 3_400_000  # of more than three segments of 1 GB


def _io_method(name: str, installation: Installation) -> dict[str, str]:
    if name == "io_uring" and not installation.has_io_uring:
        pytest.skip(f"no io_uring: {installation.io_uring_obstacle}")
    return {"io_method": name}


@pytest.fixture(params=["io_uring", "sync"])
def other_io(
    request: pytest.FixtureRequest,
    server_factory: ServerFactory,
    test_stage: Stage,
    installation: Installation,
) -> Iterator[WatchedServer]:
    """A server with another `io_method` than all other tests of inserts have."""
    method = _io_method(request.param, installation)
    with server_factory(stage=test_stage, settings={**QUIET, SWITCH: "on", **method}) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
        yield started


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_other_io_methods(other_io: WatchedServer, way: Way) -> None:
    """A table with rows already there, too, which a second statement finds."""
    with other_io.connect() as session:
        found = [_filled(session, arm, way, _SOME_ROWS) for arm in (STOCK, DEFAULT, EXTENTS)]
    assert found[1] == found[2] == found[0]
    _check_files(other_io)


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("io", ["worker", "io_uring"])
def test_several_segments(
    server_factory: ServerFactory,
    test_stage: Stage,
    installation: Installation,
    io: str,
) -> None:
    """More than 3 GB by each way: four files of one table, or partitions of one each."""
    method = _io_method(io, installation)
    with server_factory(stage=test_stage, settings={**QUIET, SWITCH: "on", **method}) as server:
        with server.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            stock = _filled(session, STOCK, INSERT, _MANY_ROWS)
            for way in WAYS:
                assert _filled(session, DEFAULT, way, _MANY_ROWS) == stock, way.name
                assert size(session, "t") > 3 * _SEGMENT_PAGES
        _check_files(server)


def _filled(session: Connection, arm: Arm, way: Way, rows: int) -> Any:
    """The rows of a table that was filled in two steps, as one number, and that it is sound."""
    need_extension(session, "amcheck")
    session.execute("DROP TABLE IF EXISTS t")
    session.execute(way.making("t", _COLUMNS, _KEY))
    fill = way.statement(session, "t", _QUERY.format(rows))
    more = f"INSERT INTO t SELECT -i, s FROM t WHERE i <= {rows // 10}"
    choose(session, arm)
    before = Counters.of(session).rows
    for statement in (fill, more):
        session.execute(statement)
    inserted = Counters.of(session).rows - before
    assert (inserted > 0) == (arm is not STOCK)
    check_sound(session, "t")
    return session.execute(
        "SELECT count(*), sum(hash_record_extended(t, 0)::numeric) FROM t"
    ).fetchone()


def _check_files(server: WatchedServer) -> None:
    """No page of a stopped server has a wrong checksum."""
    server.stop()
    command: list[str | Path] = [server.bindir / "pg_checksums", "--check"]
    command += ["-D", server.data_directory]
    checked = server.account.run(command)
    assert checked.returncode == 0, checked.stderr
