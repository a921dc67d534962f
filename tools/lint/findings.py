"""What a check of `make lint` returns, and what it can see of the checkout."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """Findings of one check (none = passed), or the reason why it could not run here."""

    findings: tuple[str, ...] = ()
    skipped: str = ""


@dataclass(frozen=True)
class Check:
    """One named check; `run` is given the checkout."""

    name: str
    run: Callable[["Checkout"], Outcome]


@dataclass(frozen=True)
class Checkout:
    """The files under check: tracked ones and new ones that git does not ignore."""

    top: Path
    pg_config: Path | None

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """Paths relative to the checkout, sorted."""
        listed = run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], self.top
        ).stdout
        paths = sorted({Path(name) for name in listed.split("\0") if name})
        return tuple(path for path in paths if (self.top / path).is_file())

    def sources(self, *suffixes: str, under: str = "") -> tuple[Path, ...]:
        """The files with one of these suffixes, below the folder `under`."""
        return tuple(
            path
            for path in self.files
            if path.suffix in suffixes and path.as_posix().startswith(under)
        )

    def text(self, path: Path) -> str:
        """The content of a file; bytes that are not UTF-8 are replaced."""
        return (self.top / path).read_text(encoding="utf-8", errors="replace")


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program and capture both outputs; a failing status is the caller's to judge."""
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def outcome_of(command: list[str], cwd: Path) -> Outcome:
    """The outcome of a program that prints its findings and fails when it has some."""
    done = run(command, cwd)
    if done.returncode == 0:
        return Outcome()
    lines = (done.stdout + done.stderr).strip().splitlines() or [f"{command[0]} failed silently"]
    return Outcome(tuple(lines))
