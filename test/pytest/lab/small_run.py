"""`lookahead` with a demo so small that it takes seconds: for tests of whole commands.

Run as a program it is the command line itself, in a process of its own that can be interrupted.
"""

from lookahead.cli import main
from lookahead.experiments import controls, index_build, latency, scan_scenarios

SCAN = scan_scenarios.SizeDefaults(
    table_pages=2_000,
    patterns=scan_scenarios.Patterns(pages=(300,), limits=(), shares_percent=()),
    io_methods=("worker",),
    pairs=2,
    common_read_ahead=False,
)
CONTROLS = controls.SizeDefaults(
    alternations=1,
    os_cached_alternations=1,
    seconds=1,
    os_cached_pages=8_000,  # twice the shared buffers
    io_methods=("sync",),
)
BUILD = index_build.SizeDefaults(
    rows=2_000,
    keys=("int-sorted", "not-vacuumed"),
    workers=(0,),
    memories_mb=(64,),
    extends_kb=(4096,),
    pairs=2,
)


def shrink() -> None:
    """Make `--demo` small in this process."""
    scan_scenarios.DEFAULTS["demo"] = SCAN
    index_build.DEFAULTS["demo"] = BUILD
    controls.DEFAULTS["demo"] = CONTROLS
    latency.DEFAULTS["demo"] = SCAN
    # What a busy machine manages too: the experiment is tested, not the machine.
    latency.MIN_READS_AT_ONCE = 2


if __name__ == "__main__":
    shrink()
    main()
