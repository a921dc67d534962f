"""Tables that have volatile functions called for their rows."""

import threading

import pytest
from extension.probes import Connection, scalar
from psycopg.errors import CheckViolation
from server_log import WatchedServer
from waiting import wait_until

from bulk_insert.arms import DEFAULT, ONE_PAGE, STOCK, Arm, Counters, choose
from bulk_insert.judging import ROWS, SERIES, VOLATILE, assert_counted, fresh, judgement, outcome

_SQL = f"INSERT INTO w SELECT g, 0 FROM {SERIES}"
_PREFETCH = {"Status": "prefetch"}
_TRIGGER = "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"

_SHORT = "t text CONSTRAINT short CHECK (pg_column_size(t) {size})"

_CASES = {
    "CHECK": "ALTER TABLE w ADD CHECK (passes(k))",
    "second CHECK": "ALTER TABLE w ADD CHECK (k > 0), ADD CHECK (seen > 0 OR passes(k))",
    "domain in a CHECK": "ALTER TABLE w ADD CHECK (k::d > 0)",
    "cast to text in a CHECK": (
        "CREATE TYPE word AS ENUM ('yes'); CREATE FUNCTION of_word(word) RETURNS text VOLATILE "
        "LANGUAGE plpgsql AS 'BEGIN RETURN passes(1); END'; CREATE CAST (word AS text) WITH "
        "FUNCTION of_word(word); ALTER TABLE w ADD CHECK ('' || (enum_range(NULL::word))"
        "[k - k + 1] > '')"
    ),
    "default of an argument": (
        "CREATE FUNCTION fine(bigint, s boolean DEFAULT passes(1)) RETURNS boolean IMMUTABLE "
        "LANGUAGE plpgsql AS 'BEGIN RETURN s; END'; ALTER TABLE w ADD CHECK (fine(k))"
    ),
    "generated column": "ALTER TABLE w ADD a bigint GENERATED ALWAYS AS (k::d) STORED",
    "CHECK of a virtual column": (
        "ALTER TABLE w ADD v bigint GENERATED ALWAYS AS (k + 1) VIRTUAL, ADD CHECK (passes(v))"
    ),
    "index": "CREATE INDEX ON w ((k::d))",
    "predicate": "CREATE INDEX ON w (seen) WHERE k::d > 0",
    "operator of an exclusion constraint": (
        "CREATE FUNCTION same(circle, circle) RETURNS boolean LANGUAGE plpgsql AS "
        "'BEGIN RETURN NOT passes($1); END'; "
        "CREATE OPERATOR === (LEFTARG = circle, RIGHTARG = circle, FUNCTION = same, "
        "COMMUTATOR = ===); CREATE OPERATOR CLASS keys FOR TYPE circle USING gist AS "
        "OPERATOR 3 ===, FUNCTION 1 gist_circle_consistent(internal, circle, int2, oid, internal), "
        "FUNCTION 2 gist_box_union(internal, internal), FUNCTION 3 gist_circle_compress(internal), "
        "FUNCTION 5 gist_box_penalty(internal, internal, internal), "
        "FUNCTION 6 gist_box_picksplit(internal, internal), "
        "FUNCTION 7 gist_box_same(box, box, internal), STORAGE box; "
        "ALTER TABLE w ADD EXCLUDE USING gist ((circle(point(k, 0), 1000)) keys WITH ===)"
    ),
    "condition of a trigger": (
        f"{_TRIGGER}; CREATE TRIGGER t AFTER INSERT ON w FOR EACH ROW WHEN (passes(NEW.k)) "
        "EXECUTE FUNCTION nothing()"
    ),
    "condition of a deferred trigger": (
        f"{_TRIGGER}; CREATE CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE ON w DEFERRABLE "
        "INITIALLY DEFERRED FOR EACH ROW WHEN (passes(NEW.k)) EXECUTE FUNCTION nothing()"
    ),
    "bounds of a partition": (
        "CREATE TABLE p (k bigint, seen bigint) PARTITION BY RANGE ((k::d)); "
        "ALTER TABLE p ATTACH PARTITION w FOR VALUES FROM (1) TO (1000); TRUNCATE notes"
    ),
}

_HARMLESS = {
    "none": "",
    "CHECK": "ALTER TABLE w ADD CHECK (k > 0), ADD CHECK (k + random() > 0)",
    "CHECK that is not enforced": "ALTER TABLE w ADD CHECK (passes(k)) NOT ENFORCED",
    "generated columns": (
        "ALTER TABLE w ADD a bigint GENERATED ALWAYS AS (k + 1) STORED, "
        "ADD b bigint GENERATED ALWAYS AS (k + 1) VIRTUAL, ADD CHECK (b > a - 1)"
    ),
    "index": "CREATE INDEX ON w ((k + 1)) WHERE seen > 0; CREATE UNIQUE INDEX ON w (k)",
    "trigger": (
        f"{_TRIGGER}; CREATE TRIGGER t AFTER INSERT ON w FOR EACH ROW WHEN (NEW.k > 0) "
        "EXECUTE FUNCTION nothing()"
    ),
    "condition of a statement": (
        f"{_TRIGGER}; CREATE TRIGGER t AFTER INSERT ON w WHEN (passes(1)) "
        "EXECUTE FUNCTION nothing()"
    ),
    "condition of another event": (
        f"{_TRIGGER}; CREATE TRIGGER t AFTER UPDATE ON w FOR EACH ROW WHEN (passes(NEW.k)) "
        "EXECUTE FUNCTION nothing()"
    ),
    "partition": (
        "CREATE TABLE p (k bigint, seen bigint) PARTITION BY RANGE ((k + 1)); "
        "ALTER TABLE p ATTACH PARTITION w FOR VALUES FROM (1) TO (1000)"
    ),
}


@pytest.mark.parametrize("setup", _CASES.values(), ids=_CASES)
def test_each_row_sees_those_before(connection: Connection, setup: str) -> None:
    with fresh(connection, setup):
        assert judgement(connection, _SQL, "ANALYZE, LOOKAHEAD") == VOLATILE
    assert_counted(connection, setup, _SQL)


@pytest.mark.parametrize("setup", _HARMLESS.values(), ids=_HARMLESS)
def test_others_are_collected(connection: Connection, setup: str) -> None:
    with fresh(connection, setup):
        assert judgement(connection, _SQL, "ANALYZE, LOOKAHEAD") == _PREFETCH
    assert outcome(connection, setup, _SQL, ONE_PAGE) == outcome(connection, setup, _SQL, STOCK)


@pytest.mark.parametrize("rows", [ROWS, 5], ids=["many", "few"])
@pytest.mark.parametrize("source", ["table", "expression", "constant"])
def test_a_constraint_can_ask_how_a_value_is_stored(
    connection: Connection, source: str, rows: int
) -> None:
    """It sees the row as a tuple, which a row of a batch is not yet."""
    setup = (
        "ALTER TABLE w ADD t text CHECK (pg_column_size(t) < 5), ADD CHECK (tableoid <> 0); "
        f"CREATE TABLE source AS SELECT g AS k, 'abc' AS t FROM {SERIES}"
    )
    values = {"table": "t", "expression": "left(t || t, 3)", "constant": "'abc'"}
    sql = f"INSERT INTO w (k, t) SELECT k, {values[source]} FROM source LIMIT {rows}"
    stock = outcome(connection, setup, sql, STOCK)
    assert len(stock.rows) == rows
    for arm in (DEFAULT, ONE_PAGE):
        assert outcome(connection, setup, sql, arm) == stock


def _is_refused(connection: Connection, setup: str, sql: str, arm: Arm) -> bool:
    try:
        outcome(connection, setup, sql, arm)
    except CheckViolation:
        return True
    return False


@pytest.mark.parametrize("rows", [5, ROWS])
@pytest.mark.parametrize("size", ["> 4", "< 5"], ids=["long", "short"])
@pytest.mark.parametrize(
    ("columns", "formed"),
    [(f"k bigint, seen bigint, {_SHORT}", False), (f"{_SHORT}, seen bigint, k bigint", True)],
    ids=["the same columns", "other columns"],
)
def test_partitions_can_ask_how_a_value_is_stored(
    connection: Connection, columns: str, size: str, rows: int, *, formed: bool
) -> None:
    """A row is not a tuple yet for core where the partition has the table's columns."""
    setup = (
        f"DROP TABLE w; CREATE TABLE w (k bigint, seen bigint, {_SHORT}) PARTITION BY RANGE (k); "
        f"CREATE TABLE w1 ({columns}); ALTER TABLE w ATTACH PARTITION w1 DEFAULT"
    ).format(size=size)
    sql = f"INSERT INTO w (k, t) SELECT g, left('abcabc', 3) FROM generate_series(1, {rows}) g"
    for arm in (STOCK, DEFAULT):
        assert _is_refused(connection, setup, sql, arm) == (formed == (size == "> 4"))


def test_a_key_is_evaluated_once_for_a_row(connection: Connection) -> None:
    """Rows find their partition before the key has been looked at."""
    setup = (
        "DROP TABLE w; CREATE TABLE w (k bigint, seen bigint) PARTITION BY LIST ((k::d)); "
        "CREATE TABLE w1 PARTITION OF w DEFAULT"
    )
    stock = outcome(connection, setup, _SQL, STOCK)
    assert stock.seen == list(range(ROWS))
    assert outcome(connection, setup, _SQL, DEFAULT) == stock


def test_a_condition_sees_the_sequence_as_the_row_left_it(connection: Connection) -> None:
    setup = (
        "CREATE SEQUENCE s; CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN INSERT INTO notes (seen) VALUES (NEW.k); RETURN NULL; END'; "
        "CREATE TRIGGER t AFTER INSERT ON w FOR EACH ROW WHEN (currval('s') = NEW.k) "
        "EXECUTE FUNCTION note()"
    )
    sql = f"INSERT INTO w SELECT nextval('s') FROM {SERIES}"
    stock = outcome(connection, setup, sql, STOCK)
    assert stock.seen == list(range(1, ROWS + 1))
    assert outcome(connection, setup, sql, ONE_PAGE) == stock


def test_indexes_made_meanwhile_are_not_looked_at(server: WatchedServer) -> None:
    """They are not locked, and get no entries from this insert.

    A session that opens a table, as pg_get_constraintdef() does, hears of them.
    """
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with server.connect() as maker, server.connect() as holder, server.connect() as session:
        maker.execute(
            "CREATE FUNCTION good() RETURNS boolean VOLATILE LANGUAGE plpgsql AS "
            "'BEGIN RETURN true; END'; "
            "CREATE DOMAIN good AS bigint CHECK (good()); "
            "CREATE TABLE made (k bigint PRIMARY KEY); "
            "CREATE TABLE source AS SELECT generate_series(1, 90)::bigint AS k"
        )
        holder.execute("BEGIN; SELECT FROM source WHERE k = 20 FOR UPDATE")
        choose(session, DEFAULT)
        before = Counters.of(session)
        hears = "pg_get_constraintdef(k::oid) IS NULL"
        rows = f"SELECT k FROM source WHERE {hears} FOR UPDATE"
        insert = threading.Thread(target=session.execute, args=(f"INSERT INTO made {rows}",))
        make = threading.Thread(
            target=maker.execute, args=("CREATE INDEX CONCURRENTLY ON made ((k::good))",)
        )
        insert.start()
        wait_until(lambda: scalar(holder, waiting) == 1, "the insert waits")
        make.start()
        wait_until(lambda: scalar(holder, waiting) == 2, "the new index waits for the insert")
        holder.execute("ROLLBACK")
        insert.join()
        make.join()
        after = Counters.of(session)
        assert after.rows > before.rows
        assert after.left == before.left
        maker.execute("DROP TABLE made, source; DROP DOMAIN good; DROP FUNCTION good()")
