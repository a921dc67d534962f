"""`lookahead compare`: two results of one experiment, and pairs that do not belong together."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.conftest import compared
from lab.outcome import Outcome, run_command
from lookahead.contrasts import arm_contrasts, gain_contrasts
from lookahead.device.probe.probe_data import ProbeDocument
from lookahead.errors import ExitStatus
from lookahead.results import ResultDocument, encode
from lookahead.stats import ratio_between, ratio_of_medians

Change = Callable[[ResultDocument], ResultDocument]


@pytest.fixture
def compare_with(document: ResultDocument, tmp_path: Path) -> Callable[..., Outcome]:
    """Compares the made result with a changed one."""

    def run(change: Change, *options: str) -> Outcome:
        first, second = tmp_path / "first.json", tmp_path / "second.json"
        first.write_text(encode(document))
        second.write_text(encode(change(document)))
        return run_command("compare", first, second, *options)

    return run


def _timed(document: ResultDocument, factors: dict[str, float]) -> ResultDocument:
    """The result with the times of these arms multiplied."""
    data = document.measurements
    samples = tuple(
        replace(one, time_ms=one.time_ms * factors.get(one.arm, 1.0)) for one in data.samples
    )
    return replace(document, measurements=compared(replace(data, samples=samples)))


def _of_other_library(document: ResultDocument) -> ResultDocument:
    software = replace(
        document.software, library_sha256="cd" * 32, server_source="/a/very/long/path"
    )
    return replace(document, software=software)


def test_the_same_result_has_not_changed(compare_with: Callable[..., Outcome]) -> None:
    outcome = compare_with(lambda one: one)
    assert outcome.status is ExitStatus.SUCCESS
    assert outcome.stderr == "note: both results are of the same library\n"
    assert " 1.00 " in outcome.stdout
    assert "faster " not in outcome.stdout.replace("times faster", "")


def test_arms_and_gains(document: ResultDocument) -> None:
    changed = _timed(document, {"ours": 0.25})
    both = (document.measurements, changed.measurements)
    times = arm_contrasts(*both, seed=1)
    assert {one.name for one in times} == {one.arm for one in document.measurements.samples}
    for one in times:
        assert one.first / one.second == pytest.approx(4 if one.name == "ours" else 1)
        assert one.estimate.ratio == pytest.approx(one.first / one.second)
        assert (one.estimate.verdict == "faster") == (one.name == "ours")
    gains = gain_contrasts(*both, seed=1)
    assert len(gains) == len(document.measurements.comparisons) > 0
    for one in gains:
        assert one.second / one.first == pytest.approx(4)
        assert one.estimate.ratio == pytest.approx(4)
        assert one.estimate.verdict == "faster"


def test_a_slower_machine_shows_in_stocks_arm_and_not_in_the_gain(
    document: ResultDocument,
) -> None:
    slow = _timed(document, {arm.name: 4.0 for arm in document.measurements.arms})
    both = (document.measurements, slow.measurements)
    assert {one.estimate.verdict for one in arm_contrasts(*both, seed=1)} == {"slower"}
    for one in gain_contrasts(*both, seed=1):
        assert one.estimate.ratio == pytest.approx(1)
        assert one.estimate.low <= 1 <= one.estimate.high


def test_what_may_differ_is_said(
    compare_with: Callable[..., Outcome], document: ResultDocument
) -> None:
    outcome = compare_with(
        lambda one: replace(_of_other_library(one), status="incomplete", ending="interrupted")
    )
    assert outcome.status is ExitStatus.SUCCESS
    assert outcome.stderr.splitlines() == [
        f"note: server: {document.software.server_source} / /a/very/long/path",
        "note: library: abababababab / cdcdcdcdcdcd",
        "note: the second result is incomplete (interrupted)",
    ]


def _with_values(document: ResultDocument, values: dict[str, Any]) -> ResultDocument:
    return replace(document, parameters=replace(document.parameters, values=values))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda one: replace(one, experiment="index-build"),
            "experiment: index-scan / index-build",
        ),
        (
            lambda one: _with_values(one, {**one.parameters.values, "pages": (1_000,)}),
            "--pages: 1000,10000 / 1000",
        ),
        (lambda one: replace(one, settings={"jit": "off"}), "setting shared_buffers: 256MB / not"),
        (
            lambda one: replace(one, software=replace(one.software, server_version="18.7")),
            "PostgreSQL: 18.6 / 18.7",
        ),
        (lambda one: replace(one, machine=replace(one.machine, cpus=64)), "cpus: 2 / 64"),
        (
            lambda one: replace(
                one, machine=replace(one.machine, device=replace(one.machine.device, disk="sdb"))
            ),
            "device's disk: sda / sdb",
        ),
        (
            lambda one: replace(
                one,
                measurements=replace(
                    one.measurements,
                    tables=tuple(replace(table, rows=5) for table in one.measurements.tables),
                ),
            ),
            " / 5",
        ),
    ],
)
def test_what_is_not_comparable(
    compare_with: Callable[..., Outcome], change: Change, reason: str
) -> None:
    outcome = compare_with(change)
    assert outcome.status is ExitStatus.NOT_COMPARABLE
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("error: not comparable: ")
    assert reason in outcome.stderr
    assert "hint: Repeat one of the runs" in outcome.stderr


def test_results_without_a_common_arm(compare_with: Callable[..., Outcome]) -> None:
    outcome = compare_with(
        lambda one: replace(one, measurements=replace(one.measurements, samples=()))
    )
    assert outcome.status is ExitStatus.NOT_COMPARABLE
    assert "no arm was measured in both" in outcome.stderr


def test_a_folder_is_no_result(document: ResultDocument, tmp_path: Path) -> None:
    path = tmp_path / "first.json"
    path.write_text(encode(document))
    outcome = run_command("compare", path, tmp_path)
    assert outcome.status is ExitStatus.BAD_FILE


def test_a_probe_is_no_result_to_compare(probe: ProbeDocument, tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    path.write_text(encode(probe))
    outcome = run_command("compare", path, path)
    assert outcome.status is ExitStatus.BAD_FILE
    assert "hint: Name a .json file that `lookahead run` has written" in outcome.stderr


def test_markdown(compare_with: Callable[..., Outcome]) -> None:
    lines = compare_with(_of_other_library, "--markdown").stdout.splitlines()
    assert lines[0] == "**Times**"
    assert "**Gains**" in lines


def test_two_runs_are_drawn_apart() -> None:
    # Of one run a slow round hits both members of a pair; those of two runs know nothing of each
    # other, so that the interval is wider.
    times = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]
    paired = ratio_of_medians(times, times, seed=1)
    apart = ratio_between([(1.0, one) for one in times], [(1.0, one) for one in times], seed=1)
    assert (paired.low, paired.high) == (1.0, 1.0)
    assert apart.low < 0.9 and apart.high > 1.1
    assert (apart.ratio, apart.pairs) == (1.0, 6)
    fewer = ratio_between([(1.0, 1.0)] * 6, [(1.0, 1.0)] * 5, seed=1)
    assert (fewer.pairs, fewer.verdict) == (5, "too few pairs")
