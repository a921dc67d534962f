"""Puts the page together: headline, tables and plots of each result, and the results themselves."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lookahead.comparisons import panels_of, proofs, scenarios_of
from lookahead.formats import printable
from lookahead.measurements import Measurements
from lookahead.report.bars import BarPair, bar_plot
from lookahead.report.evidence_tables import ALL_SETTINGS, evidence_tables, machine_line
from lookahead.report.result_plots import ratio_plot, sample_plot
from lookahead.report.result_tables import (
    ComparisonGroup,
    comparison_groups,
    comparison_table,
    figure_tables,
)
from lookahead.report.sentences import headline, labelling, panel_title, title_of
from lookahead.report.svg import WIDTH
from lookahead.results import Content, ResultDocument, write_atomically

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DocumentT = TypeVar("DocumentT", bound="DataclassInstance")


def render_sections(
    template: str,
    section: Callable[[DocumentT], Mapping[str, object]],
    documents: Sequence[tuple[str, DocumentT]],
    contents: Sequence[Content] | None,
    **overview: object,
) -> str:
    """A page with a section for each of these (name, document) pairs, by a template.

    It contains the documents themselves, for those who want to compute: `contents` are those of
    their files, which may be of other versions, where they were read from files. `overview` is
    what the template shows above all sections. What is not marked as HTML is escaped, and so is
    what is not printable: results can come from anywhere.
    """
    if contents is None:
        contents = [asdict(document) for _, document in documents]
    sections = [
        {"name": name, "document": document, "data": _embedded(content), **section(document)}
        for (name, document), content in zip(documents, contents, strict=True)
    ]
    environment = Environment(
        loader=PackageLoader("lookahead.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (
        Markup(printable(environment.get_template(name).render()))
        for name in ("page.css", "page.js")
    )
    policy = _content_policy(style, script)
    shared = {"sections": sections, "style": style, "script": script, "policy": policy}
    return printable(environment.get_template(template).render(**shared, **overview))


def _content_policy(style: str, script: str) -> str:
    """Content-Security-Policy by which this style and this script count, and nothing is loaded."""
    styles, scripts = (
        b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{styles}'; script-src 'sha256-{scripts}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _embedded(value: Content) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def write_page(
    documents: Sequence[tuple[str, ResultDocument]],
    path: Path,
    contents: Sequence[Content] | None = None,
) -> Path:
    """Write the page of these (name, result) pairs; returns its path. LabError: cannot write."""
    write_atomically(path, render_page(documents, contents))
    return path


def write_demo_page(
    documents: Sequence[tuple[str, ResultDocument]],
    path: Path,
    pairs: Sequence[BarPair],
    next_step: str,
) -> Path:
    """As `write_page`, with bars above all results, and what to do next."""
    overview = {"bars": bar_plot(pairs, WIDTH), "next_step": next_step}
    write_atomically(path, render_sections("demo.html", _section, documents, None, **overview))
    return path


def render_page(
    documents: Sequence[tuple[str, ResultDocument]], contents: Sequence[Content] | None = None
) -> str:
    return render_sections("page.html", _section, documents, contents)


def _section(document: ResultDocument) -> dict[str, object]:
    data = document.measurements
    groups = comparison_groups(data)
    panels = panels_of(scenarios_of(data.samples))
    return {
        "title": title_of(document.experiment),
        "headline": headline(document.experiment, data.comparisons),
        "measured": f"{document.started_at[:10]}, PostgreSQL {document.software.server_version}",
        "machine": machine_line(document.machine),
        "statements": list(_statements(data)),
        "comparisons": [(_ratio_plot(one), comparison_table(data, one)) for one in groups],
        "samples": [(panel_title(one, panels), sample_plot(data, one)) for one in panels],
        "results": figure_tables(data),
        "proofs": proofs(data),
        "evidence": evidence_tables(document),
        "folded": ALL_SETTINGS,
    }


def _statements(data: Measurements) -> Iterator[tuple[str, str]]:
    """Each text once, behind the scenarios in which it was executed; "" for all of them."""
    scenarios = scenarios_of(data.samples)
    label = labelling(scenarios)
    found: dict[str, list[str]] = {}
    for scenario in scenarios:
        if scenario.label in data.statements:
            found.setdefault(data.statements[scenario.label], []).append(label(scenario))
    for sql, labels in found.items():
        yield "; ".join(labels) if len(found) > 1 else "", sql


def _ratio_plot(group: ComparisonGroup) -> Markup:
    rows = [(group.contest(one), one.estimate) for one in group.comparisons]
    its, ours, _ = group.reading
    caption = f"{its} / {ours} (right of 1 is faster)"
    return ratio_plot(rows, caption)
