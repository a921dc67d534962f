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
from made_profile import made_profile
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from lab import small_probe
from lab.needs import needs_fio
from lab.outcome import Outcome, run_command
from lookahead.decoding import decode
from lookahead.device.block_device import BlockDevice, DeviceId, device_of
from lookahead.device.probe import fio, probe
from lookahead.device.probe.place import filled_file
from lookahead.device.probe.probe_data import ProbeDocument
from lookahead.device.profile import format_profiles, parse_profiles
from lookahead.errors import ExitStatus, LabError
from lookahead.extension import Stage
from lookahead.guarded_connection import shown_dsn

_SMALL = ("--size", "64MB", "--time", "2", "--rate", "0", "--force")
_SIZE = 64 * 2**20
_OTHER_DEVICE = DeviceId(4095, 7, "another")
_MEMORY = Path("/dev/shm")


def _make(folder: Path) -> None:
    with filled_file(folder, _SIZE):
        pass


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder where direct reads are possible."""
    try:
        _make(tmp_path)
    except LabError as error:
        pytest.skip(error.message)
    return tmp_path


@pytest.fixture(autouse=True)
def few_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, values in small_probe.few_patterns().items():
        monkeypatch.setattr(probe, name, values)


def _probe(folder: Path, *options: str | Path) -> Outcome:
    return run_command("probe", folder, "--output", folder / "results", *_SMALL, *options)


def _document(folder: Path) -> ProbeDocument:
    (file,) = (folder / "results").glob("probe-*.json")
    return decode(ProbeDocument, json.loads(file.read_text()))


@needs_fio
def test_a_small_probe_makes_result_and_profile(disk: Path) -> None:
    """Of the profile there was, it replaces its own section only."""
    profile = disk / "a b's profile"
    before = (made_profile(device_of(disk)), made_profile(_OTHER_DEVICE))
    profile.write_text(format_profiles(before))
    outcome = _probe(disk, "--profile", profile)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    shown = ("random reads\n", "reads/s", "gap limit, by IOPS and bandwidth", f"profile: {profile}")
    assert all(words in outcome.stdout for words in shown), outcome.stdout
    assert "ALTER SYSTEM SET pg_lookahead.device_profile = '/" in outcome.stderr
    assert "/a b''s profile'; SELECT pg_reload_conf();" in outcome.stderr

    document = _document(disk)
    assert document.status == "complete"
    summary = document.summary
    assert summary is not None and summary.rounds >= 1
    assert len(document.samples) == summary.rounds * small_probe.SAMPLES_OF_A_ROUND
    assert all(sample.requests > 0 for sample in document.samples)
    kept, written = parse_profiles(profile.read_text())
    assert kept.device == _OTHER_DEVICE
    assert document.profile is not None
    assert written.depth == document.profile.depth
    assert written.device == document.profile.device
    assert profile.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in disk.iterdir()) == [profile.name, "results"]


def test_a_file_that_is_no_profile_is_not_replaced(disk: Path) -> None:
    precious = disk / "postgresql.conf"
    precious.write_text("port = 5432\n")
    outcome = _probe(disk, "--profile", precious)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "cannot write a device profile to" in outcome.stderr
    assert "it is no profile: " in outcome.stderr
    assert precious.read_text() == "port = 5432\n"
    assert not (disk / "results").exists()


def test_a_profile_that_could_not_be_written(disk: Path, read_only: Path) -> None:
    """It is said before minutes are spent on measuring."""
    for profile in (Path("/"), Path(), read_only / "profile"):
        outcome = _probe(disk, "--profile", profile)
        assert outcome.status is ExitStatus.ENVIRONMENT
        assert "it is a folder, or in one that is not writable" in outcome.stderr
    assert not (disk / "results").exists()


@needs_fio
@pytest.mark.long
def test_the_rate_is_a_mean(disk: Path) -> None:
    """Resting is planned from the bytes read; the fastest round cannot be shorter than that."""
    outcome = run_command(
        *("probe", disk, "--output", disk / "results", "--force"),
        *("--size", "64MB", "--time", "2", "--rate", "400"),
    )
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    document = _document(disk)
    assert document.parameters.rate_mb_per_s == 400
    took = float(outcome.stderr.split("round 1 took ")[1].split(" s")[0])
    first_mb = sum(s.requests * s.request_bytes for s in document.samples if s.round == 0) / 1e6
    assert took >= first_mb / 400 - 0.1


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ((), ExitStatus.USAGE, "name either a folder or a tablespace"),
        (("/", "--tablespace", "x"), ExitStatus.USAGE, "name either a folder or a tablespace"),
        (("/", "--dsn", "x"), ExitStatus.USAGE, "a server is asked for a tablespace only"),
        (("/dev/null",), ExitStatus.USAGE, '"/dev/null" is no folder'),
        (("/no/such/place",), ExitStatus.USAGE, "cannot look at"),
        (("/dev/null/place",), ExitStatus.USAGE, "cannot look at"),
        (("/" + "x" * 300,), ExitStatus.ENVIRONMENT, "cannot look at"),
        (("/", "--size", "1"), ExitStatus.USAGE, "'1' is not a size such as 4MB"),
        (("/", "--size", "1MB"), ExitStatus.USAGE, "'1MB' is not in the range 64MB to 1TB"),
        (("/", "--time", "0"), ExitStatus.USAGE, "0 is not in the range"),
        (("/", "--rate", "-1"), ExitStatus.USAGE, "-1 is not in the range"),
        (("/", "--size", "1TB", "--force"), ExitStatus.ENVIRONMENT, "a tenth of it at most"),
        (
            ("--tablespace", "x", "--dsn", "host=/no/such/folder"),
            ExitStatus.ENVIRONMENT,
            "no connection to the server",
        ),
    ],
)
def test_wrong_usage(
    options: tuple[str, ...], status: ExitStatus, message: str, tmp_path: Path
) -> None:
    outcome = run_command("probe", "--output", tmp_path / "results", *options)
    assert outcome.status is status
    error, *_, hint = outcome.stderr.splitlines()
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


@needs_fio
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


@needs_fio
@pytest.mark.long
def test_insisting_is_recorded(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = "disk is busy 90 % of the time"
    monkeypatch.setattr("lookahead.device.probe.probe.busy_objection", lambda folder: busy)
    assert f"warning: forced although {busy}" in _probe(disk).stderr
    assert _document(disk).findings[0].text == f"forced although {busy}"


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage) as started:
        yield started


def _dsn(server: WatchedServer) -> str:
    return f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"


@needs_fio
@pytest.mark.long
def test_tablespace_of_a_server(server: WatchedServer, disk: Path) -> None:
    outcome = run_command(
        *("probe", "--tablespace", "pg_default", "--dsn", f"{_dsn(server)} password=hunter2"),
        *("--output", disk / "results", *_SMALL),
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
    program = [sys.executable, small_probe.__file__, "probe", str(folder)]
    options = ["--size", "64MB", "--time", "30", "--force"]
    output = ["--output", str(folder / "results")]
    return subprocess.Popen([*program, *options, *output], stderr=subprocess.PIPE, text=True)


@needs_fio
@pytest.mark.long
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
    assert len(document.samples) >= small_probe.SAMPLES_OF_A_ROUND
    assert document.profile is None
    assert [path.name for path in disk.iterdir()] == ["results"]


@needs_fio
@pytest.mark.long
def test_killed_in_the_middle_nothing_is_left(disk: Path) -> None:
    """The result file apart, which was claimed."""
    with _long_probe(disk) as process:
        assert process.stderr is not None
        while "measuring with" not in process.stderr.readline():
            assert process.poll() is None
        process.kill()
    assert [path.name for path in disk.iterdir()] == ["results"]


_KINDS = (
    fio.random_reads(1),
    fio.random_reads(16),
    fio.random_reads(256),
    fio.sequential_reads(8, 128),
)

_SLICE_S = 0.25


def _blocks_read() -> int:
    """What the kernel counts for us and our ended children, in units of 512 bytes."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(who).ru_inblock for who in whose)


@needs_fio
@pytest.mark.parametrize("pattern", _KINDS, ids=str)
def test_the_kernel_counts_the_same_reads(disk: Path, pattern: fio.Pattern) -> None:
    """Beyond those reported there are those before the slice, in flight, and loaded programs."""
    excess = []
    with filled_file(disk, _SIZE) as (target, descriptor):
        for seed in range(2):
            before = _blocks_read()
            (reading,) = fio.measure(target, [pattern], _SLICE_S, seed)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            counted = (_blocks_read() - before) * 512
            reported = reading.requests * pattern.request_bytes
            assert reading.requests > pattern.depth
            assert counted >= reported
            assert (reading.median_latency_us is not None) == (pattern.depth == 1)
            excess.append(counted - reported * (1.1 + 2 * fio.RAMP_S / _SLICE_S))
    assert min(excess) <= pattern.depth * pattern.request_bytes + 16 * 2**20


@needs_fio
def test_a_failed_read_is_said(disk: Path) -> None:
    with filled_file(disk, _SIZE) as (target, _):
        gone = fio.Target(target.path, 2 * _SIZE)
    with pytest.raises(LabError, match="fio does not measure") as caught:
        fio.measure(gone, [fio.random_reads(4)], 0.05, 1)
    assert "refusing extend" in caught.value.message
    assert "libaio" in caught.value.hint


def test_without_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written."""
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = _probe(tmp_path)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert outcome.stdout == ""
    assert outcome.stderr == (
        "error: fio is not installed: it does the reads that are measured\n"
        "hint: Install it: apt install fio (the package has this name everywhere).\n"
    )
    assert list(tmp_path.iterdir()) == []
