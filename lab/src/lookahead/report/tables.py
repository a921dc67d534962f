"""The one table model: plain text cells, shown on the terminal, on pages, as Markdown and CSV.

    tables = render_tables(document)
    to_markdown(tables), to_csv(tables)

Whoever shows a table decides about widths and colours only; what is in a cell is decided here
once. The tables of a result document are made in result_tables.py and evidence_tables.py.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lookahead.formats import one_line

Align = Literal["left", "right"]


@dataclass(frozen=True)
class Column:
    """A head; names are aligned to the left, numbers to the right."""

    name: str
    align: Align


@dataclass(frozen=True)
class Table:
    """Rows of as many cells as there are columns; `caption` says how to read them."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    @property
    def labels(self) -> int:
        """How many columns at the left are names."""
        aligns = [column.align for column in self.columns]
        return aligns.index("right") if "right" in aligns else len(aligns)


def columns_of(labels: Sequence[str], numbers: Sequence[str] = ()) -> tuple[Column, ...]:
    """Columns of names, then of numbers."""
    return (
        *(Column(name, "left") for name in labels),
        *(Column(name, "right") for name in numbers),
    )


def without_columns(table: Table, empty: Iterable[str]) -> Table:
    """The table without the number columns in which every cell is one of `empty`."""
    nothing = set(empty)
    kept = [
        index
        for index in range(len(table.columns))
        if index < table.labels or not nothing.issuperset(row[index] for row in table.rows)
    ]
    return Table(
        table.title,
        tuple(table.columns[index] for index in kept),
        tuple(tuple(row[index] for index in kept) for row in table.rows),
        table.caption,
    )


def to_markdown(tables: Iterable[Table]) -> str:
    """Tables of GitHub's Markdown, each below its title; cells cannot end their cell."""
    return "\n".join(_markdown(table) for table in tables)


def _markdown(table: Table) -> str:
    rules = ["---" if column.align == "left" else "---:" for column in table.columns]
    lines = [
        f"**{_markdown_text(table.title)}**",
        "",
        _markdown_row(column.name for column in table.columns),
        f"| {' | '.join(rules)} |",
        *(_markdown_row(row) for row in table.rows),
        "",
    ]
    if table.caption:
        lines += [_markdown_text(table.caption), ""]
    return "\n".join(lines)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_markdown_text, cells))} |"


def _markdown_text(text: str) -> str:
    """Text that is no markup."""
    shown = one_line(text)
    for character in "\\|*_`<>[]#~":
        shown = shown.replace(character, f"\\{character}")
    return shown


def to_csv(tables: Iterable[Table]) -> str:
    """A block for each table, an empty line between them; the title is column one."""
    blocks = []
    for table in tables:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["table", *(column.name for column in table.columns)])
        writer.writerows([one_line(cell) for cell in (table.title, *row)] for row in table.rows)
        blocks.append(stream.getvalue())
    return "\n".join(blocks)
