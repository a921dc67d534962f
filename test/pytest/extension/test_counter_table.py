"""Every counter of src/la_counters.c is in the view, in EXPLAIN, in resets and in the documents."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from extension.probes import STREAM_ALWAYS, Connection, explain, lookahead, make_shuffled, scalar

_TOP = Path(__file__).resolve().parents[3]
_ROW = re.compile(r'COUNTER\((\w+)\) = \{(?:"(\w+)"|NULL), "([\w ]+)", (?:"(\w+)"|NULL)')
_VIEW = "SELECT * FROM pg_stat_lookahead"
# The query, and the counters of which EXPLAIN says nothing, as docs/explain.md has it.
_INDEX = ("SELECT count(pad) FROM t WHERE k < 900", set[str]())
_BITMAP = (
    "SELECT count(pad) FROM t WHERE k < 300",
    {"direct", "repeated", "killed", "restarts"},
)
_SEQ = (
    "SELECT count(pad) FROM t",
    _BITMAP[1] | {"prefetched", "bridged", "distance_sum", "distance_max"},
)
_QUERIES = {
    "index": _INDEX,
    "bitmap": _BITMAP,
    "seq": _SEQ,
}
_OF_OTHERS = {"rows", "batches", "extensions", "extended", "sorted", "drawn"}
_ALLOWED = {"index": "enable_indexscan", "bitmap": "enable_bitmapscan", "seq": "enable_seqscan"}


class _Row(NamedTuple):
    field: str
    name: str
    label: str
    column: str


def _rows() -> list[_Row]:
    text = (_TOP / "src/la_counters.c").read_text()
    return [_Row(*groups) for groups in _ROW.findall(text)]


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    connection.execute("CREATE EXTENSION IF NOT EXISTS pg_lookahead")
    if scalar(connection, "SELECT to_regclass('t') IS NULL"):
        make_shuffled(connection, "t", 10_000)
    connection.execute(STREAM_ALWAYS)


def _allow_only(connection: Connection, scan: str) -> None:
    for name, setting in _ALLOWED.items():
        connection.execute(f"SET {setting} = {'on' if name == scan else 'off'}")


def _shown(rows: list[_Row], hidden: set[str]) -> list[_Row]:
    return [row for row in rows if row.field not in hidden | _OF_OTHERS]


_PARTITIONED = (
    "CREATE TEMP TABLE halves (k int) PARTITION BY HASH (k);"
    " CREATE TEMP TABLE half PARTITION OF halves FOR VALUES WITH (modulus 2, remainder 0);"
    " CREATE TEMP TABLE other PARTITION OF halves FOR VALUES WITH (modulus 2, remainder 1)"
)


def test_every_field_has_a_row() -> None:
    header = (_TOP / "src/la_counters.h").read_text()
    struct = header[header.index("typedef struct LaCounters") : header.index("} LaCounters;")]
    assert [row.field for row in _rows()] == re.findall(r"^\tuint64\s+(\w+);", struct, re.MULTILINE)


def test_view_has_every_column(connection: Connection) -> None:
    cursor = connection.execute(_VIEW)
    assert cursor.description is not None
    names = [column.name for column in cursor.description]
    assert names[3:-2] == [row.column for row in _rows() if row.column]
    of_inserts = set(names[names.index("batched_rows") : names.index("drawn_rows")])
    filled = {
        line[0]: {
            name for name, value in zip(names[3:-2], line[3:-2], strict=True) if value is not None
        }
        for line in cursor.fetchall()
    }
    assert filled.pop("index_build") == {"scans"}
    assert filled.pop("late_start") == {"scans"}
    assert filled.pop("bulk_insert") == {"scans"} | of_inserts
    of_joins = {"prefetched_blocks", "requests", "advised_blocks", "pauses", "restarts"}
    assert filled.pop("nested_loop") == {"scans", "drawn_rows"} | of_joins
    assert filled.pop("subplan") == {"scans"} | of_joins
    of_scans = set(names[3:-2]) - of_inserts - {"drawn_rows"}
    assert all(columns == of_scans for columns in filled.values())


@pytest.mark.parametrize("scan", list(_QUERIES))
def test_explain_shows_every_counter(connection: Connection, scan: str) -> None:
    query, hidden = _QUERIES[scan]
    _allow_only(connection, scan)
    shown = _shown(_rows(), hidden)
    (group,) = lookahead(explain(connection, query))
    assert list(group) == ["Status", *(row.label for row in shown)]

    lines = connection.execute(f"EXPLAIN (ANALYZE, LOOKAHEAD) {query}").fetchall()
    (line,) = (text for (text,) in lines if "Lookahead:" in text)
    names = [row.name for row in shown if row.name]
    assert re.findall(r"(\w+)=", line) == names
    has_distance = "distance_max" not in hidden
    assert len(re.findall(r" distance=\d+\.\d/\d+( |$)", line)) == has_distance


def test_reset_leaves_nothing(connection: Connection) -> None:
    for scan, (query, _) in _QUERIES.items():
        _allow_only(connection, scan)
        connection.execute(query)
    connection.execute("REINDEX INDEX t_k")
    connection.execute("SET pg_lookahead.enable_bulk_insert = on")
    connection.execute("CREATE TEMP TABLE copied AS SELECT * FROM t WITH NO DATA")
    connection.execute("INSERT INTO copied SELECT * FROM t")
    connection.execute("SET pg_lookahead.enable_late_start = on")
    connection.execute("SET pg_lookahead.test_late_children = 0")
    connection.execute(_PARTITIONED)
    connection.execute("SELECT * FROM halves WHERE k = (SELECT 1)")
    before = connection.execute(_VIEW).fetchall()
    of_joins = ("nested_loop", "subplan")
    assert all(line[2] > 0 and line[3] > 0 for line in before if line[0] not in of_joins)
    connection.execute("SELECT pg_lookahead_stats_reset()")
    after = connection.execute(_VIEW).fetchall()
    assert {value for line in after for value in line[2:-2]} == {0, None}
    assert {str(line[-2]) for line in after} == {"{}"}


def test_documents_name_every_counter() -> None:
    statistics = (_TOP / "docs/statistics.md").read_text()
    explained = (_TOP / "docs/explain.md").read_text()
    rows = _rows()
    assert [row.column for row in rows if row.column and f"`{row.column}`" not in statistics] == []
    assert [row.name for row in rows if row.name and f"| `{row.name}` |" not in explained] == []
    assert [row.label for row in rows if f"`{row.label}`" not in explained] == []
