"""What `lookahead run` was asked for, after the command line was checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Size = Literal["demo", "quick", "full"]


@dataclass(frozen=True)
class RunRequest:
    """The options that all experiments share.

    `directory` is where the server's folder is made, `output` the folder for the result file,
    `profile` a device profile for the server. With `drops_caches` data are made cold by emptying
    all caches of the machine. `forced`: what the machine is asked for is done although another
    PostgreSQL runs on it. `command` is the exact command line; `facts` are what is to be known of
    a place that was made for the run. `follows`: another run of ours has just ended, so that the
    machine's load says nothing.
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
    facts: Mapping[str, str] = field(default_factory=dict)
    follows: bool = False
