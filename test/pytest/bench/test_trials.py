"""Trials of cached data, and the order of samples of a millisecond; without a server."""

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lab.made_trials import make_trial_scenario, make_trials

from lookahead.experiments import trials as lab_trials
from lookahead.experiments.runner import Run
from lookahead.measurements import Arm, Measurements, NodeEvidence, Sample
from lookahead.terminal import Terminal
from lookahead_bench import trials
from lookahead_bench.trials import Trial, Trials, rotate

_EVIDENCE = next(one.evidence for one in make_trials().samples if one.evidence)


@pytest.mark.parametrize("rounds", [3, 6, 12, 60])
def test_rotation_gives_every_arm_every_place(rounds: int) -> None:
    order = [arm for _, arm in rotate(("a", "b", "c"), rounds)]
    assert all(arm != following for arm, following in pairwise(order))
    places = {arm: [n for n, other in enumerate(order) if other == arm] for arm in "abc"}
    assert len({sum(values) for values in places.values()}) == 1
    assert all(len({n % 3 for n in values}) == 3 for values in places.values())


@dataclass(frozen=True)
class _Document:
    """As much of a result as samples need."""

    measurements: Measurements = field(default_factory=Measurements)


class _Timed:
    """A run whose executions take known times, and as much of the session's processor."""

    def __init__(self, times_ms: list[float], workers: int = 0) -> None:
        self.document = _Document()
        self.cpu_ms = 0.0
        self._times_ms = times_ms
        self._workers = workers

    def execute(self, *_call: object) -> tuple[float, NodeEvidence]:
        time_ms = self._times_ms.pop(0)
        self.cpu_ms += time_ms
        return time_ms, replace(_EVIDENCE, workers=self._workers)

    def measure(self, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> Sample:
        session = SimpleNamespace(info=SimpleNamespace(backend_pid=1))
        monkeypatch.setattr(trials, "connect_arm", lambda *_: nullcontext(session))
        for module in (trials, lab_trials):
            monkeypatch.setattr(module, "backend_cpu_ms", lambda _: self.cpu_ms)
        run = SimpleNamespace(device=None, server=None, document=self.document, terminal=Terminal())

        def record(**changes: Any) -> None:
            run.document = replace(run.document, **changes)

        run.record = record
        Trials(cast(Run, run)).measure_all([replace(trial, execute=self.execute)], 1)
        (sample,) = run.document.measurements.samples
        return cast(Sample, sample)


_ALONE = Trial(
    make_trial_scenario("10 %"), "SELECT", (Arm("stock", "off", "", {}),), (), {}, cold=False
)


def test_all_figures_are_of_the_fastest_execution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed = _Timed([2.0, 7.0, 3.0, 5.0])
    sample = timed.measure(replace(_ALONE, executions=3), monkeypatch)
    # The one before them, in which the session meets the caches, does not count.
    assert (sample.executions, sample.time_ms, sample.backend_cpu_ms) == (3, 3.0, 3.0)


@pytest.mark.parametrize(("workers", "elsewhere"), [(2, ()), (0, ("stock",))])
def test_processor_time_of_other_processes_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    elsewhere: tuple[str, ...],
) -> None:
    timed = _Timed([2.0], workers)
    sample = timed.measure(replace(_ALONE, elsewhere=elsewhere), monkeypatch)
    assert (sample.executions, sample.time_ms, sample.backend_cpu_ms) == (1, 2.0, None)
