"""EXPLAIN (LOOKAHEAD): the same facts in four formats, and the reason for each stock scan."""

import json
import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from extension.probes import (
    STREAM_ALWAYS,
    Connection,
    explain,
    lookahead,
    make_shuffled,
    need_extension,
    nodes,
    scalar,
)

_SCAN = "SELECT count(pad) FROM x WHERE k < 500"
_COUNTERS = (
    "Scans",
    "Prefetched Blocks",
    "Requests",
    "Advised Blocks",
    "Bridged Blocks",
    "Pauses",
    "Direct Blocks",
    "Repeated Blocks",
    "Killed Items",
    "Restarts",
)


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    if scalar(connection, "SELECT to_regclass('x') IS NULL"):
        make_shuffled(connection, "x", 5_000)
        connection.execute("CREATE TABLE xp (p point, k int)")
        connection.execute("INSERT INTO xp SELECT point(i, i), i FROM generate_series(1, 500) i")
        connection.execute("CREATE INDEX ON xp USING gist (p)")
        connection.execute("CREATE INDEX ON xp USING hash (k)")
        connection.execute("VACUUM ANALYZE xp")


def _text(connection: Connection, query: str, options: str) -> str:
    rows = connection.execute(f"EXPLAIN ({options}) {query}").fetchall()
    return "\n".join(str(row[0]) for row in rows)


def _from_text(document: str) -> dict[str, int]:
    found = re.search(r"^ +Lookahead: (scans=.*)$", document, re.MULTILINE)
    assert found
    names = {name: name.title() for name in ("scans", "requests", "pauses", "restarts")}
    names["kills"] = "Killed Items"
    fields = dict(field.split("=") for field in found[1].split())
    return {
        names.get(name, f"{name.title()} Blocks"): int(value)
        for name, value in fields.items()
        if name != "distance"
    }


def _from_xml(document: str) -> dict[str, int]:
    space = {"e": "http://www.postgresql.org/2009/explain"}
    (group,) = ElementTree.fromstring(document).iterfind(".//e:Lookahead", space)
    fields = {str(field.tag).split("}")[1].replace("-", " "): field.text or "" for field in group}
    assert fields["Status"] == "prefetch"
    return {name: int(value) for name, value in fields.items() if value.isdigit()}


def _from_yaml(document: str) -> dict[str, int]:
    found = re.search(r"^( +)Lookahead: *\n((?:\1  .*\n?)+)", document, re.MULTILINE)
    assert found
    fields = dict(line.strip().split(": ", 1) for line in found[2].splitlines())
    assert fields["Status"] == '"prefetch"'
    return {name: int(value) for name, value in fields.items() if value.isdigit()}


def _from_json(document: str) -> dict[str, int]:
    (group,) = lookahead(json.loads(document)[0]["Plan"])
    assert group["Status"] == "prefetch"
    return {name: value for name, value in group.items() if isinstance(value, int)}


@pytest.mark.parametrize(
    ("name", "read"),
    [("XML", _from_xml), ("YAML", _from_yaml), ("TEXT", _from_text)],
)
def test_formats_agree(
    connection: Connection, name: str, read: Callable[[str], dict[str, int]]
) -> None:
    connection.execute("SET pg_lookahead.test_depth = 50")
    connection.execute(_SCAN)  # the first run may find pages in another state
    options = "ANALYZE, LOOKAHEAD, COSTS OFF, TIMING OFF, BUFFERS OFF"
    document = connection.execute(f"EXPLAIN ({options}, FORMAT JSON) {_SCAN}").fetchone()
    assert document is not None
    expected = _from_json(json.dumps(document[0]))
    assert set(_COUNTERS) <= set(expected)
    assert expected["Scans"] == 1
    assert expected["Prefetched Blocks"] > 100
    other = read(_text(connection, _SCAN, f"{options}, FORMAT {name}"))
    assert {key: other[key] for key in _COUNTERS} == {key: expected[key] for key in _COUNTERS}


def test_eligible_without_analyze(connection: Connection) -> None:
    assert "Lookahead: eligible" in _text(connection, _SCAN, "LOOKAHEAD, COSTS OFF")
    assert lookahead(explain(connection, _SCAN, "LOOKAHEAD")) == [{"Status": "eligible"}]


def test_nothing_is_said_unless_asked(connection: Connection) -> None:
    for options in ("ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF", "VERBOSE"):
        connection.execute("SET pg_lookahead.enabled = off")
        stock = _text(connection, _SCAN, options)
        connection.execute("SET pg_lookahead.enabled = on")
        assert _text(connection, _SCAN, options) == stock
        assert "ookahead" not in stock
    assert "ookahead" not in _text(connection, _SCAN, "ANALYZE, LOOKAHEAD OFF")


def test_node_that_never_ran(connection: Connection) -> None:
    connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
    plan = explain(
        connection,
        "SELECT count(b.pad) FROM x a JOIN x b ON b.k = a.k WHERE a.k < 0 AND a.pad > ''",
    )
    inner = [node for node in nodes(plan) if node.get("Actual Loops") == 0]
    assert [node["Lookahead"]["Scans"] for node in inner] == [0]


REASONS = [
    ("SELECT * FROM xp ORDER BY p <-> point(3, 3) LIMIT 5", "ordering operator", ""),
    (
        "SELECT p FROM xp WHERE p <@ box '((1,1),(9,9))'",
        "index-only scan",
        "SET enable_indexonlyscan = on",
    ),
    (_SCAN, "disabled", "SET pg_lookahead.enabled = off"),
]


@pytest.mark.parametrize(("query", "reason", "setting"), REASONS)
def test_reason_for_stock(connection: Connection, query: str, reason: str, setting: str) -> None:
    connection.execute(setting)
    assert lookahead(explain(connection, query)) == [{"Status": "stock", "Reason": reason}]
    assert f"Lookahead: stock ({reason})" in _text(connection, query, "ANALYZE, LOOKAHEAD")


def test_index_only_scan(connection: Connection) -> None:
    connection.execute("SET enable_indexonlyscan = on")
    (group,) = lookahead(explain(connection, "SELECT k FROM x WHERE k < 500"))
    assert group["Status"] == "prefetch"


@pytest.mark.parametrize(
    "query", ["SELECT * FROM xp WHERE p <@ box '((1,1),(9,9))'", "SELECT * FROM xp WHERE k = 7"]
)
def test_other_access_methods_prefetch(connection: Connection, query: str) -> None:
    connection.execute(STREAM_ALWAYS)
    (group,) = lookahead(explain(connection, query))
    assert group["Status"] == "prefetch"
    assert group["Scans"] == 1


def test_inner_side_of_a_merge_join(connection: Connection) -> None:
    connection.execute(
        "SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off"
    )
    plan = explain(
        connection, "SELECT count(b.pad) FROM x a JOIN x b ON b.k = a.k WHERE a.pad > ''"
    )
    outer, inner = lookahead(plan)
    assert outer["Status"] == "prefetch"
    assert inner["Status"] == "prefetch"


def test_a_scrollable_cursor_has_no_reason(connection: Connection) -> None:
    query = "DECLARE c {} CURSOR FOR SELECT * FROM x WHERE k < 500 ORDER BY k"
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
    counts = []
    for scroll in ("NO SCROLL", "SCROLL"):
        with connection.transaction():
            connection.execute(query.format(scroll))
            connection.execute("FETCH 100 FROM c")
        counts.append(
            scalar(
                connection, "SELECT (fallbacks ->> 'scrollable cursor')::int FROM pg_stat_lookahead"
            )
        )
    assert counts[0] is None
    assert counts[1] is None


def test_temporary_tables_prefetch(connection: Connection) -> None:
    connection.execute("CREATE TEMPORARY TABLE y AS SELECT * FROM x")
    connection.execute("CREATE INDEX ON y (k)")
    connection.execute("ANALYZE y")
    (group,) = lookahead(explain(connection, "SELECT count(pad) FROM y WHERE k < 500"))
    assert group["Status"] == "prefetch"
    assert group["Prefetched Blocks"] > 100


def test_buffer_counts_of_a_parallel_plan_are_whole(connection: Connection) -> None:
    """Beside another extension's option the plan is complete: one does not hide the other."""
    need_extension(connection, "pageinspect")
    plan = explain(
        connection, _SCAN, "ANALYZE, LOOKAHEAD, BUFFERS, WAL, MEMORY, SERIALIZE, VERBOSE"
    )
    assert len(lookahead(plan)) == 1
