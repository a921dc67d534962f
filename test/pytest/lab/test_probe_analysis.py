"""Knees, intervals and the gap limit of a probe, from made samples whose answers are known."""

from io import StringIO

import pytest

from lab.made_probe import made_round, made_sample
from lookahead.device.probe.analysis import gap_limit, summarize
from lookahead.device.probe.fio import random_reads
from lookahead.report.probe_page import probe_tables
from lookahead.terminal import Terminal


def test_knees_of_a_device_without_noise() -> None:
    summary = summarize([made_round(number, lambda _: 1.0) for number in range(3)], seed=1)
    depth, size = summary.curves
    assert (depth.knee.low, depth.knee.value, depth.knee.high) == (8, 8, 8)
    assert (size.knee.low, size.knee.value, size.knee.high) == (16, 16, 16)
    assert summary.latency_us.value == pytest.approx(100)
    assert summary.bandwidth_mb.value == pytest.approx(1000, rel=1e-3)
    # 1e9 / 80,000 / 8192 = 1.53 blocks are transferred in the time of a request.
    assert summary.gap_limit.value == 1
    assert summary.rounds == 3


def test_a_slow_round_widens_the_intervals_only() -> None:
    rounds = [made_round(number, lambda n: 0.5 if n == 4 else 1.0) for number in range(9)]
    summary = summarize(rounds, seed=1)
    depths = summary.curves[0]
    best = depths.points[-1].figure
    assert best.value == pytest.approx(80_000)
    assert best.low <= best.value <= best.high
    assert depths.knee.value == 8


def test_noise_shows_in_the_interval_of_the_knee() -> None:
    """Depth 4 and 8 are both good enough in some rounds."""
    rounds = []
    for number in range(9):
        samples = made_round(number, lambda _: 1.0)
        rate = 79_000.0 if number % 2 else 60_000.0
        changed = [
            made_sample(random_reads(4), number, rate)
            if sample.kind == "random" and sample.depth == 4
            else sample
            for sample in samples
        ]
        rounds.append(changed)
    knee = summarize(rounds, seed=1).curves[0].knee
    assert (knee.low, knee.high) == (4, 8)


@pytest.mark.parametrize(
    ("iops", "bandwidth_mb", "limit"),
    [
        (3_000, 125, 5),  # a cloud volume: 5.09 blocks in the time of a request
        (80_000, 1_500, 2),
        (10_000, 81.92, 0),  # exactly one block: bridging it gains nothing
        (10_000, 81.93, 1),
        (100, 200, 244),  # a disk that turns
        (50, 500, 256),
        (1e6, 100, 0),
    ],
)
def test_gap_limit(iops: float, bandwidth_mb: float, limit: int) -> None:
    assert gap_limit(iops, bandwidth_mb) == limit
    if 0 < limit < 256:
        assert limit * 8192 / (bandwidth_mb * 1e6) < 1 / iops
        assert (limit + 1) * 8192 / (bandwidth_mb * 1e6) >= 1 / iops


def test_the_tables_have_figures_knees_and_intervals() -> None:
    rounds = [made_round(number, lambda n: 0.9 + n / 10) for number in range(3)]
    worked_out, depths, *_ = probe_tables(summarize(rounds, seed=1))
    assert ("8", "80,000 [72,000, 88,000]") in depths.rows
    assert ("knee of random reads", "depth 8") in worked_out.rows
    # As good in every round.
    assert ("gap limit, by IOPS and bandwidth", "1 blocks") in worked_out.rows
    assert worked_out.caption.startswith("Medians over 3 rounds with bootstrap intervals of 95 %.")
    shown = StringIO()
    Terminal(shown, width=80).tables(probe_tables(summarize(rounds, seed=1)))
    assert max(map(len, shown.getvalue().splitlines())) <= 80
    assert "80,000 [72,000, 88,000]" in shown.getvalue()


def test_one_round_has_no_intervals() -> None:
    tables = probe_tables(summarize([made_round(0, lambda _: 1.0)], seed=1))
    assert not any("[" in cell for table in tables for row in table.rows for cell in row)
    assert tables[0].caption.startswith("One round: no intervals.")
