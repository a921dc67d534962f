"""The range planner, alone: compiled as a library and compared with a plain model of it."""

import ctypes
import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from compiling import shared_library

from lookahead.installation import Installation

_TOP = Path(__file__).resolve().parents[3]
_SOURCE = _TOP / "src" / "prefetch" / "la_range_planner.c"

Range = tuple[int, int, int]  # first block, blocks, wanted blocks


class CRange(ctypes.Structure):
    _fields_ = (
        ("first", ctypes.c_uint32),
        ("nblocks", ctypes.c_uint32),
        ("wanted", ctypes.c_uint32),
    )


class CPlanner(ctypes.Structure):
    _fields_ = (
        ("gap_limit", ctypes.c_uint32),
        ("max_blocks", ctypes.c_uint32),
        ("open", CRange),
    )


@dataclass(frozen=True)
class Planner:
    """The compiled planner; `plan` gives the ranges of a sequence of wanted blocks."""

    library: ctypes.CDLL

    def plan(self, blocks: Iterable[int], gap_limit: int, max_blocks: int) -> list[Range]:
        planner, done, ranges = CPlanner(), CRange(), []
        self.library.la_range_planner_start(ctypes.byref(planner), gap_limit, max_blocks)
        for block in blocks:
            if self.library.la_range_planner_add(
                ctypes.byref(planner), ctypes.c_uint32(block), ctypes.byref(done)
            ):
                ranges.append((done.first, done.nblocks, done.wanted))
        if self.library.la_range_planner_finish(ctypes.byref(planner), ctypes.byref(done)):
            ranges.append((done.first, done.nblocks, done.wanted))
        return ranges

    def is_near(self, open_range: Range, gap_limit: int, block: int) -> bool:
        planner = CPlanner(gap_limit, 1000, CRange(*open_range))
        return bool(
            self.library.la_range_planner_is_near(ctypes.byref(planner), ctypes.c_uint32(block))
        )


@pytest.fixture(scope="module")
def planner(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Planner:
    folder = tmp_path_factory.mktemp("planner")
    loaded = ctypes.CDLL(str(shared_library(_SOURCE, folder, installation, f"-I{_TOP / 'src'}")))
    for name in ("la_range_planner_add", "la_range_planner_finish", "la_range_planner_is_near"):
        getattr(loaded, name).restype = ctypes.c_bool
    return Planner(loaded)


@pytest.mark.parametrize(
    ("blocks", "gap_limit", "max_blocks", "ranges"),
    [
        ([], 2, 16, []),
        ([7], 2, 16, [(7, 1, 1)]),
        ([7, 8, 9], 0, 16, [(7, 3, 3)]),
        ([9, 8, 7], 0, 16, [(7, 3, 3)]),
        ([7, 9], 0, 16, [(7, 1, 1), (9, 1, 1)]),
        ([7, 9], 1, 16, [(7, 3, 2)]),
        ([7, 10, 14], 2, 16, [(7, 4, 2), (14, 1, 1)]),
        ([7, 100, 8], 2, 16, [(7, 1, 1), (100, 1, 1), (8, 1, 1)]),
        ([1, 2, 3, 4, 5], 0, 2, [(1, 2, 2), (3, 2, 2), (5, 1, 1)]),
        ([1, 4, 6], 2, 4, [(1, 4, 2), (6, 1, 1)]),
        ([5, 8, 6], 2, 16, [(5, 4, 2)]),  # 6 lies in the bridged gap and is asked for already
        ([0, 4294967294], 256, 16, [(0, 1, 1), (4294967294, 1, 1)]),
    ],
)
def test_ranges(
    planner: Planner, blocks: list[int], gap_limit: int, max_blocks: int, ranges: list[Range]
) -> None:
    assert planner.plan(blocks, gap_limit, max_blocks) == ranges


def test_near(planner: Planner) -> None:
    for block in range(20):
        assert planner.is_near((8, 3, 3), 2, block) == (5 <= block <= 13)
    assert not planner.is_near((8, 0, 0), 2, 8)
    assert planner.is_near((0, 1, 1), 2, 0)
    assert not planner.is_near((4294967294, 1, 1), 2, 0)


def test_every_wanted_block_is_in_a_range_within_the_bounds(planner: Planner, seed: int) -> None:
    rng = random.Random(f"{seed}:planner")
    for _ in range(300):
        gap_limit, max_blocks = rng.randint(0, 6), rng.randint(1, 20)
        spread = rng.choice((10, 60, 1000))
        blocks = [rng.randrange(spread) for _ in range(rng.randint(0, 80))]
        if rng.random() < 0.5:
            blocks.sort(reverse=rng.random() < 0.5)
        ranges = planner.plan(blocks, gap_limit, max_blocks)
        _check(blocks, ranges, gap_limit, max_blocks)


def _check(blocks: list[int], ranges: list[Range], gap_limit: int, max_blocks: int) -> None:
    """Each range is what one after the other of the blocks made it, and no block is left out."""
    left = list(blocks)
    for first, nblocks, wanted in ranges:
        members = []
        while left and first <= left[0] < first + nblocks:
            members.append(left.pop(0))
        inside = sorted(set(members))
        assert (inside[0], inside[-1]) == (first, first + nblocks - 1)
        assert nblocks <= max_blocks
        assert 1 <= wanted <= len(inside)
        assert all(b - a - 1 <= gap_limit for a, b in pairwise(inside))
    assert not left
