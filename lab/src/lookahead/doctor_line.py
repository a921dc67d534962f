"""What `lookahead doctor` says: its lines, and those of storage."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lookahead.device.disk import Disk
from lookahead.extension import LIBRARY
from lookahead.formats import one_line

Level = Literal["ok", "note", "warning"]


@dataclass(frozen=True)
class Line:
    """One thing that was looked at, and what to do about it ("" if nothing)."""

    level: Level
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Tablespace:
    """Where its files lie, as far as the server tells: `device` is "major:minor"."""

    name: str
    device: str | None
    profile: str | None
    reason: str | None


def storage_lines(
    settings: Mapping[str, str],
    tablespaces: Sequence[Tablespace],
    disks: Sequence[Disk] | None,
) -> Iterator[Line]:
    """How the server reads, and from where; `disks` are None of another machine."""
    yield Line("ok", f"io_method is {settings.get('io_method', 'not shown')}")
    if "data" in settings.get("debug_io_direct", ""):
        yield Line("note", "direct I/O: scans are PostgreSQL's", "docs/limitations.md.")
    names: dict[Tablespace, list[str]] = {}
    for one in tablespaces:
        names.setdefault(replace(one, name=""), []).append(one.name)
    for one, some in names.items():
        disk = f"device {one.device}" if one.device else "no device to be seen"
        text = f"tablespace {', '.join(map(one_line, some))}: {disk}"
        if one.profile is not None:
            yield Line("ok", f"{text}, profile {one_line(one.profile)}")
        else:
            yield Line(
                "note",
                f"{text}; no profile: {one_line(one.reason or 'unknown')}",
                f"As the server's account: lookahead probe --tablespace {one_line(some[0])} "
                f"--profile FILE; {LIBRARY}.device_profile names that file then.",
            )
    for found in disks or ():
        yield Line("ok", one_line(found.text))
    devices = {one.device for one in tablespaces if one.device}
    hidden = devices - {found.device for found in disks} if disks is not None else set()
    for device in sorted(hidden):
        yield Line(
            "note",
            f"OS read-ahead and kind of device {device} are not known",
            "Its file system has none of its own, as btrfs, ZFS, overlays and NFS.",
        )
    if disks is None and devices:
        unknown = "OS read-ahead and kind of these devices are not known from here"
        yield Line("note", unknown, "lookahead doctor on the server's own machine says them.")
