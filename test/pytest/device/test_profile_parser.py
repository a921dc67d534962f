"""The parser of device profiles, alone: compiled as a library, and fuzzed with sanitizers."""

import ctypes
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from lookahead.installation import Installation

_TOP = Path(__file__).resolve().parents[3]
_SOURCE = _TOP / "src" / "device" / "la_profile_parse.c"
_FUZZER = Path(__file__).with_name("fuzz_profile.c")
_FUZZ_INPUTS = 1_000_000
_MAX_SECTIONS = 32

MACHINE = "id-" + "0123456789abcdef" * 2
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
        ("request_blocks", ctypes.c_int),
        ("gap_limit", ctypes.c_int),
        ("random_read_us", ctypes.c_double),
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
        ("values", CValues),
        ("iops_at_depth", ctypes.c_double * 9),
    )


class CProfile(ctypes.Structure):
    _fields_ = (("nsections", ctypes.c_int), ("sections", CSection * _MAX_SECTIONS))


class CError(ctypes.Structure):
    _fields_ = (("line", ctypes.c_int), ("what", ctypes.c_char_p))


@dataclass(frozen=True)
class Parser:
    """The compiled parser: a profile, or the line and what is wrong with it."""

    library: ctypes.CDLL

    def parse(self, text: str | bytes) -> CProfile | tuple[int, str]:
        data = text.encode("latin-1") if isinstance(text, str) else text
        profile, error = CProfile(), CError()
        if self.library.la_profile_parse(
            data, ctypes.c_size_t(len(data)), ctypes.byref(profile), ctypes.byref(error)
        ):
            return profile
        return error.line, error.what.decode()


def _compile(installation: Installation, target: Path, *arguments: str) -> None:
    headers = subprocess.run(
        [installation.pg_config, "--includedir-server"], check=True, text=True, capture_output=True
    ).stdout.strip()
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-Wall", "-Werror", "-isystem", headers, f"-I{_TOP / 'src'}"]
    subprocess.run([*compiler, *flags, *arguments, str(_SOURCE), "-o", str(target)], check=True)


@pytest.fixture(scope="module")
def parser(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Parser:
    library = tmp_path_factory.mktemp("profile") / "profile.so"
    _compile(installation, library, "-shared", "-fPIC", "-O1")
    loaded = ctypes.CDLL(str(library))
    loaded.la_profile_parse.restype = ctypes.c_bool
    return Parser(loaded)


def test_whole_profile(parser: Parser) -> None:
    profile = parser.parse(PROFILE)
    assert isinstance(profile, CProfile)
    assert profile.nsections == 1
    section = profile.sections[0]
    assert (section.device_major, section.device_minor) == (8, 1)
    assert section.machine.decode() == MACHINE
    assert section.identity == b"fs=ab12;sectors=1000;serial=XYZ"
    assert section.measured_at == b"2026-01-31T23:59:59Z"
    values = section.values
    assert (values.depth, values.request_blocks, values.gap_limit) == (64, 32, 3)
    assert (values.random_read_us, values.iops, values.bandwidth_mb) == (95.5, 60000.25, 1500.0)
    assert list(section.iops_at_depth) == [10000.0, 0, 0, 0, 0, 0, 60000.25, 0, 0]


def test_blanks_do_not_matter_and_the_order_neither(parser: Parser) -> None:
    first, *lines = SECTION.splitlines()
    body = "\n".join("\t" + line.replace(" = ", "=  ") + " " for line in reversed(lines))
    profile = parser.parse(f"version=1\n{first}\n{body}\n  # comment\n[end]\n\n# after\n")
    assert isinstance(profile, CProfile)
    assert profile.sections[0].values.iops == 60000.25


def test_several_devices(parser: Parser) -> None:
    sections = "".join(SECTION.replace("8:1", f"8:{n}") for n in range(_MAX_SECTIONS))
    profile = parser.parse(f"{HEAD}{sections}[end]\n")
    assert isinstance(profile, CProfile)
    assert profile.nsections == _MAX_SECTIONS
    assert profile.sections[31].device_minor == 31
    more = f"{HEAD}{sections}{SECTION.replace('8:1', '9:1')}[end]\n"
    assert parser.parse(more) == (3 + 11 * 32 + 1, "there are more than 32 devices")


@pytest.mark.parametrize("length", range(len(PROFILE)))
def test_every_truncation_is_refused(parser: Parser, length: int) -> None:
    assert not isinstance(parser.parse(PROFILE[:length]), CProfile)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        "-1",
        "+1",
        "1e308",
        "1e3",
        "nan",
        "inf",
        "0x10",
        "1.5.1",
        "1,5",
        ".5",
        "5.",
        "1_000",
        "1.0f",
        "9999999999",
        "0.0000001",
        "1/1",
        "٣",
    ],
)
@pytest.mark.parametrize(
    "key", ["random_read_latency_us", "bandwidth_mb", "depth", "request_blocks", "iops_at_depth_64"]
)
def test_absurd_numbers_are_refused(parser: Parser, key: str, value: str) -> None:
    lines = [
        f"{key} = {value}" if line.startswith(f"{key} ") else line for line in PROFILE.splitlines()
    ]
    refused = parser.parse(("\n".join(lines) + "\n").encode())
    assert isinstance(refused, tuple)
    number = next(n for n, line in enumerate(lines, 1) if line.startswith(f"{key} "))
    assert refused[0] == number


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("version = 1", "version = 2", 2, "the profile has another version than 1"),
        ("version = 1", "versoin = 1", 2, "it stands outside of any section"),
        ("version = 1", "version = 1\nversion = 1", 3, "it stands outside of any section"),
        ("version = 1\n", "", 3, 'there is no "version = 1" before it'),
        ("[device 8:1]", "[device 8]", 4, "the device number is not MAJOR:MINOR"),
        ("[device 8:1]", "[device 8:-1]", 4, "the device number is not MAJOR:MINOR"),
        ("[device 8:1]", "[device 4096:1]", 4, "the device number is not MAJOR:MINOR"),
        ("[device 8:1]", "[disk 8:1]", 4, "it is neither [device MAJOR:MINOR] nor [end]"),
        ("id-0123", "id-012g", 5, "the value is not the name of a machine"),
        ("id-0123", "id-123", 5, "the value is not the name of a machine"),
        ("serial=XYZ", "serial=X Z", 6, "the value is not the identity of a device"),
        ("serial=XYZ", "serial=" + "X" * 128, 6, "the value is not the identity of a device"),
        ("01-31T", "01-31 ", 7, "the value is not a time such as 2026-01-31T23:59:59Z"),
        ("bandwidth_mb", "bandwith_mb", 9, "the key is unknown"),
        ("bandwidth_mb = 1500", "depth = 8", 10, "the key comes twice"),
        ("depth = 64", "depth = 257", 10, "the value is out of range"),
        ("depth = 64", "depth = 6.4", 10, "the value is not a whole number"),
        ("request_blocks = 32", "request_blocks = 513", 11, "the value is out of range"),
        ("gap_limit = 3", "gap_limit = 257", 12, "the value is out of range"),
        ("gap_limit = 3", "gap_limit", 12, 'it is not "key = value"'),
        ("gap_limit = 3\n", "", 14, "a key is missing in the section before it"),
        (
            "depth = 64",
            "depth = 32",
            15,
            "the section before it lacks the IOPS at depth 1 or at its depth",
        ),
        ("[end]", "[end]\ndepth = 1", 16, "something follows [end]"),
        ("\n", "\r\n", 1, "it has a character that is not printable ASCII"),
        ("XYZ", "X\0Z", 6, "it has a character that is not printable ASCII"),
        ("XYZ", "XÿZ", 6, "it has a character that is not printable ASCII"),
        (
            "[end]",
            SECTION + "[end]",
            26,
            "the section before it is the second one of its device",
        ),
    ],
)
def test_what_is_wrong_is_said(parser: Parser, old: str, new: str, line: int, what: str) -> None:
    assert old in PROFILE
    assert parser.parse(PROFILE.replace(old, new)) == (line, what)


def test_large_files_are_refused(parser: Parser) -> None:
    comments = "#" * 63 + "\n"
    filler = 65536 - len(PROFILE)
    text = comments * (filler // 64) + "\n" * (filler % 64) + PROFILE
    assert isinstance(parser.parse(text), CProfile)
    assert parser.parse("\n" + text) == (0, "it is larger than 64 kB")


def test_fuzz(installation: Installation, tmp_path: Path, seed: int) -> None:
    """No crash, and nothing absurd accepted, over a million mutated profiles."""
    program, profile = tmp_path / "fuzz", tmp_path / "profile"
    sanitizers = "-fsanitize=address,undefined"
    _compile(
        installation, program, "-O2", "-g", sanitizers, "-fno-sanitize-recover", str(_FUZZER), "-lm"
    )
    second = SECTION.replace("8:1", "254:0")
    profile.write_text(f"{HEAD}{SECTION}{second}[end]\n")
    done = subprocess.run(
        [program, profile, str(_FUZZ_INPUTS), str(seed)],
        text=True,
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    accepted, refused = map(int, done.stdout.split())
    assert accepted + refused == _FUZZ_INPUTS
    # Both sides have to be reached for the figure to mean anything.
    assert accepted > _FUZZ_INPUTS // 100
    assert refused > _FUZZ_INPUTS // 2
