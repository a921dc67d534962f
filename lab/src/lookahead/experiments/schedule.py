"""The order of samples: the arms of a pair back to back, the order turned round from pair to pair.

A B, B A, A B, ... (ABBA): whatever drifts evenly during the run, or favours the second of two
executions, favours both arms alike, provided that the number of pairs is even.

Samples of a millisecond are rotated instead: A B C, B C A, C A B, ... There the same backend
twice in a row, on both sides of the seam of two rounds, was half as slow again the second time.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

ArmT = TypeVar("ArmT", bound=str)


def alternate(arms: Sequence[ArmT], rounds: int) -> Iterator[tuple[int, ArmT]]:
    """(round, arm) for each sample, rounds counted from 0; odd rounds in reverse order."""
    for number in range(rounds):
        for arm in arms if number % 2 == 0 else tuple(reversed(arms)):
            yield number, arm


def rotate(arms: Sequence[ArmT], rounds: int) -> Iterator[tuple[int, ArmT]]:
    """(round, arm) for each sample, rounds counted from 0; round N begins with the Nth arm.

    Drift cancels out when the number of rounds is a multiple of the number of arms.
    """
    for number in range(rounds):
        first = number % len(arms)
        for arm in (*arms[first:], *arms[:first]):
            yield number, arm
