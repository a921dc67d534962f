"""What `lookahead run` was asked for, after the command line was checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Size = Literal["demo", "quick", "full"]


@dataclass(frozen=True)
class RunRequest:
    """The options that all experiments share.

    `directory` is where the server's folder is made, `output` the folder for the result file,
    `profile` a device profile for the server. With `drops_caches` data are made cold by emptying
    all caches of the machine. `forced`: what the machine is asked for is done although another
    PostgreSQL runs on it. `command` is the exact command line.
    """

    size: Size
    pg_config: Path | None
    library: Path | None
    output: Path
    directory: Path
    profile: Path | None
    seed: int
    keep: bool
    drops_caches: bool
    forced: bool
    command: tuple[str, ...]


@dataclass(frozen=True)
class IndexScanRequest:
    """Options of `run index-scan`; None stands for the default of the size."""

    run: RunRequest
    pages: tuple[int, ...] | None
    limits: tuple[int, ...] | None
    shares_percent: tuple[int, ...] | None
    io_methods: tuple[str, ...] | None
    repetitions: int | None
    read_aheads_kb: tuple[int, ...] | None


@dataclass(frozen=True)
class LatencyRequest:
    """Options of `run latency`: those of the scans, and the latency to add to each read."""

    scans: IndexScanRequest
    latency_us: int


@dataclass(frozen=True)
class IndexBuildRequest:
    """Options of `run index-build`; None stands for the default of the size."""

    run: RunRequest
    keys: tuple[str, ...] | None
    rows: int | None
    workers: tuple[int, ...] | None
    memories_mb: tuple[int, ...] | None
    extends_kb: tuple[int, ...] | None
    repetitions: int | None


@dataclass(frozen=True)
class ControlsRequest:
    """Options of `run controls`; None stands for the default of the size."""

    run: RunRequest
    workloads: tuple[str, ...] | None
    io_methods: tuple[str, ...] | None
    repetitions: int | None
