"""Reading a file or a device by patterns with fio, which the probe requires.

fio takes jobs one after the other, starts each anew and looks for its end ten times a second, so
between two slices of time the device rests for up to 0.3 s.
"""

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from lookahead.account import own_account
from lookahead.errors import LabError, UnavailableError, last_lines

PROGRAM = "fio"
BLOCK_BYTES = 8192
# Of each slice what comes before is not counted: the queue is filled, and a volume that is limited
# in requests or bytes serves some at once.
RAMP_S = 0.1
# For a job that hangs; one that does not takes half a second longer than its slice.
_PATIENCE_SECONDS = 30.0
_ALIGNMENT_BYTES = 4 * 2**20  # of the largest request
_MEDIAN = "50.000000"

Kind = Literal["random", "sequential"]


@dataclass(frozen=True)
class Pattern:
    """`kind` of direct reads of `request_bytes` each, `depth` in flight."""

    kind: Kind
    depth: int
    request_bytes: int


def random_reads(depth: int) -> Pattern:
    return Pattern("random", depth, BLOCK_BYTES)


def sequential_reads(depth: int, request_kb: int) -> Pattern:
    """Ascending and without gaps; `request_kb` in 1024 bytes."""
    return Pattern("sequential", depth, request_kb * 1024)


@dataclass(frozen=True)
class Reading:
    """`requests` ended in `seconds`; `median_latency_us` is known of reads one at a time only."""

    requests: int
    seconds: float
    median_latency_us: float | None

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds


@dataclass(frozen=True)
class Target:
    """A file or device that a child process may open; no read goes beyond `size_bytes`."""

    path: Path
    size_bytes: int


class _FioError(Exception):
    """fio failed, or its answer is not understood."""


def check_available() -> None:
    if shutil.which(PROGRAM) is None:
        raise UnavailableError(
            "fio is not installed: it does the reads that are measured",
            "Install it: apt install fio (the package has this name everywhere).",
        )


def measure(
    target: Target, patterns: Sequence[Pattern], slice_s: float, seed: int
) -> list[Reading]:
    """Read by each pattern for `slice_s` seconds, in this order; LabError when fio cannot."""
    jobs = [_job(target, *numbered, seed) for numbered in enumerate(patterns)]
    try:
        ran = _run(_globals(target, slice_s) + "".join(jobs), len(patterns), slice_s)
        return [_reading(job, pattern) for job, pattern in zip(ran, patterns, strict=True)]
    except _FioError as error:
        raise LabError(
            f"fio does not measure {target.path}:\n{error}",
            "Its engine libaio must be there, and asynchronous I/O permitted; "
            "the kernel's log (dmesg) tells of errors of the device.",
        ) from None


def _globals(target: Target, slice_s: float) -> str:
    """What all jobs have in common: `stonewall` has them run one after the other."""
    return f"""\
[global]
filename={target.path}
size={target.size_bytes}
runtime={max(1, round(slice_s * 1000))}ms
ramp_time={round(RAMP_S * 1000)}ms
time_based=1
direct=1
ioengine=libaio
norandommap=1
allow_file_create=0
stonewall
"""


def _job(target: Target, number: int, pattern: Pattern, seed: int) -> str:
    lines = [f"[{number}]", f"bs={pattern.request_bytes}", f"iodepth={pattern.depth}"]
    if pattern.kind == "random":
        lines += ["rw=randread", f"randseed={seed + number + 1}", f"blockalign={BLOCK_BYTES}"]
    else:
        # Not always at the same place, and far enough from the end.
        places = target.size_bytes // _ALIGNMENT_BYTES
        first = random.Random(seed + number).randrange(places * 3 // 4) * _ALIGNMENT_BYTES
        lines += ["rw=read", f"offset={first}", f"size={target.size_bytes - first}"]
    return "\n".join(lines) + "\n"


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
        requests = int(read["total_ios"])
        reading = Reading(requests, requests / read["iops"], None)
        if pattern.depth > 1:
            return reading
        latency_ns = read["clat_ns"]["percentile"][_MEDIAN] + read["slat_ns"]["mean"]
        return replace(reading, median_latency_us=latency_ns / 1000)
    except (KeyError, ZeroDivisionError):
        raise _FioError(f"no reads were counted of {pattern}") from None
