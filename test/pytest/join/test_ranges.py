"""Of a range behind columns that are compared by =, nothing else is asked for."""

from collections.abc import Iterator
from typing import Any

import pytest
from extension.probes import Connection, explain, scalar
from server_log import WatchedServer

from join.tables import cold_loops, loops, make_cold, stock_rows

_ROWS = "SELECT o.id, r.g FROM outer_rows o JOIN {table} r ON r.k = o.id AND {range}"
_LAST = (
    "SELECT o.id, r.g FROM outer_rows o CROSS JOIN LATERAL "
    "(SELECT g, pad FROM {table} r WHERE r.k = o.id AND {range} ORDER BY g {order} LIMIT 1) r"
)
_UP, _DOWN = "ranged", "ranged_down"
# Of which most rows have no value in the range's column.
_GAPS, _GAPS_FIRST = "gaps", "gaps_first"
# Each row is on a page of its own, so a page is wanted for each row of the answer.
_MOST_OTHERS = 20
_EVEN = set(range(0, 400, 2))
_FEW = "CASE WHEN g % 8 < 2 THEN g END"


@pytest.fixture(scope="module", autouse=True)
def _tables(server: WatchedServer) -> Iterator[None]:
    """The rows of `many`, with one index each, of which some have the range's column backward."""
    with server.connect() as own:
        for table, order, g in (
            (_UP, "ASC", "g"),
            (_DOWN, "DESC", "g"),
            (_GAPS, "ASC", _FEW),
            (_GAPS_FIRST, "DESC", _FEW),
        ):
            for statement in (
                f"CREATE TABLE {table} (LIKE many INCLUDING STORAGE)",
                f"INSERT INTO {table} SELECT k, {g}, name, pad FROM many",
                f"CREATE INDEX ON {table} (k, g {order}, name)",
                f"ANALYZE {table}",
            ):
                dynamic: Any = statement
                own.execute(dynamic)
        yield
        own.execute(f"DROP TABLE {_UP}, {_DOWN}, {_GAPS}, {_GAPS_FIRST}")


def _advised(server: WatchedServer, connection: Connection, query: str, table: str) -> int:
    (loop,) = cold_loops(server, connection, query, table)
    index_pages = scalar(
        connection,
        f"SELECT sum(pg_relation_size(indexrelid)) / 8192 FROM pg_index "
        f"WHERE indrelid = '{table}'::regclass",
    )
    return int(loop["Advised Blocks"]) - int(index_pages)


@pytest.mark.parametrize("table", [_UP, _DOWN])
@pytest.mark.parametrize(
    "condition",
    [
        "r.g BETWEEN 50 AND 250",
        "r.g > 149",
        "r.g >= 150",
        "r.g < 150",
        "r.g <= 149",
        "r.g >= o.wide",
        "r.g < o.wide AND r.g >= o.zero",
    ],
)
def test_rows_of_a_range(
    server: WatchedServer, connection: Connection, table: str, condition: str
) -> None:
    query = _ROWS.format(table=table, range=condition)
    rows = stock_rows(connection, query)
    assert 60 < len(rows) < 380
    advised = _advised(server, connection, query, table)
    assert len(rows) - 2 * _MOST_OTHERS <= advised <= len(rows) + _MOST_OTHERS


@pytest.mark.parametrize("table", [_UP, _DOWN])
@pytest.mark.parametrize(
    ("condition", "order"),
    [
        ("r.g <= o.wide", "DESC"),
        ("r.g < o.wide", "DESC"),
        ("r.g > o.wide", "ASC"),
        ("r.g <= o.wide AND r.g > o.wide - 1000", "DESC"),
    ],
)
def test_the_last_row_before_another(
    server: WatchedServer, connection: Connection, table: str, condition: str, order: str
) -> None:
    """An end that is not known beforehand does not matter: one row is wanted."""
    query = _LAST.format(table=table, range=condition, order=order)
    rows = stock_rows(connection, query)
    assert len(rows) > 30
    advised = _advised(server, connection, query, table)
    assert len(rows) - _MOST_OTHERS <= advised <= len(rows) + _MOST_OTHERS


@pytest.mark.parametrize("table", [_GAPS, _GAPS_FIRST])
@pytest.mark.parametrize(
    ("query", "condition", "order"),
    [
        (_ROWS, "r.g > o.zero", ""),
        (_ROWS, "r.g < o.wide", ""),
        (_LAST, "r.g IS NOT NULL", "ASC"),
        (_LAST, "r.g IS NOT NULL", "DESC"),
        (_LAST, "r.g > o.zero", "ASC"),
        (_LAST, "r.g > o.zero", "DESC"),
    ],
)
def test_nulls_are_in_no_range(
    server: WatchedServer,
    connection: Connection,
    table: str,
    query: str,
    condition: str,
    order: str,
) -> None:
    text = query.format(table=table, range=condition, order=order)
    rows = stock_rows(connection, text)
    assert 40 < len(rows) < 200
    advised = _advised(server, connection, text, table)
    assert len(rows) - _MOST_OTHERS <= advised <= len(rows) + _MOST_OTHERS


@pytest.mark.parametrize(("sign", "wanted"), [(">", 0), (">=", 1), ("<", 0), ("<=", 1)])
def test_a_strict_bound_leaves_out_what_is_equal(
    connection: Connection, sign: str, wanted: int
) -> None:
    """Of the first or the last row of each key."""
    connection.execute("SET pg_lookahead.test_start_after = 0")
    end = "max" if sign.startswith(">") else "min"
    query = (
        f"SELECT r.g FROM (SELECT k, {end}(g) AS g FROM {_UP} GROUP BY k OFFSET 0) o "
        f"JOIN {_UP} r ON r.k = o.k AND r.g {sign} o.g"
    )
    (loop,) = loops(explain(connection, query))
    assert loop["Drawn Rows"] > 40
    assert wanted * 49 <= loop["Prefetched Blocks"] <= wanted * 50


@pytest.mark.parametrize(
    "condition",
    [
        "r.g > o.id - 1000",
        f"r.g = ANY ('{_EVEN}')",
        "(r.g, r.k) > (5, 5)",
        "r.g = o.id * 29 % 50",
        "r.name IS NOT NULL",
        "r.g > o.zero AND r.name IS NOT NULL",
    ],
)
def test_ranges_that_are_not_known(
    server: WatchedServer, connection: Connection, condition: str
) -> None:
    """Pages outside of them would be asked for in vain."""
    query = _ROWS.format(table=_UP, range=condition)
    make_cold(server, connection, _UP)
    (loop,) = loops(explain(connection, query))
    assert loop["Status"] == "stock"
    assert loop["Reason"].startswith("inner side")
