"""The extension's parser of device profiles, compiled alone, and a text for it."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

from compiling import shared_library

from lookahead.installation import Installation

_TOP = Path(__file__).resolve().parents[3]
SOURCE = _TOP / "src" / "device" / "la_profile_parse.c"
INCLUDE = f"-I{_TOP / 'src'}"
MAX_SECTIONS = 32

MACHINE = "id-" + "0123456789abcdef" * 2
# As all probes have written it: scans have no use for request_blocks and two others.
SECTION = f"""[device 8:1]
machine = {MACHINE}
identity = fs=ab12;sectors=1000;serial=XYZ
measured_at = 2026-01-31T23:59:59Z
random_read_latency_us = 95.5
bandwidth_mb = 1500
depth = 64
request_blocks = 32
gap_limit = 3
iops_at_depth_1 = 10000
iops_at_depth_64 = 60000.25
"""
HEAD = "# a comment\nversion = 1\n\n"
PROFILE = f"{HEAD}{SECTION}[end]\n"


class CValues(ctypes.Structure):
    _fields_ = (
        ("depth", ctypes.c_int),
        ("iops", ctypes.c_double),
        ("bandwidth_mb", ctypes.c_double),
    )


class CSection(ctypes.Structure):
    _fields_ = (
        ("device_major", ctypes.c_uint32),
        ("device_minor", ctypes.c_uint32),
        ("machine", ctypes.c_char * 38),
        ("identity", ctypes.c_char * 128),
        ("measured_at", ctypes.c_char * 21),
        ("iops_at_depth", ctypes.c_double * 9),
        ("values", CValues),
    )


class CProfile(ctypes.Structure):
    _fields_ = (("nsections", ctypes.c_int), ("sections", CSection * MAX_SECTIONS))


class CError(ctypes.Structure):
    _fields_ = (("line", ctypes.c_int), ("what", ctypes.c_char_p))


@dataclass(frozen=True)
class Parser:
    """The compiled parser: a profile, or the line and what is wrong with it."""

    library: ctypes.CDLL

    def parse(self, text: str | bytes) -> CProfile | tuple[int, str]:
        data = text.encode("latin-1") if isinstance(text, str) else text
        own = ctypes.create_string_buffer(data, len(data) or 1)  # the parser cuts it up
        profile, error = CProfile(), CError()
        # a session parses into the memory of the file before
        ctypes.memset(ctypes.byref(profile), 0x40, ctypes.sizeof(profile))
        if self.library.la_profile_parse(
            own, ctypes.c_size_t(len(data)), ctypes.byref(profile), ctypes.byref(error)
        ):
            return profile
        return error.line, error.what.decode()


def load_parser(installation: Installation, folder: Path) -> Parser:
    """Compile it as a library in `folder`, and load that."""
    loaded = ctypes.CDLL(str(shared_library(SOURCE, folder, installation, INCLUDE)))
    loaded.la_profile_parse.restype = ctypes.c_bool
    return Parser(loaded)
