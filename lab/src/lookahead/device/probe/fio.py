"""Reading a file or a device by patterns with fio, which the probe requires.

fio takes jobs one after the other, starts each anew and looks for its end ten times a second, so
between two slices of time the device rests for up to 0.3 s. Pairs of blocks that skip what lies
between them are no pattern of fio's: it replays a list of reads, which lies in memory.
"""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
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
# Of one slice: more than a device serves in it, up to 70,000 pairs a second; one that is faster
# ends its slice early.
_REPLAYED_PAIRS = 16_384

Kind = Literal["random", "sequential", "through", "skip", "buffered"]
_MODES: dict[Kind, str] = {
    "random": "randread",
    "through": "randread",
    "sequential": "read",
    "buffered": "read",
}


@dataclass(frozen=True)
class Pattern:
    """`kind` of reads of `request_bytes` each, `depth` in flight.

    "through" and "skip" read two blocks that lie `gap_blocks` apart: with one request over all of
    it, or with one request each. "buffered" reads ascend through the system's cache, which holds
    nothing of the file; all others are direct.
    """

    kind: Kind
    depth: int
    request_bytes: int
    gap_blocks: int


def random_reads(depth: int) -> Pattern:
    return Pattern("random", depth, BLOCK_BYTES, 0)


def sequential_reads(depth: int, request_kb: int) -> Pattern:
    """Ascending and without gaps; `request_kb` in 1024 bytes."""
    return Pattern("sequential", depth, request_kb * 1024, 0)


def buffered_reads() -> Pattern:
    """Blocks as a plain program reads them: the system reads ahead."""
    return Pattern("buffered", 1, BLOCK_BYTES, 0)


def gap_reads(depth: int, gap_blocks: int) -> tuple[Pattern, Pattern]:
    return (
        Pattern("through", depth, (gap_blocks + 2) * BLOCK_BYTES, gap_blocks),
        Pattern("skip", depth, BLOCK_BYTES, gap_blocks),
    )


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
    with ExitStack() as cleanup:
        jobs = [_job(target, *numbered, seed, cleanup) for numbered in enumerate(patterns)]
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
direct=1
ioengine=libaio
norandommap=1
allow_file_create=0
stonewall
"""


def _job(target: Target, number: int, pattern: Pattern, seed: int, cleanup: ExitStack) -> str:
    lines = [f"[{number}]", f"bs={pattern.request_bytes}", f"iodepth={pattern.depth}"]
    generator = random.Random(seed + number)
    if pattern.kind == "skip":
        descriptor = _list_of_reads(target, pattern, generator)
        cleanup.callback(os.close, descriptor)
        lines += [f"read_iolog=/proc/{os.getpid()}/fd/{descriptor}", "replay_no_stall=1"]
    else:
        lines += [f"rw={_MODES[pattern.kind]}", f"randseed={seed + number + 1}"]
    if pattern.kind in ("random", "through"):
        lines += ["time_based=1", f"blockalign={BLOCK_BYTES}"]
    if pattern.kind in ("sequential", "buffered"):
        # Not always at the same place, and far enough from the end.
        places = target.size_bytes // _ALIGNMENT_BYTES
        first = generator.randrange(places * 3 // 4) * _ALIGNMENT_BYTES
        lines += [f"offset={first}", f"size={target.size_bytes - first}"]
    if pattern.kind == "buffered":
        # What is in the cache once is no read: the job does not begin again.
        lines += ["direct=0", "ioengine=psync", "invalidate=1"]
    else:
        lines += [f"ramp_time={round(RAMP_S * 1000)}ms"]
    if pattern.kind == "sequential":
        lines += ["time_based=1"]
    return "\n".join(lines) + "\n"


def _list_of_reads(target: Target, pattern: Pattern, generator: random.Random) -> int:
    """A descriptor of fio's log of reads, version 2: both blocks of pairs in random places."""
    distance = (pattern.gap_blocks + 1) * BLOCK_BYTES
    places = (target.size_bytes - distance) // BLOCK_BYTES
    path = target.path
    lines = ["fio version 2 iolog", f"{path} add", f"{path} open"]
    for _ in range(_REPLAYED_PAIRS):
        first = int(generator.random() * places) * BLOCK_BYTES
        lines.append(f"{path} read {first} {BLOCK_BYTES}")
        lines.append(f"{path} read {first + distance} {BLOCK_BYTES}")
    descriptor = os.memfd_create("lookahead-reads")
    Path(f"/proc/self/fd/{descriptor}").write_text("\n".join([*lines, f"{path} close\n"]))
    return descriptor


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
