"""The experiments of the bench, so small that they take seconds."""

import pytest

from bench import small_bench
from lookahead_bench import controls, latency, throttled


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """See `small_bench.shrink`."""
    monkeypatch.setitem(controls.EXPERIMENT.sizes, "demo", small_bench.CONTROLS)
    monkeypatch.setitem(latency.EXPERIMENT.sizes, "demo", small_bench.LATENCY)
    monkeypatch.setitem(throttled.EXPERIMENT.sizes, "demo", small_bench.THROTTLED)
    monkeypatch.setattr(latency, "MIN_READS_AT_ONCE", 2)
