"""Rows that the transaction which builds the index has inserted, updated and deleted itself."""

from collections.abc import Iterator

import pytest
from extension.probes import Connection, need_extension

from index_build.twins import ARMS, Twins, check_tree, complaint

_ROWS = 50_000
_TABLE = (
    "CREATE TABLE o WITH (fillfactor = 80) AS "
    f"SELECT hashint4(i) AS k, i AS id, 'x' AS t FROM generate_series(1, {_ROWS}) i"
)


@pytest.fixture(autouse=True)
def _rolled_back(connection: Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    connection.execute(_TABLE)
    yield
    connection.execute("ROLLBACK")


@pytest.mark.parametrize(
    "changes",
    [
        "SELECT 1",
        "SAVEPOINT s; INSERT INTO o SELECT -k, id, t FROM o; ROLLBACK TO s",
        "SAVEPOINT s; INSERT INTO o SELECT k, -id, t FROM o WHERE id % 3 = 0; RELEASE s",
        "DELETE FROM o WHERE id % 500 = 0",
        "UPDATE o SET t = 'y' WHERE id % 7 = 0",
        "UPDATE o SET id = -id WHERE id % 1000 = 0",
    ],
    ids=["none", "undone", "more", "deleted", "updated", "moved"],
)
def test_same_index(twins: Twins, changes: str) -> None:
    session = twins.connection
    need_extension(session, "amcheck")
    session.execute(changes)
    for create in ("CREATE INDEX o_i ON o (k)", "CREATE UNIQUE INDEX o_i ON o (id, k)"):
        stock = twins.build("stock", create, "o_i")
        session.execute("DROP INDEX o_i")
        ours = twins.build("ours", create, "o_i")
        assert complaint(stock, ours) == ""
        check_tree(session, "o_i")
        session.execute("DROP INDEX o_i")
    assert twins.tally.built == 2


def test_one_scan_is_counted(twins: Twins) -> None:
    """The rows are not left to PostgreSQL's scans."""
    counted = []
    for arm in ARMS:
        before = _scans(twins.connection)
        twins.build(arm, "CREATE INDEX o_i ON o (k)", "o_i")
        twins.connection.execute("DROP INDEX o_i")
        after = _scans(twins.connection)
        counted.append((after[0] - before[0], after[1] - before[1]))
    assert counted == [(1, _ROWS), (1, _ROWS)]


def _scans(session: Connection) -> tuple[int, int]:
    row = session.execute(
        "SELECT seq_scan, seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'o'"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
