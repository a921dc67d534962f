"""Which file of src/ includes which: arrows between rooms run down, and no files go in a circle.

A file and its header count as one. A room is a folder of src/, or a file of src/ itself. Likewise
the developers' bench stands on the lab, which knows nothing of it.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from findings import Checkout, Outcome

# From the ground up. A file may include files of its own room and of those on floors below; rooms
# on one floor do not know each other. Files of src/ that are not named here are the ground.
_GROUND = "the ground"
_FLOORS = (
    (_GROUND,),
    ("statistics",),
    ("device",),
    ("bulk_write", "eviction", "partitions", "prefetch"),
    ("attach",),
    ("heap_scan", "index_build", "index_scan", "intervals", "join", "late_start"),
    ("maintenance_worker", "needed_partitions"),
    ("bulk_insert",),
    ("la_explain",),
    ("la_module",),
)

_BENCH = "lookahead_bench"

_Arrows = dict[str, set[str]]


def check_arrows(checkout: Checkout) -> Outcome:
    """No arrow up or across, no circle."""
    paths = {path.stem: path for path in checkout.sources(".c", ".h", under="src/")}
    arrows = _read_arrows(checkout)
    circles = _circles(arrows)
    findings = [f"a circle: {', '.join(sorted(names))}" for names in circles]
    findings += _find_wrong_arrows(arrows, paths)
    return Outcome(tuple(sorted(findings)))


def check_lab_arrows(checkout: Checkout) -> Outcome:
    """No file of the lab imports the bench."""
    imports = re.compile(rf"^\s*(from|import) {_BENCH}\b", re.MULTILINE)
    paths = checkout.sources(".py", under="lab/")
    wrong = [path for path in paths if imports.search(checkout.text(path))]
    return Outcome(tuple(f"{path} imports {_BENCH}, which is above it" for path in wrong))


def _read_arrows(checkout: Checkout) -> _Arrows:
    """By base name without suffix, those of the files that it includes."""
    arrows: _Arrows = {}
    for path in checkout.sources(".c", ".h", under="src/"):
        included = re.findall(r'^#include "([^"]+)"', checkout.text(path), re.MULTILINE)
        names = {
            PurePosixPath(name).stem for name in included if (checkout.top / "src" / name).is_file()
        }
        arrows.setdefault(path.stem, set()).update(names - {path.stem})
    return arrows


def _circles(arrows: _Arrows) -> list[frozenset[str]]:
    """Sets of files each of which reaches all others of its set."""
    reached = {name: _reach(arrows, name) for name in arrows}
    circles = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in arrows
        if name in reached[name]
    }
    return sorted(circles, key=sorted)


def _reach(arrows: _Arrows, start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = arrows.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def _find_wrong_arrows(arrows: _Arrows, paths: dict[str, Path]) -> Iterator[str]:
    floors = {room: floor for floor, rooms in enumerate(_FLOORS) for room in rooms}
    rooms = {name: _room(path, floors) for name, path in paths.items()}
    for room in sorted(set(rooms.values()) - floors.keys()):
        yield f"src/{room} has no floor in {Path(__file__).name}"
        floors[room] = len(_FLOORS)
    for name in arrows:
        for other in arrows[name]:
            here, there = rooms[name], rooms[other]
            if here != there and floors[there] >= floors[here]:
                yield f"{paths[name]} includes {paths[other]}, which is not on a floor below"


def _room(path: Path, floors: dict[str, int]) -> str:
    if len(path.parts) > 2:
        return path.parts[1]
    return path.stem if path.stem in floors else _GROUND
