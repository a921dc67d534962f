"""The device profile: the text that tells the extension what the devices of this machine can do.

The extension's parser (src/device/la_profile_parse.c) decides what is valid; the rules here are the
same, and a test has both read the same texts. docs/device-profile.md describes the format.
"""

import errno
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lookahead.device.block_device import DeviceId
from lookahead.errors import ExitStatus, LabError
from lookahead.results import write_atomically
from lookahead.safe_files import opened_folder, read_file

DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BLOCK_BYTES = 8192
MAX_REQUEST_BLOCKS = 512
MAX_GAP_BLOCKS = 256
_VERSION = "1"
_MAX_BYTES = 64 * 1024
_MAX_SECTIONS = 32
_FIRST_YEAR = 2000  # nothing was measured before
_MAX_MAJOR, _MAX_MINOR = 4095, 1048575
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,6})?", re.ASCII)
_INTEGER = re.compile(r"\d{1,9}", re.ASCII)
_TEXTS = {
    "machine": re.compile(r"(id|boot)-[0-9a-f]{32}"),
    "identity": re.compile(r"[!-~]{1,127}"),
    "measured_at": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII),
}
# Inclusive bounds of the numbers.
_NUMBERS = {
    "random_read_latency_us": (0.1, 10e6),
    "bandwidth_mb": (0.1, 1e6),
}
_INTEGERS = {
    "depth": (1, DEPTHS[-1]),
    "request_blocks": (1, MAX_REQUEST_BLOCKS),
    "gap_limit": (0, MAX_GAP_BLOCKS),
}
_DEPTH_KEYS = {f"iops_at_depth_{depth}": depth for depth in DEPTHS}
_IOPS_BOUNDS = (0.1, 100e6)
_OPTIONAL = ("random_read_latency_us", "request_blocks", "gap_limit")
_REQUIRED = {*_TEXTS, *_NUMBERS, *_INTEGERS} - {*_OPTIONAL}
_KNOWN = {*_REQUIRED, *_OPTIONAL, *_DEPTH_KEYS}

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

    `depth`, the rate at it and `bandwidth_mb` are what scans work with; the extension shows the
    others where the file has them. `request_blocks` and `gap_limit` are in blocks of 8 kB; `rates`
    are of each depth measured, in ascending order.
    """

    device: DeviceId
    machine: str
    measured_at: str
    random_read_latency_us: float | None
    bandwidth_mb: float
    depth: int
    request_blocks: int | None
    gap_limit: int | None
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
    """The text of a whole file."""
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
    if _assignments(head) != {"version": _VERSION}:
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
        with opened_folder(path.parent) as folder:
            return parse_profiles(read_file(folder, path.name).decode("ascii"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is no profile: {error}"
        raise LabError(
            f'cannot write a device profile to "{path}": {reason}',
            "Name another file with --profile.",
            status=ExitStatus.ENVIRONMENT,
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
    values: dict[str, str | float | None] = {
        "machine": profile.machine,
        "identity": device.identity,
        "measured_at": profile.measured_at,
        "random_read_latency_us": profile.random_read_latency_us,
        "bandwidth_mb": profile.bandwidth_mb,
        "depth": profile.depth,
        "request_blocks": profile.request_blocks,
        "gap_limit": profile.gap_limit,
        **{f"iops_at_depth_{rate.depth}": rate.iops for rate in profile.rates},
    }
    lines = [f"[device {device.major}:{device.minor}]"]
    lines += [
        f"{name} = {value:.1f}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in values.items()
        if value is not None
    ]
    return "".join(f"{line}\n" for line in lines)


def _assignments(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip(" \t")
        if not stripped or stripped.startswith("#"):
            continue
        name, sign, value = stripped.partition("=")
        name = name.rstrip(" \t")
        if not sign or name in values:
            raise ProfileError(f'"{stripped}" is no assignment, or comes twice')
        values[name] = value.strip(" \t")
    return values


def _parse_section(name: str, body: str) -> DeviceProfile:
    number = re.fullmatch(r"device (\d{1,9}):(\d{1,9})", name, re.ASCII)
    if number is None or int(number[1]) > _MAX_MAJOR or int(number[2]) > _MAX_MINOR:
        raise ProfileError(f"[{name}] is neither [device MAJOR:MINOR] nor [end]")
    values = _assignments(body)
    for wrong in (_REQUIRED - set(values)) | (set(values) - _KNOWN):
        raise ProfileError(f"[{name}]: {wrong} is missing or unknown")
    for key, shape in _TEXTS.items():
        if not shape.fullmatch(values[key]):
            raise ProfileError(f"[{name}]: {key} has another form")
    _check_time(values["measured_at"])
    rates = tuple(
        DepthRate(depth, _number(values[key], _IOPS_BOUNDS, key))
        for key, depth in _DEPTH_KEYS.items()
        if key in values
    )
    numbers = {
        key: _number(values[key], bounds, key) for key, bounds in _NUMBERS.items() if key in values
    }
    integers = {
        key: _integer(values[key], bounds, key)
        for key, bounds in _INTEGERS.items()
        if key in values
    }
    if integers["depth"] not in {rate.depth for rate in rates}:
        raise ProfileError(f"[{name}]: the IOPS at its depth are missing")
    return DeviceProfile(
        device=DeviceId(int(number[1]), int(number[2]), values["identity"]),
        machine=values["machine"],
        measured_at=values["measured_at"],
        rates=rates,
        random_read_latency_us=numbers.get("random_read_latency_us"),
        bandwidth_mb=numbers["bandwidth_mb"],
        depth=integers["depth"],
        request_blocks=integers.get("request_blocks"),
        gap_limit=integers.get("gap_limit"),
    )


def _check_time(text: str) -> None:
    try:
        year = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").year
    except ValueError:
        year = 0
    if year < _FIRST_YEAR:
        raise ProfileError(f"measured_at = {text} is no time")


def _number(text: str, bounds: tuple[float, float], key: str) -> float:
    if not _NUMBER.fullmatch(text) or not bounds[0] <= float(text) <= bounds[1]:
        raise ProfileError(f"{key} = {text} is no number between {bounds[0]:g} and {bounds[1]:g}")
    return float(text)


def _integer(text: str, bounds: tuple[int, int], key: str) -> int:
    if not _INTEGER.fullmatch(text) or not bounds[0] <= int(text) <= bounds[1]:
        raise ProfileError(f"{key} = {text} is no number between {bounds[0]} and {bounds[1]}")
    return int(text)
