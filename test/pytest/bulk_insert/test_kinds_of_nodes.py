"""Rows of an insert wait whatever kinds of nodes its query has that call nothing."""

import pytest
from extension.probes import Connection

from bulk_insert.judging import ELIGIBLE, SERIES, fresh, judgement

_SETUP = (
    "CREATE TYPE plain AS (a bigint, b bigint); ALTER TABLE w ADD p plain, ADD a int[], ADD x xml"
)
_VALUES = {
    "and": "(g > 1 AND NOT g > 9)::int",
    "null test": "(g IS NULL)::int",
    "boolean test": "((g > 1) IS NOT TRUE)::int",
    "case": "CASE WHEN g > 1 THEN 2 ELSE 3 END",
    "case of a value": "CASE g WHEN 1 THEN 2 ELSE 3 END",
    "coalesce": "coalesce(g, 1)",
    "greatest": "greatest(g, 3)",
    "collate": """('a' COLLATE "C" < g::text)::int""",
    "column of a row": "(ROW(g, 1)::plain).a",
    "element of an array": "(ARRAY[1, 2, 3])[g % 3 + 1]",
    "named argument": "make_date(year => 2000 + g::int, month => 1, day => 1) - date '2000-01-01'",
    "value function": "length(current_user)",
    "comparison of rows": "((g, 1) < (5, 2))::int",
    "json": "length(JSON_OBJECT('a': g::text FORMAT JSON)::text)",
    "is json": "(g::text IS JSON)::int",
    "json with a default": "JSON_VALUE(jsonb '{}', '$.a' RETURNING int DEFAULT 1 ON EMPTY)",
}
_RECURSIVE = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 9)"
_STATEMENTS = {
    "grouping": f"INSERT INTO w SELECT g, grouping(g) FROM {SERIES} GROUP BY ROLLUP (g)",
    "part of a row": f"INSERT INTO w (k, p.a) SELECT g, g FROM {SERIES}",
    "part of an array": f"INSERT INTO w (k, a[1]) SELECT g, g FROM {SERIES}",
    "join": f"INSERT INTO w SELECT g FROM {SERIES} LEFT JOIN pg_class c ON c.oid = g",
    "xml": "INSERT INTO w SELECT k, (x IS DOCUMENT)::int FROM w",
    "sample": "INSERT INTO w SELECT oid FROM pg_class TABLESAMPLE SYSTEM (50)",
    "search": f"{_RECURSIVE} SEARCH BREADTH FIRST BY n SET o INSERT INTO w SELECT n FROM c",
    "cycle": f"{_RECURSIVE} CYCLE n SET again USING path INSERT INTO w SELECT n FROM c",
}


@pytest.mark.parametrize(
    "sql",
    [f"INSERT INTO w SELECT g, {value} FROM {SERIES}" for value in _VALUES.values()]
    + list(_STATEMENTS.values()),
    ids=[*_VALUES, *_STATEMENTS],
)
def test_rows_wait(connection: Connection, sql: str) -> None:
    with fresh(connection, _SETUP):
        assert judgement(connection, sql) == ELIGIBLE
