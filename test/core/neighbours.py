"""Other extensions whose own tests are run beside ours: all switches on, in each order of loading.

pg_stat_statements comes with the server. The sources of the others are releases of theirs
(tools/get-neighbour); one that cannot be had, or does not compile, is named as skipped.
"""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from modes import INSERTS
from modules import Module, find_modules
from runs import Target

from lookahead.errors import last_lines
from lookahead.extension import LIBRARY

_TOP = Path(__file__).resolve().parents[2]
_TOOL = _TOP / "tools" / "get-neighbour"
_FETCHED = ("hypopg", "pgaudit")
# Why the tests of an extension are run: it looks at statements, or at indexes that are not there.
_WATCHERS = ("pg_stat_statements", "pgaudit")
_MAKE_TIMEOUT_SECONDS = 300.0  # arbitrary; it takes a few seconds
_TOLD = 'show:; @echo "$(REGRESS)"; echo "$(REGRESS_OPTS)"'  # make's own words


def find_neighbours(target: Target, folder: Path) -> tuple[list[Module], list[str]]:
    """The extensions once for each order of the libraries, and why others are skipped.

    What has to be compiled is compiled below `folder`.
    """
    contrib, _ = find_modules(target.source, target.installation, "contrib")
    found = [module for module in contrib if module.name in _WATCHERS]
    skipped = []
    for name in _FETCHED:
        try:
            found.append(_built(name, _source(name), target, folder / name))
        except OSError as error:
            skipped.append(f"{name}: {error}")
    return [order for module in found for order in _orders(module)], skipped


def _orders(module: Module) -> list[Module]:
    """Loaded before ours, and after it, when the server starts or in each session."""
    name = module.name
    if name not in _WATCHERS:
        return [replace(module, settings={**module.settings, **_loaded("", f"{LIBRARY}, {name}")})]
    orders = {
        "before": _loaded(name, LIBRARY),
        "before-preloaded": _loaded(f"{name}, {LIBRARY}", ""),
        "after": _loaded(f"{LIBRARY}, {name}", ""),
    }
    return [
        replace(module, name=f"{name}-{order}", settings={**module.settings, **settings})
        for order, settings in orders.items()
    ]


def _loaded(server: str, session: str) -> dict[str, str]:
    libraries = {"shared_preload_libraries": server, "session_preload_libraries": session}
    return {**libraries, **INSERTS}


def _source(name: str) -> Path:
    """The folder of the source; OSError when it cannot be had."""
    done = subprocess.run([_TOOL, name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(last_lines(done.stderr) or f"{_TOOL.name} failed")
    return Path(done.stdout.splitlines()[-1])


def _built(name: str, source: Path, target: Target, folder: Path) -> Module:
    """The extension, compiled for the server, and laid out as a stage; OSError when it cannot."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    _make(folder, target)
    regress, options = _make(folder, target, f"--eval={_TOLD}", "-s", "show").splitlines()
    if "--inputdir=test" in options:  # with expected results beside it
        shutil.copytree(folder / "test", folder, dirs_exist_ok=True)
    extensions = folder / "share/extension"
    extensions.mkdir(parents=True)
    for path in (folder / f"{name}.control", *folder.glob(f"{name}--*.sql")):
        shutil.copy(path, extensions)
    _open_to_servers(folder)
    return Module(
        name=name,
        folder=folder,
        tests={"regress": tuple(regress.split())},
        extensions={"regress": ()},
        settings={},
        built=folder,
    )


def _make(folder: Path, target: Target, *arguments: str) -> str:
    command = ["make", "USE_PGXS=1", f"PG_CONFIG={target.installation.pg_config}", *arguments]
    done = subprocess.run(
        [*command, "-C", str(folder), "--no-print-directory"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_MAKE_TIMEOUT_SECONDS,
    )
    if done.returncode != 0:
        raise OSError(f"does not compile: {last_lines(done.stderr)}")
    return done.stdout


def _open_to_servers(folder: Path) -> None:
    """Their account reads what was compiled."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o644))
