"""From raw samples to comparisons: pairs are joined, medians taken, ratios estimated.

Pure: terminal, result file and report all show what these functions return for the same samples.
Pairs of which an interrupted run measured only one arm are left out. A question about the fastest
of several arms chooses it by its median over all rounds, which favours that side a little: the one
that is not ours, where the project is judged by it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from lookahead.measurements import Comparison, Factor, Measurements, Question, Sample, Scenario
from lookahead.stats import RatioEstimate, ratio_of_medians

_Times = Mapping[tuple[Scenario, str], dict[int, float]]
"""Times in ms by scenario and arm, then by round."""


def scenarios_of(samples: Iterable[Sample]) -> list[Scenario]:
    return list(dict.fromkeys(sample.scenario for sample in samples))


def arms_of(samples: Iterable[Sample]) -> list[str]:
    return list(dict.fromkeys(sample.arm for sample in samples))


def samples_of(samples: Iterable[Sample], scenario: Scenario, arm: str) -> list[Sample]:
    return [sample for sample in samples if sample.scenario == scenario and sample.arm == arm]


def compare(data: Measurements, seed: int) -> tuple[Comparison, ...]:
    """One comparison for each question to which at least one whole pair was measured.

    Raises ValueError when an arm has two samples in a round of a scenario.
    """
    times: dict[tuple[Scenario, str], dict[int, float]] = {}
    for one in data.samples:
        rounds = times.setdefault((one.scenario, one.arm), {})
        if one.round in rounds:
            raise ValueError(
                f'two samples of arm "{one.arm}" in round {one.round} of {one.scenario.label}'
            )
        rounds[one.round] = one.time_ms
    answers = (_answer(question, times, seed) for question in data.questions)
    return tuple(answer for answer in answers if answer is not None)


def _answer(question: Question, times: _Times, seed: int) -> Comparison | None:
    scenario = question.scenario
    baseline, challenger = (
        _fastest(names, scenario, times) for names in (question.baselines, question.challengers)
    )
    if baseline is None or challenger is None:
        return None
    bases, challengers = paired(times[scenario, baseline], times[scenario, challenger])
    if not bases:
        return None
    return Comparison(
        question=question,
        baseline=baseline,
        challenger=challenger,
        baseline_median_ms=median(bases),
        challenger_median_ms=median(challengers),
        least_ratio=min(bases) / min(challengers),
        estimate=_estimate(bases, challengers, seed),
    )


def paired(
    first: Mapping[int, float], second: Mapping[int, float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The values of the rounds that both have, in their order."""
    whole = sorted(first.keys() & second.keys())
    return tuple(first[one] for one in whole), tuple(second[one] for one in whole)


@lru_cache(maxsize=4096)
def _estimate(bases: tuple[float, ...], challengers: tuple[float, ...], seed: int) -> RatioEstimate:
    """Kept, as a run works out what it writes, and once more what it then shows."""
    return ratio_of_medians(bases, challengers, seed=seed)


def _fastest(arms: Sequence[str], scenario: Scenario, times: _Times) -> str | None:
    """The arm with the least median, None when none of them was measured."""
    measured = {
        arm: median(times[scenario, arm].values()) for arm in arms if (scenario, arm) in times
    }
    return min(measured, key=lambda arm: measured[arm]) if measured else None


def proofs(data: Measurements) -> tuple[str, ...]:
    """What was proved beside the figures, a line each."""
    our_arms = {arm.name for arm in data.arms if arm.library == "on"}
    ours = [one for one in data.samples if one.arm in our_arms]
    found = []
    rows = sum(digest.rows for digest in data.digests if len(digest.arms) > 1)
    if rows:
        found.append(f"same rows:  {rows:,} rows of several arms received and compared: equal")
    found += _same_pages(data)
    pages = [one.evidence.lookahead.prefetched_blocks for one in ours if one.evidence]
    if pages:
        came = f"{sum(pages):,} pages came through look-ahead"
        nothing = "pg_lookahead was there, and found nothing to read ahead,"
        found.append(f"path taken: {came if sum(pages) else nothing} in {len(pages)} samples")
    for name, what, taken in (
        ("built_by_us", "indexes", "pg_lookahead's own"),
        ("batched_rows", "rows", "inserted in batches"),
    ):
        if counts := [one.counts[name] for one in ours if name in one.counts]:
            samples = f"{len(counts)} samples"
            found.append(f"path taken: {sum(counts):,.0f} {what} in {samples} were {taken}")
    return tuple(found)


def _same_pages(data: Measurements) -> Iterator[str]:
    """Of the indexes whose pages were looked at in two arms at least."""
    hashes: dict[Scenario, dict[str, str]] = {}
    for one in data.samples:
        if one.sha256 is not None:
            hashes.setdefault(one.scenario, {})[one.arm] = one.sha256
    equal = [len(set(arms.values())) == 1 for arms in hashes.values() if len(arms) > 1]
    for outcome, count in (("equal", equal.count(True)), ("NOT EQUAL", equal.count(False))):
        if count:
            indexes = "1 index" if count == 1 else f"{count} indexes"
            yield f"same pages: SHA-256 over the pages of {indexes} in several arms: {outcome}"


# Below it a table's rows are not logged: bytes of WAL for each.
_LEAST_WAL_BYTES_PER_ROW = 1.0


@dataclass(frozen=True)
class WalComparison:
    """What an insert writes to the WAL: median bytes, and the ratio baseline / challenger."""

    question: Question
    baseline_bytes: float
    challenger_bytes: float
    estimate: RatioEstimate


def compare_wal(data: Measurements) -> tuple[WalComparison, ...]:
    """One for each comparison of inserts whose rows are logged."""
    found = []
    for one in data.comparisons:
        baseline, challenger = (
            {
                sample.round: sample.counts["wal_bytes"]
                for sample in samples_of(data.samples, one.question.scenario, arm)
                if _is_logged_insert(sample)
            }
            for arm in (one.baseline, one.challenger)
        )
        bases, challengers = paired(baseline, challenger)
        if bases:
            estimate = _estimate(bases, challengers, one.estimate.seed)
            found.append(WalComparison(one.question, median(bases), median(challengers), estimate))
    return tuple(found)


def _is_logged_insert(sample: Sample) -> bool:
    rows = sample.counts.get("inserted_rows")
    wal_bytes = sample.counts.get("wal_bytes", 0)
    return rows is not None and wal_bytes > rows * _LEAST_WAL_BYTES_PER_ROW


@dataclass(frozen=True)
class Panel:
    """Scenarios that differ in their first factor only: the axis of tables and plots."""

    axis: str
    title: str
    scenarios: tuple[Scenario, ...]


def panels_of(scenarios: Iterable[Scenario]) -> list[Panel]:
    """The panels, and the scenarios in each, in the order given."""
    found: dict[tuple[Factor, ...], list[Scenario]] = {}
    for scenario in scenarios:
        found.setdefault(scenario.factors[1:], []).append(scenario)
    return [
        Panel(
            axis=members[0].factors[0].name,
            title=", ".join(f"{factor.name} {factor.value}" for factor in rest),
            scenarios=tuple(members),
        )
        for rest, members in found.items()
    ]
