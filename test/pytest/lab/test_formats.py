"""Numbers as text."""

import pytest

from lookahead.formats import (
    interval_text,
    milliseconds,
    number_text,
    ratio_text,
    server_size,
    size_text,
)
from lookahead.stats import ratio_of_medians


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0099, "9.90 us"),
        (0.312, "312 us"),
        (0.9996, "1.00 ms"),
        (99.94, "99.9 ms"),
        (150.4, "150 ms"),
        (1500, "1.50 s"),
        (12345, "12.3 s"),
    ],
)
def test_times(value: float, text: str) -> None:
    assert milliseconds(value) == text


def test_sizes_as_servers_have_them() -> None:
    assert [server_size(value) for value in (0, 8192, 1.5 * 2**20, 2**27, 3 * 2**40)] == [
        *("0 bytes", "8 kB", "1.5 MB", "128 MB", "3 TB")
    ]


def test_sizes_and_numbers() -> None:
    assert [size_text(value) for value in (0, 8192, 8_192_000, 2e9)] == [
        "0 kB",
        "8.19 kB",
        "8.19 MB",
        "2 GB",
    ]
    assert [number_text(value) for value in (0, 0.5, 250, 12_500)] == ["0", "0.5", "250", "12.5k"]


@pytest.mark.parametrize(
    ("pairs", "texts"),
    [
        (1, ("-", "2.00")),
        (2, ("-", "2.00")),
        (3, ("2.00 to 2.00", "2.00 (2.00 to 2.00)")),
    ],
)
def test_ratio_of_few_pairs_has_no_interval(pairs: int, texts: tuple[str, str]) -> None:
    estimate = ratio_of_medians([4.0] * pairs, [2.0] * pairs, seed=1)
    assert (interval_text(estimate), ratio_text(estimate)) == texts
