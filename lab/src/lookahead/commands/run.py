"""`lookahead run EXPERIMENT`: measure, write the result, show the table and where the page is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.device.read_ahead import MAX_READ_AHEAD_KB
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.control_workloads import WORKLOAD_NAMES
from lookahead.experiments.controls import run_controls
from lookahead.experiments.index_build import run_index_build
from lookahead.experiments.index_build_keys import KEYS
from lookahead.experiments.index_scan import run_index_scan
from lookahead.experiments.io_methods import IO_METHODS
from lookahead.experiments.latency import run_latency
from lookahead.experiments.request import (
    ControlsRequest,
    IndexBuildRequest,
    IndexScanRequest,
    LatencyRequest,
    RunRequest,
    Size,
)
from lookahead.report.page import write_page
from lookahead.results import read_result

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_MAX_PAGES = 10_000_000
_MAX_REPETITIONS = 1000
_MAX_ROWS = 1_000_000_000
_MAX_WORKERS = 8  # of the default max_worker_processes
_MAX_MEMORY_MB = 1024 * 1024
_MAX_EXTEND_KB = 64 * 1024  # the setting's own bound
_MAX_SEED = 2**31 - 1  # pgbench and hashint8extended take it too
_DEFAULT_SEED = 1
_DEFAULT_LATENCY_US = 1000  # a network volume's
_MAX_LATENCY_US = 1_000_000


class ExperimentGroup(click.Group):
    """Names the experiments when an unknown one is asked for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise LabError(
                f'there is no experiment "{args[0]}"',
                f"Experiments: {', '.join(self.list_commands(ctx))}.",
                status=ExitStatus.USAGE,
            )
        return super().resolve_command(ctx, args)


@click.group(cls=ExperimentGroup)
def run() -> None:
    """Measure stock PostgreSQL against pg_lookahead on a private server.

    Every run writes a result file with all raw samples and a page with its plots.
    """


_SHARED_OPTIONS = (
    click.option("--demo", is_flag=True, help="Smallest size: at most 30 s a scenario."),
    click.option("--quick", is_flag=True, help="Middle size: at most 2 min a scenario."),
    click.option(
        "--pg-config",
        type=click.Path(path_type=Path),
        metavar="PROGRAM",
        help="pg_config of the PostgreSQL 18 to use. Default: the one of this system, "
        "else the pinned binaries.",
    ),
    click.option(
        "--library",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder with lib/pg_lookahead.so and share/extension/. "
        "Default: built from the checkout, else the installed one.",
    ),
    click.option(
        "--output",
        type=click.Path(path_type=Path),
        default=Path("results"),
        show_default=True,
        metavar="DIR",
        help="Folder for the result file and the page.",
    ),
    click.option(
        "--directory",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Where the server's folder is made: the disk to measure. "
        "Default: the temporary directory.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, _MAX_SEED),
        default=_DEFAULT_SEED,
        show_default=True,
        help="Seed of the data, the keys and the interval.",
    ),
    click.option("--keep", is_flag=True, help="Keep the server's folder."),
)


def shared_options(command: CommandT) -> CommandT:
    """The options of every experiment."""
    for option in reversed(_SHARED_OPTIONS):
        command = option(command)
    return command


def repetitions_option(command: CommandT) -> CommandT:
    """The number of pairs or alternations."""
    option = click.option(
        "--repetitions",
        type=click.IntRange(1, _MAX_REPETITIONS),
        help="Samples of each arm per scenario. Default: by size.",
    )
    return option(command)


def io_method_option(command: CommandT) -> CommandT:
    """The I/O methods to measure under."""
    option = click.option(
        "--io-method",
        "io_methods",
        type=click.Choice(IO_METHODS),
        multiple=True,
        help="May be repeated. Default: worker with --demo, else all that the server has.",
    )
    return option(command)


@run.command("index-scan")
@shared_options
@repetitions_option
@io_method_option
@click.option(
    "--pages",
    type=click.IntRange(1, _MAX_PAGES),
    multiple=True,
    help="Distinct table pages that a scan in random order touches; may be repeated. "
    "Default: 1000 and 10000, except with --demo 100000 too.",
)
@click.option(
    "--limit",
    "limits",
    type=click.IntRange(1, _MAX_PAGES),
    multiple=True,
    metavar="ROWS",
    help="LIMIT of a scan in random order; may be repeated. Default: 1 and 100, none with --demo.",
)
@click.option(
    "--share",
    "shares_percent",
    type=click.IntRange(1, 100),
    multiple=True,
    metavar="PERCENT",
    help="Share of the table's pages that a scan in heap order touches; may be repeated. "
    "Default: 10, 25, 50 and 75, none with --demo.",
)
@click.option(
    "--read-ahead",
    "read_aheads_kb",
    type=click.IntRange(0, MAX_READ_AHEAD_KB),
    multiple=True,
    metavar="KB",
    help="Read-ahead of the disk, set during the run; may be repeated. Default: the machine's "
    "own, in the full size also 128 where permitted.",
)
@pass_command_context
def index_scan(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    pages: tuple[int, ...],
    limits: tuple[int, ...],
    shares_percent: tuple[int, ...],
    read_aheads_kb: tuple[int, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """A cold btree index scan, in random order and in the order of the table.

    Ranges of keys, LIMIT, and shares of the table's pages; ranges also against stock's bitmap scan
    and sort of the same rows. Naming one of --pages, --limit and --share leaves out what is not
    named. Without a size option a table of more than 2 GB is made and the run takes hours.
    """
    request = IndexScanRequest(
        run=_run_request(context, shared),
        pages=pages or None,
        limits=limits or None,
        shares_percent=shares_percent or None,
        io_methods=io_methods or None,
        repetitions=repetitions,
        read_aheads_kb=read_aheads_kb or None,
    )
    _finish(context, run_index_scan(request, context.terminal))


@run.command("latency")
@shared_options
@repetitions_option
@io_method_option
@click.option(
    "--pages",
    type=click.IntRange(1, _MAX_PAGES),
    multiple=True,
    help="Distinct table pages that a scan touches; may be repeated. Default: by size.",
)
@click.option(
    "--limit",
    "limits",
    type=click.IntRange(1, _MAX_PAGES),
    multiple=True,
    metavar="ROWS",
    help="LIMIT of a scan; may be repeated. Default: by size.",
)
@click.option(
    "--latency",
    "latency_us",
    type=click.IntRange(1, _MAX_LATENCY_US),
    default=_DEFAULT_LATENCY_US,
    show_default=True,
    metavar="US",
    help="Microseconds that each read takes longer.",
)
@pass_command_context
def latency(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    pages: tuple[int, ...],
    limits: tuple[int, ...],
    latency_us: int,
    repetitions: int | None,
    **shared: Any,
) -> None:
    """A cold btree index scan on a device with added latency.

    The device is made for the run, in memory: a file served with delay through FUSE, a loop device,
    ext4. Needs root. It must first show that it serves 32 reads at once, measured by fio if that is
    installed; exit status 3 says that it does not, or cannot be made here.
    """
    if shared["keep"]:
        raise LabError(
            "--keep is not possible: the device is in memory and ends with the run",
            "Leave it out.",
            status=ExitStatus.USAGE,
        )
    scans = IndexScanRequest(
        run=_run_request(context, shared),
        pages=pages or None,
        limits=limits or None,
        shares_percent=None,
        io_methods=io_methods or None,
        repetitions=repetitions,
        read_aheads_kb=None,
    )
    _finish(context, run_latency(LatencyRequest(scans, latency_us), context.terminal))


@run.command("index-build")
@shared_options
@repetitions_option
@click.option(
    "--key",
    "keys",
    type=click.Choice(list(KEYS)),
    multiple=True,
    metavar="NAME",
    help="What is indexed, such as bigint-random; may be repeated. A wrong name lists all. "
    "Default: by size.",
)
@click.option(
    "--rows",
    type=click.IntRange(1, _MAX_ROWS),
    help="Rows of the table. Default: 500000 with --demo, 2000000 with --quick, else 30000000.",
)
@click.option(
    "--workers",
    type=click.IntRange(0, _MAX_WORKERS),
    multiple=True,
    help="max_parallel_maintenance_workers; may be repeated. Default: 0, in the full size also 2.",
)
@click.option(
    "--memory",
    "memories_mb",
    type=click.IntRange(1, _MAX_MEMORY_MB),
    multiple=True,
    metavar="MB",
    help="maintenance_work_mem; may be repeated. Default: 512, in the full size also 64.",
)
@click.option(
    "--extend-size",
    "extends_kb",
    type=click.IntRange(0, _MAX_EXTEND_KB),
    multiple=True,
    metavar="KB",
    help="pg_lookahead.index_build_extend_size; may be repeated. Default: 4096, except with "
    "--demo others too.",
)
@pass_command_context
def index_build(
    context: CommandContext,
    /,
    keys: tuple[str, ...],
    rows: int | None,
    workers: tuple[int, ...],
    memories_mb: tuple[int, ...],
    extends_kb: tuple[int, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """CREATE INDEX over a table in the cache.

    Of a setting given several times the first value is measured with every key, the others one at
    a time. Without a size option tables of 30 million rows are made and the run takes hours.
    """
    request = IndexBuildRequest(
        run=_run_request(context, shared),
        keys=keys or None,
        rows=rows,
        workers=workers or None,
        memories_mb=memories_mb or None,
        extends_kb=extends_kb or None,
        repetitions=repetitions,
    )
    _finish(context, run_index_build(request, context.terminal))


@run.command("controls")
@shared_options
@repetitions_option
@io_method_option
@click.option(
    "--workload",
    "workloads",
    type=click.Choice(WORKLOAD_NAMES),
    multiple=True,
    help="May be repeated. Default: all.",
)
@pass_command_context
def controls(
    context: CommandContext,
    /,
    io_methods: tuple[str, ...],
    workloads: tuple[str, ...],
    repetitions: int | None,
    **shared: Any,
) -> None:
    """Cached statements, which must not become slower.

    pgbench of short statements and a long scan in shared buffers, and of scans of a table that is
    in the cache of the operating system only, the latter under each --io-method; against backends
    without the library and with it switched off.
    """
    request = ControlsRequest(
        run=_run_request(context, shared),
        workloads=workloads or None,
        io_methods=io_methods or None,
        repetitions=repetitions,
    )
    _finish(context, run_controls(request, context.terminal))


def _run_request(context: CommandContext, shared: dict[str, Any]) -> RunRequest:
    if shared["demo"] and shared["quick"]:
        raise LabError(
            "--demo and --quick exclude each other", "Name one size.", status=ExitStatus.USAGE
        )
    size: Size = "demo" if shared["demo"] else "quick" if shared["quick"] else "full"
    return RunRequest(
        size=size,
        pg_config=shared["pg_config"],
        library=shared["library"],
        output=shared["output"],
        directory=shared["directory"],
        seed=shared["seed"],
        keep=shared["keep"],
        command=context.command,
    )


def _finish(context: CommandContext, result: Path) -> None:
    page = write_page([(result.name, read_result(result))], result.with_suffix(".html"))
    context.terminal.result(f"result:     {result}")
    context.terminal.result(f"page:       {page}")
