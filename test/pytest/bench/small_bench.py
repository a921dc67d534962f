"""The bench's command line with a demo so small that it takes seconds.

Run as a program it is the command line itself, in a process of its own that can be interrupted.
"""

import os
from pathlib import Path
from typing import Any

from lab.outcome import Outcome, run_command

from lab import small_run
from lookahead.cli import main
from lookahead.experiments.experiment import Experiment
from lookahead_bench import (
    bulk_insert,
    cached_scan,
    concurrent_scans,
    controls,
    create_partitions,
    extend,
    index_build,
    index_only_scan,
    join_latency,
    joins,
    latency,
    needed_partitions,
    page_layouts,
    partitions,
    range_query,
    select_partitions,
    seq_scan,
    throttled,
    tpch,
)
from lookahead_bench.__main__ import PROGRAM, bench

PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()
CONTROLS = controls.Controls(
    workload=controls.workloads(1280),
    io_method=("sync",),
    repetitions=1,
    page_repetitions=1,
    divisor=1000,
)
LATENCY = latency.LatencyScans(**vars(small_run.SCAN), latency=1000)
JOIN_LATENCY = join_latency.LatencyJoins(
    table_pages=2_000,
    rows=100,
    shape=("key",),
    io_method=("worker",),
    repetitions=1,
    latency=500,
)
THROTTLED = throttled.ThrottledScans(
    table_pages=2_000,
    pages_share=(0.1,),
    # So few requests that their number decides, whatever the machine does meanwhile.
    reads_per_s=200,
    mb_per_s=1000,
    io_method=("worker",),
    repetitions=1,
)

EXTEND = extend.Extensions(
    table_size=1024, extend_size=(512,), sessions=(2,), scale=(1,), repetitions=1
)
CACHED = cached_scan.CachedScans(
    table_pages=2_000, workers=(0, 1), work_mem=(64,), data=cached_scan.TEMPERATURES, repetitions=1
)
QUERY = range_query.RangeQueries(scale=0.01, range=("month",), io_method=("worker",), repetitions=1)
CONCURRENT = concurrent_scans.ConcurrentScans(
    table_pages=2_000, sessions=(1, 3), depth=(64,), io_method=("worker",), repetitions=1
)
LAYOUTS = page_layouts.LayoutScans(
    table_pages=2_000,
    pages_share=(0.5,),
    layout=("periodic", "clustered"),
    io_method=("worker",),
    repetitions=1,
)
SEQ = seq_scan.SeqScans(
    part=seq_scan.PARTS,
    table_size=10 * 1024,
    read_ahead=(),
    own_disk=False,
    latency=0,
    own_read_ahead=(128, 1024),
    scale=1,
    bulk_sizes=("0", "16kB", "1MB"),
    combine_limits=("16kB", "128kB"),
    depths=(0, 16),
    sessions=8,
    seconds=1,
    repetitions=1,
)
JOINS = joins.Joins(
    table_pages=2_000, rows=100, shape=tuple(joins.SHAPES), io_method=("worker",), repetitions=1
)
INDEX_ONLY = index_only_scan.IndexOnlyScans(
    table_pages=2_000, share=(100, 50), io_method=("worker",), repetitions=2
)
BUILD = index_build.IndexBuilds(
    rows=2_000,
    key=("int-sorted", "not-vacuumed", "reindex", "concurrent-text", "pgbench"),
    workers=(0,),
    memory=(64 * 1024,),
    repetitions=2,
)
INSERT = bulk_insert.BulkInserts(
    parts=("flat", "new-table", *bulk_insert.OWN_PARTS),
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
CREATIONS = create_partitions.Creations(
    leaves=(7,),
    indexes=("no-index", "no-toast", "key-and-index"),
    way=("direct", "attached"),
    repetitions=1,
)
SELECTIONS = select_partitions.Selections(
    leaves=(20,),
    shape=tuple(select_partitions.SHAPES),
    indexes=tuple(select_partitions.INDEXES),
    repetitions=1,
)
NEEDS = needed_partitions.Needs(
    parts=needed_partitions.PARTS,
    leaves=(16,),
    rows=2,
    sessions=3,
    intervals=1,
    clients=(2,),
    seconds=1,
    repetitions=1,
)
TPCH = tpch.TpchQueries(repetitions=1, scale=0.01, query=("Q2", "Q22"), latency=0)
DEMOS: tuple[tuple[Experiment[Any], Any], ...] = (
    (controls.EXPERIMENT, CONTROLS),
    (latency.EXPERIMENT, LATENCY),
    (join_latency.EXPERIMENT, JOIN_LATENCY),
    (throttled.EXPERIMENT, THROTTLED),
    (tpch.EXPERIMENT, TPCH),
    (joins.EXPERIMENT, JOINS),
    (index_only_scan.EXPERIMENT, INDEX_ONLY),
    (index_build.EXPERIMENT, BUILD),
    (bulk_insert.EXPERIMENT, INSERT),
    (partitions.EXPERIMENT, PARTITIONS),
    (create_partitions.EXPERIMENT, CREATIONS),
    (select_partitions.EXPERIMENT, SELECTIONS),
    (needed_partitions.EXPERIMENT, NEEDS),
    (extend.EXPERIMENT, EXTEND),
    (cached_scan.EXPERIMENT, CACHED),
    (range_query.EXPERIMENT, QUERY),
    (concurrent_scans.EXPERIMENT, CONCURRENT),
    (page_layouts.EXPERIMENT, LAYOUTS),
    (seq_scan.EXPERIMENT, SEQ),
)


def run_bench(*arguments: str | Path) -> Outcome:
    """Run a command line of the bench."""
    return run_command(*arguments, group=bench, program=PROGRAM)


def child_environment() -> dict[str, str]:
    """That of a Python process that is to import the bench and this module."""
    tests = Path(__file__).resolve().parents[1]
    return {**os.environ, "PYTHONPATH": f"{tests}:{tests.parents[1] / 'bench'}"}


def shrink() -> None:
    """Make `--demo` small in this process."""
    for experiment, wanted in DEMOS:
        experiment.sizes["demo"] = wanted
    # What a busy machine manages too: the experiment is tested, not the machine.
    latency.MIN_READS_AT_ONCE = 2


if __name__ == "__main__":
    shrink()
    main(bench, PROGRAM)
