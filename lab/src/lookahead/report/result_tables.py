"""The tables of what was found out: medians, lookups, comparisons."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from lookahead.comparisons import (
    PUBLISHED_WORKER_GAIN,
    Panel,
    arms_of,
    panels_of,
    samples_of,
    scenarios_of,
    validated_builds,
    worker_gains,
)
from lookahead.formats import (
    NOTHING,
    interval_text,
    milliseconds,
    rate_text,
    verdict_text,
)
from lookahead.measurements import Comparison, LookupSample, Measurements
from lookahead.report.sentences import (
    common_text,
    opponent_name,
    panel_title,
    scenario_label,
    varying_names,
)
from lookahead.report.tables import Table, columns_of
from lookahead.results import ResultDocument
from lookahead.stats import FEW_PAIRS

# Characters of a scenario's name, and comparisons, that a table has room for.
_MAX_LABEL, _MAX_ROWS = 44, 12
# Our arm where it is as it comes; any other one is named.
_PLAIN_CHALLENGER = "ours"


def render_tables(document: ResultDocument) -> list[Table]:
    """All tables of results; the comparisons come last."""
    data = document.measurements
    comparisons = [comparison_table(data, group) for group in comparison_groups(data.comparisons)]
    return [*median_tables(data), *other_tables(data), *comparisons]


def other_tables(data: Measurements) -> list[Table]:
    """What only some experiments find out."""
    tables = (lookup_table(data.lookups), validation_table(data), worker_table(data))
    return [table for table in tables if table.rows]


def median_tables(data: Measurements) -> Iterator[Table]:
    """For each panel of which the comparisons do not tell everything: arms by the axis."""
    panels = panels_of(scenarios_of(data.samples))
    told = {
        (one.question.scenario, arm)
        for one in data.comparisons
        for arm in (one.baseline, one.challenger)
    }
    for panel in panels:
        measured = {
            (one.scenario, one.arm) for one in data.samples if one.scenario in panel.scenarios
        }
        if not measured <= told or any(one.scenario in panel.scenarios for one in data.references):
            yield _median_table(data, panel, panel_title(panel, panels))


def _median_table(data: Measurements, panel: Panel, title: str) -> Table:
    """A row for each arm and reference, a column for each value of the axis."""
    chosen = [one for one in data.samples if one.scenario in panel.scenarios]
    rows = []
    for arm in arms_of(chosen):
        found = [samples_of(chosen, scenario, arm) for scenario in panel.scenarios]
        rows.append((arm, *(_median_time([one.time_ms for one in some]) for some in found)))
    known = [one for one in data.references if one.scenario in panel.scenarios]
    for name in dict.fromkeys(one.name for one in known):
        beside = {one.scenario: [one.time_ms] for one in known if one.name == name}
        rows.append((name, *(_median_time(beside.get(one, [])) for one in panel.scenarios)))
    heads = tuple(scenario.factors[0].value for scenario in panel.scenarios)
    caption = "; ".join(dict.fromkeys(one.source for one in known))
    title = f"Median time by {panel.axis}{f': {title}' if title else ''}"
    return Table(title, columns_of(("arm",), heads), tuple(rows), caption)


def _median_time(times_ms: Sequence[float]) -> str:
    return milliseconds(median(times_ms)) if times_ms else NOTHING


def lookup_table(samples: Sequence[LookupSample]) -> Table:
    """What random lookups of single rows took, by scenario and arm."""
    scenarios = scenarios_of(samples)
    names = varying_names(scenarios)
    rows = []
    for scenario in scenarios:
        for arm in dict.fromkeys(one.arm for one in samples if one.scenario == scenario):
            chosen = [one for one in samples if (one.scenario, one.arm) == (scenario, arm)]
            rows.append(
                (
                    scenario_label(scenario, names),
                    arm,
                    str(chosen[0].sessions),
                    rate_text(median(one.lookups_per_s for one in chosen)),
                    milliseconds(median(one.p50_ms for one in chosen)),
                    milliseconds(median(one.p99_ms for one in chosen)),
                )
            )
    columns = columns_of(("scenario", "arm"), ("sessions", "lookups/s", "p50", "p99"))
    caption = _sentences("Medians over rounds", _all(common_text(scenarios)))
    return Table("Random lookups of single rows", columns, tuple(rows), caption)


def validation_table(data: Measurements) -> Table:
    """What of `CREATE INDEX CONCURRENTLY` is the build, and what PostgreSQL does after it."""
    found = validated_builds(data)
    names = varying_names([one.scenario for one in found])
    arms = list(dict.fromkeys(arm for one in found for arm in one.build_ms))
    rows = tuple(
        (
            scenario_label(one.scenario, names),
            *(milliseconds(one.build_ms[arm]) for arm in arms),
            *(milliseconds(one.validation_ms[arm]) for arm in arms),
        )
        for one in found
    )
    numbers = [f"{part}, {arm}" for part in ("build", "validation") for arm in arms]
    title = "Concurrent builds, and what follows them"
    caption = "Median times by phases, as seen by polling"
    return Table(title, columns_of(("scenario",), numbers), rows, caption)


def worker_table(data: Measurements) -> Table:
    """What parallel workers gain in each arm, and the published figure below it."""
    found = worker_gains(data)
    names = varying_names([one.scenario for one in found])
    arms = list(dict.fromkeys(arm for one in found for arm in one.gains))
    rows = tuple(
        (scenario_label(one.scenario, names), *(f"{one.gains[arm]:.2f}" for arm in arms))
        for one in found
    )
    caption = f"Median time without workers / with them. Published: {PUBLISHED_WORKER_GAIN}"
    return Table("What parallel workers gain", columns_of(("scenario",), arms), rows, caption)


@dataclass(frozen=True)
class ComparisonGroup:
    """Comparisons that are shown together.

    `panel` and `question` are what they have in common and others have not, `names` those of the
    factors that tell their scenarios apart.
    """

    panel: str
    question: str
    names: tuple[str, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def title(self) -> str:
        """Such as "Comparisons of median times: against best stock plan, work_mem 4 MB"."""
        question = f"against {self.question}" if self.question else ""
        common = ", ".join(filter(None, (question, self.panel)))
        return f"Comparisons of median times{f': {common}' if common else ''}"

    def scenario(self, comparison: Comparison) -> str:
        """The scenario of one of them."""
        return scenario_label(comparison.question.scenario, self.names)

    @property
    def has_challengers(self) -> bool:
        """Whether it must be said which arm of ours is compared."""
        return any(one.challenger != _PLAIN_CHALLENGER for one in self.comparisons)

    def opponent(self, comparison: Comparison) -> str:
        """What it compares with, as far as the title does not say: "best stock plan (seq)"."""
        question = comparison.question
        has_choice = len(question.baselines) > 1
        if self.question:
            return comparison.baseline if has_choice else ""
        name = opponent_name(question)
        return f"{name} ({comparison.baseline})" if has_choice else name

    def contest(self, comparison: Comparison) -> str:
        """Scenario and arms, as far as they differ: "pages 42 %, ours, 0, against ours"."""
        names = {opponent_name(one.question) for one in self.comparisons}
        parts = [self.scenario(comparison)]
        if self.has_challengers:
            parts.append(comparison.challenger)
        if len(names) > 1:
            parts.append(f"against {opponent_name(comparison.question)}")
        return ", ".join(parts)


def comparison_groups(comparisons: Sequence[Comparison]) -> list[ComparisonGroup]:
    """All in one group when they are few and few words tell them apart.

    Else in a group for each panel, and of many comparisons for each question.
    """
    scenarios = list(dict.fromkeys(one.question.scenario for one in comparisons))
    names = varying_names(scenarios)
    if all(len(scenario_label(one, names)) <= _MAX_LABEL for one in scenarios):
        return _by_question("", names, comparisons)
    panels = panels_of(scenarios)
    return [
        group
        for panel in panels
        for group in _by_question(
            panel_title(panel, panels),
            (),
            [one for one in comparisons if one.question.scenario in panel.scenarios],
        )
    ]


def _by_question(
    title: str, names: tuple[str, ...], comparisons: Sequence[Comparison]
) -> list[ComparisonGroup]:
    """A group for each question, in the order measured, or one for all of them if they are few."""
    found: dict[str, list[Comparison]] = {}
    for one in comparisons:
        found.setdefault(opponent_name(one.question), []).append(one)
    if len(found) > 1 and len(comparisons) > _MAX_ROWS:
        return [
            ComparisonGroup(title, question, names, tuple(some)) for question, some in found.items()
        ]
    ordered = tuple(one for some in found.values() for one in some)
    return [ComparisonGroup(title, "", names, ordered)] if ordered else []


def comparison_table(data: Measurements, group: ComparisonGroup) -> Table:
    """Medians, ratio with interval and verdict of each comparison."""
    # Of what waits for nothing, the least times are disturbed least.
    has_least = any(one.executions > 1 for one in data.samples)
    has_opponents = any(map(group.opponent, group.comparisons))
    rows = tuple(
        (
            group.scenario(item),
            *((item.challenger,) if group.has_challengers else ()),
            *((group.opponent(item),) if has_opponents else ()),
            milliseconds(item.baseline_median_ms),
            milliseconds(item.challenger_median_ms),
            *((f"{item.least_ratio:.2f}",) if has_least else ()),
            f"{item.estimate.ratio:.2f}",
            interval_text(item.estimate),
            str(item.estimate.pairs),
            verdict_text(item.estimate),
        )
        for item in group.comparisons
    )
    challenger = ("challenger",) if group.has_challengers else ()
    labels = ("scenario", *challenger, *(("against",) if has_opponents else ()))
    least = ("least ratio",) if has_least else ()
    numbers = ("its time", "our time", *least, "ratio", "interval", "pairs", "verdict")
    common = common_text([one.question.scenario for one in group.comparisons])
    said = "Least ratio: that of the least times" if has_least else ""
    caption = _sentences(_ratio_caption(group.comparisons), said, _all(common))
    return Table(group.title, columns_of(labels, numbers), rows, caption)


def _ratio_caption(comparisons: Sequence[Comparison]) -> str:
    """How to read a ratio and its interval, and what they rest on."""
    estimates = [one.estimate for one in comparisons]
    is_rough = any(one.is_rough for one in estimates)
    return (
        "Ratio: its time / our time; above 1 ours is faster. "
        f"Bootstrap interval of {estimates[0].confidence:.0%}, seed {estimates[0].seed}"
        f"{f'; of fewer than {FEW_PAIRS} pairs it is rough' if is_rough else ''}"
    )


def _all(common: str) -> str:
    return f"In all: {common}" if common else ""


def _sentences(*parts: str) -> str:
    return ". ".join(filter(None, parts))
