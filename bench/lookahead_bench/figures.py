"""`make figures`: the figures of README and docs/benchmarks.md, printed from result files.

docs/results/figures.toml names each figure and the command that measures it. A document shows one
between the lines `<!-- figure: NAME -->` and `<!-- end of figure -->`, and README's table of a few
chosen comparisons where NAME is "summary", which docs/summary.svg draws. All that is written by
this program only; test/pytest/bench/test_figures.py holds the documents against the files.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from lookahead.errors import LabError, UsageError
from lookahead.formats import interval_text, milliseconds
from lookahead.measurements import Comparison
from lookahead.report.bars import BarPair
from lookahead.report.result_tables import comparison_groups, comparison_table, wal_table
from lookahead.report.tables import Table, columns_of, to_markdown
from lookahead.results import ResultDocument, encode, read_result, write_atomically
from lookahead_bench.picture import draw

TOP = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "docs/benchmarks.md")
MIN_PAIRS = 6
"""What every comparison that a document shows rests on, at least."""
SUMMARY = "summary"
PICTURE = "docs/summary.svg"
_BLOCK = re.compile(
    r"(?P<begin><!-- figure: (?P<name>[a-z0-9-]+) -->\n)(?P<content>.*?)"
    r"(?P<end><!-- end of figure -->\n)",
    re.DOTALL,
)


@dataclass(frozen=True)
class SummaryRow:
    """A row of README's table: which comparison of which figure, and what it is called there."""

    text: str
    figure: str
    question: str
    scenario: Mapping[str, str]


@dataclass(frozen=True)
class Catalogue:
    """docs/results/figures.toml: the command of each figure, its module first; README's rows."""

    commands: Mapping[str, tuple[str, ...]]
    summary: tuple[SummaryRow, ...]


def read_catalogue(top: Path) -> Catalogue:
    """The figures of the checkout `top`; KeyError where one lacks something."""
    content = tomllib.loads((top / "docs/results/figures.toml").read_text(encoding="utf-8"))
    return Catalogue(
        commands={name: tuple(one["command"].split()) for name, one in content["figure"].items()},
        summary=tuple(
            SummaryRow(one["text"], one["figure"], one["question"], one["scenario"])
            for one in content["summary"]
        ),
    )


def result_path(top: Path, name: str) -> Path:
    """Where the result of a figure is kept."""
    return top / "docs" / "results" / f"{name}.json"


def rewritten(top: Path, document: str) -> str:
    """The document with the content of each figure's block as its result file says.

    LabError when a block names no figure, or a file is missing or has fewer than MIN_PAIRS pairs.
    """
    catalogue = read_catalogue(top)

    def fill(match: re.Match[str]) -> str:
        return f"{match['begin']}{_content(top, catalogue, match['name'])}{match['end']}"

    return _BLOCK.sub(fill, (top / document).read_text(encoding="utf-8"))


def shown_figures(top: Path) -> set[str]:
    """The names of all blocks in the documents."""
    return {
        match["name"]
        for document in DOCUMENTS
        for match in _BLOCK.finditer((top / document).read_text(encoding="utf-8"))
    }


def _content(top: Path, catalogue: Catalogue, name: str) -> str:
    if name == SUMMARY:
        return to_markdown([_summary_table(top, catalogue.summary)])
    if name not in catalogue.commands:
        raise LabError(f'there is no figure "{name}"', "docs/results/figures.toml lists them.")
    document = read_result(result_path(top, name))
    _answers(document, name)  # refuses what rests on few pairs
    groups = comparison_groups(document.measurements)
    tables = [comparison_table(document.measurements, group) for group in groups]
    written = wal_table(document.measurements)
    tables += [written] if written.rows else []
    command = " ".join(catalogue.commands[name])
    return f"```\n{command}\n```\n\n{_conditions(document)}\n\n{to_markdown(tables)}"


def _answers(document: ResultDocument, name: str) -> tuple[Comparison, ...]:
    answers = document.measurements.comparisons  # worked out when the file was read
    pairs = min((one.estimate.pairs for one in answers), default=0)
    if document.status != "complete" or pairs < MIN_PAIRS:
        raise LabError(
            f"the result of {name} is {document.status} and has {pairs} pairs, not {MIN_PAIRS}",
            f"Measure it again: make figures MEASURE={name}",
        )
    return answers


def _conditions(document: ResultDocument) -> str:
    """When it was measured, and with what."""
    return (
        f"Measured on {document.started_at[:10]}: PostgreSQL {document.software.server_version}, "
        f"{document.machine.cpus} processors."
    )


def summary_picture(top: Path) -> str:
    """The rows of README's table as a picture, in SVG; LabError as by rewritten()."""
    return draw(
        [
            BarPair(
                row.text,
                answer.baseline_median_ms,
                answer.challenger_median_ms,
                f"{answer.estimate.ratio:.1f} times as fast",
            )
            for row, answer in _summary(top, read_catalogue(top).summary)
        ]
    )


def _summary_table(top: Path, rows: Sequence[SummaryRow]) -> Table:
    found = _summary(top, rows)
    cells = [
        (
            row.text,
            milliseconds(answer.baseline_median_ms),
            milliseconds(answer.challenger_median_ms),
            f"{answer.estimate.ratio:.2f}",
            interval_text(answer.estimate),
        )
        for row, answer in found
    ]
    pairs = {answer.estimate.pairs for _, answer in found}
    columns = columns_of(("what",), ("stock time", "our time", "times faster", "95 % interval"))
    counts = f"{min(pairs)}" if len(pairs) == 1 else f"{min(pairs)} to {max(pairs)}"
    caption = f"Medians of {counts} pairs of executions, measured in alternation"
    return Table("", columns, tuple(cells), caption)


def _summary(top: Path, rows: Sequence[SummaryRow]) -> list[tuple[SummaryRow, Comparison]]:
    names = dict.fromkeys(row.figure for row in rows)
    answers = {name: _answers(read_result(result_path(top, name)), name) for name in names}
    return [(row, _find(row, answers[row.figure])) for row in rows]


def _find(row: SummaryRow, answers: Sequence[Comparison]) -> Comparison:
    found = [
        one
        for one in answers
        if one.question.name == row.question
        and all(one.question.scenario.value(name) == value for name, value in row.scenario.items())
    ]
    if len(found) != 1:
        raise LabError(
            f'"{row.text}" is {len(found)} comparisons of {row.figure}, not one',
            "docs/results/figures.toml names question and scenario.",
        )
    return found[0]


def measure(name: str, command: Sequence[str], options: Sequence[str]) -> None:
    """Run the command of a figure, and keep its result; not what `options` say of this machine."""
    module, *arguments = command
    with TemporaryDirectory(prefix="lookahead-figure-") as folder:
        subprocess.run(
            [sys.executable, "-m", module, *arguments, "--output", folder, *options],
            env={**os.environ, "PYTHONPATH": str(TOP / "bench")},
            check=True,
        )
        (found,) = Path(folder).glob("*.json")
        document = read_result(found)
    write_atomically(result_path(TOP, name), encode(replace(document, command=tuple(command))))


@click.command()
@click.option("--measure", "names", metavar="NAME,...", help="Measure these first; all: every one.")
@click.argument("options", nargs=-1)
def figures(names: str | None, options: tuple[str, ...]) -> None:
    """Print README's figures and those of docs/benchmarks.md from their result files.

    OPTIONS, after --, are further ones of each run that measures.
    """
    commands = read_catalogue(TOP).commands
    chosen = list(commands) if names == "all" else (names or "").replace(",", " ").split()
    for name in chosen:
        if name not in commands:
            raise UsageError(f'there is no figure "{name}"', f"Figures: {', '.join(commands)}.")
    for name in chosen:
        try:
            measure(name, commands[name], options)
        except subprocess.CalledProcessError as error:
            raise LabError(f"{name} was not measured", "The reason stands above.") from error
    for document in DOCUMENTS:
        write_atomically(TOP / document, rewritten(TOP, document))
    write_atomically(TOP / PICTURE, summary_picture(TOP))
