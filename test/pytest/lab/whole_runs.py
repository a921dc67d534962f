"""What the result of any whole run is checked for."""

from pathlib import Path

from lab.outcome import Outcome
from lookahead.comparisons import compare, scenarios_of
from lookahead.errors import ExitStatus
from lookahead.measurements import Measurements, Sample
from lookahead.results import read_result


def measured(outcome: Outcome, output: Path, disk: Path) -> Measurements:
    """The data of a run that ended well, left nothing behind and made its page."""
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = output.glob("*.json")
    document = read_result(path)
    assert document.status == "complete"
    data = document.measurements
    assert data.comparisons == compare(data, document.parameters.seed)
    assert data.statements.keys() == {scenario.label for scenario in scenarios_of(data.samples)}
    assert path.with_suffix(".html").exists()
    assert list(disk.iterdir()) == []
    for sample in data.samples:
        _check_evidence(data, sample)
    return data


def _check_evidence(data: Measurements, sample: Sample) -> None:
    (arm,) = (one for one in data.arms if one.name == sample.arm)
    assert sample.time_ms > 0
    assert sample.cold is None or sample.cold.is_cold
    if sample.evidence is None:
        assert arm.plan == ""
        return
    assert sample.evidence.node_type == arm.plan
    if arm.settings.get("pg_lookahead.bulk_read_size") != "0":
        assert (sample.evidence.lookahead.status == "prefetch") is (arm.library == "on")
