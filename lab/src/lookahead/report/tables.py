"""The one table model: plain text cells, shown on the terminal, on pages, as Markdown and CSV.

    tables = render_tables(document)
    to_markdown(tables), to_csv(tables)

Whoever shows a table decides about widths and colours only; what is in a cell is decided here
once. The tables of a result document are made in result_tables.py and evidence_tables.py.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from lookahead.formats import NOTHING, one_line

T = TypeVar("T")
Align = Literal["left", "right"]
Cells = Sequence[tuple[str, Callable[[T], str]]]
"""Heads, each with what stands below it in the row of a T."""
# What Markdown may read as markup; and where GitHub makes links of names, numbers and addresses, or
# an emoji. It does so in what was rendered, where an escape is gone and an empty comment is not.
_MARKUP = re.compile(r"[\\|*_`<>\[\]#~&$]")
_LINKED = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//|[a-z_+-])|(?<=www)(?=\.)", re.IGNORECASE)
_BREAK = "<!-- -->"
# What a spreadsheet takes for a formula, unless it is a number.
_FORMULA = ("=", "+", "-", "@")
_NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?", re.ASCII)


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
    return (
        *(Column(name, "left") for name in labels),
        *(Column(name, "right") for name in numbers),
    )


def table_of(
    title: str, items: Iterable[T], labels: Cells[T], numbers: Cells[T] = (), caption: str = ""
) -> Table:
    columns = columns_of([name for name, _ in labels], [name for name, _ in numbers])
    rows = tuple(tuple(cell(one) for _, cell in (*labels, *numbers)) for one in items)
    return Table(title, columns, rows, caption)


def without_columns(table: Table, empty: Iterable[str]) -> Table:
    """The table without the number columns in which every cell is one of `empty`."""
    nothing = set(empty)
    kept = [
        index
        for index in range(len(table.columns))
        if index < table.labels or not nothing.issuperset(row[index] for row in table.rows)
    ]
    return with_columns(table, kept)


def with_columns(table: Table, kept: Sequence[int]) -> Table:
    """The table with these of its columns."""
    columns = tuple(table.columns[index] for index in kept)
    rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
    return replace(table, columns=columns, rows=rows)


def to_markdown(tables: Iterable[Table]) -> str:
    """Tables of GitHub's Markdown, each below its title; cells cannot end their cell."""
    return "\n".join(_markdown(table) for table in tables)


def _markdown(table: Table) -> str:
    rules = ["---" if column.align == "left" else "---:" for column in table.columns]
    lines = [
        *((f"**{_markdown_text(table.title)}**", "") if table.title else ()),
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
    """Text that is no markup, and of which no link is made."""
    parts = _LINKED.split(one_line(text))
    return _BREAK.join(_MARKUP.sub(r"\\\g<0>", part) for part in parts)


def to_csv(tables: Iterable[Table]) -> str:
    """A block for each table, an empty line between them.

    The title is column one, the caption, if there is one, the last. An apostrophe keeps a
    spreadsheet from computing what is text.
    """
    return "\n".join(map(_csv, tables))


def _csv(table: Table) -> str:
    names = [column.name for column in table.columns]
    rows = [["table", *names], *([table.title, *row] for row in table.rows)]
    if table.caption:
        captions = ["caption", *(table.caption for _ in table.rows)]
        rows = [[*row, caption] for row, caption in zip(rows, captions, strict=True)]
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(_csv_text, row) for row in rows)
    return stream.getvalue()


def _csv_text(text: str) -> str:
    """Text in one line that is no formula."""
    shown = one_line(text)
    is_safe = shown == NOTHING or _NUMBER.fullmatch(shown) is not None
    return f"'{shown}" if shown.startswith(_FORMULA) and not is_safe else shown
