"""What changed from one result to another of the same experiment.

Times are compared only where all but the library is the same: experiment, its values, the rows of
its tables, server, settings, processors, memory, device. PostgreSQL's own arms are in the same
table: where they changed, the machine did.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from statistics import median

from lookahead.comparisons import arms_of, paired, samples_of, scenarios_of
from lookahead.measurements import Comparison, Measurements, Scenario
from lookahead.results import ResultDocument
from lookahead.stats import Pair, RatioEstimate, ratio_between

# Of the machine what changes times; not its load, nor how full its memory is.
_MACHINE = ("cpu_model", "cpus", "memory_bytes", "architecture", "hypervisor")
_DEVICE = ("filesystem", "mount_options", "disk", "model", "size_bytes", "scheduler")
_QUEUE = ("read_ahead_kb", "queue_requests", "max_request_kb", "write_cache", "rotational")
_SHORT_HASH = 12


@dataclass(frozen=True)
class Contrast:
    """Something that both results have: its value in each, and second / first with the interval.

    Of an arm the values are median times in ms, and the ratio is that of speeds; of a question they
    are its ratios. Above 1 the second result is the better one.
    """

    scenario: Scenario
    name: str
    first: float
    second: float
    estimate: RatioEstimate


def differences(first: ResultDocument, second: ResultDocument) -> list[str]:
    """Why the results cannot be compared, each reason with both values; [] if they can."""
    ours, others = _conditions(first), _conditions(second)
    names = [name for name in {**ours, **others} if ours.get(name) != others.get(name)]
    return [f"{name}: {_shown(ours.get(name))} / {_shown(others.get(name))}" for name in names]


def remarks(first: ResultDocument, second: ResultDocument) -> Iterator[str]:
    """What differs, or is missing, and does not forbid a comparison."""
    facts = {
        "server": (first.software.server_source, second.software.server_source),
        "library": tuple(one.software.library_sha256[:_SHORT_HASH] for one in (first, second)),
        "lookahead": (first.software.lab_version, second.software.lab_version),
        "kernel": (first.machine.kernel, second.machine.kernel),
        "seed": (str(first.parameters.seed), str(second.parameters.seed)),
    }
    for name, (before, after) in facts.items():
        if before != after:
            yield f"{name}: {before} / {after}"
    if first.software.library_sha256 == second.software.library_sha256:
        yield "both results are of the same library"
    for which, document in (("first", first), ("second", second)):
        if document.status != "complete":
            yield f"the {which} result is incomplete ({document.ending})"


def _conditions(document: ResultDocument) -> dict[str, object]:
    """What must be the same, by the name that a reader knows it by."""
    machine, device = asdict(document.machine), asdict(document.machine.device)
    tables = {one.name: one.rows for one in document.measurements.tables}
    return {
        "experiment": document.experiment,
        "PostgreSQL": document.software.server_version,
        **{f"--{name}": value for name, value in document.parameters.values.items()},
        **{f"rows of {name}": rows for name, rows in tables.items()},
        **{f"setting {name}": value for name, value in document.settings.items()},
        **{name.replace("_", " "): machine[name] for name in _MACHINE},
        **{f"device's {name.replace('_', ' ')}": device[name] for name in (*_DEVICE, *_QUEUE)},
        **document.facts,
    }


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "not there" if value is None else str(value)


def arm_contrasts(first: Measurements, second: Measurements, seed: int) -> list[Contrast]:
    found = []
    for scenario in scenarios_of(first.samples):
        for arm in arms_of(first.samples):
            before, after = (
                [(1.0, one.time_ms) for one in samples_of(data.samples, scenario, arm)]
                for data in (first, second)
            )
            if before and after:
                times = (_median_ms(before), _median_ms(after))
                estimate = ratio_between(before, after, seed=seed)
                found.append(Contrast(scenario, arm, *times, estimate))
    return found


def _median_ms(pairs: Iterable[Pair]) -> float:
    return median(time_ms for _, time_ms in pairs)


def gain_contrasts(first: Measurements, second: Measurements, seed: int) -> list[Contrast]:
    """The ratios of each question that both answer with the same two arms."""
    answers = {(one.question, one.baseline, one.challenger): one for one in second.comparisons}
    found = []
    for one in first.comparisons:
        other = answers.get((one.question, one.baseline, one.challenger))
        before, after = _pairs(first, one), _pairs(second, one)
        if other is not None and before and after:
            ratios = (one.estimate.ratio, other.estimate.ratio)
            estimate = ratio_between(before, after, seed=seed)
            found.append(Contrast(one.question.scenario, one.question.name, *ratios, estimate))
    return found


def _pairs(data: Measurements, answer: Comparison) -> list[Pair]:
    scenario = answer.question.scenario
    bases, challengers = (
        {one.round: one.time_ms for one in samples_of(data.samples, scenario, arm)}
        for arm in (answer.baseline, answer.challenger)
    )
    return list(zip(*paired(bases, challengers), strict=True))
