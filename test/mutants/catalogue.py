"""The list of mutants: small wrong changes to the code, each with the test that must notice it.

The files *.toml hold them, by room of src/. An entry has

    name        of the mutant, unique
    file        that it changes, from the root of the checkout
    find, put   text that occurs exactly once in the file, and what stands in its place
    bug         what goes wrong then
    killed_by   the test that must fail: "pytest FILE::TEST" below test/pytest, "sql NAME",
                "spec NAME", or "script FILE ARGUMENT...", a command of .ci/run
"""

import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_TESTS = {"sql": "test/sql/{}.sql", "spec": "test/specs/{}.spec"}


@dataclass(frozen=True)
class Mutant:
    """One wrong change; see the head of this file."""

    name: str
    file: str
    find: str
    put: str
    bug: str
    killed_by: str

    @property
    def kind(self) -> str:
        """How the test is run: pytest, sql, spec or script."""
        return self.killed_by.partition(" ")[0]

    @property
    def test(self) -> str:
        """What is run, without the kind."""
        return self.killed_by.partition(" ")[2]


def read_mutants() -> list[Mutant]:
    """All mutants, in the order of files and of entries.

    Raises ValueError when an entry lacks a field or has one too many.
    """
    names = {field.name for field in fields(Mutant)}
    mutants = []
    for path in sorted(_FOLDER.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            if entry.keys() != names:
                wrong = ", ".join(sorted(entry.keys() ^ names))
                raise ValueError(f"{path.name}: {entry.get('name', 'an entry')}: {wrong}")
            mutants.append(Mutant(**entry))
    return mutants


def find_errors(mutants: Iterable[Mutant], top: Path) -> list[str]:
    """What is wrong with the list itself, seen from the checkout `top`: a line for each mutant."""
    mutants = list(mutants)
    errors = []
    for name, count in Counter(mutant.name for mutant in mutants).items():
        if count > 1:
            errors.append(f"{name}: {count} mutants have this name")
    for mutant in mutants:
        errors += [f"{mutant.name}: {error}" for error in _errors_of(mutant, top)]
    return errors


def _errors_of(mutant: Mutant, top: Path) -> list[str]:
    source = top / mutant.file
    found = source.read_text().count(mutant.find) if source.is_file() else 0
    errors = []
    if found != 1:
        errors.append(f"its text occurs {found} times in {mutant.file}, not once")
    if mutant.find == mutant.put:
        errors.append("it changes nothing")
    if not _test_exists(mutant, top):
        errors.append(f'there is no test "{mutant.killed_by}"')
    return errors


def _test_exists(mutant: Mutant, top: Path) -> bool:
    if mutant.kind == "pytest":
        file, _, function = mutant.test.partition("::")
        path = top / "test/pytest" / file
        name = function.partition("[")[0]
        return path.is_file() and f"\ndef {name}(" in path.read_text()
    if mutant.kind == "script":
        return (top / mutant.test.split()[0]).is_file()
    return mutant.kind in _TESTS and (top / _TESTS[mutant.kind].format(mutant.test)).is_file()
