"""Where more of something stops to help."""

from collections.abc import Sequence

# Within this of the best, a smaller value counts as good enough.
TOLERANCE = 0.05


def knee_of(points: Sequence[tuple[float, float]]) -> float:
    """The least value whose time is within `TOLERANCE` of the least time, of (value, time) pairs.

    Raises ValueError for none.
    """
    if not points:
        raise ValueError("a knee needs points")
    best = min(time for _, time in points)
    return min(value for value, time in points if time <= best * (1 + TOLERANCE))
