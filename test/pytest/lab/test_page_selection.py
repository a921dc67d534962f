"""Which pages a value hits."""

import pytest

from lookahead.errors import LabError
from lookahead.experiments.page_table import (
    ROW_BYTES,
    ROWS_PER_PAGE,
    Selection,
    fill_statement,
    selections_for,
)


def test_each_share_has_a_value() -> None:
    assert selections_for((0.01, 0.42)) == [Selection(0, 0.01), Selection(1, 0.42)]
    with pytest.raises(LabError, match="108 selections of pages are too many: a page has 107"):
        selections_for(tuple(number / 200 for number in range(1, 109)))


def test_rows_fill_a_page_exactly() -> None:
    usable = 8192 - 24
    assert usable // ROW_BYTES == ROWS_PER_PAGE


def test_statement_names_each_selection_once() -> None:
    statement = fill_statement(1000, selections_for((0.1, 0.5)), 7)
    assert [f"WHEN {value} THEN" in statement for value in range(5)] == [True] * 2 + [False] * 3
    assert "generate_series(0, 106999)" in statement
