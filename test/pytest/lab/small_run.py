"""`lookahead` with a demo so small that it takes seconds: for tests of whole commands.

Run as a program it is the command line itself, in a process of its own that can be interrupted.
"""

from lookahead.cli import main
from lookahead.experiments import controls, index_build, index_scan

SCAN = index_scan.SizeDefaults(
    table_pages=2_000, pages=(300,), io_methods=("worker",), pairs=2, common_read_ahead=False
)
BUILD = index_build.SizeDefaults(
    rows=2_000,
    keys=("int-sorted", "not-vacuumed"),
    workers=(0,),
    memories_mb=(64,),
    extends_kb=(4096,),
    pairs=2,
)
CONTROLS = controls.SizeDefaults(alternations=1, seconds=1)


def shrink() -> None:
    """Make `--demo` small in this process."""
    index_scan.DEFAULTS["demo"] = SCAN
    index_build.DEFAULTS["demo"] = BUILD
    controls.DEFAULTS["demo"] = CONTROLS


if __name__ == "__main__":
    shrink()
    main()
