"""The tables of what was found out: medians, comparisons, WAL."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from lookahead.comparisons import Panel, compare_wal, panels_of, scenarios_of
from lookahead.formats import NOTHING, interval_text, milliseconds, size_text
from lookahead.measurements import Comparison, Measurements, Scenario
from lookahead.report.sentences import (
    common_text,
    labelling,
    panel_title,
    scenario_label,
    varying_names,
)
from lookahead.report.tables import Cells, Table, table_of
from lookahead.results import ResultDocument
from lookahead.stats import VERDICT_PAIRS

# Characters of a scenario's name, and comparisons, that a table has room for.
_MAX_LABEL, _MAX_ROWS = 44, 12
# Our arm where it is as it comes; any other one is named.
_PLAIN_CHALLENGER = "ours"


def render_tables(document: ResultDocument) -> list[Table]:
    """All tables of results; the comparisons come last."""
    data = document.measurements
    comparisons = [comparison_table(data, group) for group in comparison_groups(data)]
    return [*figure_tables(data), *comparisons]


def figure_tables(data: Measurements) -> list[Table]:
    """What was found out beside the comparisons."""
    return [table for table in (*_median_tables(data), wal_table(data)) if table.rows]


def _median_tables(data: Measurements) -> Iterator[Table]:
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
        if not measured <= told:
            yield _median_table(data, panel, panel_title(panel, panels))


def _median_table(data: Measurements, panel: Panel, title: str) -> Table:
    """A row for each arm, a column for each value of the axis."""
    times: dict[str, dict[Scenario, list[float]]] = {}
    for one in data.samples:
        if one.scenario in panel.scenarios:
            times.setdefault(one.arm, {}).setdefault(one.scenario, []).append(one.time_ms)

    def median_time(scenario: Scenario, row: tuple[str, dict[Scenario, list[float]]]) -> str:
        found = row[1].get(scenario)
        return milliseconds(median(found)) if found else NOTHING

    return table_of(
        f"Median time by {panel.axis}{f': {title}' if title else ''}",
        times.items(),
        [("arm", lambda row: row[0])],
        [(one.factors[0].value, partial(median_time, one)) for one in panel.scenarios],
    )


def wal_table(data: Measurements) -> Table:
    """What inserts write to the WAL, beside what they are compared with."""
    found = compare_wal(data)
    label = labelling(one.question.scenario for one in found)
    return table_of(
        "What was written to the WAL",
        found,
        [
            ("scenario", lambda one: label(one.question.scenario)),
            ("arm", lambda one: one.question.challengers[0]),
            ("against", lambda one: one.question.name),
        ],
        [
            ("its WAL", lambda one: size_text(one.baseline_bytes)),
            ("our WAL", lambda one: size_text(one.challenger_bytes)),
            ("ratio", lambda one: f"{one.estimate.ratio:.2f}"),
        ],
        "Medians over samples. Ratio: its WAL / our WAL; above 1 ours writes less",
    )


@dataclass(frozen=True)
class ComparisonGroup:
    """Comparisons that are shown together.

    `panel` and `question` are what they have in common and others have not, `names` those of the
    factors that tell their scenarios apart. With `is_ours` all are of ours against something else;
    others compare two arms of stock, or two of ours.
    """

    is_ours: bool
    panel: str
    question: str
    names: tuple[str, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def title(self) -> str:
        """Such as "Comparisons of median times: against best stock plan, work_mem 4 MB"."""
        question = f"against {self.question}" if self.question else ""
        common = ", ".join(filter(None, (question, self.panel)))
        kind = "Comparisons" if self.is_ours else "Other comparisons"
        return f"{kind} of median times{f': {common}' if common else ''}"

    @property
    def reading(self) -> tuple[str, str, str]:
        """What the two times are called, and who is faster where the ratio is above 1."""
        if self.is_ours:
            return "baseline time", "our time", "ours"
        return "baseline time", "challenger time", "the challenger"

    def scenario(self, comparison: Comparison) -> str:
        return scenario_label(comparison.question.scenario, self.names)

    @property
    def has_challengers(self) -> bool:
        """Whether it must be said which arm of ours is compared."""
        return not self.is_ours or any(
            one.challenger != _PLAIN_CHALLENGER for one in self.comparisons
        )

    def opponent(self, comparison: Comparison) -> str:
        """What it compares with, as far as the title does not say: "best stock plan (seq)"."""
        question = comparison.question
        has_choice = len(question.baselines) > 1
        if self.question:
            return comparison.baseline if has_choice else ""
        name = question.name
        return f"{name} ({comparison.baseline})" if has_choice else name

    def contest(self, comparison: Comparison) -> str:
        """Scenario and arms, as far as they differ: "pages 42 %, ours, 0, against ours"."""
        names = {one.question.name for one in self.comparisons}
        parts = [self.scenario(comparison)]
        if self.has_challengers:
            parts.append(comparison.challenger)
        if len(names) > 1 or not self.is_ours:
            parts.append(f"against {comparison.question.name}")
        return ", ".join(parts)


def comparison_groups(data: Measurements) -> list[ComparisonGroup]:
    """Those of ours, then others; each in one group when they are few and told apart by few words.

    Else in a group for each panel, and of many comparisons for each question.
    """
    library = {arm.name: arm.library == "on" for arm in data.arms}
    found: dict[bool, list[Comparison]] = {True: [], False: []}
    for one in data.comparisons:
        is_ours = library.get(one.challenger, True) and not library.get(one.baseline, False)
        found[is_ours].append(one)
    return [group for is_ours, some in found.items() for group in _groups(some, is_ours)]


def _groups(comparisons: Sequence[Comparison], is_ours: bool) -> list[ComparisonGroup]:
    scenarios = list(dict.fromkeys(one.question.scenario for one in comparisons))
    names = varying_names(scenarios)
    if all(len(scenario_label(one, names)) <= _MAX_LABEL for one in scenarios):
        return _by_question(is_ours, "", names, comparisons)
    panels = panels_of(scenarios)
    return [
        group
        for panel in panels
        for group in _by_question(
            is_ours,
            panel_title(panel, panels),
            (),
            [one for one in comparisons if one.question.scenario in panel.scenarios],
        )
    ]


def _by_question(
    is_ours: bool, title: str, names: tuple[str, ...], comparisons: Sequence[Comparison]
) -> list[ComparisonGroup]:
    """A group for each question, in the order measured, or one for all of them if they are few."""
    found: dict[str, list[Comparison]] = {}
    for one in comparisons:
        found.setdefault(one.question.name, []).append(one)
    if len(found) > 1 and len(comparisons) > _MAX_ROWS:
        return [
            ComparisonGroup(is_ours, title, question, names, tuple(some))
            for question, some in found.items()
        ]
    ordered = tuple(one for some in found.values() for one in some)
    return [ComparisonGroup(is_ours, title, "", names, ordered)] if ordered else []


def comparison_table(data: Measurements, group: ComparisonGroup) -> Table:
    """Medians, ratio with interval and verdict of each comparison."""
    labels: list[tuple[str, Callable[[Comparison], str]]] = [("scenario", group.scenario)]
    if group.has_challengers:
        labels.append(("challenger", lambda one: one.challenger))
    if any(map(group.opponent, group.comparisons)):
        labels.append(("against", group.opponent))
    its, ours, _ = group.reading
    numbers: Cells[Comparison] = [
        (its, lambda one: milliseconds(one.baseline_median_ms)),
        (ours, lambda one: milliseconds(one.challenger_median_ms)),
        ("least ratio", lambda one: f"{one.least_ratio:.2f}"),
        ("ratio", lambda one: f"{one.estimate.ratio:.2f}"),
        ("interval", lambda one: interval_text(one.estimate)),
        ("pairs", lambda one: str(one.estimate.pairs)),
        ("verdict", lambda one: one.estimate.verdict),
    ]
    said = "Least ratio: that of the least times"
    # Of what waits for nothing, the least times are disturbed least.
    if not any(one.executions > 1 for one in data.samples):
        numbers = [one for one in numbers if one[0] != "least ratio"]
        said = ""
    common = common_text([one.question.scenario for one in group.comparisons])
    parts = (_ratio_caption(group), said, f"In all: {common}" if common else "")
    caption = ". ".join(filter(None, parts))
    return table_of(group.title, group.comparisons, labels, numbers, caption)


def _ratio_caption(group: ComparisonGroup) -> str:
    """How to read a ratio and its interval, and what they rest on."""
    estimates = [one.estimate for one in group.comparisons]
    its, ours, faster = group.reading
    rough = f"; fewer than {VERDICT_PAIRS} pairs are too few for a verdict"
    return (
        f"Ratio: {its} / {ours}; above 1 {faster} is faster. "
        f"Bootstrap interval of {estimates[0].confidence:.0%}, seed {estimates[0].seed}"
        f"{rough if any(one.is_rough for one in estimates) else ''}"
    )
