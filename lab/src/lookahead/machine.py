"""Facts about the machine and the source tree that a result is worth nothing without.

Nothing personal is collected: no host, user or folder names. The command line that a result has,
too, can name some: a connection string's place, a folder.
"""

import os
import platform
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from lookahead.account import own_account
from lookahead.device.block_device import find_block_device, mount_of
from lookahead.extension import find_checkout


@dataclass(frozen=True)
class DeviceFacts:
    """The device below the data directory. Sizes in bytes or kB as named; None where unknown.

    `name` and `disk` are None when the folder lies on no visible block device.
    """

    filesystem: str | None
    mount_options: str | None
    name: str | None
    disk: str | None
    model: str | None
    size_bytes: int | None
    rotational: bool | None
    scheduler: str | None
    read_ahead_kb: int | None
    queue_requests: int | None
    max_request_kb: int | None
    write_cache: str | None


@dataclass(frozen=True)
class MachineFacts:
    """Processor, memory, system and device; `load_average` is that of the last minute."""

    cpu_model: str
    cpus: int
    memory_bytes: int
    architecture: str
    kernel: str
    system: str
    hypervisor: str | None
    python: str
    load_average: float
    device: DeviceFacts


@dataclass(frozen=True)
class SourceFacts:
    """The checkout the lab ran from; `commit` is None outside one, `dirty` then too."""

    commit: str | None
    dirty: bool | None


def collect_machine_facts(data_directory: Path) -> MachineFacts:
    """The facts at this moment, for a server whose data lies in an existing folder."""
    return MachineFacts(
        cpu_model=_cpu_model(kernel_text(Path("/proc/cpuinfo")) or ""),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        architecture=platform.machine(),
        kernel=platform.release(),
        system=_system_name(),
        hypervisor=_hypervisor(),
        python=platform.python_version(),
        load_average=round(os.getloadavg()[0], 2),
        device=collect_device_facts(data_directory),
    )


def collect_device_facts(folder: Path) -> DeviceFacts:
    """What the kernel tells of the file system and the device below a folder."""
    mount = mount_of(folder)
    device = find_block_device(folder)
    disk = Path("/sys/block") / device.disk if device else None
    sectors = kernel_number(disk, "size")
    rotational = kernel_number(disk, "queue/rotational")
    return DeviceFacts(
        filesystem=mount.filesystem if mount else None,
        mount_options=mount.options if mount else None,
        name=device.name if device else None,
        disk=device.disk if device else None,
        model=kernel_text(disk / "device/model") if disk else None,
        size_bytes=sectors * 512 if sectors is not None else None,
        rotational=rotational == 1 if rotational is not None else None,
        scheduler=_chosen(kernel_text(disk / "queue/scheduler")) if disk else None,
        read_ahead_kb=kernel_number(disk, "queue/read_ahead_kb"),
        queue_requests=kernel_number(disk, "queue/nr_requests"),
        max_request_kb=kernel_number(disk, "queue/max_sectors_kb"),
        write_cache=kernel_text(disk / "queue/write_cache") if disk else None,
    )


def collect_source_facts() -> SourceFacts:
    """Commit and state of the checkout this package lies in, when git is there to ask."""
    checkout = find_checkout()
    if checkout is None:
        return SourceFacts(None, None)
    commit = _git(checkout, "rev-parse", "HEAD")
    status = _git(checkout, "status", "--porcelain")
    if commit is None or status is None:
        return SourceFacts(None, None)
    return SourceFacts(commit, bool(status))


def busy_share(seconds: float) -> float:
    """The share of all processors' time that others take while this process sleeps for so long.

    From the first line of /proc/stat, by proc(5): all time but "idle" and "iowait", so with what
    the host gives to other machines ("steal"). 0.0 where the kernel does not tell.
    """
    before = _processor_ticks()
    time.sleep(seconds)
    spent = [later - earlier for earlier, later in zip(before, _processor_ticks(), strict=True)]
    return 1 - (spent[3] + spent[4]) / sum(spent) if sum(spent) > 0 else 0.0


def is_server_process(process: int) -> bool:
    """Whether this machine has such a one of PostgreSQL: not of a server behind a tunnel."""
    return (kernel_text(Path(f"/proc/{process}/cmdline")) or "").startswith("postgres")


def backend_cpu_ms(process: int) -> float | None:
    """Processor time that all threads of a process have used so far, in ms; None when unknown.

    From the scheduler's statistics, which count nanoseconds where stat(5) counts ticks of 10 ms.
    """
    total_ns = 0
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            total_ns += int((task / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return total_ns / 1e6


def _processor_ticks() -> list[int]:
    """user, nice, system, idle, iowait, irq, softirq and steal; guests are within user."""
    fields = (kernel_text(Path("/proc/stat")) or "").split()[1:9]
    return [int(field) for field in fields] if len(fields) == 8 else [0] * 8


def _git(checkout: Path, *arguments: str) -> str | None:
    # A checkout owned by somebody else is refused by git unless it is named as safe; what runs here
    # is code of that checkout anyway. Nothing is written into it.
    git = ("git", "--no-optional-locks", "-c", f"safe.directory={checkout}", "-C", checkout)
    try:
        done = own_account().run([*git, *arguments], timeout_seconds=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu_model(cpuinfo: str) -> str:
    named = re.search(r"^model name\s*:(.*)$", cpuinfo, re.MULTILINE)
    return named[1].strip() if named else platform.machine()  # Arm kernels name no model


def _system_name() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return platform.system()
    return release.get("PRETTY_NAME", platform.system())


def _hypervisor() -> str | None:
    """The name systemd finds, else "unknown" when the processor says it is virtual, else None."""
    try:
        done = own_account().run(["systemd-detect-virt", "--vm"], timeout_seconds=30)
        name = done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        name = ""
    if name and name != "none":
        return name
    flags = kernel_text(Path("/proc/cpuinfo")) or ""
    return "unknown" if " hypervisor " in flags else None


def _chosen(schedulers: str | None) -> str | None:
    """The bracketed one of "none [mq-deadline] kyber"."""
    bracketed = re.search(r"\[(\S+)\]", schedulers or "")
    return bracketed[1] if bracketed else schedulers


def kernel_number(folder: Path | None, name: str) -> int | None:
    text = kernel_text(folder / name) if folder else None
    return int(text) if text and text.lstrip("-").isdecimal() else None


def kernel_text(path: Path) -> str | None:
    """What a file of the kernel's says, None when there is none."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
