"""Runs rooms of tests beside each other, each in its own process, and sums up what they say."""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
_RESULTS = TOP / "build" / "results"
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-c", "test/pytest/pytest.ini")
# Those that run at once would share it.
_NO_CACHE = ("-p", "no:cacheprovider")
# Whoever takes the longest goes first, so that no process waits for the last one; rooms that are
# not named here come afterwards.
_LONGEST_FIRST = (
    "bulk_insert",
    "index_build",
    "extension",
    "lab",
    "server",
    "heap_scan",
    "differential",
)
# "7 failed, 812 passed, 20 skipped in 203.11s (0:03:23)"
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed)")
_CLOSING = re.compile(
    r"^(?:=+ )?\d+ (?:passed|failed|error|skipped|deselected).* in [\d.]+s.*$", re.MULTILINE
)
# "sampled: 12 cases of 3 tests left out (...)" of test/pytest/sampling.py
_SAMPLED = re.compile(r"^sampled: (\d+) cases of (\d+) tests left out", re.MULTILINE)
_SKIPPED = re.compile(r"^SKIPPED .*$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """How one room ended: `output` is all that it printed, `seconds` how long it took."""

    room: str
    passed: bool
    output: str
    seconds: float

    @property
    def closing(self) -> str:
        """Pytest's last line, such as "812 passed in 9.1s"; of another program all of them."""
        found = _CLOSING.findall(self.output)
        lines = found[-1:] or self.output.strip().splitlines() or ["no output"]
        return ", ".join(line.strip("= ") for line in lines)

    @property
    def counts(self) -> Counter[str]:
        """How many of pytest's tests passed, failed, could not be set up or were skipped."""
        found = _CLOSING.findall(self.output)
        counts = _COUNT.findall(found[-1]) if found else []
        return Counter({kind.removesuffix("s"): int(number) for number, kind in counts})

    @property
    def left_out(self) -> Counter[str]:
        """How many cases, of how many tests, the sample of this room did not have."""
        found = _SAMPLED.search(self.output)
        return Counter(cases=int(found[1]), tests=int(found[2])) if found else Counter()


def pytest_rooms() -> list[str]:
    """The folders of test/pytest that have tests."""
    return sorted({path.parent.name for path in (TOP / "test/pytest").glob("*/test_*.py")})


def pytest_command(place: str, *options: str) -> list[str]:
    """The command for the tests of one room, "" for all of them, run at the checkout's root."""
    return [*_PYTEST, *_NO_CACHE, f"test/pytest/{place}".rstrip("/"), *options]


def run_rooms(
    commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], processes: int
) -> bool:
    """Run each room's command, so many at once; whether all of them passed.

    A room that fails is shown whole as soon as it ends; of the others there is a line each. At
    the end come the skipped tests with their reasons, how many cases were left out of samples, and
    pytest's counts over all rooms.
    """
    started = time.monotonic()
    outcomes = []
    print(
        f"{len(commands)} rooms, {processes} at once, into {_RESULTS.relative_to(TOP)}", flush=True
    )
    for outcome in _outcomes(commands, environment, processes):
        outcomes.append(outcome)
        if not outcome.passed:
            print(f"\n{outcome.output}", flush=True)
        name = "" if outcome.closing.startswith(outcome.room) else f"{outcome.room}: "
        print(f"{name}{outcome.closing}{'' if outcome.passed else '  FAILED'}", flush=True)
    for outcome in outcomes:
        for line in _SKIPPED.findall(outcome.output):
            print(line)
    left_out = sum((outcome.left_out for outcome in outcomes), Counter[str]())
    if left_out:
        cases, tests = left_out["cases"], left_out["tests"]
        print(f"sampled: {cases} cases of {tests} tests left out (make test ALL=1 runs them)")
    failed = [outcome.room for outcome in outcomes if not outcome.passed]
    if failed:
        print(f"failed, see above: {' '.join(failed)}")
    print(f"{_sum_of(outcomes)} in {time.monotonic() - started:.0f}s", flush=True)
    return not failed


def _outcomes(
    commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], processes: int
) -> Iterator[Outcome]:
    order = {room: place for place, room in enumerate(_LONGEST_FIRST)}
    rooms = sorted(commands, key=lambda room: order.get(room, len(order)))
    pool = ThreadPoolExecutor(processes)
    try:
        tasks = [pool.submit(_run, room, commands[room], environment) for room in rooms]
        for task in as_completed(tasks):
            yield task.result()
    finally:
        # After Ctrl-C, which the running rooms have got as well, no other one begins.
        pool.shutdown(cancel_futures=True)


def _run(room: str, command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
    """Run one room; its output also goes to build/results/ROOM.log as it comes."""
    _RESULTS.mkdir(parents=True, exist_ok=True)
    path = _RESULTS / f"{room}.log"
    started = time.monotonic()
    with path.open("wb") as log:
        done = subprocess.run(
            command,
            cwd=TOP,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    output = path.read_text(errors="backslashreplace")
    return Outcome(room, done.returncode == 0, output, time.monotonic() - started)


def _sum_of(outcomes: Sequence[Outcome]) -> str:
    """All rooms' counts as pytest would put them, such as "2 failed, 3 passed"."""
    total = sum((outcome.counts for outcome in outcomes), Counter[str]())
    kinds = ("failed", "error", "passed", "skipped", "xfailed")
    return ", ".join(f"{total[kind]} {kind}" for kind in kinds if total[kind]) or "0 passed"
