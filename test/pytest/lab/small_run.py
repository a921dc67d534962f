"""`lookahead` with a demo so small that it takes seconds: for tests of whole commands.

Run as a program it is the command line itself, in a process of its own that can be interrupted.
"""

from lookahead.cli import main
from lookahead.experiments import (
    bitmap_scan,
    bulk_insert,
    bulk_insert_cases,
    index_build,
    index_scan,
)

SCAN = index_scan.IndexScans(
    table_pages=2_000,
    pages=(300,),
    limit=(),
    share=(),
    io_method=("worker",),
    repetitions=2,
)
BUILD = index_build.IndexBuilds(
    rows=2_000,
    key=("int-sorted", "uuid"),
    workers=(0,),
    memory=(64 * 1024,),
    repetitions=2,
)
INSERT = bulk_insert.BulkInserts(
    parts=bulk_insert_cases.PARTS,
    table_size=8 * 1024,  # the first 4 MB are core's
    repetitions=1,
)
BITMAP = bitmap_scan.BitmapScans(
    table_pages=2_000,
    pages_share=(0.75,),  # more pages than a bitmap of 64 kB has room for
    work_mem=(64,),
    plan=bitmap_scan.PLANS,
    setting=(0, 64),
    io_method=("worker",),
    repetitions=1,
)


def shrink() -> None:
    """Make `--demo` small in this process."""
    index_scan.EXPERIMENT.sizes["demo"] = SCAN
    index_build.EXPERIMENT.sizes["demo"] = BUILD
    bulk_insert.EXPERIMENT.sizes["demo"] = INSERT
    bitmap_scan.EXPERIMENT.sizes["demo"] = BITMAP


if __name__ == "__main__":
    shrink()
    main()
