"""Rules on the C sources that a compiler does not know."""

import re
from collections import Counter
from pathlib import Path

from findings import Checkout, Outcome

_COMPAT_HEADER = "la_compat.h"
_SETTINGS_PAGE = Path("docs/settings.md")


def check_file_names(checkout: Checkout) -> Outcome:
    """Base names are unique and ours: the server's log prints nothing else of a path."""
    paths = checkout.sources(".c", ".h", under="src/")
    findings = [
        f"{path}: its name does not start with la_ (core could have the same)"
        for path in paths
        if not path.name.startswith("la_")
    ]
    for name, count in Counter(path.name for path in paths).items():
        if count > 1:
            findings.append(f"{name}: {count} files have this base name")
    return Outcome(tuple(findings))


def check_includes(checkout: Checkout) -> Outcome:
    """postgres.h comes first in every .c file and in no header."""
    findings = []
    for path in checkout.sources(".c", ".h", under="src/"):
        included = re.findall(r'^#include\s+["<]([^">]+)', checkout.text(path), re.MULTILINE)
        if path.suffix == ".c" and included[:1] != ["postgres.h"]:
            findings.append(f"{path}: the first #include is not postgres.h")
        if path.suffix == ".h" and "postgres.h" in included:
            findings.append(f"{path}: a header includes postgres.h")
    return Outcome(tuple(findings))


def check_versions(checkout: Checkout) -> Outcome:
    """Differences between server versions live in one header."""
    findings = []
    for path in checkout.sources(".c", ".h", under="src/"):
        if path.name == _COMPAT_HEADER:
            continue
        for number, line in enumerate(checkout.text(path).splitlines(), 1):
            if re.match(r"\s*#\s*(el)?if", line) and "PG_VERSION_NUM" in line:
                findings.append(f"{path}:{number}: version test outside {_COMPAT_HEADER}")
    return Outcome(tuple(findings))


def check_settings(checkout: Checkout) -> Outcome:
    """Every setting has a heading in the settings page, and the page invents none."""
    if _SETTINGS_PAGE not in checkout.files:
        return Outcome((f"{_SETTINGS_PAGE} is missing",))
    defined = setting_names(checkout)
    public = {name for name in defined if not name.startswith("pg_lookahead.test_")}
    page = checkout.text(_SETTINGS_PAGE)
    headings = set(re.findall(r"^#+ .*?`?(pg_lookahead\.\w+)", page, re.MULTILINE))
    mentioned = set(re.findall(r"pg_lookahead\.(?!control\b|so\b)\w+", page))
    findings = [f"{_SETTINGS_PAGE}: no heading for {name}" for name in public - headings]
    findings += [f"{_SETTINGS_PAGE}: {name} does not exist" for name in mentioned - defined]
    return Outcome(tuple(sorted(findings)))


def setting_names(checkout: Checkout) -> set[str]:
    """The names of the settings that the sources define, those of test builds included."""
    text = "".join(map(checkout.text, checkout.sources(".c", under="src/")))
    return set(re.findall(r'\.name = "(pg_lookahead\.\w+)"', text))


def check_test_files(checkout: Checkout) -> Outcome:
    """Every regress and isolation test has its one expected file, and none is left over."""
    tests = {path.stem for path in checkout.sources(".sql", ".spec", under="test/s")}
    expected = {path.stem for path in checkout.sources(".out", under="test/expected/")}
    findings = [f"test/expected/{name}.out is missing" for name in tests - expected]
    findings += [f"test/expected/{name}.out belongs to no test" for name in expected - tests]
    return Outcome(tuple(sorted(findings)))
