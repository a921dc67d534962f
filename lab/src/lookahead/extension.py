"""Where the library and the SQL files of pg_lookahead are that a private server loads.

A *stage* is a folder with lib/pg_lookahead.so and share/extension/pg_lookahead.control. The server
is pointed at it by `dynamic_library_path` and `extension_control_path`: nothing is installed.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from lookahead.account import own_account
from lookahead.errors import UnavailableError, last_lines
from lookahead.installation import Installation

LIBRARY = "pg_lookahead"
# What `make wheel` puts beside this file: a stage, and what the pg_config it was built for says.
_PREBUILT = Path(__file__).with_name("prebuilt")
# Variables by which an outer make would reach into the inner one.
_MAKE_VARIABLES = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "LA_TEST", "PG_CONFIG")
_BUILD_HINT = "Repair the build; `make stage` in the checkout shows it whole."


@dataclass(frozen=True)
class Stage:
    """A folder with a built pg_lookahead, laid out as `lib/` and `share/extension/`."""

    directory: Path
    library_directory: Path
    extension_directory: Path

    def settings(self) -> dict[str, str]:
        """The server settings by which every session loads this stage and none installed."""
        return {
            "dynamic_library_path": f"{self.library_directory}:$libdir",
            "extension_control_path": f"{self.extension_directory.parent}:$system",
            "session_preload_libraries": LIBRARY,
        }


def stage_at(directory: Path) -> Stage:
    """The stage below `directory`; LabError when its library is missing."""
    stage = _stage(directory.absolute())
    library = stage.library_directory / f"{LIBRARY}.so"
    if not library.is_file():
        raise UnavailableError(
            f'there is no "{library}"',
            "Name a folder made by `make stage`, which holds lib/ and share/extension/.",
        )
    return stage


def find_stage(
    installation: Installation, *, library: Path | None = None, test: bool = False
) -> Stage:
    """The pg_lookahead to load into servers of `installation`.

    `library` names a stage folder. Without it the checkout this package lies in is built, with
    `test` together with the test settings; outside a checkout the installed one is taken, else the
    one in this package, if it was built for a server of the same build.
    Raises LabError when the build fails (with its last lines) or nothing is found.
    """
    if library is not None:
        return stage_at(library)
    checkout = find_checkout()
    if checkout is not None:
        return _build(checkout, installation, test)
    if not test and (installation.pkglibdir / f"{LIBRARY}.so").is_file():
        extensions = installation.sharedir / "extension"
        return Stage(installation.pkglibdir, installation.pkglibdir, extensions)
    if not test and _has_prebuilt(installation):
        return stage_at(_PREBUILT)
    raise UnavailableError(
        f"{LIBRARY} is neither built nor installed for PostgreSQL {installation.version}",
        f"Run `make install PG_CONFIG={installation.pg_config}` in the source tree of "
        "pg_lookahead, or name a built one with --library.",
    )


def find_checkout() -> Path | None:
    """The source tree this package lies in (an editable installation), else None."""
    root = Path(__file__).resolve().parents[3]
    has_sources = (root / "Makefile").is_file() and (root / f"{LIBRARY}.control").is_file()
    return root if has_sources else None


def _has_prebuilt(installation: Installation) -> bool:
    """Private structures differ between builds of one version: with and without ICU, say."""
    server = _PREBUILT / "server"
    return server.is_file() and server.read_text(encoding="utf-8") == installation.build


def _stage(directory: Path) -> Stage:
    return Stage(directory, directory / "lib", directory / "share" / "extension")


def _build(checkout: Path, installation: Installation, test: bool) -> Stage:
    command = ["make", "-s", "-C", str(checkout), "stage", f"PG_CONFIG={installation.pg_config}"]
    if test:
        command.append("LA_TEST=1")
    env = {name: value for name, value in os.environ.items() if name not in _MAKE_VARIABLES}
    try:
        done = own_account().run(command, env=env)
    except FileNotFoundError:
        raise UnavailableError(
            "make is missing: the extension cannot be built", "apt install make gcc libc6-dev"
        ) from None
    answer = done.stdout.splitlines()
    if done.returncode != 0:
        raise UnavailableError(
            f"building {LIBRARY} failed:\n{last_lines(done.stdout + done.stderr)}",
            _build_hint(checkout),
        )
    if not answer:
        raise UnavailableError("`make stage` named no folder", _BUILD_HINT)
    return stage_at(Path(answer[-1]))


def _build_hint(checkout: Path) -> str:
    """What helps after a failed build: another account's folder cannot be built in."""
    for folder in (checkout, checkout / "build"):
        if folder.exists() and not os.access(folder, os.W_OK):
            return (
                f'"{folder}" is another account\'s: build as its owner, or name a built stage '
                "with --library."
            )
    return _BUILD_HINT
