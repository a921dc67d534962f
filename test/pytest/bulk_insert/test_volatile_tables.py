"""Tables that have volatile functions called for their rows."""

import pytest
from extension.probes import Connection

from bulk_insert.arms import ONE_PAGE, STOCK
from bulk_insert.judging import ROWS, SERIES, VOLATILE, assert_counted, fresh, judgement, outcome

_SQL = f"INSERT INTO w SELECT g, 0 FROM {SERIES}"
_PREFETCH = {"Status": "prefetch"}
_TRIGGER = "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"

_CASES = {
    "CHECK": "ALTER TABLE w ADD CHECK (passes(k))",
    "second CHECK": "ALTER TABLE w ADD CHECK (k > 0), ADD CHECK (seen > 0 OR passes(k))",
    "domain in a CHECK": "ALTER TABLE w ADD CHECK (k::d > 0)",
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
