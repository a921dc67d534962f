"""The statements that must not become slower: tables, SQL, executions per sample. Pure text.

First those in shared buffers. Then those whose tables are not: all rows, in orders that visit pages
again.
"""

from dataclasses import replace

from lookahead_bench.control_shape import (
    ACCOUNTS,
    BANK,
    CHILD,
    INDEX_SCANS,
    KEYS,
    LOG,
    PAGE_ROWS,
    QUEUE,
    ROW,
    SMALL,
    SMALL_ROWS,
    STEP,
    Shape,
    State,
    page_table,
    partitions,
)

_NESTED_LOOPS = {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_memoize": "off"}
_LOOKUP = "SELECT id, k, pad FROM control_row WHERE id = :key"
_BY_K = "SELECT id, k, pad FROM control_row WHERE k"


def _range(rows: int, executions: int) -> Shape:
    statement = f"{_BY_K} BETWEEN :key AND :key + {rows - 1}"
    return Shape(f"range-{rows}", (statement,), executions, ROW, ("Index Scan",), INDEX_SCANS)


def _limit(rows: int, executions: int) -> Shape:
    statement = f"{_BY_K} >= :key ORDER BY k LIMIT {rows}"
    return Shape(f"limit-{rows}", (statement,), executions, ROW, ("Index Scan",), INDEX_SCANS)


def _index_only(rows: int, executions: int, name: str) -> Shape:
    """`rows` keys from the lower half, so that there are as many above each first one."""
    first = f"(:key % {KEYS - 100_000})"
    statement = f"SELECT count(k) FROM control_row WHERE k BETWEEN {first} AND {first} + {rows - 1}"
    return Shape(name, (statement,), executions, ROW, ("Index Only Scan",), INDEX_SCANS)


def _nested_loop(rows: int, executions: int) -> Shape:
    statement = (
        f"SELECT count(pad) FROM generate_series(1, {rows}) AS number JOIN control_row "
        f"ON id = (number * {STEP} + :key) % {KEYS}"
    )
    return Shape(
        f"nested-loop-{rows}", (statement,), executions, ROW, ("Index Scan",), _NESTED_LOOPS
    )


def _partitioned(count: int, executions: int) -> Shape:
    statement = f"SELECT id FROM control_part_{count} WHERE k = :key"
    return Shape(
        f"partitions-{count}",
        (statement,),
        executions,
        partitions(count),
        ("Append", "Index Scan"),
        INDEX_SCANS,
    )


_SMALL_STATEMENTS = (
    Shape("point-lookup", (_LOOKUP,), 4000, ROW, ("Index Scan",)),
    Shape(
        "lookup-join-small",
        (
            "SELECT r.id, s.label FROM control_row r JOIN control_small s "
            f"ON s.id = r.k % {SMALL_ROWS} WHERE r.id = :key",
        ),
        1000,
        (*ROW, *SMALL),
        ("Index Scan", "Seq Scan"),
        _NESTED_LOOPS,
    ),
    Shape(
        "small-join-lookup",
        (
            "SELECT s.label, r.pad FROM control_small s JOIN control_row r "
            f"ON r.id = (:key + s.id * {STEP}) % {KEYS}",
        ),
        400,
        (*ROW, *SMALL),
        ("Index Scan", "Seq Scan"),
        _NESTED_LOOPS,
    ),
    Shape(
        "lookup-then-small",
        (_LOOKUP, "SELECT count(label) FROM control_small"),
        1000,
        (*ROW, *SMALL),
        ("Index Scan", "Seq Scan"),
    ),
    _range(4, 2000),
    _range(10, 1500),
    _range(50, 500),
    _limit(1, 3000),
    _limit(10, 1500),
    _limit(100, 300),
    Shape(
        "bitmap-10",
        (f"{_BY_K} BETWEEN :key AND :key + 9",),
        1500,
        ROW,
        ("Bitmap Heap Scan",),
        {"enable_seqscan": "off", "enable_indexscan": "off"},
    ),
    _index_only(100, 1000, "index-only-100"),
    _index_only(500, 300, "index-only-500"),
    _nested_loop(10, 1000),
)
_JOINS = (
    Shape(
        "join-3",
        (
            "SELECT count(*) FROM control_row a JOIN control_row b ON b.id = a.k "
            f"JOIN control_small s ON s.id = b.k % {SMALL_ROWS} WHERE a.id = :key",
        ),
        800,
        (*ROW, *SMALL),
        ("Index Scan", "Seq Scan"),
        _NESTED_LOOPS,
    ),
    Shape(
        "join-6",
        (
            "SELECT count(*) FROM control_row a JOIN control_row b ON b.id = a.k "
            "JOIN control_row c ON c.id = b.k JOIN control_account d "
            f"ON d.id = c.k % {ACCOUNTS} JOIN control_small s ON s.id = c.k % {SMALL_ROWS} "
            f"JOIN control_small t ON t.id = b.k % {SMALL_ROWS} WHERE a.id = :key",
        ),
        400,
        (*ROW, *SMALL, *BANK),
        ("Index Scan", "Seq Scan"),
        _NESTED_LOOPS,
    ),
    Shape(
        "exists",
        (
            "SELECT r.id FROM control_row r WHERE r.id = :key "
            "AND EXISTS (SELECT FROM control_row s WHERE s.k = r.k)",
        ),
        2000,
        ROW,
        ("Index Scan",),
        _NESTED_LOOPS,
    ),
    Shape(
        "merge-join-1000",
        (
            "SELECT count(a.pad) FROM control_row a JOIN control_row b ON b.k = a.id "
            "WHERE a.id BETWEEN :key AND :key + 999",
        ),
        2,
        ROW,
        ("Merge Join", "Index Scan"),
        {**INDEX_SCANS, "enable_hashjoin": "off", "enable_nestloop": "off", "enable_sort": "off"},
    ),
)
_WRITES = (
    Shape(
        "tpcb",
        (
            f"UPDATE control_account SET value = value + 1 WHERE id = :key % {ACCOUNTS}",
            f"SELECT value FROM control_account WHERE id = :key % {ACCOUNTS}",
            "UPDATE control_teller SET value = value + 1 WHERE id = :key % 100",
            "UPDATE control_branch SET value = value + 1 WHERE id = :key % 10",
            "INSERT INTO control_history VALUES (:key, :key % 100, :key % 10, now())",
        ),
        500,
        BANK,
        ("Index Scan",),
        reset="TRUNCATE control_history",
        commits=True,
    ),
    Shape(
        "insert-select",
        (
            "INSERT INTO control_log SELECT id, k, pad FROM control_row WHERE id BETWEEN :key "
            "AND :key + 9",
            _LOOKUP,
        ),
        500,
        (*ROW, *LOG),
        ("Index Scan",),
        INDEX_SCANS,
        reset="TRUNCATE control_log",
    ),
    Shape(
        "update-by-key",
        (f"UPDATE control_account SET value = value + 1 WHERE id = :key % {ACCOUNTS}",),
        1000,
        BANK,
        ("Index Scan",),
    ),
    Shape(
        "delete-by-key",
        (
            "DELETE FROM control_queue WHERE id = :key",
            "INSERT INTO control_queue VALUES (:key, 'x')",
        ),
        800,
        QUEUE,
        ("Index Scan",),
        reset="VACUUM control_queue",
    ),
    Shape(
        "fk-insert",
        ("INSERT INTO control_child VALUES (:key, 0)",),
        800,
        (*ROW, *CHILD),
        reset="TRUNCATE control_child",
    ),
)
_PARALLEL = Shape(
    "parallel",
    ("SELECT count(pad) FROM control_account WHERE value >= 0",),
    3,
    BANK,
    ("Gather", "Seq Scan"),
    {
        "max_parallel_workers_per_gather": "2",
        "parallel_setup_cost": "0",
        "parallel_tuple_cost": "0",
        "min_parallel_table_scan_size": "0",
    },
)
_WIDE = (
    _partitioned(50, 200),
    _partitioned(1000, 6),
    Shape(
        "partitions-pruned",
        ("SELECT k FROM control_part_1000 WHERE id = :key",),
        100,
        partitions(1000),
        ("Append", "Index Scan"),
        INDEX_SCANS,
    ),
    _PARALLEL,
    Shape("connect", (), 10, ()),
)
_LONG = (
    _index_only(100_000, 2, "index-only-100k"),
    _nested_loop(20_000, 1),
    Shape(
        "scan-100k",
        (
            "SELECT count(pad) FROM control_row WHERE k BETWEEN :key % 100000 "
            "AND :key % 100000 + 99999",
        ),
        1,
        ROW,
        ("Index Scan",),
        INDEX_SCANS,
    ),
)
_PRELOADED = (
    replace(_PARALLEL, name="parallel-preloaded", executions=400, preloaded=True),
    Shape("connect-preloaded", (), 1000, (), preloaded=True),
)
CACHED_SHAPES = (*_SMALL_STATEMENTS, *_JOINS, *_WRITES, *_WIDE, *_LONG, *_PRELOADED)


def _page_shape(state: State, pages: int, stride: int | None) -> Shape:
    """All rows of a table of so many pages, by an index in random order or by a stride.

    The scan goes over every stride-th page and back, once for each row of a page, and then begins
    one page further on: bursts of pages / stride new pages, which are visited again PAGE_ROWS - 1
    times. A stride of 1 is the order of the table.
    """
    table = f"control_page_{pages}"
    if stride is None:
        order, name = "k", "random"
    else:
        order, name = f"(id % {stride * PAGE_ROWS}), id", f"stride-{stride}"
    place = "os" if state == "os-cached" else "cold"
    return Shape(
        f"{place}-{name}-{pages * 8 // 1024}mb",
        (f"SELECT count(pad) FROM (SELECT pad FROM {table} ORDER BY {order}) AS ordered",),
        1,
        (
            *page_table(table, pages),
            f"CREATE INDEX {table}_{name.replace('-', '_')} ON {table} ({order})",
        ),
        ("Index Scan",),
        {**INDEX_SCANS, "enable_sort": "off"},
        state=state,
        pages=pages,
    )


def _page_loop(scan: Shape) -> Shape:
    """The rows of such a scan, asked for a few at a time by a loop in PL/pgSQL."""
    name = scan.name.replace("-random-", "-loop-")
    function = f"control_{name.replace('-', '_')}_of"
    query = scan.statements[0].removeprefix("SELECT count(pad) FROM (").removesuffix(") AS ordered")
    return replace(
        scan,
        name=name,
        statements=(f"SELECT {function}(:key)",),
        setup=(
            *scan.setup,
            f"CREATE FUNCTION {function}(wanted int) RETURNS bigint LANGUAGE plpgsql AS $function$ "
            "DECLARE found_row record; rows bigint := 0; BEGIN "
            f"FOR found_row IN {query} LOOP rows := rows + length(found_row.pad); END LOOP; "
            "RETURN rows; END $function$",
        ),
        nodes=("Result",),
    )


# Of 10, 32 and 192 MB, all of which fit into the shared buffers that are empty at first.
_OS_CACHED_PAGES, _COLD_PAGES = (1280, 4096, 24_576), 4096
_OS_CACHED_STRIDES = (None, 1, 27)
# From long bursts of new pages with long rests between to short ones with short rests.
_COLD_STRIDES = (None, 1, 3, 9, 27, 81, 243)
PAGE_SHAPES = (
    *(
        _page_shape("os-cached", pages, stride)
        for pages in _OS_CACHED_PAGES
        for stride in _OS_CACHED_STRIDES
    ),
    *(_page_shape("cold", _COLD_PAGES, stride) for stride in _COLD_STRIDES),
    _page_loop(_page_shape("cold", _COLD_PAGES, None)),
)
SHAPES = (*CACHED_SHAPES, *PAGE_SHAPES)
