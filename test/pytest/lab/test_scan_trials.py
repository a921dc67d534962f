"""The trials of each experiment: their arms and questions; without a server."""

import os
from pathlib import Path

import pytest

from lookahead.cold import read_directly
from lookahead.errors import LabError
from lookahead.experiments import cached_scan, concurrent_scans, range_query, seq_parts
from lookahead.experiments.arms import BITMAP_SCAN, SEQ_SCAN, arm_of, concurrency_arm
from lookahead.experiments.bitmap_scan import (
    PLANS,
    RANDOM_INDEX_ARM,
    Conditions,
    arms_for,
    percent,
    trial_of,
)
from lookahead.experiments.conditions import segments_of
from lookahead.experiments.page_table import Selection
from lookahead.experiments.range_query import fill_lineitem
from lookahead.experiments.range_query import range_query as range_statement
from lookahead.experiments.seq_parts import knee_of, parse_log
from lookahead.experiments.trials import Trial


def _questions(trial: Trial) -> list[str]:
    return [question.name for question in trial.questions]


def test_arm_has_its_plan_alone_and_its_setting() -> None:
    arm = concurrency_arm(BITMAP_SCAN, 64, settings={"work_mem": "4MB"})
    assert arm.name == "bitmap, 64"
    assert arm.library == "off"
    assert arm.settings == {
        "enable_seqscan": "off",
        "enable_indexscan": "off",
        "work_mem": "4MB",
        "effective_io_concurrency": "64",
    }
    assert concurrency_arm(BITMAP_SCAN, None).name == "bitmap, default"
    assert concurrency_arm(SEQ_SCAN, None, "on").name == "ours"
    assert "effective_io_concurrency" not in concurrency_arm(BITMAP_SCAN, None).settings
    assert arm_of("COPY", "").settings == {}


def test_bitmap_arms_follow_what_is_asked_for() -> None:
    def names(plans: tuple[str, ...], settings: tuple[int, ...]) -> list[str]:
        chosen = [plan for plan in PLANS if plan in plans]
        return [arm.name for arm in arms_for(chosen, settings, "4MB")]

    assert names(PLANS, (0, 1, 64)) == [
        *("seq", "index", RANDOM_INDEX_ARM, "bitmap, 0", "bitmap, 1", "bitmap, 64"),
        *("bitmap, default", "ours", "ours, 0", "ours, 1"),
    ]
    assert names(("seq",), (64,)) == ["seq", "bitmap, default", "ours"]


def test_bitmap_trial_is_compared_by_plan_and_setting() -> None:
    conditions = Conditions(Selection(7, 0.42, "uniform"), "4MB", "sync", 128)
    arms = arms_for(PLANS, (0, 1), "4MB")
    trial = trial_of(conditions, arms, 1000, article=True)
    assert trial.scenario.label == "42 %, uniform, 4MB, sync, 128 kB"
    assert _questions(trial) == ["stock's default", "best stock plan", "ours", "ours"]
    assert [one.challengers for one in trial.questions[2:]] == [("ours, 0",), ("ours, 1",)]
    assert percent(0.001) == "0.1 %"
    alone = trial_of(conditions, arms_for((), (), "4MB"), 1000, article=False)
    assert _questions(alone) == ["stock's default"]
    best = trial.questions[1]
    assert {"seq", "index", "bitmap, 0", "bitmap, default"} <= set(best.baselines)
    assert not any(name.startswith("ours") for name in best.baselines)
    assert [one.time_ms for one in trial.references[:2]] == [145_000.0, 102_000.0]
    assert trial_of(conditions, arms, 1000, article=False).references == ()
    (random_arm,) = (arm for arm in arms if arm.name == RANDOM_INDEX_ARM)
    assert trial.statement_of(random_arm).endswith("WHERE c2 = 7 AND c2 < 1000")
    assert trial.statement_of(arms[0]).endswith("WHERE c1 = 7")


def test_cached_trial_compares_each_setting_with_itself() -> None:
    trial = cached_scan.cached_trial(4, "64kB")
    assert [one.name for one in trial.questions] == [
        *("setting 0", "stock's default", "setting 1000", "not loaded")
    ]
    pairs = [(one.baselines, one.challengers) for one in trial.questions]
    assert pairs == [
        (("bitmap, 0",), ("ours, 0",)),
        (("bitmap, default",), ("ours",)),
        (("bitmap, 1000",), ("ours, 1000",)),
        (("not loaded",), ("ours",)),
    ]
    assert not trial.cold
    assert [one.time_ms for one in trial.references] == [952.0, 1016.0, 1027.0]
    assert cached_scan.cached_trial(2, "64kB").references == ()
    assert cached_scan.cached_trial(4, "64MB").references == ()
    assert {arm.settings["max_parallel_workers_per_gather"] for arm in trial.arms} == {"4"}


def test_cold_parallel_trial() -> None:
    trial = cached_scan.cold_trial(2, 3, 500)
    assert trial.cold
    assert (trial.rows, trial.pages) == (500, 500)
    assert _questions(trial) == ["stock's default"]
    assert trial.statement.startswith("SELECT count(pad)")


def test_range_query_trial() -> None:
    trial = range_query.trial_of("year", 1.0, "worker")
    assert _questions(trial) == ["setting 1", "stock's default", "best stock plan"]
    assert len(trial.references) == 3
    assert range_query.trial_of("week", 1.0, "worker").references == ()
    assert "interval '1 year'" in range_statement("year")
    assert "generate_series(1, 1500)" in fill_lineitem(1500, 1)


def test_concurrent_trial() -> None:
    trial = concurrent_scans.trial_of(16, "sync", (4, 64))
    assert [arm.name for arm in trial.arms] == [
        *("bitmap, 4", "bitmap, 64", "bitmap, default"),
        *("ours", "ours, distance 4", "ours, distance 64"),
    ]
    assert _questions(trial) == ["stock's default", "best of stock"]


def test_scan_trial_has_the_article_where_it_measured() -> None:
    fast = seq_parts.ScanLimits((), 2500.0, 2600.0)
    known = seq_parts.scan_trial(16384, 3000 * 1024, fast)
    assert {one.name: one.time_ms for one in known.references} == {
        "seq, in memory": 2600.0,
        "article: COPY": 18_000.0,
    }
    other = seq_parts.scan_trial(100, 3000 * 1024, fast)
    assert [one.name for one in other.references] == ["seq, in memory"]


def test_device_is_measured_beside_a_scan_where_it_can_be() -> None:
    fast, slow = (seq_parts.ScanLimits((), ms, 2600.0) for ms in (2500.0, 2700.0))
    assert [limits.is_device for limits in (fast, slow)] == [False, True]
    known = seq_parts.scan_trial(128, 3000 * 1024, fast)
    assert "device alone" in [arm.name for arm in known.arms]
    silent = seq_parts.scan_trial(128, 3000 * 1024, seq_parts.ScanLimits((), None, 2600.0))
    assert "device alone" not in [arm.name for arm in silent.arms]


def test_copies() -> None:
    known = seq_parts.scan_trial(128, 3000 * 1024, seq_parts.ScanLimits((), None, 1.0))
    copies = {arm.name: known.statement_of(arm) for arm in known.arms if not arm.plan}
    assert copies["COPY table"] == "COPY lookahead_wide TO STDOUT"
    assert copies["COPY query, stock"] == copies["COPY query, ours"]


def test_bulk_and_vacuum_trials() -> None:
    bulk = seq_parts.bulk_trial(20, ("0", "16kB"))
    assert [arm.name for arm in bulk.arms] == ["seq", "ours", "ours, 0", "ours, 16kB"]
    assert _questions(bulk) == ["stock's scan"] * 3
    assert [one.challengers for one in bulk.questions[1:]] == [("ours, 0",), ("ours, 16kB",)]
    vacuum = seq_parts.vacuum_trial(20, "1MB", (0, 16))
    assert vacuum.questions == ()
    assert [arm.settings["maintenance_io_concurrency"] for arm in vacuum.arms] == ["0", "16"]
    assert vacuum.server == {"io_max_combine_limit": "1MB"}


def test_knee_is_the_least_value_that_is_good_enough() -> None:
    times = [(128.0, 26.0), (1024.0, 20.0), (4096.0, 18.0), (8192.0, 17.5), (163840.0, 24.0)]
    assert knee_of(times) == 4096.0
    assert knee_of([(8.0, 5.0)]) == 8.0
    with pytest.raises(ValueError, match="needs points"):
        knee_of([])


def test_log_of_pgbench() -> None:
    assert parse_log("0 1 1500 0 1700000000 12\n3 2 250 0 1700000000 99\n") == [1.5, 0.25]
    assert parse_log("") == []
    for text in ("0 1\n", "0 1 failed 0 1700000000 12\n"):
        with pytest.raises(LabError, match="another shape"):
            parse_log(text)


def test_reading_directly(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(3 * 2**20 + 8192))
    try:
        assert read_directly([path]) > 0
    except LabError as error:  # a file system without direct I/O
        pytest.skip(error.message)
    path.unlink()
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError):
        read_directly([missing])


def test_segments_are_the_relations_own_in_their_order(tmp_path: Path) -> None:
    for name in ("163", "163.1", "163.2", "163.10", "163_fsm", "163_vm", "1634", "1634.1"):
        (tmp_path / name).touch()
    found = [segment.name for segment in segments_of(tmp_path / "163")]
    assert found == ["163", "163.1", "163.2", "163.10"]
