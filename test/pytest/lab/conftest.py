"""Results to test with: a made one with known numbers, and a recorded one."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mounting import mounted

from lab.made_results import MACHINE, make_sample
from lookahead.machine import SourceFacts
from lookahead.measurements import (
    ControlArm,
    ControlEvidence,
    ControlSample,
    ControlsData,
    IndexScanData,
    RowDigest,
    ScanSample,
    Scenario,
    TableFacts,
)
from lookahead.results import (
    SCHEMA,
    SCHEMA_VERSION,
    Finding,
    Parameters,
    ResultDocument,
    Software,
    read_result,
)

DATA = Path(__file__).parent / "data"


@pytest.fixture
def scan_samples() -> tuple[ScanSample, ...]:
    """Two scenarios of 6 pairs: exactly four times as fast, and no difference at all."""
    fast, even = Scenario(10_000, "worker", 128), Scenario(1_000, "sync", 128)
    times = (400.0, 410.0, 420.0, 430.0, 440.0, 450.0)
    samples = []
    for pair, time in enumerate(times):
        samples.append(make_sample(fast, pair, "stock", time))
        samples.append(make_sample(fast, pair, "lookahead", time / 4))
        samples.append(make_sample(even, pair, "stock", time))
        samples.append(make_sample(even, pair, "lookahead", times[-1 - pair]))
    return tuple(samples)


@pytest.fixture
def document(scan_samples: tuple[ScanSample, ...]) -> ResultDocument:
    """A complete result of "index-scan"."""
    return ResultDocument(
        schema=SCHEMA,
        schema_version=SCHEMA_VERSION,
        experiment="index-scan",
        status="complete",
        ending="complete",
        started_at="2026-01-01T10:00:00+00:00",
        finished_at="2026-01-01T10:05:00+00:00",
        command=("lookahead", "run", "index-scan"),
        software=Software("0.1.0", "18.6", "system", "ab" * 32, SourceFacts("cd" * 20, False)),
        machine=MACHINE,
        settings={"shared_buffers": "256MB", "jit": "off"},
        parameters=Parameters("quick", 7, 6, (1_000, 10_000), (), (), ("worker", "sync"), ()),
        findings=(Finding("warning", "the machine is <busy>", "Wait & repeat."),),
        delay_device=None,
        index_scan=IndexScanData(
            table=TableFacts(528_000, 48_000, 11, 736, 393_216_000, 12_000_000, 5.0),
            digests=(RowDigest(Scenario(10_000, "worker", 128), 0, 9_999, 10_000, "ef" * 32),),
            samples=scan_samples,
            comparisons=(),
        ),
        controls=None,
        index_build=None,
        trials=None,
    )


@pytest.fixture
def controls_document(document: ResultDocument) -> ResultDocument:
    """A complete result of "controls": "on" is 1 % slower than "off" in every alternation."""
    tps: dict[ControlArm, float] = {"not loaded": 1000.0, "off": 1000.0, "on": 990.0}
    samples = tuple(
        ControlSample(
            "limit-1", "worker", alternation, 3 * alternation + position, arm, 1000, value
        )
        for alternation in range(6)
        for position, (arm, value) in enumerate(tps.items())
    )
    evidence = (ControlEvidence("limit-1", "worker", "Index Scan", ("on",), 0, None),)
    controls = ControlsData(200_000, 50_000, 1.0, evidence, samples, ())
    return replace(document, experiment="controls", index_scan=None, controls=controls)


@pytest.fixture
def recorded() -> ResultDocument:
    """A result that was measured."""
    return read_result(DATA / "index-scan.json")


@pytest.fixture
def disk() -> Iterator[Path]:
    """Where servers are made: a folder on a real disk, reachable for the server's account."""
    with tempfile.TemporaryDirectory(prefix="lookahead-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 64 kB that is full; needs the right to mount."""
    with mounted(tmp_path / "full", "size=64k") as place:
        (place / "filler").write_bytes(bytes(64 * 1024))
        yield place


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder on a read-only file system, which stops even root; needs the right to mount."""
    with mounted(tmp_path / "read-only", "ro") as place:
        yield place
