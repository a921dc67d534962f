"""The experiment "select-partitions": what counts as a sample, and a whole run."""

from pathlib import Path
from typing import cast

import pytest

from bench import small_bench
from bench.small_bench import PG_CONFIG, run_bench
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.arms import arm_of
from lookahead.results import read_result
from lookahead.server import Session
from lookahead_bench import select_partitions


class _Answering:
    """A session that answers every query with one number."""

    def execute(self, *_: object, **__: object) -> "_Answering":
        return self

    def fetchone(self) -> tuple[int]:
        return (3,)

    def fetchall(self) -> list[tuple[int]]:
        return [(3,)]


def test_partitions_that_start_with_the_query_are_no_sample() -> None:
    session = cast(Session, _Answering())
    with pytest.raises(LabError, match="all partitions started with the statement"):
        select_partitions._execute("subselect", session, "SELECT 1", arm_of("ours", "", "on"))


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = small_bench.SELECTIONS
    monkeypatch.setitem(select_partitions.EXPERIMENT.sizes, "demo", wanted)
    outcome = run_bench("run", "select-partitions", "--demo", "--output", tmp_path, *PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    samples = read_result(path).measurements.samples
    assert {
        (one.scenario.value("table"), one.scenario.value("query"), one.arm) for one in samples
    } == {
        (indexes.replace("-", " "), query, arm)
        for indexes in wanted.indexes
        for query in wanted.shape
        for arm in ("not loaded", "ours")
    }
    assert min(one.time_ms for one in samples) > 0
