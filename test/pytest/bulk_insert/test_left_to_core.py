"""Inserts whose rows are not collected: EXPLAIN and the statistics say why."""

from collections.abc import Iterator

import pytest
from extension.probes import Connection, explain, lookahead, scalar
from server_log import WatchedServer

from bulk_insert.arms import DEFAULT, EXTENTS, Counters, choose

_ROWS = "SELECT i, 'x' || i FROM generate_series(1, 300) i"
_NOTHING = (
    "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN {}; END $$"
)
_TRIGGER = "CREATE TRIGGER g {} ON t {} EXECUTE FUNCTION nothing()"
_PARTITIONED = (
    "CREATE TABLE p (k int, s text) PARTITION BY RANGE (k); CREATE TABLE p1 PARTITION OF p DEFAULT"
)

# Reason, what is made besides t, and the insert.
_CASES = {
    "trigger_of_partitions": (
        "row trigger",
        f"{_PARTITIONED}; {_NOTHING.format('NULL')}; "
        "CREATE TRIGGER g AFTER INSERT ON p FOR EACH ROW EXECUTE FUNCTION nothing()",
        f"INSERT INTO p {_ROWS}",
    ),
    "returning": ("RETURNING", "", f"INSERT INTO t {_ROWS} RETURNING k"),
    "do_nothing": (
        "ON CONFLICT",
        "CREATE UNIQUE INDEX t_k ON t (k)",
        f"INSERT INTO t {_ROWS} ON CONFLICT DO NOTHING",
    ),
    "do_update": (
        "ON CONFLICT",
        "CREATE UNIQUE INDEX t_k ON t (k)",
        f"INSERT INTO t {_ROWS} ON CONFLICT (k) DO UPDATE SET s = 'y'",
    ),
    "before_row": (
        "row trigger",
        f"{_NOTHING.format('NEW')}; {_TRIGGER.format('BEFORE INSERT', 'FOR EACH ROW')}",
        f"INSERT INTO t {_ROWS}",
    ),
    "transition_table": (
        "transition table",
        f"{_NOTHING.format('NULL')}; "
        f"{_TRIGGER.format('AFTER INSERT', 'REFERENCING NEW TABLE AS n FOR EACH STATEMENT')}",
        f"INSERT INTO t {_ROWS}",
    ),
    "transition_table_of_rows": (
        "transition table",
        f"{_NOTHING.format('NULL')}; "
        f"{_TRIGGER.format('AFTER INSERT', 'REFERENCING NEW TABLE AS n FOR EACH ROW')}",
        f"INSERT INTO t {_ROWS}",
    ),
    "check_option": (
        "check option or row security",
        "CREATE VIEW v AS SELECT * FROM t WHERE k > 0 WITH CHECK OPTION",
        f"INSERT INTO v {_ROWS}",
    ),
    "row_security": (
        "check option or row security",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY; GRANT ALL ON t TO somebody; "
        "CREATE POLICY own ON t WITH CHECK (k > 0); CREATE POLICY see ON t FOR SELECT USING (true);"
        "SET LOCAL ROLE somebody",
        f"INSERT INTO t {_ROWS}",
    ),
    "modifying_with": (
        "data-modifying WITH",
        "CREATE TABLE u (k int)",
        f"WITH w AS (INSERT INTO u SELECT generate_series(1, 9) RETURNING k) INSERT INTO t {_ROWS}",
    ),
    "catalog": (
        "system catalog",
        "",
        "INSERT INTO pg_catalog.pg_description SELECT 1, 1, i, 'x' FROM generate_series(1, 9) i",
    ),
    "catalog_for_users": (
        "system catalog",
        "ALTER TABLE t SET (user_catalog_table = true)",
        f"INSERT INTO t {_ROWS}",
    ),
}


@pytest.fixture
def session(server: WatchedServer) -> Iterator[Connection]:
    """In a transaction that is rolled back, with a table t."""
    with server.connect() as opened:
        choose(opened, EXTENTS)
        with opened.transaction(force_rollback=True):
            opened.execute("CREATE TABLE t (k int, s text); CREATE ROLE somebody")
            yield opened


@pytest.mark.parametrize("case", _CASES)
def test_insert_is_left_to_core(session: Connection, case: str) -> None:
    reason, making, insert = _CASES[case]
    session.execute(making)
    before = Counters.of(session)
    assert lookahead(explain(session, insert, "LOOKAHEAD, COSTS OFF")) == [
        {"Status": "stock", "Reason": reason}
    ]
    session.execute(insert)
    after = Counters.of(session)
    assert after.left[reason] == before.left.get(reason, 0) + 1
    assert after.rows == before.rows


def test_check_option_is_checked(session: Connection) -> None:
    session.execute("CREATE VIEW v AS SELECT * FROM t WHERE k < 200 WITH CHECK OPTION; SAVEPOINT s")
    with pytest.raises(Exception, match="violates check option"):
        session.execute(f"INSERT INTO v {_ROWS}")


def _values(rows: int) -> str:
    return "INSERT INTO t VALUES " + ", ".join(f"({i}, 'v')" for i in range(rows))


# Inserts of no more rows than are inserted one by one: nothing but plan nodes of core's.
_NO_NODES = {
    "one_row": (1, _values(1)),
    "default_values": (1, "INSERT INTO t DEFAULT VALUES"),
    "few": (32, _values(32)),
    "few_of_a_view": (32, _values(32).replace("INTO t", "INTO v")),
    "one_row_of_a_view": (1, _values(1).replace("INTO t", "INTO v")),
    "few_that_would_be_returned": (32, f"{_values(32)} RETURNING k"),
}


@pytest.mark.parametrize("case", _NO_NODES)
def test_few_rows_are_not_even_looked_at(session: Connection, case: str) -> None:
    choose(session, DEFAULT)
    session.execute("CREATE VIEW v AS SELECT * FROM t")
    rows, insert = _NO_NODES[case]
    before = Counters.of(session)
    assert lookahead(explain(session, insert, "LOOKAHEAD, COSTS OFF")) == []
    session.execute(insert)
    assert Counters.of(session) == before
    assert scalar(session, "SELECT count(*) FROM t") == rows


def test_more_rows_are_collected(session: Connection) -> None:
    choose(session, DEFAULT)
    before = Counters.of(session)
    session.execute(_values(33))
    assert Counters.of(session).nodes == before.nodes + 1


# What is inserted has a type for which a volatile function is called: that is not looked for.
_NOT_SEARCHED = {
    "row trigger": (
        "row trigger",
        f"{_NOTHING.format('NEW')}; {_TRIGGER.format('BEFORE INSERT', 'FOR EACH ROW')}",
    ),
    "catalog of a user": ("system catalog", "ALTER TABLE t SET (user_catalog_table = true)"),
}


@pytest.mark.parametrize("case", _NOT_SEARCHED)
def test_query_is_not_searched_for_nothing(session: Connection, case: str) -> None:
    reason, making = _NOT_SEARCHED[case]
    session.execute(
        "CREATE FUNCTION good() RETURNS boolean VOLATILE LANGUAGE sql RETURN true; "
        "CREATE DOMAIN good AS int CHECK (good())"
    )
    insert = "INSERT INTO t SELECT i::good FROM generate_series(1, 300) i"
    assert lookahead(explain(session, insert, "LOOKAHEAD, COSTS OFF")) == [
        {"Status": "stock", "Reason": "volatile function"}
    ]
    session.execute(making)
    assert lookahead(explain(session, insert, "LOOKAHEAD, COSTS OFF")) == [
        {"Status": "stock", "Reason": reason}
    ]


_COLLECTED = {
    "view": ("CREATE VIEW v AS SELECT * FROM t", f"INSERT INTO v {_ROWS}"),
    "partition": (
        "CREATE TABLE p (k int, s text) PARTITION BY RANGE (k); "
        "CREATE TABLE p1 PARTITION OF p DEFAULT",
        f"INSERT INTO p1 {_ROWS}",
    ),
    "values": ("", _values(50)),
    "owner_without_row_security": (
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        f"INSERT INTO t {_ROWS}",
    ),
    "rule": (
        "CREATE RULE r AS ON INSERT TO t DO ALSO NOTIFY inserted",
        f"INSERT INTO t {_ROWS}",
    ),
}


@pytest.mark.parametrize("case", _COLLECTED)
def test_insert_is_collected(session: Connection, case: str) -> None:
    making, insert = _COLLECTED[case]
    session.execute(making)
    before = Counters.of(session)
    rows = session.execute(insert).rowcount
    assert Counters.of(session).rows == before.rows + rows > 0
