"""Further cached shapes: kinds of scans, subplans, functions and cursors beside plain statements.

They are for counting: what they would add to a table of times, the shapes of control_shapes.py
show as well. Both are executed by the same procedures.
"""

from collections.abc import Sequence
from dataclasses import replace

from lookahead_bench.control_shape import LOG, ROW, SMALL, Shape
from lookahead_bench.control_shapes import CACHED_SHAPES
from lookahead_bench.control_shapes_judged import JUDGED_SHAPES, in_function

_SETTINGS = {shape.name: shape.settings for shape in CACHED_SHAPES}
_INDEX_SCANS = _SETTINGS["range-10"]
_NESTED_LOOPS = _SETTINGS["join-3"]
_BY_K = "SELECT id, k, pad FROM control_row WHERE k"
_OFTEN, _RARELY = 1000, 2
_PAGES = (
    "CREATE TABLE control_twenty_pages (id int, pad text)",
    # Items of 128 bytes and a line pointer of 4: 61 of them on a page.
    "INSERT INTO control_twenty_pages SELECT id, repeat('x', 95) FROM generate_series(1, 1220) id",
    "VACUUM (FREEZE, ANALYZE) control_twenty_pages",
)
_GROUPS = (
    "CREATE TABLE control_group (id int PRIMARY KEY, member int NOT NULL)",
    "INSERT INTO control_group SELECT id, id % 10 FROM control_row ORDER BY id",
    "VACUUM (FREEZE, ANALYZE) control_group",
)


_LOGS = (
    "CREATE TABLE control_logs (id int, k int, pad text) PARTITION BY RANGE (id)",
    "DO $do$ BEGIN FOR number IN 0 .. 19 LOOP EXECUTE format('CREATE TABLE control_logs_%s "
    "PARTITION OF control_logs FOR VALUES FROM (%s) TO (%s)', number, number * 10000, "
    "(number + 1) * 10000 + 100 * (number / 19)); END LOOP; END $do$",
)


_SCANS = (
    Shape(
        "backward-10",
        (f"{_BY_K} <= :key + 10 ORDER BY k DESC LIMIT 10",),
        _OFTEN,
        ROW,
        ("Index Scan",),
        _INDEX_SCANS,
    ),
    Shape(
        "key-list-10",
        (
            "SELECT pad FROM control_row WHERE id = ANY (ARRAY[:key, :key + 1, :key + 2, "
            ":key - 30, :key - 31, :key - 32, :key - 60, :key - 61, :key - 62, :key - 90])",
        ),
        _OFTEN,
        ROW,
        ("Index Scan",),
        _INDEX_SCANS,
    ),
    Shape(
        "seq-scan-20-pages",
        ("SELECT count(pad) FROM control_twenty_pages",),
        _OFTEN,
        _PAGES,
        ("Seq Scan",),
    ),
    Shape(
        "scalar-aggregate",
        ("SELECT sum(k), max(id), count(*) FROM control_row",),
        _RARELY,
        ROW,
        ("Aggregate", "Seq Scan"),
    ),
    Shape(
        "tid-range",
        ("SELECT count(pad) FROM control_row WHERE ctid >= '(3,1)' AND ctid < '(8,1)'",),
        _OFTEN,
        ROW,
        ("Tid Range Scan",),
    ),
)
_SUBPLANS = (
    Shape(
        "not-exists",
        (
            "SELECT r.id FROM control_row r WHERE r.k BETWEEN :key AND :key + 9 "
            "AND NOT EXISTS (SELECT FROM control_row s WHERE s.id = r.id + 1000000)",
        ),
        _OFTEN,
        ROW,
        ("Nested Loop", "Index Scan", "Index Only Scan"),
        _NESTED_LOOPS | _INDEX_SCANS,
    ),
    Shape(
        "merge-join-100",
        (
            "SELECT count(*) FROM control_row r JOIN control_group g ON g.id = r.id "
            "WHERE r.id BETWEEN :key AND :key + 99 AND g.id BETWEEN :key AND :key + 99",
        ),
        _OFTEN,
        (*ROW, *_GROUPS),
        ("Merge Join", "Index Only Scan"),
        _INDEX_SCANS | {"enable_hashjoin": "off", "enable_nestloop": "off"},
    ),
    Shape(
        "memoize",
        (
            "SELECT count(r.pad) FROM control_group g JOIN control_row r ON r.id = g.member "
            "WHERE g.id BETWEEN :key AND :key + 99",
        ),
        _OFTEN,
        (*ROW, *_GROUPS),
        ("Memoize", "Index Scan"),
        _INDEX_SCANS | {"enable_hashjoin": "off", "enable_mergejoin": "off"},
    ),
    Shape(
        "correlated-subplan",
        (
            "SELECT (SELECT r.pad FROM control_row r WHERE r.id = s.id * 100 + :key) "
            "FROM control_small s",
        ),
        _OFTEN,
        (*ROW, *SMALL),
        ("Seq Scan", "Index Scan"),
    ),
)
_LOOPS = {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_memoize": "off"}
_LOOPS_AHEAD = _INDEX_SCANS | _LOOPS | {"pg_lookahead.enable_join_prefetch": "on"}


def _join_ahead(rows: int) -> Shape:
    """A join of so many outer rows that may look ahead, and finds all in shared buffers."""
    return Shape(
        f"join-ahead-{rows}",
        (
            "SELECT count(r.pad) FROM control_group g JOIN control_row r ON r.id = g.member "
            f"WHERE g.id BETWEEN :key AND :key + {rows - 1}",
        ),
        _OFTEN,
        (*ROW, *_GROUPS),
        ("Nested Loop", "Index Scan"),
        _LOOPS_AHEAD,
    )


_SUBPLAN_AHEAD = Shape(
    "subplan-ahead",
    ("SELECT (SELECT r.pad FROM control_row r WHERE r.id = s.id) FROM control_small s",),
    _OFTEN,
    (*ROW, *SMALL),
    ("Seq Scan", "Index Scan"),
    _LOOPS_AHEAD,
)
_JOINS_AHEAD = (_join_ahead(1), _join_ahead(10), _join_ahead(200), _SUBPLAN_AHEAD)
_BATCHES = {"pg_lookahead.enable_bulk_insert": "on"}


def _values(rows: int) -> Shape:
    """An INSERT of so many rows of VALUES."""
    values = ", ".join(
        f"(:key + {row}, {row}, 'a text of thirty-seven characters....')" for row in range(rows)
    )
    return Shape(
        f"insert-values-{rows}",
        (f"INSERT INTO control_log VALUES {values}", f"{_BY_K} = :key"),
        500,
        (*ROW, *LOG),
        ("Index Scan",),
        _INDEX_SCANS | _BATCHES,
        reset="TRUNCATE control_log",
    )


def _selected(rows: int, kind: str = "", logs: Sequence[str] = LOG) -> Shape:
    """An INSERT of so many rows of a table; `kind` is the end of the target's name."""
    return Shape(
        f"insert-selected{kind.replace('s', '-partitions')}-{rows}",
        (
            f"INSERT INTO control_log{kind} SELECT id, k, pad FROM control_row WHERE id BETWEEN "
            f":key AND :key + {rows - 1}",
        ),
        500,
        (*ROW, *logs),
        ("Index Scan",),
        _INDEX_SCANS | _BATCHES,
        reset=f"TRUNCATE control_log{kind}",
    )


_INSERTS = (
    *(_values(rows) for rows in (1, 10, 100)),
    *(_selected(rows) for rows in (1, 10, 40, 60, 100)),
    *(_selected(rows, "s", _LOGS) for rows in (10, 40)),
)
# With a policy, where a partition is created for a row that has none; here each has one.
_INTERVALS = (
    "CREATE EXTENSION IF NOT EXISTS pg_lookahead",
    "CREATE TABLE control_intervals (id int, k int, pad text) PARTITION BY RANGE (id)",
    "SELECT pg_lookahead_create_range_partitions('control_intervals', 0, 2000, 100)",
    "SELECT pg_lookahead_set_interval('control_intervals', 2000)",
)


def _into_intervals(kind: str, rows: str) -> Shape:
    """An INSERT into partitions of a policy; `kind` is the end of the shape's name."""
    return Shape(
        f"insert-intervals-{kind}",
        (f"INSERT INTO control_intervals {rows}",),
        500,
        (*ROW, *_INTERVALS),
        ("ModifyTable",),
        {"pg_lookahead.enable_interval_creation": "on"},
        reset="TRUNCATE control_intervals",
    )


_INTO_INTERVALS = (
    # At random, and into one partition, as at a moving edge.
    _into_intervals("1", "VALUES (:key, 1, 'a text of thirty-seven characters....')"),
    _into_intervals("edge-1", "VALUES (:key % 2000, 1, 'a text of thirty-seven characters....')"),
    _into_intervals("20", "SELECT :key % 1000 + i, i, 'a text' FROM generate_series(1, 20) AS i"),
)
_COPY = in_function("copy-nothing", "BEGIN COPY control_row FROM '/dev/null'; RETURN wanted; END")
_FUNCTIONS = (
    replace(_COPY, settings=_COPY.settings | _BATCHES),
    in_function(
        "function-lookup",
        "DECLARE found int; BEGIN SELECT k INTO found FROM control_row WHERE id = wanted; "
        "RETURN found; END",
    ),
    in_function(
        "cursor-fetch-20",
        "DECLARE entries CURSOR FOR SELECT id FROM control_row WHERE k >= wanted ORDER BY k; "
        "entry int; BEGIN OPEN entries; FOR number IN 1 .. 20 LOOP FETCH entries INTO entry; "
        "END LOOP; CLOSE entries; RETURN entry; END",
    ),
    in_function(
        "loop-over-50",
        "DECLARE entry record; total bigint := 0; BEGIN FOR entry IN SELECT id FROM control_row "
        "WHERE k BETWEEN wanted AND wanted + 49 LOOP total := total + entry.id; END LOOP; "
        "RETURN total; END",
    ),
)
MORE_CACHED_SHAPES = (
    *_INSERTS,
    *_INTO_INTERVALS,
    *JUDGED_SHAPES,
    *_SCANS,
    *_SUBPLANS,
    *_JOINS_AHEAD,
    *_FUNCTIONS,
)
