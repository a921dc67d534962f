"""How many random reads a block device serves at once: fio if it is there, else threads.

Little's law would count requests that merely queue; what counts here is how many times as many
reads per second there are at depth as one after the other.
"""

import json
import mmap
import os
import random
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from lookahead.account import own_account
from lookahead.errors import LabError, last_lines

_READ_BYTES = 8192


@dataclass(frozen=True)
class Overlap:
    """Random 8 kB direct reads per second, one at a time and `depth` at a time.

    `engine` is "fio" or "threads".
    """

    engine: str
    depth: int
    single_reads_per_s: float
    deep_reads_per_s: float

    @property
    def reads_at_once(self) -> float:
        """How many reads one at a time the device did the work of."""
        return self.deep_reads_per_s / self.single_reads_per_s


def probe_overlap(device: Path, depth: int, seconds: int) -> Overlap:
    """Measure both rates for `seconds` each; LabError when the device cannot be read."""
    engine = "fio" if shutil.which("fio") else "threads"
    read = _by_fio if engine == "fio" else _by_threads
    return Overlap(engine, depth, read(device, 1, seconds), read(device, depth, seconds))


def _by_fio(device: Path, depth: int, seconds: int) -> float:
    options = {
        "name": "reads",
        "filename": str(device),
        "readonly": "1",
        "direct": "1",
        "rw": "randread",
        "bs": str(_READ_BYTES),
        "ioengine": "libaio",
        "iodepth": str(depth),
        "time_based": "1",
        "runtime": str(seconds),
        "output-format": "json",
    }
    flags = [f"--{name}={value}" for name, value in options.items() if name != "readonly"]
    done = own_account().run(["fio", "--readonly", *flags])
    try:
        return float(json.loads(done.stdout)["jobs"][0]["read"]["iops"])
    except (ValueError, KeyError, IndexError):
        raise LabError(
            f"fio does not measure {device}:\n{last_lines(done.stderr or done.stdout)}",
            "Repair fio, or remove it: then the lab's own reads are used.",
        ) from None


def _by_threads(device: Path, depth: int, seconds: int) -> float:
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        blocks = os.lseek(descriptor, 0, os.SEEK_END) // _READ_BYTES
        counts = [0] * depth
        deadline = time.monotonic() + seconds

        def read(number: int) -> None:
            generator = random.Random(number)
            with mmap.mmap(-1, _READ_BYTES) as buffer:  # aligned, as direct reads must be
                while time.monotonic() < deadline:
                    os.preadv(descriptor, [buffer], generator.randrange(blocks) * _READ_BYTES)
                    counts[number] += 1

        threads = [threading.Thread(target=read, args=(number,)) for number in range(depth)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.monotonic() - started)
    finally:
        os.close(descriptor)
