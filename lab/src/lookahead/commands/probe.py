"""`lookahead probe`: measure the device below a folder or tablespace, and write its profile."""

import os
import shlex
from pathlib import Path
from typing import Any

import click

from lookahead.commands.options import (
    SERVER_COMMAND,
    CommandContext,
    OptionValue,
    kind_option,
    output_option,
    pass_command_context,
    path_option,
    seed_option,
    server_options,
)
from lookahead.device.block_device import device_of
from lookahead.device.probe.place import MIN_BYTES, Place, named_folder, tablespace_folder
from lookahead.device.probe.probe import DEFAULT_SIZE_BYTES, ProbeRequest, run_probe
from lookahead.device.probe.probe_data import ProbeDocument
from lookahead.device.profile import merge_into, read_profiles
from lookahead.errors import LabError, UsageError
from lookahead.experiments.experiment import Count, MemorySize, Option, memory_text
from lookahead.report.probe_page import probe_tables

_MIN_TIME_S, _DEFAULT_TIME_S, _MAX_TIME_S = 2, 120, 3600
_SIZE = Option(
    MemorySize(MIN_BYTES // 1024, 2**30),
    "Size of the test file.",
    default=f"{memory_text(DEFAULT_SIZE_BYTES // 1024)}, at most a tenth of the free space",
)
# Leaves a device that serves several GB/s idle for most of the time, and one that serves less than
# this unlimited, which cannot be helped: it is the figure that is looked for.
_DEFAULT_RATE_MB = 500
_MAX_RATE_MB = 1_000_000


@click.command(context_settings=SERVER_COMMAND)
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[FOLDER]")
@click.option("--tablespace", metavar="NAME", help="Instead the folder of this tablespace.")
@server_options("With --tablespace: connection string.")
@path_option(
    "--profile",
    "FILE",
    "Write the profile for pg_lookahead.device_profile; other devices in it are kept.",
)
@click.option(
    "--size",
    "size_kb",
    type=OptionValue(_SIZE),
    metavar=_SIZE.kind.metavar,
    help=f"{_SIZE.help} Default: {_SIZE.default}.",
)
@click.option(
    "--time",
    "time_s",
    type=kind_option(Count(_MIN_TIME_S, _MAX_TIME_S)),
    default=_DEFAULT_TIME_S,
    show_default=True,
    metavar="SECONDS",
    help="Begin no round that would end later; the first is always finished.",
)
@click.option(
    "--rate",
    "rate_mb",
    type=kind_option(Count(0, _MAX_RATE_MB)),
    default=_DEFAULT_RATE_MB,
    show_default=True,
    metavar="MB/S",
    help="Mean over the probe, which rests in between; 0: no limit.",
)
@output_option("Folder for the result file.")
@seed_option("Seed of the places, the order and the intervals.")
@click.option(
    "--force", "forced", is_flag=True, help="Also on a standby, a busy device or a busy server."
)
@pass_command_context
def probe(context: CommandContext, /, **options: Any) -> None:
    """Measure the device below FOLDER.

    Random and sequential direct reads, by fio, of a test file without a name, which is gone
    however the probe ends. Writes a result file with all samples and, with --profile, the file that
    tells the extension how deep and how large to read.

    Exit status: 0 done; 1 a read or a write failed; 2 wrong usage, no folder; 3 no fio, no direct
    reads possible, no room, no permission, no connection, or the device is not to be disturbed
    (see --force); 130 interrupted, what was measured is kept.
    """
    profile: Path | None = options["profile"]
    size_kb: int | None = options["size_kb"]
    place = _place(options["folder"], options["tablespace"], options["dsn"])
    if profile is not None:
        # What would forbid to write it is better said before minutes are spent on measuring.
        read_profiles(profile)
        device_of(place.folder)
    request = ProbeRequest(
        place=place,
        size_bytes=size_kb * 1024 if size_kb is not None else None,
        time_s=float(options["time_s"]),
        rate_mb_per_s=float(options["rate_mb"]),
        output=options["output"],
        seed=options["seed"],
        forced=options["forced"],
        command=context.command,
    )
    with context.terminal.progress(options["time_s"]) as bar:
        file, document = run_probe(request, context.terminal.step, bar.reach)
    _show(context, document)
    context.terminal.result(f"result: {file.path}")
    if profile is not None:
        _write_profile(context, document, profile)
    elif document.profile is not None:
        context.terminal.step("for the extension: the same again with --profile FILE")


def _place(folder: Path | None, tablespace: str | None, dsn: str | None) -> Place:
    if (folder is None) == (tablespace is None):
        raise UsageError(
            "name either a folder or a tablespace",
            "Such as `lookahead probe FOLDER` or `lookahead probe --tablespace pg_default`.",
        )
    if tablespace is not None:
        return tablespace_folder(tablespace, dsn)
    if dsn is not None:
        raise UsageError("a server is asked for a tablespace only", "Name one, or no server.")
    assert folder is not None
    return named_folder(folder)


def _show(context: CommandContext, document: ProbeDocument) -> None:
    assert document.summary is not None
    worked_out, *curves = probe_tables(document.summary)
    context.terminal.tables((*curves, worked_out))
    for finding in document.findings:
        context.terminal.finding(finding.level, finding.text, finding.advice)


def _write_profile(context: CommandContext, document: ProbeDocument, path: Path) -> None:
    if document.profile is None:
        raise LabError(
            "no profile was written: see the warning above",
            "The measurements are in the result file.",
        )
    merge_into(path, document.profile)
    context.terminal.result(f"profile: {path}")
    absolute = str(path.resolve())
    literal = "'" + absolute.replace("'", "''") + "'"
    context.terminal.step(
        f"use it: ALTER SYSTEM SET pg_lookahead.device_profile = {literal}; "
        "SELECT pg_reload_conf();"
    )
    if os.geteuid() != 0:
        context.terminal.step(
            "the file has to belong to root or to the server's account: "
            f"sudo chown root {shlex.quote(absolute)}, if this is neither"
        )
