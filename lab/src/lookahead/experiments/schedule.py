"""The order of samples: the arms of a pair back to back, the order turned round from pair to pair.

A B, B A, A B, ... (ABBA): whatever drifts evenly during the run, or favours the second of two
executions, favours both arms alike, provided that the number of pairs is even.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

ArmT = TypeVar("ArmT", bound=str)


def alternate(arms: Sequence[ArmT], rounds: int) -> Iterator[tuple[int, ArmT]]:
    """(round, arm) for each sample, rounds counted from 0; odd rounds in reverse order."""
    for number in range(rounds):
        for arm in arms if number % 2 == 0 else tuple(reversed(arms)):
            yield number, arm
