"""The parser of device profiles, alone: what it takes, what it refuses, and fuzzed."""

import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from compiling import program

from device.compiled_parser import (
    HEAD,
    INCLUDE,
    MACHINE,
    MAX_SECTIONS,
    PROFILE,
    SECTION,
    SOURCE,
    CProfile,
    Parser,
)
from lookahead.device.profile import DepthRate, ProfileError, format_profiles, parse_profiles
from lookahead.installation import Installation

_FUZZER = Path(__file__).with_name("fuzz_profile.c")
_FUZZ_INPUTS = 200_000  # a new seed comes with every run
_SOAK_INPUTS = 10_000_000
_COMPARED_INPUTS = 5_000
_NO_TEXT = "the value is empty, too long or has blanks"
_UNREAD = ("random_read_latency_us", "request_blocks", "gap_limit", "iops_at_depth_1 ")


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
    assert (values.depth, values.iops, values.bandwidth_mb) == (64, 60000.25, 1500.0)


def test_blanks_do_not_matter_and_the_order_neither(parser: Parser) -> None:
    first, *lines = SECTION.splitlines()
    body = "\n".join("\t" + line.replace(" = ", "=  ") + " " for line in reversed(lines))
    profile = parser.parse(f"version=1\n{first}\n{body}\n  # comment\n[end]\n\n# after\n")
    assert isinstance(profile, CProfile)
    assert profile.sections[0].values.iops == 60000.25


def test_what_no_scan_needs_may_be_missing_or_anything(parser: Parser) -> None:
    lines = [line for line in PROFILE.splitlines() if not line.startswith(_UNREAD)]
    other = "request_blocks = many\nlater = 1\nlater = 2\n"
    for text in ("\n".join(lines) + "\n", PROFILE.replace("request_blocks = 32\n", other)):
        profile = parser.parse(text)
        assert isinstance(profile, CProfile)
        (read,) = parse_profiles(text)
        assert (profile.sections[0].values.iops, read.iops) == (60000.25, 60000.25)
        assert parse_profiles(format_profiles((replace(read, rates=(DepthRate(64, 5.0),)),)))


def test_each_section_has_its_own_rates(parser: Parser) -> None:
    """What a section lacks does not come from the one before it."""
    second = SECTION.replace("8:1", "8:2").replace("iops_at_depth_64 = 60000.25\n", "")
    refused = parser.parse(f"{HEAD}{SECTION}{second}[end]\n")
    assert refused == (25, "the section before it lacks the IOPS at its depth")


def test_several_devices(parser: Parser) -> None:
    sections = "".join(SECTION.replace("8:1", f"8:{n}") for n in range(MAX_SECTIONS))
    profile = parser.parse(f"{HEAD}{sections}[end]\n")
    assert isinstance(profile, CProfile)
    assert profile.nsections == MAX_SECTIONS
    assert profile.sections[31].device_minor == 31
    more = f"{HEAD}{sections}{SECTION.replace('8:1', '9:1')}[end]\n"
    assert parser.parse(more) == (3 + 11 * 32 + 1, "there are more than 32 devices")


def test_every_truncation_is_refused(parser: Parser) -> None:
    taken = [
        length
        for length in range(len(PROFILE))
        if isinstance(parser.parse(PROFILE[:length]), CProfile)
    ]
    assert not taken, f"taken when cut after so many bytes: {taken}"


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
@pytest.mark.parametrize("key", ["bandwidth_mb", "depth", "iops_at_depth_64"])
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
        ("[device 8:1]", "[device 8]", 4, "it is neither [device MAJOR:MINOR] nor [end]"),
        ("[device 8:1]", "[device 8:-1]", 4, "the device number is not MAJOR:MINOR"),
        ("[device 8:1]", "[device 8:1234567890]", 4, "the device number is not MAJOR:MINOR"),
        ("[device 8:1]", "[disk 8:1]", 4, "it is neither [device MAJOR:MINOR] nor [end]"),
        ("id-0123", "id-0120123", 5, _NO_TEXT),
        ("serial=XYZ", "serial=X Z", 6, _NO_TEXT),
        ("serial=XYZ", "serial=" + "X" * 128, 6, _NO_TEXT),
        ("01-31T", "01-31 ", 7, _NO_TEXT),
        ("2026-01-31T23:59:59Z", "", 7, _NO_TEXT),
        ("bandwidth_mb", "bandwith_mb", 15, "a key is missing in the section before it"),
        ("bandwidth_mb = 1500", "depth = 8", 10, "the key comes twice"),
        ("depth = 64", "depth = 257", 10, "the value is out of range"),
        ("depth = 64", "depth = 6.4", 10, "the value is not a whole number"),
        ("gap_limit = 3", "gap_limit", 12, 'it is not "key = value"'),
        ("bandwidth_mb = 1500\n", "", 14, "a key is missing in the section before it"),
        (
            "depth = 64",
            "depth = 32",
            15,
            "the section before it lacks the IOPS at its depth",
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


@pytest.mark.parametrize(
    "inputs", [_FUZZ_INPUTS, pytest.param(_SOAK_INPUTS, marks=pytest.mark.soak)]
)
def test_fuzz(installation: Installation, tmp_path: Path, seed: int, inputs: int) -> None:
    """No crash, and nothing absurd accepted, over so many mutated profiles."""
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover")
    fuzzer = program(
        (_FUZZER, SOURCE), tmp_path, installation, INCLUDE, "-O2", "-g", *sanitizers, "-lm"
    )
    profile = tmp_path / "profile"
    second = SECTION.replace("8:1", "254:0")
    profile.write_text(f"{HEAD}{SECTION}{second}[end]\n")
    done = subprocess.run(
        [fuzzer, profile, str(inputs), str(seed)],
        text=True,
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    accepted, refused = map(int, done.stdout.split())
    assert accepted + refused == inputs
    # Both sides have to be reached for the figure to mean anything.
    assert accepted > inputs // 100
    assert refused > inputs // 2


def _accepted_by_lab(text: str) -> bool:
    try:
        parse_profiles(text)
    except ProfileError:
        return False
    return True


def test_lab_and_extension_accept_the_same(parser: Parser, seed: int) -> None:
    rng = random.Random(f"{seed}:profile")
    second = SECTION.replace("8:1", "254:0").replace("= 64\n", "= 1\n")
    base = f"{HEAD}{SECTION}\n# comment\n{second}[end]\n"
    pieces = (*"09.-=#x: ", "\n", "\t", "\0", "[end]\n", "depth = 1\n")
    accepted = 0
    for _ in range(_COMPARED_INPUTS):
        at, size = rng.randrange(len(base)), rng.choice((0, 0, 1, 2, 20))
        text = base[:at] + rng.choice(pieces) * rng.randint(0, 2) + base[at + size :]
        taken = isinstance(parser.parse(text), CProfile)
        assert taken == _accepted_by_lab(text), text
        accepted += taken
    assert _COMPARED_INPUTS // 100 < accepted < _COMPARED_INPUTS


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", HEAD])
def test_a_file_without_a_section(parser: Parser, text: str) -> None:
    assert not isinstance(parser.parse(text), CProfile)
    with pytest.raises(
        ProfileError, match=r"first line is not|cut short|does not end with \[end\]"
    ):
        parse_profiles(text)


def test_the_lab_writes_what_the_extension_reads(parser: Parser) -> None:
    profiles = parse_profiles(PROFILE.replace("60000.25", "60000.5"))
    text = format_profiles(profiles)
    assert parse_profiles(text) == profiles
    read = parser.parse(text)
    assert isinstance(read, CProfile)
    assert read.sections[0].machine.decode() == MACHINE
    assert read.sections[0].values.iops == 60000.5
