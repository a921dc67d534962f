"""Partitions are those that CREATE TABLE ... PARTITION OF makes, in every catalog and in a dump."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from extension.probes import Connection
from server_log import WatchedServer

from partitions.catalogs import read_catalogs, read_dump
from partitions.conftest import renew
from partitions.parents import KINDS, Parent, alone, can_be_attached, combined, is_direct

_COUNT = 3
_COMBINED = 16
_RANGES = [(i * 10, (i + 1) * 10) for i in range(_COUNT)]
_OURS = "SELECT way_taken FROM pg_lookahead_create_range_partitions('s.p', 0, 10, 3, way => '"


def _native(session: Connection, suffix: str) -> None:
    for lower, upper in _RANGES:
        session.execute(
            f"CREATE TABLE s.p_{lower} PARTITION OF s.p FOR VALUES FROM ({lower}) TO ({upper})"
            f" {suffix}"
        )


def _ours(session: Connection, way: str, arguments: str) -> None:
    query: Any = f"{_OURS}{way}' {arguments})"
    taken = session.execute(query).fetchone()
    assert taken == (way,)


def _make(session: Connection, parent: Parent) -> None:
    renew(session)
    for statement in parent.ddl():
        session.execute(statement)


def _look(server: WatchedServer, session: Connection, dump: bool) -> list[str]:
    lines = read_catalogs(session, "s")
    if dump:
        lines += read_dump(server.run_client("pg_dump", "--schema=s", "postgres").stdout)
    return lines


def _compare(
    server: WatchedServer,
    session: Connection,
    parent: Parent,
    suffix: str = "",
    arguments: str = "",
    dump: bool = False,
) -> None:
    """The catalogs after each way, beside those after the statements of a user."""
    _make(session, parent)
    _native(session, suffix)
    expected = _look(server, session, dump)
    ways = ["native"]
    if "PARTITION BY" not in suffix:
        ways += ["attached"] * can_be_attached(parent) + ["direct"] * is_direct(parent)
    for way in ways:
        _make(session, parent)
        _ours(session, way, arguments)
        found = _look(server, session, dump)
        different = list(difflib.unified_diff(expected, found, "user", way, lineterm="", n=0))
        assert not different, "\n".join([parent.name, *(line[:500] for line in different[:10])])


@pytest.mark.parametrize("parent", alone(), ids=lambda parent: parent.name)
def test_each_option_alone(server: WatchedServer, session: Connection, parent: Parent) -> None:
    _compare(server, session, parent)


@pytest.mark.parametrize("number", range(_COMBINED))
def test_options_combined(
    server: WatchedServer, session: Connection, seed: int, number: int
) -> None:
    _compare(server, session, combined(seed, number), dump=True)


@pytest.mark.parametrize("parent", KINDS, ids=lambda parent: parent.name)
def test_parents_of_other_kinds(server: WatchedServer, session: Connection, parent: Parent) -> None:
    _compare(server, session, parent)


# By option: what a user writes behind the bound, and our argument.
_SUFFIXES = {
    "tablespace": ("TABLESPACE elsewhere", "tablespace => 'elsewhere'"),
    "default tablespace": ("TABLESPACE pg_default", "tablespace => 'pg_default'"),
    "storage": (
        "WITH (fillfactor = 71, toast.autovacuum_enabled = off, parallel_workers = 0)",
        "storage => 'fillfactor = 71, toast.autovacuum_enabled = off, parallel_workers = 0'",
    ),
    "subpartitions": (
        'PARTITION BY RANGE (a, t COLLATE "C")',
        "subpartition_by => 'RANGE (a, t COLLATE \"C\")'",
    ),
    "all of these": (
        "PARTITION BY HASH (a) TABLESPACE elsewhere",
        "subpartition_by => 'HASH (a)', tablespace => 'elsewhere'",
    ),
}


@pytest.mark.parametrize("option", _SUFFIXES)
def test_options_of_partitions(server: WatchedServer, session: Connection, option: str) -> None:
    suffix, arguments = _SUFFIXES[option]
    parent = Parent("options", ("CREATE INDEX ON s.p (a)", "ALTER TABLE s.p ADD CHECK (a > 1)"))
    _compare(server, session, parent, suffix, f", {arguments}", dump=True)
