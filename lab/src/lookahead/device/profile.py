"""The device profile: the text that tells the extension what the devices of this machine can do.

The extension's parser (src/device/la_profile_parse.c) decides what is valid; the rules here are the
same, and a test has both read the same texts. docs/device-profile.md describes the format.
"""

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookahead.device.block_device import DeviceId
from lookahead.errors import LabError, UnavailableError
from lookahead.results import write_atomically
from lookahead.safe_files import opened_folder, read_file

DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BLOCK_BYTES = 8192
MAX_GAP_BLOCKS = 256
_VERSION = "1"
_MAX_BYTES = 64 * 1024
_MAX_SECTIONS = 32
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,6})?", re.ASCII)
_INTEGER = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True)
class _Key:
    """The form of a value, and of a number the inclusive bounds."""

    form: re.Pattern[str]
    bounds: tuple[float, float] | None = None


_IOPS_KEYS = {f"iops_at_depth_{depth}": depth for depth in DEPTHS}
_KEYS = {
    "machine": _Key(re.compile(r"[!-~]{1,37}")),
    "identity": _Key(re.compile(r"[!-~]{1,127}")),
    "measured_at": _Key(re.compile(r"[!-~]{1,20}")),
    "bandwidth_mb": _Key(_NUMBER, (0.1, 1e6)),
    "depth": _Key(_INTEGER, (1, DEPTHS[-1])),
    **dict.fromkeys(_IOPS_KEYS, _Key(_NUMBER, (0.1, 100e6))),
}

_COMMENT = """\
# What the devices of this machine can do, for pg_lookahead.device_profile.
# Written by `lookahead probe`; probe again rather than edit.
"""


@dataclass(frozen=True)
class DepthRate:
    """Random reads per second with `depth` in flight."""

    depth: int
    iops: float


@dataclass(frozen=True)
class DeviceProfile:
    """One device: who it is, and what was measured. `bandwidth_mb` is in 10^6 bytes per second.

    Scans work with `depth`, the rate at it and `bandwidth_mb`; `rates` are of each depth measured,
    in ascending order.
    """

    device: DeviceId
    machine: str
    measured_at: str
    bandwidth_mb: float
    depth: int
    rates: tuple[DepthRate, ...]

    @property
    def iops(self) -> float:
        """Random reads per second at `depth`."""
        return next(rate.iops for rate in self.rates if rate.depth == self.depth)

    def is_of(self, other: "DeviceProfile") -> bool:
        """Whether both are of one device on one machine."""
        return self.machine == other.machine and self.device.matches(other.device)


class ProfileError(ValueError):
    """A text is no valid profile; the message says where."""


def format_profiles(profiles: tuple[DeviceProfile, ...]) -> str:
    sections = "\n".join(_format(profile) for profile in profiles)
    return f"{_COMMENT}version = {_VERSION}\n\n{sections}\n[end]\n"


def parse_profiles(text: str) -> tuple[DeviceProfile, ...]:
    """What a file says; ProfileError when the extension would refuse it."""
    if len(text) > _MAX_BYTES:
        raise ProfileError("it is larger than 64 kB")
    if re.search(r"[^\n\t -~]", text) or not text.endswith("\n"):
        raise ProfileError("it is cut short, or no text of printable ASCII")
    head, *sections = re.split(r"^[ \t]*\[(.*)\][ \t]*$", text, flags=re.MULTILINE)
    names, bodies = sections[::2], sections[1::2]
    if _assignments(head) != [("version", _VERSION)]:
        raise ProfileError(f"its first line is not version = {_VERSION}")
    if not names or names[-1] != "end" or _assignments(bodies[-1]):
        raise ProfileError("it does not end with [end]")
    profiles = tuple(map(_parse_section, names[:-1], bodies[:-1]))
    if len(profiles) > _MAX_SECTIONS:
        raise ProfileError(f"it has more than {_MAX_SECTIONS} devices")
    keys = {(profile.machine, profile.device) for profile in profiles}
    if len(keys) != len(profiles):
        raise ProfileError("it has two sections of one device")
    return profiles


def read_profiles(path: Path) -> tuple[DeviceProfile, ...]:
    """What a file says, nothing when it does not exist.

    Raises LabError when it is no profile, or its folder is not there: a profile written to it
    would be lost, or replace something else.
    """
    try:
        if not path.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f'there is no folder "{path.parent}"')
        if not path.name or not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, "it is a folder, or in one that is not writable")
        with opened_folder(path.parent) as folder:
            return parse_profiles(read_file(folder, path.name).decode("ascii"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is no profile: {error}"
        raise UnavailableError(
            f'cannot write a device profile to "{path}": {reason}',
            "Name another file with --profile.",
        ) from None


def merge_into(path: Path, profile: DeviceProfile) -> None:
    """Write the profile of one device into a file, keeping those of others in it."""
    kept = [other for other in read_profiles(path) if not other.is_of(profile)]
    if len(kept) == _MAX_SECTIONS:
        raise LabError(
            f'"{path}" has {_MAX_SECTIONS} devices already',
            "Take sections out of it that no tablespace needs.",
        )
    # Whatever the umask: the extension refuses a file that others may write to.
    write_atomically(path, format_profiles((*kept, profile)), mode=0o644)


def _format(profile: DeviceProfile) -> str:
    device = profile.device
    rates = {f"iops_at_depth_{rate.depth}": rate.iops for rate in profile.rates}
    values = {**vars(profile), "identity": device.identity, **rates}
    lines = [f"[device {device.major}:{device.minor}]"]
    for key in _KEYS:
        value = values.get(key)
        if value is not None:
            lines.append(f"{key} = {value:.1f}" if isinstance(value, float) else f"{key} = {value}")
    return "".join(f"{line}\n" for line in lines)


def _assignments(text: str) -> list[tuple[str, str]]:
    found = []
    for line in text.splitlines():
        stripped = line.strip(" \t")
        if not stripped or stripped.startswith("#"):
            continue
        name, sign, value = stripped.partition("=")
        if not sign or name.startswith("["):
            raise ProfileError(f'"{stripped}" is no assignment')
        found.append((name.rstrip(" \t"), value.strip(" \t")))
    return found


def _parse_section(name: str, body: str) -> DeviceProfile:
    number = re.fullmatch(r"device (\d{1,9}):(\d{1,9})", name, re.ASCII)
    if number is None:
        raise ProfileError(f"[{name}] is neither [device MAJOR:MINOR] nor [end]")
    known = [(key, text) for key, text in _assignments(body) if key in _KEYS]
    required = _KEYS.keys() - _IOPS_KEYS.keys()
    if len(dict(known)) < len(known) or required - dict(known).keys():
        raise ProfileError(f"[{name}]: a key is missing, or comes twice")
    values: dict[str, Any] = {key: _value(name, key, text) for key, text in known}
    device = DeviceId(int(number[1]), int(number[2]), values.pop("identity"))
    rates = tuple(
        DepthRate(depth, values.pop(key)) for key, depth in _IOPS_KEYS.items() if key in values
    )
    if values["depth"] not in {rate.depth for rate in rates}:
        raise ProfileError(f"[{name}]: the IOPS at its depth are missing")
    return DeviceProfile(device=device, rates=rates, **values)


def _value(section: str, key: str, text: str) -> str | float:
    rule = _KEYS[key]
    if rule.bounds is None:
        if not rule.form.fullmatch(text):
            raise ProfileError(f"[{section}]: {key} has another form")
        return text
    low, high = rule.bounds
    if not rule.form.fullmatch(text) or not low <= float(text) <= high:
        raise ProfileError(f"{key} = {text} is no number between {low:g} and {high:g}")
    return int(text) if rule.form is _INTEGER else float(text)
