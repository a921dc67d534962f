"""The experiment "join-latency": the lab's cold nested loops on the delay device of "latency"."""

from dataclasses import dataclass

from lookahead.experiments.experiment import REPETITIONS, TABLE_PAGES, Experiment
from lookahead.experiments.runner import Run
from lookahead_bench.joins import (
    ROWS,
    SHAPE,
    SHAPES,
    Joins,
    join_seconds,
    join_space,
    measure,
)
from lookahead_bench.latency import LATENCY, latency_factor, on_delay_device

_SHAPES = tuple(SHAPES)


@dataclass(frozen=True)
class LatencyJoins(Joins):
    """What is wanted: the joins, and by how many microseconds each read takes longer.

    Stock waits for 2,000 rows of ten pages each 20 s at 1 ms, so fewer rows than else.
    """

    repetitions: int = REPETITIONS.sized(6)
    table_pages: int = TABLE_PAGES.sized(48_000, demo=12_000)
    rows: int = ROWS.sized(500, demo=200)
    shape: tuple[str, ...] = SHAPE.sized(_SHAPES, demo=("key", "ten-rows"))
    latency: int = LATENCY.sized(1000)


def _measure(run: Run, wanted: LatencyJoins) -> None:
    measure(run, wanted, (latency_factor(wanted.latency),))


def _estimated_seconds(wanted: LatencyJoins) -> float:
    # Stock waits for an index page and ten of the table for each row, ours for few.
    waits = sum(10 * wanted.rows * SHAPES[name].rounds_factor for name in wanted.shape)
    return join_seconds(wanted) + wanted.repetitions * waits * wanted.latency / 1e6


EXPERIMENT = Experiment(
    name="join-latency",
    summary="Cold nested loops on a device with added latency.",
    description="The joins of `joins` on the device of `latency`. Needs root; exit "
    "status 3 says that the device serves too few reads at once, or cannot be made here.",
    asked=LatencyJoins,
    needed_bytes=join_space,
    estimated_seconds=_estimated_seconds,
    measure=_measure,
    surround=lambda request, wanted, terminal: on_delay_device(
        request, join_space(wanted), wanted.latency, terminal
    ),
)
