"""`lookahead` with a demo so small that it takes seconds: for tests of whole commands.

Run as a program it is the command line itself, in a process of its own that can be interrupted.
"""

from lookahead.cli import main
from lookahead.experiments import (
    bitmap_scan,
    bulk_insert,
    bulk_insert_cases,
    cached_scan,
    concurrent_scans,
    create_partitions,
    extend,
    index_build,
    index_scan,
    partitions,
    range_query,
    seq_scan,
)

SCAN = index_scan.IndexScans(
    table_pages=2_000,
    pages=(300,),
    limit=(),
    share=(),
    io_method=("worker",),
    read_ahead=(),
    repetitions=2,
)
BUILD = index_build.IndexBuilds(
    rows=2_000,
    key=("int-sorted", "not-vacuumed"),
    workers=(0,),
    memory=(64 * 1024,),
    extend_size=(4096,),
    repetitions=2,
)
INSERT = bulk_insert.BulkInserts(
    parts=bulk_insert_cases.PARTS,
    table_size=8 * 1024,  # the first 4 MB are core's
    columns=(3,),
    sessions=(1, 2),
    repetitions=1,
)
PARTITIONS = partitions.Partitions(
    parts=partitions.PARTS,
    leaves=(3,),
    table_size=1024,
    clients=(2,),
    seconds=1,
    repetitions=1,
)
EXTEND = extend.Extensions(
    table_size=1024, extend_size=(512,), sessions=(2,), scale=(1,), repetitions=1
)
BITMAP = bitmap_scan.BitmapScans(
    table_pages=2_000,
    pages_share=(0.75,),  # more pages than a bitmap of 64 kB has room for
    layout=("uniform",),
    work_mem=(64,),
    plan=bitmap_scan.PLANS,
    setting=(0, 64),
    io_method=("worker",),
    read_ahead=(),
    repetitions=1,
)
CACHED = cached_scan.CachedScans(
    table_pages=2_000, workers=(0, 1), work_mem=(64,), data=cached_scan.TEMPERATURES, repetitions=1
)
QUERY = range_query.RangeQueries(scale=0.01, range=("month",), io_method=("worker",), repetitions=1)
CREATIONS = create_partitions.Creations(
    leaves=(7,), indexes=("no-index", "key-and-index"), way=("direct", "planted"), repetitions=1
)
CONCURRENT = concurrent_scans.ConcurrentScans(
    table_pages=2_000, sessions=(1, 3), depth=(64,), io_method=("worker",), repetitions=1
)
SEQ = seq_scan.SeqScans(
    part=seq_scan.PARTS,
    table_size=10 * 1024,
    read_ahead=(),
    own_disk=False,
    own_read_ahead=(128, 1024),
    scale=1,
    bulk_sizes=("0", "16kB", "1MB"),
    combine_limits=("16kB", "128kB"),
    depths=(0, 16),
    sessions=8,
    seconds=1,
    repetitions=1,
)


def shrink() -> None:
    """Make `--demo` small in this process."""
    index_scan.EXPERIMENT.sizes["demo"] = SCAN
    index_build.EXPERIMENT.sizes["demo"] = BUILD
    bulk_insert.EXPERIMENT.sizes["demo"] = INSERT
    partitions.EXPERIMENT.sizes["demo"] = PARTITIONS
    create_partitions.EXPERIMENT.sizes["demo"] = CREATIONS
    extend.EXPERIMENT.sizes["demo"] = EXTEND
    bitmap_scan.EXPERIMENT.sizes["demo"] = BITMAP
    cached_scan.EXPERIMENT.sizes["demo"] = CACHED
    range_query.EXPERIMENT.sizes["demo"] = QUERY
    concurrent_scans.EXPERIMENT.sizes["demo"] = CONCURRENT
    seq_scan.EXPERIMENT.sizes["demo"] = SEQ


if __name__ == "__main__":
    shrink()
    main()
