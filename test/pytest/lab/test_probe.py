"""`lookahead probe`: whole small probes, what it refuses, and that nothing is left behind."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from lab.outcome import Outcome, run_command
from lookahead.conninfo import shown_dsn
from lookahead.decoding import decode
from lookahead.device.block_device import BlockDevice
from lookahead.device.probe import fio_engine, native_aio
from lookahead.device.probe.fio_engine import FioEngine
from lookahead.device.probe.own_engine import OwnEngine
from lookahead.device.probe.pattern import Pattern, random_reads, sequential_reads
from lookahead.device.probe.probe_data import ProbeDocument
from lookahead.device.probe.reading import Engine
from lookahead.device.probe.test_file import TestFile
from lookahead.device.profile import parse_profiles
from lookahead.device.read_ahead import ReadAhead
from lookahead.errors import ExitStatus, LabError
from lookahead.extension import Stage
from lookahead.stats import ratio_of_medians

_SMALL = ("--size", "64", "--time", "2", "--rate", "0", "--force")
_SIZE = 64 * 2**20
_MEMORY = Path("/dev/shm")


def _make(folder: Path) -> None:
    with TestFile(folder, _SIZE):
        pass


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder where direct reads are possible."""
    try:
        _make(tmp_path)
    except LabError as error:
        pytest.skip(error.message)
    return tmp_path


def _probe(folder: Path, *options: str | Path) -> Outcome:
    return run_command("probe", folder, "--output", folder / "results", *_SMALL, *options)


def _document(folder: Path) -> ProbeDocument:
    (file,) = (folder / "results").glob("probe-*.json")
    return decode(ProbeDocument, json.loads(file.read_text()))


def test_a_small_probe_makes_result_and_profile(disk: Path) -> None:
    profile = disk / "profile"
    outcome = _probe(disk, "--engine", "own", "--profile", profile)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "random reads, reads/s" in outcome.stdout
    assert f"profile: {profile}" in outcome.stdout
    assert "ALTER SYSTEM SET pg_lookahead.device_profile" in outcome.stderr

    document = _document(disk)
    assert document.status == "complete"
    summary = document.summary
    assert summary is not None and summary.rounds >= 1
    assert len(document.samples) == summary.rounds * (9 + 20 + 16 + 1)
    assert all(sample.requests > 0 for sample in document.samples)
    (written,) = parse_profiles(profile.read_text())
    assert document.profile is not None
    assert written.depth == document.profile.depth
    assert written.device == document.profile.device
    assert profile.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in disk.iterdir()) == ["profile", "results"]


def test_a_second_probe_replaces_its_own_section_only(disk: Path) -> None:
    profile = disk / "profile"
    assert _probe(disk, "--engine", "own", "--profile", profile).status is ExitStatus.SUCCESS
    first = profile.read_text()
    (mine,) = parse_profiles(first)
    other = first.replace(f"{mine.device.major}:{mine.device.minor}]", "4095:7]")
    section = other[other.index("[device") : other.index("[end]")]
    profile.write_text(first.replace("[end]", f"{section}[end]"))
    assert _probe(disk, "--engine", "own", "--profile", profile).status is ExitStatus.SUCCESS
    kept, again = parse_profiles(profile.read_text())
    assert (kept.device.major, kept.device.minor) == (4095, 7)
    assert again.device == mine.device


def test_a_file_that_is_no_profile_is_not_replaced(disk: Path) -> None:
    precious = disk / "postgresql.conf"
    precious.write_text("port = 5432\n")
    outcome = _probe(disk, "--engine", "own", "--profile", precious)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "cannot write a device profile to" in outcome.stderr
    assert "it is no profile: " in outcome.stderr
    assert precious.read_text() == "port = 5432\n"
    assert not (disk / "results").exists()


def test_the_rate_is_a_mean(disk: Path) -> None:
    """Resting is planned from the bytes read; the fastest round cannot be shorter than that."""
    outcome = run_command(
        *("probe", disk, "--output", disk / "results", "--engine", "own", "--force"),
        *("--size", "64", "--time", "2", "--rate", "400"),
    )
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    document = _document(disk)
    assert document.parameters.rate_mb_per_s == 400
    took = float(outcome.stderr.split("round 1 took ")[1].split(" s")[0])
    first_mb = sum(s.requests * s.request_bytes for s in document.samples if s.round == 0) / 1e6
    assert took >= first_mb / 400 - 0.1


def test_read_aheads_are_tried_and_put_back(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a made folder of the kernel's: the disk keeps its own."""
    setting = disk / "sys" / "made" / "queue" / "read_ahead_kb"
    setting.parent.mkdir(parents=True)
    setting.write_text("256\n")
    made = ReadAhead("made", disk / "journal", sys_block=disk / "sys")
    monkeypatch.setattr(ReadAhead, "of", lambda device: made)
    monkeypatch.setattr(
        "lookahead.device.probe.probe.find_block_device", lambda folder: BlockDevice("made", "made")
    )
    outcome = _probe(disk, "--engine", "own", "--read-ahead", "4096", "--read-ahead", "128")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    document = _document(disk)
    tried = [s.read_ahead_kb for s in document.samples if s.kind == "buffered" and s.round == 0]
    assert tried == [4096, 128]
    assert document.summary is not None
    assert [point.x for point in document.summary.curves[3].points] == [128, 4096]
    assert setting.read_text() == "256\n"
    assert not (disk / "journal").exists()


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ((), ExitStatus.USAGE, "name either a folder or a tablespace"),
        (("/", "--tablespace", "x"), ExitStatus.USAGE, "name either a folder or a tablespace"),
        (("/", "--dsn", "x"), ExitStatus.USAGE, "--dsn needs --tablespace"),
        (("/dev/null",), ExitStatus.USAGE, '"/dev/null" is no folder'),
        (("/no/such/place",), ExitStatus.ENVIRONMENT, "cannot look at"),
        (("/", "--engine", "dd"), ExitStatus.USAGE, "'dd' is not one of"),
        (("/", "--size", "1"), ExitStatus.USAGE, "1 is not in the range"),
        (("/", "--time", "0"), ExitStatus.USAGE, "0 is not in the range"),
        (("/", "--rate", "-1"), ExitStatus.USAGE, "-1 is not in the range"),
        (("/", "--size", "1048576", "--force"), ExitStatus.ENVIRONMENT, "a tenth of it at most"),
        (
            ("--tablespace", "x", "--dsn", "host=/no/such/folder"),
            ExitStatus.ENVIRONMENT,
            "cannot connect",
        ),
    ],
)
def test_wrong_usage(
    options: tuple[str, ...], status: ExitStatus, message: str, tmp_path: Path
) -> None:
    outcome = run_command("probe", "--output", tmp_path / "results", *options)
    assert outcome.status is status
    error, hint = outcome.stderr.splitlines()
    assert error.startswith("error: ") and message in error
    assert hint.startswith("hint: ")
    assert not (tmp_path / "results").exists()


def test_block_devices_are_never_opened(tmp_path: Path) -> None:
    devices = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    if not devices:
        pytest.skip("no block device in /dev")
    outcome = _probe(devices[0])
    assert outcome.status is ExitStatus.USAGE
    assert "is a block device" in outcome.stderr


@pytest.mark.skipif(not _MEMORY.is_dir(), reason="no /dev/shm")
def test_memory_is_no_device(tmp_path: Path) -> None:
    outcome = run_command("probe", _MEMORY, "--output", tmp_path / "results", *_SMALL)
    if "a tenth of it" in outcome.stderr:
        pytest.skip("/dev/shm is too small for a test file")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "no direct reads are possible" in outcome.stderr
    assert not list((tmp_path / "results").iterdir())


def test_a_busy_device_is_left_alone(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter([1000, 1900])

    def busier(self: Path, *arguments: Any, **options: Any) -> str:
        if self != Path("/proc/diskstats"):
            return real(self, *arguments, **options)
        return f"8 1 disk 0 0 0 0 0 0 0 0 0 {next(lines)} 0\n"

    real = Path.read_text
    monkeypatch.setattr(Path, "read_text", busier)
    monkeypatch.setattr(
        "lookahead.device.probe.place.find_block_device", lambda folder: BlockDevice("disk", "disk")
    )
    outcome = run_command("probe", disk, "--output", disk / "results")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "the device is not to be disturbed: disk is busy" in outcome.stderr
    assert not (disk / "results").exists()


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage) as started:
        yield started


def _dsn(server: WatchedServer) -> str:
    return f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"


def test_tablespace_of_a_server(server: WatchedServer, disk: Path) -> None:
    outcome = run_command(
        *("probe", "--tablespace", "pg_default", "--dsn", f"{_dsn(server)} password=hunter2"),
        *("--output", disk / "results", "--engine", "own", *_SMALL),
    )
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (file,) = (disk / "results").glob("probe-*.json")
    assert "hunter2" not in file.read_text()
    assert shown_dsn(_dsn(server)) in _document(disk).command
    names = [path.name for path in (server.data_directory / "base").iterdir()]
    assert all(name.isdecimal() or name == "pgsql_tmp" for name in names)


def test_a_server_at_work_is_left_alone(server: WatchedServer, tmp_path: Path) -> None:
    with server.connect() as worker, server.connect() as other, ThreadPoolExecutor(1) as pool:
        busy = pool.submit(worker.execute, "SELECT pg_sleep(60)")
        query = "SELECT state FROM pg_stat_activity WHERE pid = %s"
        process = [worker.info.backend_pid]
        wait_until(
            lambda: other.execute(query, process).fetchone() == ("active",),
            "the session is at work",
        )
        outcome = run_command(
            *("probe", "--tablespace", "pg_default", "--dsn", _dsn(server)),
            *("--output", tmp_path / "results"),
        )
        worker.cancel()
        assert isinstance(busy.exception(), psycopg.errors.QueryCanceled)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "sessions at work on the server: 1" in outcome.stderr


def test_a_standby_is_left_alone(
    server_factory: ServerFactory, stage: Stage, tmp_path: Path
) -> None:
    with server_factory(stage=stage, start=False) as standby:
        standby.initdb()
        (standby.data_directory / "standby.signal").touch()
        standby.start()
        outcome = run_command(
            *("probe", "--tablespace", "pg_default", "--dsn", _dsn(standby)),
            *("--output", tmp_path / "results"),
        )
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "the device is not to be disturbed: the server is a standby" in outcome.stderr


def test_unknown_tablespace(server: WatchedServer, tmp_path: Path) -> None:
    outcome = run_command("probe", "--tablespace", "nowhere", "--dsn", _dsn(server))
    assert outcome.status is ExitStatus.USAGE
    assert 'there is no tablespace "nowhere"' in outcome.stderr


def test_the_folder_of_a_standby_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "standby.signal").touch()
    (tmp_path / "base").mkdir()
    outcome = run_command("probe", tmp_path / "base", "--output", tmp_path / "results")
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "it is in the data directory of a standby" in outcome.stderr


def _long_probe(folder: Path) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "lookahead", "probe", str(folder)]
    options = ["--size", "64", "--time", "30", "--force", "--engine", "own"]
    output = ["--output", str(folder / "results")]
    return subprocess.Popen([*program, *options, *output], stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(disk: Path, number: signal.Signals) -> None:
    """What was measured is kept; the test file never had a name."""
    with _long_probe(disk) as process:
        assert process.stderr is not None
        while "round 1 took" not in process.stderr.readline():
            assert process.poll() is None
        assert [path.name for path in disk.iterdir()] == ["results"]
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == ExitStatus.INTERRUPTED
    assert "error: interrupted" in rest
    document = _document(disk)
    assert (document.status, document.ending) == ("incomplete", "interrupted")
    assert len(document.samples) >= 46
    assert document.profile is None
    assert [path.name for path in disk.iterdir()] == ["results"]


def test_killed_in_the_middle_nothing_is_left(disk: Path) -> None:
    """The result file apart, which was claimed."""
    with _long_probe(disk) as process:
        assert process.stderr is not None
        while "measuring with" not in process.stderr.readline():
            assert process.poll() is None
        process.kill()
    assert [path.name for path in disk.iterdir()] == ["results"]


_COMPARED = (random_reads(1), random_reads(16), random_reads(256), sequential_reads(8, 128))
_needs_fio = pytest.mark.skipif(not fio_engine.is_available(), reason="fio is not installed")
_needs_aio = pytest.mark.skipif(
    not native_aio.is_available(), reason="no asynchronous I/O of the kernel"
)


@_needs_fio
@_needs_aio
@pytest.mark.soak
@pytest.mark.parametrize("pattern", _COMPARED, ids=str)
def test_the_engines_agree(disk: Path, pattern: Pattern) -> None:
    """In alternation, and within 10 % as far as the machine's noise lets one say.

    The figures of a quiet machine are in docs/device-profile.md.
    """
    engines: tuple[Engine, Engine] = (OwnEngine(native=True), FioEngine())
    rates: tuple[list[float], list[float]] = ([], [])
    with TestFile(disk, _SIZE) as file:
        for number in range(24):
            for which in (0, 1) if number % 2 else (1, 0):
                ((_, reading),) = engines[which].run(file, [pattern], 0.1, number)
                rates[which].append(reading.requests_per_s)
    estimate = ratio_of_medians(rates[0], rates[1], seed=1)
    assert estimate.low <= 1.1 and estimate.high >= 0.9, estimate


def _blocks_read() -> int:
    """What the kernel counts for us and our ended children, in units of 512 bytes."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(who).ru_inblock for who in whose)


@pytest.mark.parametrize("pattern", _COMPARED, ids=str)
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(OwnEngine(native=True), id="own", marks=_needs_aio),
        pytest.param(OwnEngine(native=False), id="threads"),
        pytest.param(FioEngine(), id="fio", marks=_needs_fio),
    ],
)
def test_the_kernel_counts_the_same_reads(disk: Path, engine: Engine, pattern: Pattern) -> None:
    """Beyond those reported there are only requests still in flight, and loaded programs."""
    excess = []
    with TestFile(disk, _SIZE) as file:
        for _ in range(4):
            before = _blocks_read()
            ((_, reading),) = engine.run(file, [pattern], 0.2, 1)
            counted = (_blocks_read() - before) * 512
            reported = reading.requests * pattern.request_bytes
            assert counted >= reported
            excess.append(counted - reported * 1.1)
    assert min(excess) <= pattern.depth * pattern.request_bytes + 16 * 2**20


def test_threads_read_where_nothing_better_is_there(disk: Path) -> None:
    engine = OwnEngine(native=False)
    with TestFile(disk, _SIZE) as file:
        patterns = [random_reads(1), random_reads(16), sequential_reads(8, 64)]
        for pattern, reading in engine.run(file, patterns, 0.5, 1):
            assert reading.requests > pattern.depth
            assert reading.seconds >= 0.5


def test_a_failed_read_is_said(disk: Path) -> None:
    with TestFile(disk, _SIZE) as file:
        beyond = Pattern("random", 4, 8192)
        for native in (False, True):
            if native and not native_aio.is_available():
                continue
            engine = OwnEngine(native)
            closed = os.dup(file.direct)
            real, file.direct = file.direct, closed
            os.close(closed)
            with pytest.raises(LabError, match="Bad file descriptor"):
                list(engine.run(file, [beyond], 0.05, 1))
            file.direct = real
