"""Tables without rows, with few, and with as many as just fill a page or begin another level."""

from collections.abc import Iterator

import pytest
from extension.probes import Connection, need_extension, scalar

from index_build.twins import Twins, check_tree, complaint

# A leaf page takes 366 integers at the default fillfactor, an inner page 286 of their pages.
_COUNTS = (0, 1, 2, 10, 365, 366, 367, 407, 408, 1_000, 366 * 286 - 1, 366 * 286 + 300)
_KEYS = {
    "sorted": "i",
    "random": "hashint8(i)",
    "few": "i % 3",
    "equal": "1",
    "null": "NULL::int",
    "text": "md5(i::text)",
    "uuid": "md5(i::text)::uuid",
}


@pytest.fixture(params=_COUNTS)
def rows(request: pytest.FixtureRequest, connection: Connection) -> Iterator[int]:
    """That many rows in table `c`, with a column for each kind of key."""
    columns = ", ".join(f"{value} AS {name}" for name, value in _KEYS.items())
    connection.execute(
        f"CREATE TABLE c AS SELECT {columns} FROM generate_series(1, {request.param}) i"
    )
    yield request.param
    connection.execute("DROP TABLE c")


def test_same_index_of_any_number_of_rows(twins: Twins, rows: int) -> None:
    session = twins.connection
    need_extension(session, "amcheck")
    need_extension(session, "pageinspect")
    session.execute("SET maintenance_work_mem = '64MB'")
    levels = set()
    for name in _KEYS:
        create = f'CREATE INDEX c_i ON c ("{name}")'
        stock = twins.build("stock", create, "c_i")
        session.execute("DROP INDEX c_i")
        ours = twins.build("ours", create, "c_i")
        assert complaint(stock, ours) == "", f"{rows} rows, {name}"
        check_tree(session, "c_i")
        levels.add(int(scalar(session, "SELECT level FROM bt_metap('c_i')")))
        session.execute("DROP INDEX c_i")
    assert twins.tally.built == len(_KEYS)
    # The counts are chosen for one, two and three levels of the sorted integers.
    assert max(levels) >= (rows > 366) + (rows > 366 * 286)
