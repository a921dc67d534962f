"""The experiment "create-partitions": what each arm does, on a server but once."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from bench import small_bench
from bench.small_bench import PG_CONFIG, run_bench
from lookahead.errors import ExitStatus, LabError
from lookahead.results import read_result
from lookahead.server import PrivateServer, Session
from lookahead_bench import create_partitions
from lookahead_bench.create_partitions import trials_of

_WANTED = small_bench.CREATIONS


class _Answering:
    """A session that answers every query with one row."""

    def __init__(self, *row: object) -> None:
        self._row = row

    def execute(self, *_: object) -> "_Answering":
        return self

    def fetchone(self) -> tuple[object, ...]:
        return self._row


def test_a_trial_for_each_table_and_way() -> None:
    trials = list(trials_of(cast(PrivateServer, None), _WANTED))
    assert [trial.scenario.label for trial in trials] == [
        "7, no index, direct",
        "7, no index, attached",
        "7, no toast, direct",
        "7, no toast, attached",
        "7, key and index, direct",
        "7, key and index, attached",
    ]
    assert "PRIMARY KEY" in trials[4].statement
    assert trials[1].statements["ours"].endswith("7, way => 'attached')")


def test_another_way_is_no_sample() -> None:
    session = cast(Session, _Answering(7, 0, "native", "server version"))
    with pytest.raises(LabError, match=r"in the way native \(server version\)"):
        create_partitions._call(session, "CALL f(way => 'direct')")


def test_missing_partitions_are_no_sample() -> None:
    with pytest.raises(LabError, match="6 partitions instead of 7"):
        create_partitions._check_made(cast(Session, _Answering(6)), 7)


def test_estimates_grow_with_the_square() -> None:
    def seconds(leaves: int) -> float:
        wanted = replace(_WANTED, leaves=(leaves,))
        return create_partitions.EXPERIMENT.estimated_seconds(wanted)

    assert seconds(10_000) > 20 * seconds(1_000)


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(create_partitions.EXPERIMENT.sizes, "demo", _WANTED)
    asked = ("run", "create-partitions", "--demo", "--output", tmp_path)
    outcome = run_bench(*asked, *PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    found = read_result(path)
    assert found.status == "complete"
    samples = found.measurements.samples
    assert {one.arm for one in samples} == {"not loaded", "ours"}
    assert len(samples) == 12
    assert min(one.time_ms for one in samples) > 0
