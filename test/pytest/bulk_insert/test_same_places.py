"""Where rows are put, how they lie there, and what becomes of pages that are left."""

import psycopg
import pytest
from extension.probes import Connection, need_extension, scalar
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, ONE_PAGE, STOCK, Arm, Counters, choose
from bulk_insert.ways import COPY, INSERT, Way, size

_PAGES = "SELECT pg_relation_size('t') / 8192"
_ITEMS = (
    "SELECT block, lp, lp_len, t_hoff, t_bits, substr(t_data, 1, 4) "
    "FROM generate_series(0, pg_relation_size('t') / 8192 - 1) block, "
    "LATERAL heap_page_items(get_raw_page('t', block)) ORDER BY block, lp"
)
_SERIES = "FROM generate_series(1, 700) i"
_WIDE = "CASE i % 10 WHEN 0 THEN 1200 ELSE i % 130 END"

# The table, and the rows; a table s has some with headers and attributes of their own.
_CASES = {
    "plain": ("(i int, s text STORAGE PLAIN)", f"SELECT i, 's' || i {_SERIES}"),
    "wider than the fillfactor": (
        "(i int, s text STORAGE PLAIN) WITH (fillfactor = 11)",
        f"SELECT i, repeat('x', {_WIDE}) {_SERIES}",
    ),
    "scan": ("(i int, s text, a int)", "SELECT * FROM s"),
    "sort": ("(i int, s text, a int)", "SELECT * FROM s ORDER BY i DESC"),
    "materialized": (
        "(i int, s text, a int)",
        "WITH m AS MATERIALIZED (SELECT * FROM s) SELECT * FROM m",
    ),
    "join": ("(i int, s text, a int)", f"SELECT s.* FROM s JOIN (SELECT i {_SERIES}) r USING (i)"),
    "no columns": ("()", f"SELECT {_SERIES}"),
    "nulls": ("(i int, s text, a int, b int)", f"SELECT i, nullif('x', 'x'), i, NULL {_SERIES}"),
    "compressed": (
        "(i int, s text COMPRESSION pglz)",
        f"SELECT i, repeat('x', {_WIDE.replace('1200', '3000')}) {_SERIES}",
    ),
}


@pytest.fixture(autouse=True)
def _tables(connection: Connection) -> None:
    need_extension(connection, "pageinspect")
    choose(connection, STOCK)
    connection.execute("DROP TABLE IF EXISTS s; CREATE TABLE s (i int, s text STORAGE PLAIN)")
    connection.execute(f"INSERT INTO s SELECT i, 's' || i {_SERIES}; ALTER TABLE s ADD a int")


@pytest.mark.parametrize("case", _CASES)
@pytest.mark.parametrize("arm", [DEFAULT, ONE_PAGE], ids=lambda arm: arm.name)
def test_rows_lie_as_stock_puts_them(connection: Connection, arm: Arm, case: str) -> None:
    """The same line pointers of the same pages have the same lengths, and begin alike."""
    columns, rows = _CASES[case]
    found = []
    before = Counters.of(connection).rows
    for one in (STOCK, arm):
        connection.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t {columns}")
        choose(connection, one)
        for _ in range(2):
            connection.execute(f"INSERT INTO t {rows}")
        found.append(connection.execute(_ITEMS).fetchall())
    assert found[0] == found[1]
    assert Counters.of(connection).rows > before


@pytest.mark.parametrize("fillfactor", [10, 40, 100])
def test_extents_obey_the_fillfactor(connection: Connection, fillfactor: int) -> None:
    """No page has more rows than stock's pages have."""
    most = []
    for arm in (STOCK, EXTENTS):
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute(f"CREATE TABLE t (i int, s text) WITH (fillfactor = {fillfactor})")
        # A batch that core puts on several pages would leave pages that are found first.
        choose(connection, arm.with_settings(test_insert_single_rows=300))
        connection.execute(f"INSERT INTO t SELECT i, repeat('x', 60) {_SERIES}")
        most.append(scalar(connection, f"SELECT max(lp) FROM ({_ITEMS}) items"))
    assert most[0] == most[1]


@pytest.mark.parametrize("count", range(960, 1100, 20))
def test_rows_that_fill_no_page_come_last(connection: Connection, count: int) -> None:
    """Also where those before have filled the last page of a step."""
    choose(connection, EXTENTS)
    connection.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (i int, s text)")
    connection.execute(
        f"INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, {count}) i"
    )
    found = connection.execute("SELECT i FROM t ORDER BY ctid").fetchall()
    assert found == [(i,) for i in range(1, count + 1)]


def test_pages_that_are_left_are_for_everybody(
    server: WatchedServer, connection: Connection
) -> None:
    connection.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (i int, s text)")
    choose(connection, EXTENTS.with_settings(bulk_extend_size=64))
    insert = f"INSERT INTO t SELECT i, repeat('x', 200) {_SERIES}"
    connection.execute(insert)
    pages = scalar(connection, _PAGES)
    assert pages > 64
    with server.connect() as other:
        choose(other, STOCK)
        other.execute(insert)
    assert scalar(connection, _PAGES) == pages


def test_room_on_other_pages_is_used_first(connection: Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (i int, s text)")
    connection.execute(f"INSERT INTO t SELECT i, repeat('x', 300) {_SERIES}")
    connection.execute("DELETE FROM t WHERE i <= 600")
    connection.execute("VACUUM (TRUNCATE false) t")
    pages = scalar(connection, _PAGES)
    choose(connection, EXTENTS)
    connection.execute("INSERT INTO t SELECT i, repeat('x', 300) FROM generate_series(1, 500) i")
    assert scalar(connection, _PAGES) == pages


@pytest.mark.parametrize("way", [INSERT, COPY], ids=lambda way: way.name)
def test_failed_inserts_leave_few_empty_pages(connection: Connection, way: Way) -> None:
    """Beside dead rows, until VACUUM finds both: those of a step, an eighth at most."""
    sizes = []
    for arm in (STOCK, DEFAULT):
        making = way.making("t", "i int CHECK (i < 30000), s text", "i")
        connection.execute(f"DROP TABLE IF EXISTS t; {making}")
        query = "SELECT i, repeat('x', 300) FROM generate_series(1, 30000) i"
        put = way.statement(connection, "t", query)
        choose(connection, arm)
        for _ in range(10):
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(put)
        sizes.append(size(connection, "t"))
    assert sizes[1] <= sizes[0] * 9 / 8 + 64
    connection.execute("VACUUM t")
    assert size(connection, "t") == 0


@pytest.mark.parametrize("arm", [DEFAULT, ONE_PAGE], ids=lambda arm: arm.name)
def test_small_tables_stay_small(connection: Connection, arm: Arm) -> None:
    """Up to 4 MB there are as many pages as stock makes, and no step of pages after that."""
    connection.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (i int, s text)")
    choose(connection, arm)
    connection.execute("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i")
    assert scalar(connection, _PAGES) == -(-3000 // 7)


@pytest.mark.parametrize("count", [2, 291, 1500, 60_000])
@pytest.mark.parametrize("arm", [DEFAULT, EXTENTS], ids=lambda arm: arm.name)
def test_new_file_has_all_rows(connection: Connection, arm: Arm, count: int) -> None:
    """Of a table that is made, filled twice and read in one transaction."""
    connection.execute("DROP TABLE IF EXISTS t")
    choose(connection, arm)
    with connection.transaction():
        connection.execute("CREATE TABLE t (i int, s text)")
        for first in (1, count + 1):
            rows = f"generate_series({first}, {first + count - 1}) i"
            connection.execute(f"INSERT INTO t SELECT i, repeat('x', 100) FROM {rows}")
        found = connection.execute("SELECT i, length(s) FROM t ORDER BY i").fetchall()
    assert found == [(i, 100) for i in range(1, 2 * count + 1)]


@pytest.mark.parametrize("arm", [DEFAULT, EXTENTS], ids=lambda arm: arm.name)
def test_new_file_has_no_empty_pages(connection: Connection, arm: Arm) -> None:
    """Toasted rows, too, may be those that pass the threshold of pages of ours."""
    choose(connection, arm)
    with connection.transaction():
        connection.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (i int, s text)")
        connection.execute("ALTER TABLE t ALTER s SET STORAGE EXTERNAL")
        connection.execute(
            "INSERT INTO t SELECT i, repeat('x', CASE WHEN i <= 2200 THEN 3000 ELSE 100 END) "
            "FROM generate_series(1, 6000) i"
        )
        filled = scalar(connection, "SELECT count(DISTINCT (ctid::text::point)[0]) FROM t")
        assert scalar(connection, _PAGES) == filled


@pytest.mark.parametrize("count", range(9, 25))
def test_values_are_toasted_once(connection: Connection, count: int) -> None:
    """Of a row that waits for a page of ours, which nothing but the end of the insert fills."""
    chunks = []
    for arm in (STOCK, EXTENTS.with_settings(bulk_extend_size=1)):
        choose(connection, arm)
        connection.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (i int, s text)")
        connection.execute("ALTER TABLE t ALTER s SET STORAGE EXTERNAL")
        # Four of the others fill a page.
        connection.execute(
            f"INSERT INTO t SELECT i, repeat('x', CASE i WHEN {count} THEN 9000 ELSE 2000 END) "
            f"FROM generate_series(1, {count}) i"
        )
        name = scalar(
            connection,
            "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 't'::regclass",
        )
        chunks.append(scalar(connection, f"SELECT count(*) FROM {name}"))
    assert chunks[0] == chunks[1] > 0
