"""`lookahead probe` with few patterns: a round takes seconds.

Run as a program it is the command line itself, in a process of its own that can be interrupted.
"""

from lookahead.cli import main
from lookahead.device.probe import probe

DEPTHS, REQUEST_SIZES_KB = (1, 16), (8, 128)
SAMPLES_OF_A_ROUND = len(DEPTHS) + len(REQUEST_SIZES_KB)


def few_patterns() -> dict[str, tuple[int, ...]]:
    """What replaces the names of the probe's module."""
    return {"DEPTHS": DEPTHS, "REQUEST_SIZES_KB": REQUEST_SIZES_KB}


if __name__ == "__main__":
    for name, values in few_patterns().items():
        setattr(probe, name, values)
    main()
