"""The experiment "needed-partitions": what is compared, what is no sample, and a whole run."""

from pathlib import Path
from typing import Any, cast

import pytest

from bench import small_bench
from bench.small_bench import PG_CONFIG, run_bench
from lookahead.errors import ExitStatus, LabError
from lookahead.results import read_result
from lookahead.server import Session
from lookahead_bench import needed_partitions
from lookahead_bench.needed_partitions import quantile, trials_of

_WANTED = small_bench.NEEDS


class _Answering:
    """A session that finds these partitions, and so many rows in them."""

    def __init__(self, made: list[str], rows: int) -> None:
        self._made, self._rows = made, rows

    def execute(self, *_: object, **__: object) -> "_Answering":
        return self

    def fetchone(self) -> tuple[int]:
        return (self._rows,)

    def fetchall(self) -> list[tuple[str]]:
        return [(name,) for name in self._made]


def _drop_made(made: list[str], rows: int, *wanted: int) -> None:
    """What is left of a run on this session."""
    part = object.__new__(needed_partitions._Needed)
    changed: Any = part
    changed._connection, changed._edge = cast(Session, _Answering(made, rows)), 80_000
    part._drop_made(*wanted)


@pytest.mark.parametrize(
    ("made", "rows", "wanted"), [(["a"], 2, (2,)), (["a", "b"], 1, (2,)), (["a"], 5, (1, 6))]
)
def test_missing_partitions_and_rows_are_no_sample(
    made: list[str], rows: int, wanted: tuple[int, ...]
) -> None:
    with pytest.raises(LabError, match=f"{len(made)} partitions with {rows} rows were made"):
        _drop_made(made, rows, *wanted)
    _drop_made(made, rows, len(made), rows)


def test_ours_and_premade_are_compared_with_the_first() -> None:
    arms = needed_partitions._EDGE_ARMS
    (trial,) = trials_of(1000, "at the edge", ("mean",), "INSERT", arms, baselines=("not loaded",))
    assert trial.scenario.label == "1,000, at the edge, mean"
    assert [(one.name, one.baselines, one.challengers) for one in trial.questions] == [
        ("not loaded, premade", ("not loaded",), ("ours, premade",)),
        ("not loaded", ("not loaded",), ("ours",)),
    ]


def test_quantiles_are_times_that_were_measured() -> None:
    times = [float(number) for number in range(20, 0, -1)]
    assert [quantile(times, share) for share in (0.01, 0.5, 0.95, 1)] == [1, 10, 19, 20]
    assert quantile([3.0], 0.99) == 3


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(needed_partitions.EXPERIMENT.sizes, "demo", _WANTED)
    outcome = run_bench("run", "needed-partitions", "--demo", "--output", tmp_path, *PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    samples = read_result(path).measurements.samples
    found = {(one.scenario.value("rows"), one.arm) for one in samples}
    first = ("row of a partition", "CREATE TABLE first", "ours")
    edge = ("not loaded", "ours, premade", "ours")
    assert found == {
        *(("first of an interval", arm) for arm in first),
        *(("at the edge, 3 sessions", arm) for arm in edge),
        *(("in a loop of the server", arm) for arm in ("not loaded", "ours")),
        *(("clients: 2", arm) for arm in ("not loaded", "ours")),
    }
    slowest = [one for one in samples if one.scenario.value("figure") == "slowest"]
    assert all(one.time_ms >= one.counts["p99_ms"] > 0 for one in slowest)
    raw = [one.counts for one in samples if one.scenario.value("figure") == "p50"]
    assert all(set(one) == {"row_000_ms", "row_001_ms"} for one in raw)
