"""What the plan of an insert calls besides what its query does."""

import pytest
from extension.probes import Connection

from bulk_insert.arms import ONE_PAGE, STOCK
from bulk_insert.judging import (
    ELIGIBLE,
    ROWS,
    SERIES,
    assert_left_and_counted,
    fresh,
    judgement,
    outcome,
)

_INSERT = "INSERT INTO w (k, seen) SELECT g, 0"
_FROM = f"FROM {SERIES}"
_DOMAIN = "ALTER TABLE w ADD c d; "
_VALUES = ", ".join(f"({k}, 0)" for k in range(ROWS))
_PARTITIONED = (
    "DROP TABLE w; CREATE TABLE w (k bigint, seen bigint, c d) PARTITION BY RANGE (k); "
    "CREATE TABLE w1 (c d, seen bigint, x int, k bigint); ALTER TABLE w1 DROP x; "
    "ALTER TABLE w ATTACH PARTITION w1 FOR VALUES FROM (0) TO (1000)"
)

# The domain's CHECK notes how many rows it sees.
_DOMAINS = {
    "SELECT": (_DOMAIN, f"{_INSERT} {_FROM}"),
    "VALUES": (_DOMAIN, f"INSERT INTO w (k, seen) VALUES {_VALUES}"),
    "domain over a domain": (
        "CREATE DOMAIN dd AS d; ALTER TABLE w ADD c dd",
        f"{_INSERT} {_FROM}",
    ),
    "among others": (
        "ALTER TABLE w ADD a int, ADD c d, ADD b int GENERATED ALWAYS AS IDENTITY; "
        "ALTER TABLE w DROP a",
        f"{_INSERT} {_FROM}",
    ),
    "sort": (_DOMAIN, f"{_INSERT} {_FROM} ORDER BY g DESC"),
    "UNION ALL": (_DOMAIN, f"{_INSERT} {_FROM} WHERE g < 9 UNION ALL SELECT g, 1 {_FROM} OFFSET 8"),
    "arms without an operation": (
        _DOMAIN,
        f"{_INSERT} {_FROM} WHERE g < 9 UNION ALL SELECT g, 1 {_FROM} WHERE g >= 9",
    ),
    "set-returning": (
        _DOMAIN,
        f"INSERT INTO w (k, seen) SELECT generate_series(1, {ROWS}), generate_series(1, {ROWS})",
    ),
    "grouped": (_DOMAIN, f"INSERT INTO w (k, seen) SELECT g, sum(g) {_FROM} GROUP BY g"),
    "partitioned table": (_PARTITIONED, f"{_INSERT} {_FROM}"),
    "partition": (_PARTITIONED, f"INSERT INTO w1 (k, seen) SELECT g, 0 {_FROM}"),
    "view": (
        f"{_DOMAIN} CREATE VIEW v AS SELECT seen, k FROM w",
        f"INSERT INTO v (k) SELECT g {_FROM}",
    ),
    "view of a view": (
        f"{_DOMAIN} CREATE VIEW v AS SELECT * FROM w; CREATE VIEW vv AS SELECT k AS x FROM v",
        f"INSERT INTO vv SELECT g {_FROM}",
    ),
    "rule": (
        f"{_DOMAIN} CREATE VIEW v AS SELECT 1::bigint AS x; "
        "CREATE RULE r AS ON INSERT TO v DO INSTEAD INSERT INTO w (k) VALUES (NEW.x)",
        f"INSERT INTO v SELECT g {_FROM}",
    ),
    "prepared statement": (
        f"{_DOMAIN} SET LOCAL plan_cache_mode = force_generic_plan; "
        "PREPARE p AS INSERT INTO w (k, seen) "
        f"SELECT g, $1 FROM generate_series(1::bigint, {ROWS}) g",
        "EXECUTE p (0)",
    ),
}

_OTHER_COLUMNS = {
    "base type": "ALTER TABLE w ADD c text",
    "type of a user": "CREATE TYPE word AS ENUM ('a'); ALTER TABLE w ADD c word",
    "array of a domain": "ALTER TABLE w ADD c d[]",
    "row with a domain": "ALTER TABLE w ADD c pair",
    "domain that was dropped": f"{_DOMAIN} ALTER TABLE w DROP c",
    "generated columns": (
        "ALTER TABLE w ADD a bigint GENERATED ALWAYS AS (k + 1) STORED, "
        "ADD b bigint GENERATED ALWAYS AS (k + 1) VIRTUAL"
    ),
}


@pytest.mark.parametrize(("setup", "sql"), _DOMAINS.values(), ids=_DOMAINS)
def test_domains_of_columns_that_are_left_out(connection: Connection, setup: str, sql: str) -> None:
    assert_left_and_counted(connection, setup, sql)


@pytest.mark.parametrize("setup", _OTHER_COLUMNS.values(), ids=_OTHER_COLUMNS)
def test_other_columns_can_be_left_out(connection: Connection, setup: str) -> None:
    sql = f"{_INSERT} {_FROM}"
    with fresh(connection, setup):
        assert judgement(connection, sql) == ELIGIBLE
    assert outcome(connection, setup, sql, ONE_PAGE) == outcome(connection, setup, sql, STOCK)
