"""The trials of each experiment: their arms and questions; without a server."""

from pathlib import Path

from lookahead.experiments.arms import BITMAP_SCAN, SEQ_SCAN, arm_of, concurrency_arm
from lookahead.experiments.bitmap_scan import (
    PLANS,
    Conditions,
    arms_for,
    percent,
    trial_of,
)
from lookahead.experiments.conditions import segments_of
from lookahead.experiments.page_table import Selection
from lookahead.experiments.trials import Trial
from lookahead.measurements import Factor


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
        *("seq", "index", "bitmap, 0", "bitmap, 1", "bitmap, 64"),
        *("bitmap, default", "ours", "ours, 0", "ours, 1"),
    ]
    assert names(("seq",), (64,)) == ["seq", "bitmap, default", "ours"]


def test_bitmap_trial_is_compared_by_plan_and_setting() -> None:
    conditions = Conditions(Selection(7, 0.42), "4MB", "sync", Factor("read-ahead", "128 kB"))
    arms = arms_for(PLANS, (0, 1), "4MB")
    trial = trial_of(conditions, arms, 1000)
    assert trial.scenario.label == "42 %, 4MB, sync, 128 kB"
    assert _questions(trial) == ["stock's default", "best stock plan", "ours", "ours"]
    assert [one.challengers for one in trial.questions[2:]] == [("ours, 0",), ("ours, 1",)]
    assert percent(0.001) == "0.1 %"
    alone = trial_of(conditions, arms_for((), (), "4MB"), 1000)
    assert _questions(alone) == ["stock's default"]
    best = trial.questions[1]
    assert {"seq", "index", "bitmap, 0", "bitmap, default"} <= set(best.baselines)
    assert not any(name.startswith("ours") for name in best.baselines)
    assert trial.statement_of(arms[0]).endswith("WHERE c1 = 7")


def test_segments_are_the_relations_own_in_their_order(tmp_path: Path) -> None:
    for name in ("163", "163.1", "163.2", "163.10", "163_fsm", "163_vm", "1634", "1634.1"):
        (tmp_path / name).touch()
    found = [segment.name for segment in segments_of(tmp_path / "163")]
    assert found == ["163", "163.1", "163.2", "163.10"]
