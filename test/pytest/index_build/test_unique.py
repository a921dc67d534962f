"""Unique indexes: the same errors as stock's, word for word, and the same rows let through."""

import pytest
from extension.probes import Connection, need_extension
from server_log import WatchedServer

from index_build.stories import check_trees, compare
from index_build.twins import Failure, Twins, with_workers

_ROWS = (
    "CREATE TABLE q (id int, k int, s text, z int) WITH (autovacuum_enabled = off)",
    "INSERT INTO q SELECT i, i, 'Row ' || i, NULLIF(i, 700) FROM generate_series(1, 2000) i",
)
_DUPLICATE = "INSERT INTO q VALUES (9001, 1234, 'Row 1234', 5)"

# One pair of equal keys each, so that stock too has one error to report.
_REFUSED = {
    "int": "CREATE UNIQUE INDEX u ON q (k)",
    "text": 'CREATE UNIQUE INDEX u ON q (s COLLATE "C")',
    "text_of_the_database": "CREATE UNIQUE INDEX u ON q (s)",
    "descending": "CREATE UNIQUE INDEX u ON q (k DESC NULLS LAST)",
    "two_columns": "CREATE UNIQUE INDEX u ON q (k, s)",
    "expression": "CREATE UNIQUE INDEX u ON q ((k + 1), lower(s))",
    "include": "CREATE UNIQUE INDEX u ON q (k) INCLUDE (id)",
    "partial": "CREATE UNIQUE INDEX u ON q (k) WHERE id > 1000",
    "constraint": "ALTER TABLE q ADD CONSTRAINT u UNIQUE (k)",
    "deferrable": "ALTER TABLE q ADD CONSTRAINT u UNIQUE (k) DEFERRABLE INITIALLY DEFERRED",
    "primary_key": "ALTER TABLE q ADD CONSTRAINT u PRIMARY KEY (k)",
    "numeric": "CREATE UNIQUE INDEX u ON q ((k::numeric))",
    "uuid": "CREATE UNIQUE INDEX u ON q ((md5(s)::uuid))",
    "float": "CREATE UNIQUE INDEX u ON q ((k::float8))",
    "few_values_first": "CREATE UNIQUE INDEX u ON q ((k % 2), k)",
    "concurrently": "CREATE UNIQUE INDEX CONCURRENTLY u ON q (k)",
}


def _refused_alike(twins: Twins, statements: tuple[str, ...]) -> Failure:
    """The last statement fails with the same words in both arms; they come back."""
    told = compare(twins, statements, fails=["23505"], exactly=True)
    failure = told.failures[-1]
    assert failure is not None
    assert failure.message == 'could not create unique index "u"'
    return failure


@pytest.mark.parametrize("name", _REFUSED)
def test_duplicate_is_refused(twins: Twins, name: str) -> None:
    _refused_alike(twins, (*_ROWS, _DUPLICATE, _REFUSED[name]))


@pytest.mark.parametrize("name", _REFUSED)
def test_dead_duplicate_is_let_through(connection: Connection, twins: Twins, name: str) -> None:
    """Deleted, aborted, and deleted in the transaction that builds."""
    need_extension(connection, "amcheck")
    delete, create = "DELETE FROM q WHERE id = 9001", _REFUSED[name]
    aborted = f"BEGIN; {_DUPLICATE}; ROLLBACK"
    check_trees(connection, compare(twins, (*_ROWS, _DUPLICATE, delete, aborted, create), built=1))
    if name != "concurrently":
        own = f"BEGIN; {_DUPLICATE}; {delete}; {create}; COMMIT"
        check_trees(connection, compare(twins, (*_ROWS, own), built=1))


@pytest.mark.parametrize("name", _REFUSED)
def test_recently_dead_duplicate_is_let_through(
    server: WatchedServer, connection: Connection, twins: Twins, name: str
) -> None:
    """Another session still sees the deleted row, so that it is in the index and no duplicate."""
    if name == "concurrently":
        pytest.skip("CONCURRENTLY waits for the other session")
    with server.connect() as onlooker:
        statements = (*_ROWS, _DUPLICATE, "SELECT 1", "DELETE FROM q WHERE id = 9001")
        onlooker.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        told = compare(twins, (*statements, _REFUSED[name]), built=1)
        plain = compare(twins, (*_ROWS, _REFUSED[name]), built=1)
        # The dead row is there: the index holds one entry more.
        assert told.indexes["u"].facts != plain.indexes["u"].facts


@pytest.mark.parametrize("nulls", ["", "NULLS NOT DISTINCT"])
@pytest.mark.parametrize("keys", ["z", "z DESC", "z NULLS FIRST", "k, z", "z, s"])
def test_nulls(twins: Twins, keys: str, nulls: str) -> None:
    """Two rows that are alike but for being NULL in a key."""
    double = "INSERT INTO q SELECT id, k, s, NULL FROM q WHERE id = 700"
    statements = (*_ROWS, double, f"CREATE UNIQUE INDEX u ON q ({keys}) {nulls}")
    if nulls:
        assert "null" in _refused_alike(twins, statements).detail
    else:
        compare(twins, statements, built=1)


@pytest.mark.parametrize("memory", ["2MB", "64MB"])
@pytest.mark.parametrize("workers", [0, 2])
def test_many_duplicates(connection: Connection, twins: Twins, memory: str, workers: int) -> None:
    connection.execute(f"SET maintenance_work_mem = '{memory}'; {with_workers(workers)}")
    # More than fits into the smaller memory.
    doubles = "INSERT INTO q SELECT id + 5000 * j, k, s, z FROM q, generate_series(1, 40) j"
    told = compare(twins, (*_ROWS, doubles, "CREATE UNIQUE INDEX u ON q (k)"), fails=["23505"])
    failure = told.failures[-1]
    assert failure is not None
    assert failure.detail.startswith("Key (k)=(")
    assert failure.detail.endswith(") is duplicated.")


def test_update_chains_are_no_duplicates(connection: Connection, twins: Twins) -> None:
    """HOT chains, and rows that moved to another page, have one live row each."""
    statements = (
        "CREATE TABLE q (id int, k int, s text) WITH (fillfactor = 60, autovacuum_enabled = off)",
        "INSERT INTO q SELECT i, i, repeat('x', 100) FROM generate_series(1, 2000) i",
        "UPDATE q SET s = s || 'y' WHERE id % 3 = 0",
        "UPDATE q SET s = s || 'z' WHERE id % 6 = 0",
        "UPDATE q SET s = repeat(s, 9) WHERE id % 50 = 0",
        "CREATE UNIQUE INDEX u ON q (k)",
        "ALTER TABLE q ADD PRIMARY KEY (id)",
    )
    need_extension(connection, "amcheck")
    check_trees(connection, compare(twins, statements, built=2))


def test_refused_index_leaves_nothing(connection: Connection, twins: Twins) -> None:
    told = compare(twins, (*_ROWS, _DUPLICATE, _REFUSED["int"]), fails=["23505"], exactly=True)
    assert told.indexes == {}
    told = compare(
        twins, (*_ROWS, _DUPLICATE, _REFUSED["concurrently"]), fails=["23505"], exactly=True
    )
    assert not told.indexes["u"].facts[0]  # indisvalid
