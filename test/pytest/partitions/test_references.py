"""Tables that a session has written into, and that a new partition would have locked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from extension.probes import QUIET, Connection, scalar
from server_log import ServerFactory, WatchedServer

from lookahead.extension import Stage
from partitions.asking import make

_FUNCTION = """
    CREATE FUNCTION blocking(regclass) RETURNS regclass LANGUAGE c
    AS 'pg_lookahead', 'la_test_partition_blocking_reference'"""


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A server with test settings, where a function stands for whoever needs a partition."""
    with server_factory(stage=test_stage, settings=QUIET) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            session.execute(_FUNCTION)
        yield started


def _blocking(session: Connection) -> str | None:
    found = scalar(session, "SELECT blocking('s.p')::text")
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("statement", "blocking"),
    [
        ("INSERT INTO s.target VALUES (9)", "s.target"),
        ("LOCK s.target IN SHARE MODE", "s.target"),
        ("SELECT * FROM s.target FOR SHARE", None),
        ("INSERT INTO s.parts VALUES (9)", "s.parts"),
        ("INSERT INTO s.parts_0 VALUES (9)", "s.parts_0"),
        ("INSERT INTO s.unenforced VALUES (9)", "s.unenforced"),
        ("INSERT INTO s.referencing VALUES (NULL)", "s.referencing"),
        ("INSERT INTO s.p VALUES (-5)", None),
        ("INSERT INTO s.other VALUES (9)", None),
        (
            "ALTER TABLE s.p ADD FOREIGN KEY (k) REFERENCES s.p (k); COMMIT; BEGIN; "
            "INSERT INTO s.p VALUES (-5)",
            "s.p",
        ),
        (
            "CREATE TABLE s.top (LIKE s.p) PARTITION BY LIST (t);"
            "ALTER TABLE s.top ADD UNIQUE (k, t), ADD FOREIGN KEY (k, t) REFERENCES s.top (k, t);"
            "ALTER TABLE s.top ATTACH PARTITION s.p FOR VALUES IN ('x'); COMMIT; BEGIN; "
            "INSERT INTO s.p VALUES (-5, 'x')",
            "s.p",
        ),
    ],
)
def test_written_references(session: Connection, statement: str, blocking: str | None) -> None:
    make(session, "int")
    session.execute(
        "CREATE TABLE s.old PARTITION OF s.p FOR VALUES FROM (-10) TO (0);"
        "CREATE TABLE s.target (id int PRIMARY KEY); INSERT INTO s.target VALUES (-5);"
        "ALTER TABLE s.p ADD UNIQUE (k), ADD FOREIGN KEY (k) REFERENCES s.target;"
        "CREATE TABLE s.referencing (r int REFERENCES s.p (k));"
        "CREATE TABLE s.parts (id int PRIMARY KEY) PARTITION BY RANGE (id);"
        "CREATE TABLE s.parts_0 PARTITION OF s.parts FOR VALUES FROM (0) TO (100);"
        "ALTER TABLE s.p ADD a int REFERENCES s.parts;"
        "CREATE TABLE s.unenforced (r int REFERENCES s.p (k) NOT ENFORCED);"
        "CREATE TABLE s.other (k int)"
    )
    assert _blocking(session) is None
    session.execute("BEGIN")
    dynamic: Any = statement
    session.execute(dynamic)
    assert _blocking(session) == blocking
    session.execute("ROLLBACK")
    assert _blocking(session) is None


def test_nothing_references_what_is_not_unique(session: Connection) -> None:
    make(session, "int")
    session.execute("CREATE INDEX ON s.p (k); CREATE TABLE s.other (k int)")
    with session.transaction():
        session.execute("INSERT INTO s.other VALUES (1)")
        assert _blocking(session) is None
