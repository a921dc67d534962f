"""Results to test with: a made one with known numbers, and a recorded one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from device.compiled_parser import PROFILE
from mounting import mounted
from server_log import copy_data

import lookahead
from lab.made_probe import made_round
from lab.made_results import MACHINE, make_controls, make_scans
from lookahead.comparisons import compare
from lookahead.device.probe import probe_data
from lookahead.device.probe.analysis import summarize
from lookahead.device.probe.probe_data import ProbeDocument, ProbeParameters
from lookahead.device.profile import parse_profiles
from lookahead.machine import SourceFacts
from lookahead.measurements import Measurements
from lookahead.results import (
    SCHEMA,
    SCHEMA_VERSION,
    Finding,
    Parameters,
    ResultDocument,
    Software,
    read_result,
)
from lookahead.server import PrivateServer

DATA = Path(__file__).parent / "data"


def compared(data: Measurements) -> Measurements:
    """With the answers to its questions, as the result files of these tests have them."""
    return replace(data, comparisons=compare(data, seed=7))


@pytest.fixture(autouse=True)
def _copied_data(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole commands copy what initdb would make, which takes longer than what they measure.

    Those that run in a process of their own have their own initdb.
    """
    if request.node.get_closest_marker("end_to_end") is None:
        return
    template: PrivateServer = request.getfixturevalue("data_template")
    initdb = PrivateServer.initdb

    def copy_or_make(server: PrivateServer) -> None:
        if not copy_data(template, server):
            initdb(server)

    monkeypatch.setattr(PrivateServer, "initdb", copy_or_make)


@pytest.fixture
def document() -> ResultDocument:
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
        parameters=Parameters(
            "quick",
            7,
            6,
            {"pages": (1_000, 10_000), "io-method": ("worker", "sync"), "limit": None},
        ),
        findings=(Finding("warning", "the machine is <busy>", "Wait & repeat."),),
        measurements=compared(make_scans()),
    )


@pytest.fixture
def controls_document(document: ResultDocument) -> ResultDocument:
    """A complete result of "controls": "on" takes 1 % longer than the others in every round."""
    data = compared(make_controls())
    return replace(document, experiment="controls", measurements=data)


@pytest.fixture
def probe() -> ProbeDocument:
    """A complete probe of a made device: 80,000 reads/s and 1,000 MB/s at most."""
    rounds = [made_round(number, lambda _: 1.0) for number in range(3)]
    return ProbeDocument(
        schema=probe_data.SCHEMA,
        schema_version=probe_data.SCHEMA_VERSION,
        status="complete",
        ending="complete",
        started_at="2026-01-31T23:59:00+00:00",
        finished_at="2026-01-31T23:59:59+00:00",
        command=("lookahead", "probe", "/<srv>"),
        lab_version=lookahead.__version__,
        source=SourceFacts(None, False),
        machine=MACHINE,
        parameters=ProbeParameters(2**30, 60.0, 0.0, 0.2, 1),
        findings=(),
        samples=tuple(sample for samples in rounds for sample in samples),
        summary=summarize(rounds, seed=1),
        profile=parse_profiles(PROFILE)[0],
    )


@pytest.fixture
def recorded() -> ResultDocument:
    """A result that was measured."""
    return read_result(DATA / "index-scan.json")


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
