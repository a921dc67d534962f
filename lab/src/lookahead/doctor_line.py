"""What `lookahead doctor` says: its lines, and those of memory and storage."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Literal

from lookahead.device.disk import Disk
from lookahead.extension import LIBRARY
from lookahead.formats import one_line, server_size

Level = Literal["ok", "note", "warning"]


@dataclass(frozen=True)
class Line:
    """One thing that was looked at, and what to do about it ("" if nothing)."""

    level: Level
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Tablespace:
    """Where its files lie, as far as the server tells: `device` is "major:minor".

    `profile` is a file, None where the role may not see it, `reason` why it is not used.
    """

    name: str
    device: str | None
    profile: str | None
    reason: str | None


def memory_line(database_bytes: int, shared_buffers: int, effective_cache_size: int) -> Line:
    """Whether the database fits in."""
    size, cache = server_size(database_bytes), server_size(effective_cache_size)
    asking = "Is effective_cache_size what the system really has for caches?"
    if database_bytes <= shared_buffers:
        buffers = server_size(shared_buffers)
        text = f"the database ({size}) fits into shared_buffers ({buffers}): gains when cold only"
        return Line("note", text, "lookahead check 'SELECT ...' says what a statement gains.")
    if database_bytes <= effective_cache_size:
        text = f"the database ({size}) fits into effective_cache_size ({cache}): gains when cold"
        return Line("note", text, asking)
    text = f"the database ({size}) is larger than effective_cache_size ({cache})"
    return Line("ok", f"{text}: reads will be waited for", asking)


def storage_lines(
    settings: Mapping[str, str], tablespaces: Sequence[Tablespace], disks: Sequence[Disk] | None
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
        if one.reason is None:
            profile = one_line(one.profile) if one.profile else "of a name that is not shown"
            yield Line("ok", f"{text}, profile {profile}")
        else:
            why = one_line(one.reason)
            yield Line("note", f"{text}; no profile: {why}", _profile_remedy(one, some[0]))
    devices = {one.device for one in tablespaces if one.device}
    for found in disks or ():
        yield Line("ok", one_line(found.text))
        devices.discard(found.device)
    if disks is None and devices:
        unknown = "OS read-ahead and kind of these devices are not known from here"
        yield Line("note", unknown, "lookahead doctor on the server's own machine says them.")
        return
    for device in sorted(devices):
        yield Line(
            "note",
            f"OS read-ahead and kind of device {device} are not known",
            "Its file system has none of its own, as btrfs, ZFS, overlays and NFS.",
        )


def _profile_remedy(place: Tablespace, name: str) -> str:
    """What makes one; of no disk of its own there may be none, and why one is ignored depends."""
    if (place.device or "0:").startswith("0:") or not str(place.reason).endswith("is empty"):
        return "docs/device-profile.md: where one can be made, and when it is ignored."
    return (
        f"As the server's account: lookahead probe --tablespace {quote(one_line(name))} "
        f"--profile FILE; {LIBRARY}.device_profile names that file then."
    )
