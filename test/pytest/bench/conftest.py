"""The experiments of the bench, so small that they take seconds."""

import pytest

from bench import small_bench
from lookahead_bench import latency


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """See `small_bench.shrink`."""
    for experiment, wanted in small_bench.DEMOS:
        monkeypatch.setitem(experiment.sizes, "demo", wanted)
    monkeypatch.setattr(latency, "MIN_READS_AT_ONCE", 2)
