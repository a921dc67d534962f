"""The probe's engine on fio, the usual program for this: one process for each round."""

import json
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from lookahead.account import own_account
from lookahead.device.probe.pattern import Pattern
from lookahead.device.probe.reading import Reading, ReadTarget
from lookahead.errors import LabError, last_lines

PROGRAM = "fio"
# Between two jobs fio spends about 0.35 s of its own; this is for one that hangs.
_PATIENCE_SECONDS = 30.0
_MODES = {"random": "randread", "sequential": "read"}
_ALIGNMENT_BYTES = 4 * 2**20  # of the largest request
_MEDIAN = "50.000000"


class _FioError(Exception):
    """fio failed, or its answer is not understood."""


class FioEngine:
    """See the module. Gaps it cannot read: see `measures`."""

    name = PROGRAM

    def run(
        self, target: ReadTarget, patterns: Sequence[Pattern], slice_s: float, seed: int
    ) -> Iterator[tuple[Pattern, Reading]]:
        """Measure the patterns in this order, all of which it `measures`."""
        if not patterns:
            return
        job_file = _job_file(target, patterns, slice_s, seed)
        try:
            jobs = _run(job_file, len(patterns), slice_s)
            readings = [_reading(job, pattern) for job, pattern in zip(jobs, patterns, strict=True)]
        except _FioError as error:
            raise LabError(
                f"fio does not measure {target.path}:\n{error}",
                "Repair fio, or use the lab's own engine: --engine own, or no fio on the PATH.",
            ) from None
        yield from zip(patterns, readings, strict=True)


def is_available() -> bool:
    """Whether the program is there."""
    return shutil.which(PROGRAM) is not None


def measures(pattern: Pattern) -> bool:
    """Whether fio knows this kind of pattern."""
    return pattern.kind in _MODES


def _job_file(target: ReadTarget, patterns: Sequence[Pattern], slice_s: float, seed: int) -> str:
    """Jobs that run one after the other."""
    lines = [
        "[global]",
        f"filename={target.path}",
        f"runtime={max(1, round(slice_s * 1000))}ms",
        "time_based=1",
        "direct=1",
        "ioengine=libaio",
        "norandommap=1",
        "allow_file_create=0",
        "stonewall",
        f"size={target.size_bytes}",
    ]
    for number, pattern in enumerate(patterns):
        lines += [
            f"[{number}]",
            f"rw={_MODES[pattern.kind]}",
            f"bs={pattern.request_bytes}",
            f"iodepth={pattern.depth}",
            f"randseed={seed + number + 1}",
        ]
        if pattern.kind == "sequential":
            first = _first_byte(target.size_bytes, seed + number)
            lines += [f"offset={first}", f"size={target.size_bytes - first}"]
    return "\n".join(lines) + "\n"


def _first_byte(file_bytes: int, seed: int) -> int:
    """Where a job begins, as in our own engine not always at the same place."""
    places = file_bytes // _ALIGNMENT_BYTES
    return random.Random(seed).randrange(places * 3 // 4) * _ALIGNMENT_BYTES


def _run(job_file: str, count: int, slice_s: float) -> list[dict[str, Any]]:
    """What fio says of each job."""
    try:
        done = own_account().run(
            [PROGRAM, "--readonly", "--output-format=json", "-"],
            input=job_file,
            timeout_seconds=(slice_s + _PATIENCE_SECONDS) * count,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _FioError(str(error)) from None
    said = last_lines(done.stderr or done.stdout)
    try:
        # Notes may come before the document.
        jobs: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    except (ValueError, KeyError, RecursionError):
        raise _FioError(said) from None
    if done.returncode != 0 or len(jobs) != count or any(job.get("error") for job in jobs):
        raise _FioError(said)
    return jobs


def _reading(job: dict[str, Any], pattern: Pattern) -> Reading:
    try:
        read = job["read"]
        latency_us = None
        if pattern.depth == 1:
            latency_ns = read["clat_ns"]["percentile"][_MEDIAN] + read["slat_ns"]["mean"]
            latency_us = latency_ns / 1000
        requests = int(read["total_ios"])
        return Reading(requests, requests / read["iops"], latency_us)
    except (KeyError, ZeroDivisionError):
        raise _FioError(f"no reads were counted of {pattern}") from None
