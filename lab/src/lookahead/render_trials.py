"""The tables of experiments made of trials, for the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from rich.markup import escape
from rich.table import Table

from lookahead.comparisons import (
    Panel,
    arms_of,
    panels_of,
    samples_of,
    scenarios_of,
)
from lookahead.measurements import Comparison, LookupSample, Measurements
from lookahead.render import (
    add_ratio_columns,
    milliseconds,
    plain_table,
    rate_text,
    ratio_cells,
)

# Beside the arms, in 80 columns.
_MAX_COLUMNS = 6


def trial_tables(data: Measurements) -> Iterator[Table]:
    """Medians of all arms, lookups if there are any, then the answers to the questions."""
    panels = panels_of(scenarios_of(data.samples))
    for panel in panels:
        for first in range(0, len(panel.scenarios), _MAX_COLUMNS):
            columns = panel.scenarios[first : first + _MAX_COLUMNS]
            yield _median_table(data, replace(panel, scenarios=columns))
    for panel in panels_of(scenarios_of(data.lookups)):
        yield _lookup_table(data.lookups, panel)
    for panel in panels:
        chosen = [one for one in data.comparisons if one.question.scenario in panel.scenarios]
        if chosen:
            yield _answer_table(panel, chosen)


def _median_table(data: Measurements, panel: Panel) -> Table:
    """A row for each arm and reference, a column for each value of the axis."""
    table = plain_table(f"median time: {escape(panel.title)}")
    table.add_column(f"arm \\ {escape(panel.axis)}")
    for scenario in panel.scenarios:
        table.add_column(escape(scenario.factors[0].value), justify="right", no_wrap=True)
    for arm in arms_of(one for one in data.samples if one.scenario in panel.scenarios):
        cells = []
        for scenario in panel.scenarios:
            times = [one.time_ms for one in samples_of(data.samples, scenario, arm)]
            cells.append(milliseconds(median(times)) if times else "-")
        table.add_row(escape(arm), *cells)
    known = [one for one in data.references if one.scenario in panel.scenarios]
    for name in dict.fromkeys(one.name for one in known):
        beside = {one.scenario: one.time_ms for one in known if one.name == name}
        cells = [
            milliseconds(beside[scenario]) if scenario in beside else "-"
            for scenario in panel.scenarios
        ]
        table.add_row(f"[dim]{escape(name)}[/]", *cells)
    if known:
        sources = dict.fromkeys(one.source for one in known)
        table.caption_justify = "left"
        table.caption = escape("; ".join(sources))
    return table


def _lookup_table(samples: Sequence[LookupSample], panel: Panel) -> Table:
    """Medians over rounds of what the lookups took, by scenario and arm."""
    table = plain_table(f"random lookups of single rows: {escape(panel.title)}")
    table.add_column(escape(panel.axis))
    table.add_column("arm")
    for name in ("sessions", "lookups/s", "p50", "p99"):
        table.add_column(name, justify="right")
    for scenario in panel.scenarios:
        for arm in dict.fromkeys(one.arm for one in samples if one.scenario == scenario):
            chosen = [one for one in samples if (one.scenario, one.arm) == (scenario, arm)]
            table.add_row(
                escape(scenario.factors[0].value),
                escape(arm),
                str(chosen[0].sessions),
                rate_text(median(one.lookups_per_s for one in chosen)),
                milliseconds(median(one.p50_ms for one in chosen)),
                milliseconds(median(one.p99_ms for one in chosen)),
            )
    return table


def _answer_table(panel: Panel, comparisons: Sequence[Comparison]) -> Table:
    """The questions of a panel, by name and then along the axis."""
    table = plain_table(f"time of the other / ours: {escape(panel.title)}")
    table.add_column("against")
    table.add_column(escape(panel.axis), justify="right")
    table.add_column("other", justify="right")
    table.add_column("ours", justify="right")
    add_ratio_columns(table, [one.estimate for one in comparisons])
    order = list(dict.fromkeys(one.question.name for one in comparisons))
    for item in sorted(comparisons, key=lambda one: order.index(one.question.name)):
        question = item.question
        others = len(question.baselines) > 1
        table.add_row(
            escape(f"{question.name} ({item.baseline})" if others else question.name),
            escape(question.scenario.factors[0].value),
            milliseconds(item.baseline_median_ms),
            milliseconds(item.challenger_median_ms),
            *ratio_cells(item.estimate),
        )
    return table
