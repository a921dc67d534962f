"""Other PostgreSQL servers of the machine: looked for where something is changed for all of it.

A server is recognised by its process, whoever runs it and wherever its data lie. Those that this
process has started are not others. In a container only its own processes are seen.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from lookahead.errors import UnavailableError

_PROC = Path("/proc")
_NAMES = ("postgres", "postmaster")


@dataclass(frozen=True)
class _Process:
    name: str
    parent: int


def other_postmasters() -> list[int]:
    """The process ids of the servers that run and are not ours."""
    processes = _processes()
    return [
        process
        for process, found in sorted(processes.items())
        if found.name in _NAMES
        and not (found.parent in processes and processes[found.parent].name in _NAMES)
        and not _is_below(process, os.getpid(), processes)
    ]


def check_undisturbed(deed: str, *, forced: bool) -> str | None:
    """LabError while another server runs that `deed` would disturb, unless it is forced.

    Returns what was said against it when it is forced, None when there is nothing.
    """
    others = other_postmasters()
    if not others:
        return None
    servers = ", ".join(_named(process) for process in others)
    objection = f"{deed} disturbs another PostgreSQL on this machine: {servers}"
    if forced:
        return objection
    raise UnavailableError(objection, "Stop that server, or insist with --force.")


def _named(process: int) -> str:
    """The process, with its data directory where that may be seen."""
    try:
        return f"process {process} ({(_PROC / str(process) / 'cwd').readlink()})"
    except OSError:
        return f"process {process}"


def _processes() -> dict[int, _Process]:
    found = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            text = (entry / "stat").read_text(errors="replace")
        except OSError:  # it has just ended
            continue
        # "1234 (postgres) S 1 ...": the name may contain anything.
        before, _, after = text.rpartition(")")
        found[int(entry.name)] = _Process(before.partition("(")[2], int(after.split()[1]))
    return found


def _is_below(process: int, ancestor: int, processes: dict[int, _Process]) -> bool:
    while process in processes and process != ancestor:
        process = processes[process].parent
    return process == ancestor
