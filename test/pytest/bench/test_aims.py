"""Which ratio is aimed at for which comparison, and when an aim counts as reached."""

from dataclasses import replace
from pathlib import Path

import pytest

from lookahead.measurements import Comparison, Factor, Measurements, Question, Sample, Scenario
from lookahead.stats import ratio_of_medians
from lookahead_bench import partitions
from lookahead_bench.aims import AIMS, INSERT_AIMS, WAL_AIMS, Outcome, judge, wal_aim
from lookahead_bench.bulk_insert import PARTS, Conditions, cases_for
from lookahead_bench.control_shape import Shape
from lookahead_bench.control_shapes import SHAPES

_NO_DATA = Measurements()
_ESTIMATE = ratio_of_medians([2.0] * 3, [1.0] * 3, seed=1)


def _comparison(question: str, factors: dict[str, str], baseline_ms: float = 100.0) -> Comparison:
    scenario = Scenario(tuple(Factor(*factor) for factor in factors.items()))
    asked = Question(scenario, question, ("baseline",), ("ours",))
    return Comparison(asked, "baseline", "ours", baseline_ms, 50.0, 2.0, _ESTIMATE)


def _aim(experiment: str, question: str, **factors: str) -> float | None:
    return AIMS[experiment](_comparison(question, factors), Measurements())


@pytest.mark.parametrize(
    ("scan", "question", "aim"),
    [
        ("10,000 pages", "stock", 4.0),
        ("1,000 pages", "stock", 2.5),
        ("999 pages", "stock", None),
        ("10,000 pages", "bitmap and sort", 1 / 1.1),
        ("999 pages", "bitmap and sort", None),
        ("LIMIT 100", "stock", 2.0),
        ("LIMIT 7", "stock", None),
        ("10 % in heap order", "stock", 2.5),
        ("25 % in heap order", "stock", 0.95),
    ],
)
def test_index_scans(scan: str, question: str, aim: float | None) -> None:
    assert _aim("index-scan", question, scan=scan) == aim


def test_limit_1_may_cost_a_moment() -> None:
    """0.05 ms more than the baseline's 0.45 ms."""
    comparison = _comparison("stock", {"scan": "LIMIT 1"}, 0.45)
    assert AIMS["index-scan"](comparison, Measurements()) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("scan", "question", "aim"),
    [
        ("1,000 pages", "stock", 10.0),
        ("300 pages", "stock", None),
        ("10,000 pages", "bitmap and sort", 1 / 1.1),
        ("LIMIT 100", "stock", 2.0),
    ],
)
def test_scans_with_added_latency(scan: str, question: str, aim: float | None) -> None:
    factors = {"scan": scan, "added latency": "1,000 us"}
    assert AIMS["latency"](_comparison(question, factors), Measurements()) == aim


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_controls(shape: Shape) -> None:
    expected = 0.98 if shape.state == "cached" else 0.95
    assert _aim("controls", "off", workload=shape.name) == expected


@pytest.mark.parametrize(
    ("experiment", "question", "factors", "aim"),
    [
        ("bitmap-scan", "stock's default", {"pages": "1 %"}, 1.6),
        ("bitmap-scan", "stock's default", {"pages": "42 %"}, 1.6),
        ("bitmap-scan", "stock's default", {"pages": "75 %"}, 1.2),
        ("bitmap-scan", "stock's default", {"pages": "0.1 %"}, None),
        ("bitmap-scan", "stock's default", {"pages": "90 %"}, None),
        ("bitmap-scan", "best stock plan", {"pages": "0.1 %"}, 1 / 1.05),
        ("bitmap-scan", "ours", {"pages": "42 %"}, 1 / 1.1),
        ("throttled", "stock's default", {"pages": "10 %"}, 1.5),
        ("throttled", "stock's default", {"pages": "42 %"}, 1.8),
        ("throttled", "stock's default", {"pages": "1 %"}, None),
        ("throttled", "optimum", {"pages": "1 %"}, 1 / 1.15),
        ("throttled", "best stock plan", {"pages": "10 %"}, None),
        ("cached-scan", "default", {"data": "cached", "workers": "0"}, 0.98),
        ("cached-scan", "stock's default", {"data": "cold", "workers": "2"}, 1.3),
        ("cached-scan", "stock's default", {"data": "cold", "workers": "4"}, None),
        ("range-query", "setting 1", {"range": "month"}, 3.0),
        ("range-query", "stock's default", {"range": "month"}, 1.5),
        ("seq-scan", "stock's scan", {"read-ahead": "128 kB"}, 1.0),
        ("seq-scan", "stock's COPY", {"read-ahead": "128 kB"}, 1.0),
        ("concurrent-scans", "best of stock", {"sessions": "4"}, 0.95),
    ],
)
def test_table_scans(
    experiment: str, question: str, factors: dict[str, str], aim: float | None
) -> None:
    assert AIMS[experiment](_comparison(question, factors), Measurements()) == aim


def test_bulk_reads_have_an_aim_at_the_default_size_only() -> None:
    default = _comparison("stock's scan", {"scale": "1"})
    assert AIMS["seq-scan"](default, Measurements()) == 1.0
    assert AIMS["seq-scan"](replace(default, challenger="ours, 1MB"), Measurements()) is None


@pytest.mark.parametrize(("in_memory_ms", "aim"), [(99.0, 1 / 1.25), (101.0, None)])
def test_the_device_counts_where_it_is_the_limit(in_memory_ms: float, aim: float | None) -> None:
    comparison = _comparison("device alone", {"read-ahead": "128 kB"}, 100.0)
    scenario = comparison.question.scenario
    samples = tuple(
        Sample(scenario, 0, 0, arm, time_ms, (time_ms,))
        for arm, time_ms in (("seq", 1e6), ("seq, in memory", in_memory_ms))
    )
    assert AIMS["seq-scan"](comparison, Measurements(samples=samples)) == aim
    assert AIMS["seq-scan"](comparison, Measurements()) is None


@pytest.mark.parametrize(
    ("key", "rows", "workers", "aim"),
    [
        ("int-sorted", "30,000,000", "0", 4.0),
        ("int-sorted", "30,000,000", "2", 3.0),
        ("int-sorted", "30,000,000", "1", None),
        ("int-sorted", "999,999", "0", None),
        ("json", "30,000,000", "0", None),
        ("json", "1,000", "2", 0.98),
    ],
)
def test_index_builds(key: str, rows: str, workers: str, aim: float | None) -> None:
    assert _aim("index-build", "stock", key=key, rows=rows, workers=workers) == aim


@pytest.mark.parametrize(
    ("part", "name", "aim"),
    [
        ("flat", "unlogged", 1.8),
        ("flat", "logged", 2.2),
        ("columns", "128 columns", 1.0),
        ("columns", "32 columns", 1.5),
        ("copy", "logged", 1.3),
        ("new-table", "CREATE TABLE AS", 2.0),
        ("new-table", "after TRUNCATE", None),
        ("indexes", "two, after TRUNCATE", 3.0),
        ("indexes", "two indexes", None),
        ("small", "VALUES of 1 row", 0.98),
        ("sessions", "2 sessions", None),
    ],
)
def test_inserts(part: str, name: str, aim: float | None) -> None:
    assert _aim("bulk-insert", "stock", part=part, insert=name) == aim


@pytest.mark.parametrize(
    ("target", "statement", "logging", "aim"),
    [
        ("128 range partitions", "INSERT ... SELECT", "unlogged", 1.8),
        ("128 list partitions", "INSERT ... SELECT", "logged", 2.2),
        ("1,000 range partitions", "INSERT ... SELECT", "logged", None),
        ("10,000 range partitions", "INSERT ... SELECT", "logged", 1.8),
        ("128 list partitions", "COPY", "logged", 1.8),
        ("flat table", "COPY", "unlogged", 1.15),
        ("flat table", "INSERT ... SELECT", "unlogged", None),
        ("flat table", "CREATE TABLE AS", "logged", None),
    ],
)
def test_partitions(target: str, statement: str, logging: str, aim: float | None) -> None:
    factors = {"target": target, "statement": statement, "logging": logging}
    assert _aim("partitions", "stock", **factors) == aim
    assert _aim("partitions", "flat table, ours", **factors) is None


def test_single_rows() -> None:
    factors = {"clients": "64", "target": "128 range partitions", "statement": "single row"}
    assert _aim("partitions", "not loaded", **factors) == 0.98
    assert _aim("partitions", "not loaded, flat", **factors) is None


@pytest.mark.parametrize(
    ("number", "table", "way", "aim"),
    [
        ("1,000", "no index", "direct", 2.5),
        ("1,000", "key and index", "direct", 2.5),
        ("10,000", "no index", "direct", 20.0),
        ("10,000", "key and index", "direct", 9.0),
        ("10,000", "key and index", "planted", None),
        ("128", "no index", "direct", None),
    ],
)
def test_created_partitions(number: str, table: str, way: str, aim: float | None) -> None:
    factors = {"partitions": number, "table": table, "way": way}
    assert _aim("create-partitions", "not loaded", **factors) == aim


@pytest.mark.parametrize(
    ("rows", "question", "figure", "aim"),
    [
        ("first of an interval", "CREATE TABLE first", "p50", 0.5),
        ("first of an interval", "CREATE TABLE first", "p95", None),
        ("first of an interval", "row of a partition", "p50", None),
        ("at the edge, 16 sessions", "not loaded, premade", "mean", 0.98),
        ("at the edge, 16 sessions", "not loaded, premade", "slowest", None),
        ("at the edge, 16 sessions", "not loaded", "mean", None),
        ("clients: 16", "not loaded", "mean", 0.98),
    ],
)
def test_needed_partitions(rows: str, question: str, figure: str, aim: float | None) -> None:
    """Of a first row 20 ms, where the statement that it stands beside takes 10."""
    factors = {"partitions": "1,000", "rows": rows, "figure": figure}
    comparison = _comparison(question, factors, 10.0)
    assert AIMS["needed-partitions"](comparison, Measurements()) == aim


def test_aims_for_partitions_are_for_what_is_measured() -> None:
    cases = partitions.cases_for(partitions.EXPERIMENT.sizes["quick"], Path())
    found = [
        AIMS["partitions"](Comparison(asked, "stock", "ours", 2.0, 1.0, 2.0, _ESTIMATE), _NO_DATA)
        for case in cases
        for asked in case.questions
    ]
    assert {aim: found.count(aim) for aim in found if aim} == {1.8: 2 + 4, 2.2: 2, 1.15: 2}


def test_wal_of_narrow_rows() -> None:
    asked = [
        _comparison("stock", {"part": part, "insert": "logged"}).question
        for part in ("flat", "copy")
    ]
    assert [wal_aim(question) for question in asked] == [1 / 0.6, None]


def test_aims_for_inserts_are_for_some_that_are_measured() -> None:
    conditions = Conditions(1024, (1, 8, 32, 128), (1,), Path())
    cases = cases_for(PARTS, conditions)
    measured = {(str(c.scenario.value("part")), str(c.scenario.value("insert"))) for c in cases}
    named = {key for key in (*INSERT_AIMS, *WAL_AIMS) if key[1]}
    assert named <= measured
    assert {part for part, name in INSERT_AIMS if not name} <= set(PARTS)


def test_a_scenario_without_the_factor_is_said() -> None:
    with pytest.raises(ValueError, match="a scenario has no pages"):
        _aim("throttled", "stock's default", share="10 %")


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [
        ([10.0] * 6, "reached"),
        ([20.0] * 6, "reached"),
        ([30.0] * 6, "missed"),
        ([10.0, 20.0, 30.0] * 2, "open"),
        ([10.0] * 5, "open"),
    ],
)
def test_an_aim_is_judged_by_the_whole_interval(ours: list[float], outcome: Outcome) -> None:
    estimate = ratio_of_medians([40.0] * len(ours), ours, seed=1)
    assert judge(estimate, 2.0) == outcome
