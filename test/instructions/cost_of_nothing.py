"""Fails when a statement that look-ahead can gain nothing for costs more with the library.

    cost_of_nothing.py [--pg-config PATH] [--shapes NAME...] [--keep FOLDER]

Prints a line for each shape: instructions of one execution without and with the library, their
ratio, and the limit; for those above the limit also the functions that cost more. The exit status
is 1 when there are any. See README.md.
"""

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from counting import Copies, instructions, only_reads, require_valgrind
from limits import LIMITS, SHAPES
from preparing import prepared_server

from lookahead.errors import LabError
from lookahead.extension import find_stage
from lookahead.installation import find_installation
from lookahead_bench.control_shape import Shape

_GROUP = 6  # shapes for one server; arbitrary: few wait for each other, few servers start
_FUNCTIONS_SHOWN = 6  # of a shape that is too high; the profiles of --keep have all


@dataclass(frozen=True)
class Cost:
    """Instructions of one execution of a shape by function, without and with the library."""

    name: str
    without: Mapping[str, float]
    loaded: Mapping[str, float]
    limit: float

    @property
    def ratio(self) -> float:
        return sum(self.loaded.values()) / sum(self.without.values())

    @property
    def is_too_high(self) -> bool:
        return self.ratio > self.limit

    def growth(self) -> list[tuple[float, str]]:
        """What each function costs more with the library than without, most first."""
        names = self.without.keys() | self.loaded.keys()
        more = [(self.loaded.get(name, 0) - self.without.get(name, 0), name) for name in names]
        return sorted(more, reverse=True)

    def __str__(self) -> str:
        totals = (sum(self.without.values()), sum(self.loaded.values()))
        figures = " ".join(f"{total:>13,.0f}" for total in totals)
        verdict = "  TOO HIGH" if self.is_too_high else ""
        return f"{self.name:<26} {figures} {self.ratio:>8.3f} {self.limit:>6.2f}{verdict}"


def main() -> int:
    """Count what the command line asks for; 0 when everything is within its limit."""
    options = _parse()
    too_high = []
    print(
        f"{'instructions per execution':<26} {'without':>13} {'with':>13} {'ratio':>8} {'limit':>6}"
    )
    try:
        for cost in _costs(options):
            print(cost, flush=True)
            if cost.is_too_high:
                too_high.append(cost)
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)
    print(
        f"\n{len(options.shapes) - len(too_high)} of {len(options.shapes)} shapes within the limit"
    )
    if too_high:
        print("too high:")
    for cost in too_high:
        print(cost)
        for more, function in cost.growth()[:_FUNCTIONS_SHOWN]:
            print(f"    {more:+12,.0f} {function}")
    return 1 if too_high else 0


def _costs(options: argparse.Namespace) -> Iterator[Cost]:
    """In the order of the shapes, each as soon as it and those before it are counted."""
    shapes = [SHAPES[name] for name in options.shapes]
    require_valgrind()
    installation = find_installation(options.pg_config)
    stage = find_stage(installation)
    with (
        prepared_server(installation, stage, shapes) as server,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        copies = Copies(server)

        def count(group: list[Shape], *, loaded: bool) -> Future[list[dict[str, float]]]:
            return pool.submit(instructions, copies, group, loaded=loaded, keep=options.keep)

        counts = [
            (group, count(group, loaded=False), count(group, loaded=True))
            for group in _groups(shapes)
        ]
        try:
            for group, without, loaded in counts:
                figures = zip(group, without.result(), loaded.result(), strict=True)
                for shape, stock, ours in figures:
                    yield Cost(shape.name, stock, ours, LIMITS[shape.name])
        finally:
            pool.shutdown(cancel_futures=True)


def _groups(shapes: list[Shape]) -> Iterator[list[Shape]]:
    """Neighbours, to be counted one after the other; none that reads after one that writes."""
    for _, alike in itertools.groupby(shapes, only_reads):
        rest = list(alike)
        while rest:
            yield rest[:_GROUP]
            del rest[:_GROUP]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cost-of-nothing", description="Instructions, counted.")
    parser.add_argument("--pg-config", type=Path, help="of the server (default: as the lab does)")
    parser.add_argument("--shapes", default=" ".join(SHAPES), help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--keep", type=Path, help="folder for callgrind's profiles of each count")
    options = parser.parse_args()
    chosen = options.shapes.replace(",", " ").split()
    unknown = [name for name in chosen if name not in SHAPES]
    if unknown or not chosen:
        parser.error(f"--shapes: {' '.join(unknown) or 'nothing'} is not of {' '.join(SHAPES)}")
    options.shapes = chosen
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    sys.exit(main())
