"""Which shapes are counted, and how many instructions each may cost with the library."""

from lookahead_bench.control_shapes import CACHED_SHAPES
from lookahead_bench.control_shapes_more import MORE_CACHED_SHAPES

# Of the instructions without the library.
_LIMIT = 1.03
# Scans of many entries: one test per entry weighs more there.
_ENTRY_LIMIT = 1.05
_OF_ENTRIES = (
    "range-4",
    "range-10",
    "range-50",
    "index-only-100",
    "index-only-500",
    "index-only-100k",
    "merge-join-100",
)
# A COPY is judged, and its table opened, before the first of its rows.
_NO_ROWS = {"copy-nothing": 1.05}
# Core's parser takes more for a plain line: 0.31 as measured; 0.71 where all are core's.
_LINES = {"copy-500": 0.4, "copy-quoted-500": 0.8}
# Nothing is found out about a join until it wakes: 1.008 and 1.001 as measured. Of a single row,
# for which three nodes are attached to, that is 1.027.
_JOINS = {"join-ahead-10": 1.02, "join-ahead-200": 1.02}
# Each of 60 types is looked up, and noted in the plan, which depends on it: 1.035 as measured.
_DOMAINS = {"insert-domains-60": 1.04}
# A row is looked at before core routes it: 1.035 as measured, of which 1.020 is what the library
# costs any such statement.
_INTERVALS = {"insert-intervals-edge-1": 1.04}
# A single-user server has no parallel workers and no connections; of the others there are shorter
# ones that say the same.
_NOT_COUNTED = ("parallel", "connect", "nested-loop-20000", "scan-100k", "merge-join-1000")

SHAPES = {
    shape.name: shape
    for shape in (*CACHED_SHAPES, *MORE_CACHED_SHAPES)
    if shape.name not in _NOT_COUNTED and not shape.preloaded
}
LIMITS = (
    dict.fromkeys(SHAPES, _LIMIT)
    | dict.fromkeys(_OF_ENTRIES, _ENTRY_LIMIT)
    | _NO_ROWS
    | _LINES
    | _JOINS
    | _DOMAINS
    | _INTERVALS
)
