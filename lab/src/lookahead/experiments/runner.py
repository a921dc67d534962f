"""What all experiments share: what is asked for, a server, a valid result file, an orderly end.

    with open_run(request, "index-scan", ...) as run:
        run.server.start()
        ...
        run.record(measurements=data)

The result file is claimed before anything expensive happens. However the block ends, the server is
gone afterwards and the file holds what was measured; without a single sample it is removed.
"""

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import psycopg

import lookahead
from lookahead.cold import check_can_be_cold, check_place
from lookahead.comparisons import compare
from lookahead.device.block_device import find_block_device
from lookahead.device.profile import parse_profiles
from lookahead.errors import BadFileError, LabError, UnavailableError, last_lines
from lookahead.extension import LIBRARY, find_stage
from lookahead.installation import find_installation
from lookahead.machine import busy_share, collect_machine_facts, collect_source_facts
from lookahead.measurements import Measurements
from lookahead.results import (
    SCHEMA,
    SCHEMA_VERSION,
    Finding,
    Parameters,
    ResultDocument,
    ResultFile,
    Software,
    now_text,
    read_text,
)
from lookahead.server import PrivateServer, Session
from lookahead.terminal import Terminal

Size = Literal["demo", "quick", "full"]
SIZES: tuple[Size, ...] = get_args(Size)
DEFAULT_SEED = 1


@dataclass(frozen=True)
class RunRequest:
    """The options that all experiments share.

    `directory` is where the server's folder is made, `output` the folder for the result file,
    `profile` a device profile for the server. `command` is the exact command line; `facts` are what
    is to be known of a place that was made for the run.
    """

    size: Size
    pg_config: Path | None
    library: Path | None
    output: Path
    directory: Path
    command: tuple[str, ...]
    profile: Path | None = None
    seed: int = DEFAULT_SEED
    keep: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


def read_profile(profile: Path) -> str:
    """The text of a file; LabError when it is no profile."""
    try:
        text = read_text(profile)
        parse_profiles(text)
    except (BadFileError, ValueError) as error:
        raise UnavailableError(
            f'"{profile}" is no device profile: {str(error).partition(chr(10))[0]}',
            "Name a file that `lookahead probe --profile FILE` has written.",
        ) from None
    return text


def copy_profile(server: PrivateServer, text: str) -> str:
    """Have the server use a copy from its next start on; returns what the profile says.

    The copy lies in the server's folder, where its account can read it.
    """
    copy = server.write_file("device.profile", text)
    server.configure({"pg_lookahead.device_profile": str(copy)})
    devices = "; ".join(
        f"{one.measured_at}, depth {one.depth}, {one.iops:,.0f} reads/s, "
        f"{one.bandwidth_mb:,.0f} MB/s"
        for one in parse_profiles(text)
    )
    return f"device profile in use: {devices or 'of no device'}"


# Others that take more of the processors disturb the figures; both arbitrary, as a probe's.
_BUSY_SHARE = 0.2
_LOOK_SECONDS = 0.3
# File locations say nothing about the server's behaviour; internal ones cannot be set.
_SETTINGS_QUERY = """
    SELECT name, current_setting(name) FROM pg_settings
    WHERE setting IS DISTINCT FROM boot_val AND context <> 'internal'
      AND category <> 'File Locations' AND name NOT IN
          ('dynamic_library_path', 'extension_control_path', 'unix_socket_directories',
           'pg_lookahead.device_profile')
    ORDER BY name"""


@dataclass
class Run:
    """A run under way: its server, the device below it, its result so far.

    `explicit` has the names of the options that were given.
    """

    server: PrivateServer
    document: ResultDocument
    file: ResultFile
    terminal: Terminal
    explicit: frozenset[str]

    def __post_init__(self) -> None:
        self.installation = self.server.installation
        self.device = find_block_device(self.server.directory)

    @property
    def path(self) -> Path:
        return self.file.path

    def record(self, **changes: Any) -> None:
        self.document = replace(self.document, **changes)
        self.file.write(self.document)

    def find(self, level: Literal["note", "warning"], text: str, advice: str = "") -> None:
        """Add a finding to the result and show it."""
        self.terminal.finding(level, text, advice)
        finding = Finding(level, text, advice)
        self.record(findings=(*self.document.findings, finding))

    def record_settings(self, connection: Session) -> None:
        """Keep the settings in effect that differ from their defaults."""
        rows = connection.execute(_SETTINGS_QUERY).fetchall()
        self.record(settings={name: str(value) for name, value in rows})


@contextmanager
def open_run(
    request: RunRequest,
    experiment: str,
    parameters: Parameters,
    terminal: Terminal,
    *,
    settings: Mapping[str, str],
    needed_bytes: int,
    explicit: frozenset[str] = frozenset(),
) -> Iterator[Run]:
    """A run whose server exists and is not started yet; ends as described above.

    Raises LabError when the output folder, the server, the library or disk space is missing, and
    for errors of the database in the block that a user can meet.
    """
    profile = None if request.profile is None else read_profile(request.profile)
    file = ResultFile.claim(request.output, experiment, datetime.now(UTC))
    run: Run | None = None
    ending = "interrupted"
    try:
        check_place(request.directory, needed_bytes)
        with _make_server(request, settings) as server:
            check_can_be_cold(server.directory)
            document = _new_document(request, experiment, parameters, server)
            run = Run(server, document, file, terminal, explicit)
            _preflight(run, request, profile)
            with _explained(server):
                yield run
        ending = "complete"
    except Exception as error:
        ending = f"failed: {error.message if isinstance(error, LabError) else error!r}"
        raise
    finally:
        _finish(run, file, terminal, ending)


def _make_server(request: RunRequest, settings: Mapping[str, str]) -> PrivateServer:
    installation = find_installation(request.pg_config)
    name = f"lookahead-server-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    return PrivateServer(
        installation,
        stage=find_stage(installation, library=request.library),
        settings=settings,
        directory=request.directory / name,  # another one in each run
        keep=request.keep,
    )


def _new_document(
    request: RunRequest, experiment: str, parameters: Parameters, server: PrivateServer
) -> ResultDocument:
    assert server.stage is not None
    library = server.stage.library_directory / f"{LIBRARY}.so"
    software = Software(
        lab_version=lookahead.__version__,
        server_version=server.installation.version,
        server_source=server.installation.source,
        library_sha256=hashlib.sha256(library.read_bytes()).hexdigest(),
        source=collect_source_facts(),
    )
    return ResultDocument(
        schema=SCHEMA,
        schema_version=SCHEMA_VERSION,
        experiment=experiment,
        status="incomplete",
        ending="running",
        started_at=now_text(),
        finished_at=None,
        command=request.command,
        software=software,
        machine=collect_machine_facts(server.directory),
        settings={},
        parameters=parameters,
        findings=(),
        facts=dict(request.facts),
        measurements=Measurements(),
    )


def _preflight(run: Run, request: RunRequest, profile: str | None) -> None:
    """Say what is measured with, and what about the machine makes figures doubtful."""
    software = run.document.software
    run.terminal.step(f"PostgreSQL {software.server_version} ({software.server_source})")
    if request.keep:
        run.terminal.step(f"the server's folder is kept: {run.server.directory}")
    if profile is not None:
        run.find("note", copy_profile(run.server, profile))
    machine = run.document.machine
    if (share := busy_share(_LOOK_SECONDS)) > _BUSY_SHARE:
        run.find(
            "warning",
            f"the machine is busy: others take {share:.0%} of its {machine.cpus} CPUs",
            "Repeat the run when nothing else is running.",
        )
    if run.device is None:
        run.find(
            "warning",
            f"no block device is visible below the data directory ({machine.device.filesystem})",
            "Name a folder on a local disk with --directory; requests cannot be counted here.",
        )


@contextmanager
def _explained(server: PrivateServer) -> Iterator[None]:
    """Turn errors of the database into LabErrors with their cause."""
    try:
        yield
    except psycopg.errors.DiskFull as error:
        raise LabError(
            f"the disk is full: {error.diag.message_primary}",
            "Make room, name another place with --directory, or take a smaller size "
            "(--demo, --quick).",
        ) from None
    except psycopg.OperationalError as error:
        raise LabError(
            f"no connection to the server: {str(error).strip()}; its log ends with:\n"
            f"{last_lines(server.read_log())}",
            "If it crashed, please report it with this log.",
        ) from error


def _finish(run: Run | None, file: ResultFile, terminal: Terminal, ending: str) -> None:
    """Mark the result complete or not; remove it when nothing was measured.

    Comparisons take seconds: those of an incomplete one are left to its readers.
    """
    document = run.document if run else None
    if run is None or document is None or not document.measurements.samples:
        file.discard()
        return
    if ending == "complete":
        terminal.step("working out the intervals")
        data, seed = document.measurements, document.parameters.seed
        data = replace(data, comparisons=compare(data, seed))
        document = replace(document, measurements=data, status="complete", finished_at=now_text())
    else:
        terminal.step(
            f"kept {len(document.measurements.samples)} samples, marked incomplete: {file.path} "
            "(`lookahead report` shows them)"
        )
    run.document = replace(document, ending=ending)
    run.record()
