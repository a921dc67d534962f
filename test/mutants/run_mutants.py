"""`make mutants`: whether the tests notice small wrong changes to the code.

    run_mutants.py [--names NAME...] [--share K/N] [--pg-config P] [--list]

Each mutant (catalogue.py) is applied to a copy of the checkout below build/mutants, never to the
checkout, the library is built there, and the test that the mutant names must fail. The unchanged
copy must pass all these tests first. The exit status is 1 when a mutant survives, does not build,
or its text is not found.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from catalogue import Mutant, find_errors, read_mutants
from share import share_of

from lookahead.errors import LabError, last_lines
from lookahead.installation import find_installation

TOP = Path(__file__).resolve().parents[2]
_TREE = TOP / "build" / "mutants" / "tree"
_TIMEOUT_SECONDS = 1200.0  # of one test; arbitrary
# Of one function with a mutant, which may loop for ever; seconds. Without one that of pytest.ini.
_MUTANT_TIMEOUT = "--timeout=120"
# The identity of the library follows from its sources, so that each mutant would have all objects
# compiled anew. Here no two builds meet.
_BUILD_ID = re.compile(r"^BUILD_ID := (?:.*\\\n)*.*$", re.MULTILINE)
# Variables by which the make that runs us would reach into the builds of the copy; among them that
# warnings are errors: what a mutant leaves unused is no reason not to try it.
_MAKE_VARIABLES = (
    *("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "BUILD_DIR", "PG_CONFIG", "WERROR"),
)


def main() -> int:
    """Run the chosen mutants; 0 when each was noticed."""
    options = _parse()
    mutants = read_mutants()
    errors = find_errors(mutants, TOP)
    for error in errors:
        print(f"error: {error}")
    if errors:
        return 1
    chosen = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    chosen = chosen[options.share]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:<36} {mutant.killed_by}\n    {mutant.bug}")
        return 0
    try:
        return _run(Runner(options.pg_config), chosen)
    except LabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.status)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description="Do the tests notice bugs?")
    parser.add_argument("--names", default="", help="only these")
    parser.add_argument(
        "--share", type=share_of, default="1/1", help="K/N: each Nth mutant, from the Kth on"
    )
    parser.add_argument("--pg-config", type=Path, help="the server to test with")
    parser.add_argument("--list", action="store_true", help="print the list, and run nothing")
    options = parser.parse_args()
    options.names = options.names.replace(",", " ").split()
    unknown = set(options.names) - {mutant.name for mutant in read_mutants()}
    if unknown:
        parser.error(f"--names: there is no mutant {' '.join(sorted(unknown))}")
    return options


class Runner:
    """The copy of the checkout, and what is run in it."""

    def __init__(self, pg_config: Path | None) -> None:
        """Bring the copy up to date; files that are equal keep their time, and their objects."""
        self._pg_config = find_installation(pg_config).pg_config
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=TOP,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        names = {name for name in listed.decode().split("\0") if name and (TOP / name).is_file()}
        for path in [path for path in _TREE.rglob("*") if path.is_file()]:
            name = path.relative_to(_TREE).as_posix()
            if name not in names and not name.startswith("build/"):
                path.unlink()
        for name in sorted(names):
            content = (TOP / name).read_bytes()
            if name == "Makefile":
                content = _with_fixed_build_id(content)
            _write(_TREE / name, content)
            shutil.copymode(TOP / name, _TREE / name)
        self._environment = {
            name: value for name, value in os.environ.items() if name not in _MAKE_VARIABLES
        } | {
            "PYTHONPATH": ":".join(
                str(_TREE / part) for part in ("lab/src", "tools", "test/pytest")
            ),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PG_CONFIG": str(self._pg_config),
        }

    def change(self, mutant: Mutant) -> None:
        """Apply a mutant to the copy."""
        path = _TREE / mutant.file
        _write(path, path.read_text().replace(mutant.find, mutant.put).encode())

    def restore(self, mutant: Mutant) -> None:
        """Take the change back."""
        _write(_TREE / mutant.file, (TOP / mutant.file).read_bytes())

    def build(self) -> str:
        """Build the library with test settings; returns why that failed, "" when it did not."""
        done = self._run(["make", "-s", "stage", "LA_TEST=1", f"PG_CONFIG={self._pg_config}"])
        return "" if done.returncode == 0 else last_lines(done.stdout)

    def test(
        self, kind: str, tests: Sequence[str], *, of_mutant: bool = False
    ) -> tuple[bool, set[str], str]:
        """Run tests of one kind; returns whether none failed, those that passed, and the output.

        What neither failed nor passed was skipped. Of a mutant one failure is enough, also of a
        test with many cases.
        """
        if kind == "pytest":
            return self._pytest(tests, ["-x", _MUTANT_TIMEOUT] if of_mutant else [])
        passed, output = set(), ""
        for test in tests:
            arguments = ["tools/run_tests.py", "--pg-config", str(self._pg_config), "--test", test]
            if kind == "script":
                arguments = test.split()
            done = self._run([sys.executable, *arguments])
            if done.returncode == 0:
                passed.add(test)
            output += done.stdout
        return len(passed) == len(tests), passed, output

    def _pytest(self, tests: Sequence[str], options: Sequence[str]) -> tuple[bool, set[str], str]:
        command = [sys.executable, "-m", "pytest", "-q", "-rA", "-c", "test/pytest/pytest.ini"]
        options = ["-p", "no:cacheprovider", "-m", "", *options]
        done = self._run([*command, *options, *(f"test/pytest/{test}" for test in tests)])
        failed = re.compile(r"^(?:FAILED|ERROR) test/pytest/(.*)$", re.MULTILINE)
        bad = failed.findall(done.stdout)
        passed = {
            test
            for test in tests
            if f"PASSED test/pytest/{test}" in done.stdout
            and not any(name.startswith(test) for name in bad)
        }
        return done.returncode == 0, passed, done.stdout

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command,
                cwd=_TREE,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="backslashreplace",
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            text = error.stdout.decode(errors="replace") if error.stdout else ""
            return subprocess.CompletedProcess(command, 124, f"{text}\n(it did not end)\n")


def _run(runner: Runner, mutants: Sequence[Mutant]) -> int:
    failure = runner.build()
    if failure:
        raise LabError(f"the unchanged copy does not build:\n{failure}", "Repair the checkout.")
    runnable: set[str] = set()
    sound = True
    for kind in dict.fromkeys(mutant.kind for mutant in mutants):
        tests = list(dict.fromkeys(each.test for each in mutants if each.kind == kind))
        good, passed, output = runner.test(kind, tests)
        if not good:
            sound = False
            print(f"tests fail without any mutant:\n{last_lines(output, 10)}", flush=True)
        runnable |= {f"{kind} {test}" for test in passed}
    verdicts = []
    for mutant in mutants:
        if mutant.killed_by in runnable:
            verdicts.append(_try(runner, mutant))
        else:
            print(f"skipped   {mutant.name}: its test fails or is skipped here, {mutant.killed_by}")
    print(f"{verdicts.count(True)} of {len(verdicts)} mutants were noticed")
    return 0 if sound and all(verdicts) else 1


def _try(runner: Runner, mutant: Mutant) -> bool:
    """Whether the mutant's test notices it; says so."""
    started = time.monotonic()
    runner.change(mutant)
    try:
        failure = runner.build()
        noticed = not failure and not runner.test(mutant.kind, [mutant.test], of_mutant=True)[0]
    finally:
        runner.restore(mutant)
    verdict = "does not build" if failure else "killed" if noticed else "SURVIVES"
    seconds = time.monotonic() - started
    print(f"{verdict:<9} {mutant.name:<36} {seconds:>5.0f} s  {mutant.killed_by}", flush=True)
    if failure:
        print(failure, flush=True)
    return noticed


def _with_fixed_build_id(makefile: bytes) -> bytes:
    text, count = _BUILD_ID.subn("BUILD_ID := mutants", makefile.decode())
    if count != 1:
        raise LabError(
            f"Makefile sets BUILD_ID {count} times, not once",
            "Adapt _BUILD_ID in test/mutants/run_mutants.py.",
        )
    return text.encode()


def _write(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
