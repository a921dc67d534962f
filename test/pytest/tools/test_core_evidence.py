"""The judgement of test/core: a run that streamed too little or differs from stock must fail."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

_CORE = Path(__file__).resolve().parents[2] / "core"
Load = Callable[[str], ModuleType]
_MODULES = ("comparison", "evidence", "modes")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Imports a module of test/core, which is a folder of scripts and no package."""
    monkeypatch.syspath_prepend(str(_CORE))
    yield importlib.import_module
    for name in _MODULES:
        sys.modules.pop(name, None)


def test_counters_of_all_backends_are_summed_and_held_against_the_floor(
    load: Load, tmp_path: Path
) -> None:
    evidence, modes = load("evidence"), load("modes")
    file = tmp_path / "counters"
    file.write_text(
        "index_scan.nodes=3 index_scan.scans=2 index_scan.prefetched=39 index_scan.kills=0 "
        "bitmap_scan.scans=4 bitmap_scan.prefetched=9 \n"
        "index_scan.scans=1 index_scan.prefetched=2 index_scan.direct=1 seq_scan.scans=5 "
        "seq_scan.requests=6 "
        "index_build.scans=7 bulk_insert.rows=10 \n"
    )
    sums = evidence.sum_counters(file)
    assert (sums["scans"], sums["index_scan.prefetched"], sums["builds"]) == (3, 41, 7)
    assert evidence.missing_streams(sums, modes.Floor(3, 42, 4, 9, 5, 6, 7, 10)) == []
    assert len(evidence.missing_streams(sums, modes.Floor(4, 43, 5, 10, 6, 7, 8, 11))) == 8


def test_a_library_that_never_ran_is_below_every_floor(load: Load, tmp_path: Path) -> None:
    evidence, modes = load("evidence"), load("modes")
    nothing = evidence.sum_counters(tmp_path / "never written")
    for mode in modes.MODES:
        for suite in modes.SUITES:
            floor = mode.floors[suite]
            missing = evidence.missing_streams(nothing, floor)
            # With direct I/O all scans are core's.
            kinds = 1 if mode.name == "direct-io" else 7
            counted = sum(bool(n) for n in (floor.rows, floor.drawn, floor.late_starts))
            assert len(missing) == kinds + counted
            # What a mode forces on, at least core's regression suite has to do.
            forced_on = set(mode.forced.values()) - {"off"}
            assert counted or not forced_on or suite == "isolation"


def test_paired_results_are_compared_byte_by_byte(load: Load, tmp_path: Path) -> None:
    comparison = load("comparison")
    stock, ours = tmp_path / "stock", tmp_path / "ours"
    for folder, text in ((stock, "a \n"), (ours, "a\n")):
        folder.mkdir()
        (folder / "same.out").write_text("x\n")
        (folder / "blank.out").write_text(text)
    (stock / "lost.out").write_text("y\n")
    assert set(comparison.differing_tests(stock, ours)) == {"blank", "lost"}


@pytest.mark.parametrize(("worker_pages", "expected"), [(35, set()), (36, {"select_parallel"})])
def test_the_known_race_is_compared_by_its_sum(
    load: Load, tmp_path: Path, worker_pages: int, expected: set[str]
) -> None:
    comparison = load("comparison")
    pages = "Heap Blocks: exact={}\n"
    shares = f"   {pages.format(3415)}   Worker 3:  {pages.format(worker_pages)}"
    results = {
        "stock": f"   {pages.format(3450)}(15 rows)\n",
        "ours": f"{shares}(16 rows)\n",
    }
    for name, text in results.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "select_parallel.out").write_text(text)
    differences = comparison.differing_tests(tmp_path / "stock", tmp_path / "ours")
    assert set(differences) == expected
