"""The experiment "tpch": its queries and tables, and a whole run of two queries."""

from pathlib import Path

import pytest

from bench.small_bench import PG_CONFIG, run_bench
from lookahead.errors import ExitStatus
from lookahead.results import read_result
from lookahead_bench import tpch


def test_queries() -> None:
    assert list(tpch.QUERIES) == [f"Q{number}" for number in range(1, 23)]
    for name, text in tpch.QUERIES.items():
        assert text.startswith("SELECT "), name
        assert ";" not in text, name
        assert text.count("(") == text.count(")"), name


def test_keys_are_columns() -> None:
    for name, table in tpch.TABLES.items():
        columns = {column.split()[0] for column in table.columns.split(", ")}
        assert {*table.key.split(", "), *table.indexed} <= columns, name


@pytest.mark.end_to_end
@pytest.mark.usefixtures("small")
def test_whole_run(tmp_path: Path, disk: Path) -> None:
    place = ("--directory", disk, "--output", tmp_path, *PG_CONFIG)
    outcome = run_bench("run", "tpch", "--demo", *place)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    measured = read_result(path).measurements
    assert {table.name: table.rows for table in measured.tables} | {"lineitem": 0} == {
        "region": 5,
        "nation": 25,
        "supplier": 100,
        "part": 2_000,
        "partsupp": 8_000,
        "customer": 1_500,
        "orders": 15_000,
        "lineitem": 0,
    }
    assert {(one.scenario.value("query"), one.arm) for one in measured.samples} == {
        (query, arm) for query in ("Q2", "Q22") for arm in ("stock", "ours")
    }
    assert {digest.rows for digest in measured.digests} != {0}


@pytest.mark.usefixtures("small")
def test_without_the_generator(tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpch, "GENERATOR", "no-such-generator")
    outcome = run_bench(
        "run", "tpch", "--demo", "--directory", disk, "--output", tmp_path, *PG_CONFIG
    )
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "no-such-generator was not found" in outcome.stderr
    assert "hint: make setup installs it." in outcome.stderr
