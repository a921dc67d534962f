"""The server settings that decide how look-ahead reads: each leads to another path of its code."""

import os
from pathlib import Path

import pytest

from lookahead.installation import Installation

# Look-ahead gives advice to the kernel, which then reads; with direct I/O, where advice is useless,
# its read stream does the reading.
TRANSPORTS = {
    "worker": {"io_method": "worker"},
    "sync": {"io_method": "sync"},
    "io_uring": {"io_method": "io_uring"},
    "direct": {"io_method": "worker", "debug_io_direct": "data"},
    "direct_io_uring": {"io_method": "io_uring", "debug_io_direct": "data"},
}


def usable_transports(installation: Installation, directory: Path) -> list[str]:
    """Those that the server is built for and the file system of `directory` allows."""
    missing = set()
    if not installation.has_io_uring:
        missing.update({"io_uring", "direct_io_uring"})
    if not _allows_direct_io(directory):
        missing.update({"direct", "direct_io_uring"})
    return [name for name in TRANSPORTS if name not in missing]


def transport_settings(name: str, installation: Installation, directory: Path) -> dict[str, str]:
    """Settings of one transport, "stream" meaning any by read stream; skips where it cannot be."""
    usable = usable_transports(installation, directory)
    streams = [one for one in ("direct_io_uring", "direct") if one in usable]
    wanted = streams if name == "stream" else [name]
    if not wanted or wanted[0] not in usable:
        pytest.skip(f"this server or file system has no {name}")
    return TRANSPORTS[wanted[0]]


def _allows_direct_io(directory: Path) -> bool:
    probe = directory / "direct_io_probe"
    try:
        os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True
