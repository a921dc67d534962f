"""What the built libraries contain and offer.

The released library must lack the test settings, and the check must be able to fail: the library
with test settings, looked at in the same way, must have them all.
"""

import shutil

from conventions import setting_names
from findings import Checkout, Outcome, run

from lookahead.errors import LabError
from lookahead.extension import Stage, find_stage
from lookahead.installation import find_installation

_MAGIC = {"Pg_magic_func", "_PG_init"}
# Found by name in parallel workers and background workers.
_WORKERS = {
    "la_maintenance_launcher_main",
    "la_maintenance_worker_main",
    "la_needed_worker_main",
    "pg_lookahead_build_worker",
}
_FUNCTION_INFO = "pg_finfo_"


def check_library(checkout: Checkout) -> Outcome:
    """Builds both libraries (by `make lint` with every warning an error) and looks into them."""
    try:
        installation = find_installation(checkout.pg_config)
        released = find_stage(installation)
        forced = find_stage(installation, test=True)
    except LabError as error:
        return Outcome((str(error),))
    names = {name for name in setting_names(checkout) if name.startswith("pg_lookahead.test_")}
    if not names:
        return Outcome(("the sources define no test setting: nothing was checked",))
    findings = [f"the released library contains {name}" for name in _found(released, names)]
    findings += [
        f"the library with test settings lacks {name}" for name in names - _found(forced, names)
    ]
    return Outcome(tuple(sorted(findings)) + _foreign_symbols(checkout, released))


def _found(stage: Stage, names: set[str]) -> set[str]:
    content = (stage.library_directory / "pg_lookahead.so").read_bytes()
    return {name for name in names if name.encode() in content}


def _foreign_symbols(checkout: Checkout, stage: Stage) -> tuple[str, ...]:
    """Exported symbols that no server asks for; they could clash with another library's."""
    nm = shutil.which("nm")
    if nm is None:
        return ("nm was not found (Debian package binutils)",)
    library = stage.library_directory / "pg_lookahead.so"
    done = run([nm, "-D", "--defined-only", str(library)], checkout.top)
    symbols = {line.split()[-1] for line in done.stdout.splitlines()}
    if "_PG_init" not in symbols:
        return (f"{library.name} exports no _PG_init",)
    infos = {symbol for symbol in symbols if symbol.startswith(_FUNCTION_INFO)}
    functions = {symbol.removeprefix(_FUNCTION_INFO) for symbol in infos}
    foreign = sorted(symbols - _MAGIC - _WORKERS - infos - functions)
    return tuple(f"{library.name} exports {symbol}" for symbol in foreign)
