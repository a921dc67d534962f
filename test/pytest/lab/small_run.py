"""`lookahead` with a demo so small that it takes seconds: for tests of whole commands.

Run as a program it is the command line itself, in a process of its own that can be interrupted.
"""

from lookahead.cli import main
from lookahead.experiments import (
    bitmap_scan,
    cached_scan,
    concurrent_scans,
    controls,
    index_build,
    range_query,
    scan_statements,
    seq_scan,
)

SCAN = scan_statements.SizeDefaults(
    table_pages=2_000,
    patterns=scan_statements.Patterns(pages=(300,), limits=(), shares_percent=()),
    io_methods=("worker",),
    rounds=2,
)
CONTROLS = controls.SizeDefaults(
    rounds=1, page_rounds=1, max_pages=1280, divisor=1000, io_methods=("sync",)
)
BUILD = index_build.SizeDefaults(
    rows=2_000,
    keys=("int-sorted", "not-vacuumed"),
    workers=(0,),
    memories_mb=(64,),
    extends_kb=(4096,),
    rounds=2,
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
    scan_statements.DEFAULTS["demo"] = SCAN
    index_build.DEFAULTS["demo"] = BUILD
    controls.DEFAULTS["demo"] = CONTROLS
    bitmap_scan.EXPERIMENT.sizes["demo"] = BITMAP
    cached_scan.EXPERIMENT.sizes["demo"] = CACHED
    range_query.EXPERIMENT.sizes["demo"] = QUERY
    concurrent_scans.EXPERIMENT.sizes["demo"] = CONCURRENT
    seq_scan.EXPERIMENT.sizes["demo"] = SEQ


if __name__ == "__main__":
    shrink()
    main()
