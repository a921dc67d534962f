"""The experiments of `lookahead run`, in the order in which `make bench` runs them."""

from typing import Any

from lookahead.experiments import (
    bitmap_scan,
    cached_scan,
    concurrent_scans,
    index_build,
    index_scan,
    range_query,
    seq_scan,
)
from lookahead.experiments.experiment import Experiment

EXPERIMENTS: tuple[Experiment[Any], ...] = (
    index_scan.EXPERIMENT,
    index_build.EXPERIMENT,
    bitmap_scan.EXPERIMENT,
    seq_scan.EXPERIMENT,
    cached_scan.EXPERIMENT,
    range_query.EXPERIMENT,
    concurrent_scans.EXPERIMENT,
)
# Names of articles whose experiments are not there yet, and why.
COMING = {"article-3": "the chapter of the third article comes with look-ahead for writes"}
