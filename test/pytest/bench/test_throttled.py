"""Whole runs of the experiment "throttled"."""

from pathlib import Path

import pytest
from lab.outcome import Outcome

from bench.small_bench import PG_CONFIG, run_bench
from lookahead.comparisons import compare
from lookahead.device.block_device import find_block_device
from lookahead.errors import ExitStatus, LabError, UnavailableError
from lookahead.results import read_result
from lookahead_bench.throttle import Throttle

pytestmark = [pytest.mark.end_to_end, pytest.mark.usefixtures("small")]


def _run(disk: Path, output: Path) -> Outcome:
    place = ("--directory", disk, "--output", output, *PG_CONFIG)
    return run_bench("run", "throttled", "--demo", *place)


def test_the_number_of_requests_decides(tmp_path: Path, disk: Path) -> None:
    device = find_block_device(disk)
    if device is None:
        pytest.skip("no block device is visible")
    try:
        with Throttle(device, 3000, 125_000_000):
            pass
    except LabError as error:
        pytest.skip(error.message)
    outcome = _run(disk, tmp_path)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    document = read_result(path)
    assert (document.experiment, document.status) == ("throttled", "complete")
    data = document.measurements
    assert data.comparisons == compare(data, document.parameters.seed)
    assert path.with_suffix(".html").exists()
    by_arm = {one.arm: one for one in data.samples}
    stock, ours = by_arm["bitmap, default"], by_arm["ours"]
    assert stock.evidence is not None and ours.evidence is not None
    assert stock.time_ms > 1000 * stock.evidence.rows / 200 / 2
    assert ours.evidence.lookahead.status == "prefetch"
    (optimum,) = (one for one in data.samples if one.arm.startswith("optimum, gap limit "))
    assert optimum.time_ms < stock.time_ms
    assert list(disk.iterdir()) == []


def test_where_it_is_not_permitted(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Throttle) -> Throttle:
        raise UnavailableError("the disk cannot be throttled: no", "Elsewhere.")

    monkeypatch.setattr(Throttle, "__enter__", refuse)
    outcome = _run(disk, tmp_path)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "error: the disk cannot be throttled: no" in outcome.stderr
    assert list(tmp_path.iterdir()) == []
    assert list(disk.iterdir()) == []
