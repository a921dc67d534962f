"""Controls whose tables are not in shared buffers: all rows, in orders that visit pages again."""

from dataclasses import replace

from lookahead.experiments.control_shape import INDEX_SCANS, Shape, State
from lookahead.experiments.control_tables import PAGE_ROWS, page_table


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
