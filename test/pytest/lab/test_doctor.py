"""`lookahead doctor`: what it finds on servers of several kinds, and what it says to do."""

import json
from collections.abc import Iterator
from dataclasses import replace
from os import getpid
from pathlib import Path

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer

from lab.outcome import Outcome, run_command
from lookahead.device.disk import disks_of
from lookahead.doctor import Server, judge
from lookahead.doctor_line import Tablespace
from lookahead.errors import ExitStatus
from lookahead.extension import Stage
from lookahead.guarded_connection import GuardedConnection
from lookahead.machine import is_server_process

_GB = 2**30


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    with server_factory(stage=stage) as made:
        with made.connect() as connection:
            connection.execute("CREATE ROLE reader LOGIN")
            connection.execute("CREATE DATABASE extended")
        with made.connect("extended") as connection:
            connection.execute('CREATE SCHEMA "100% odd"')
            connection.execute('CREATE EXTENSION pg_lookahead SCHEMA "100% odd"')
            connection.execute('GRANT USAGE ON SCHEMA "100% odd" TO reader')
        yield made


def _doctor(server: WatchedServer, *options: str, user: str = "postgres") -> Outcome:
    place = ("-h", str(server.socket_directory), "-p", str(server.port), "-U", user)
    return run_command("doctor", *place, "-d", "postgres", *options)


def test_a_server_that_has_the_library(server: WatchedServer) -> None:
    outcome = _doctor(server)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    lines = outcome.stdout.splitlines()
    assert lines[0].startswith("ok      PostgreSQL 18")
    assert any(", by session_preload_libraries (pg_lookahead)" in line for line in lines)
    assert "ok      pg_lookahead serves index scans" in lines
    assert not any(line.startswith("warning") for line in lines)
    assert "        CREATE EXTENSION pg_lookahead in this database." in lines


def test_devices_of_tablespaces(server: WatchedServer) -> None:
    place = ("-h", str(server.socket_directory), "-p", str(server.port), "-U", "reader")
    outcome = run_command("doctor", *place, "-d", "extended")
    assert "tablespace pg_default, pg_global: " in outcome.stdout
    assert "pg_lookahead.device_profile is empty" in outcome.stdout
    assert "--profile FILE; pg_lookahead.device_profile names that file then." in outcome.stdout
    assert "are not known from here" not in outcome.stdout


def test_a_server_behind_a_tunnel(server: WatchedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is not to be seen here; ours is no server's."""
    monkeypatch.setattr("lookahead.doctor.is_server_process", lambda _: is_server_process(getpid()))
    place = ("-h", str(server.socket_directory), "-p", str(server.port), "-U", "reader")
    outcome = run_command("doctor", *place, "-d", "extended")
    assert "OS read-ahead and kind of these devices are not known from here" in outcome.stdout
    assert "ok      device " not in outcome.stdout


def test_a_file_system_without_a_device() -> None:
    place = (Tablespace("pg_default", "0:45", "id", None),)
    said = _said(replace(_SERVER, tablespaces=place, disks=disks_of(["0:45"])))
    assert said[-1] == "note: OS read-ahead and kind of device 0:45 are not known"


def test_what_the_kernel_tells_of_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for disk, number, files in (
        ("nvme/p1", "259:3", {"../device/model": "Amazon Elastic Block Store ", "partition": "1"}),
        ("vda", "254:0", {"device/vendor": "0x1af4", "queue/read_ahead_kb": "8192"}),
        ("sda", "8:0", {"device/vendor": "ATA", "device/model": "SSD 9"}),
    ):
        for name, text in files.items():
            file = tmp_path / "block" / disk / name
            file.resolve().parent.mkdir(parents=True, exist_ok=True)
            file.resolve().write_text(f"{text}\n")
        (tmp_path / number).symlink_to(tmp_path / "block" / disk)
    monkeypatch.setattr("lookahead.device.disk._DEVICES", tmp_path)
    assert [disk.text for disk in disks_of(["259:3", "254:0", None, "0:45", "8:0", "8:0"])] == [
        "device 254:0: OS read-ahead 8,192 kB, a virtual disk (virtio), local or not",
        "device 259:3: OS read-ahead not known, Amazon Elastic Block Store: a cloud volume",
        "device 8:0: OS read-ahead not known, SSD 9",
    ]


def test_an_extension_where_all_names_are_quoted(server: WatchedServer) -> None:
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=extended"
    outcome = run_command("doctor", "--dsn", f"{place} options='-c quote_all_identifiers=on'")
    assert "CREATE EXTENSION" not in outcome.stdout


def test_a_role_that_sees_little(server: WatchedServer) -> None:
    outcome = _doctor(server, user="reader")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "by a setting that is not shown" in outcome.stdout
    assert "this role may not see which libraries are loaded where" in outcome.stdout
    assert 'GRANT pg_read_all_settings TO "reader", or ask as a superuser.' in outcome.stdout


def test_a_role_whose_name_needs_quotes(server: WatchedServer) -> None:
    with server.connect("extended") as connection:
        connection.execute('CREATE ROLE "odd ""Role" LOGIN')
    outcome = _doctor(server, user='odd "Role')
    assert 'GRANT pg_read_all_settings TO "odd ""Role", or ask as a superuser.' in outcome.stdout


def test_a_role_that_may_not_use_the_schema_of_the_extension(server: WatchedServer) -> None:
    with server.connect("extended") as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
    place = ("-h", str(server.socket_directory), "-p", str(server.port), "-U", "stranger")
    outcome = run_command("doctor", *place, "-d", "extended")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    lines = outcome.stdout.splitlines()
    denied = "on which devices tables lie, is not known here: permission denied for schema 100% odd"
    (place_of_it,) = (number for number, line in enumerate(lines) if denied in line)
    assert lines[place_of_it + 1].startswith("        GRANT USAGE ON its SCHEMA")
    assert "ok      pg_lookahead serves index scans" in lines
    assert "CREATE EXTENSION" not in outcome.stdout


def test_what_is_switched_off(server: WatchedServer) -> None:
    dsn = (
        f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres "
        "options='-c pg_lookahead.enable_index_prefetch=off'"
    )
    outcome = run_command("doctor", "--dsn", dsn)
    assert "warning pg_lookahead.enable_index_prefetch is off" in outcome.stdout
    assert "The connection itself sets it: see its options" in outcome.stdout
    assert "warning index scans are left to PostgreSQL: disabled" in outcome.stdout
    assert "ok      pg_lookahead serves bitmap scans" in outcome.stdout


def test_a_server_whose_sessions_lack_the_library(
    server_factory: ServerFactory, stage: Stage
) -> None:
    with server_factory(stage=stage, settings={"session_preload_libraries": ""}) as made:
        with made.connect() as connection:
            connection.execute("CREATE ROLE reader LOGIN")
        outcome = _doctor(made)
        place = f"host={made.socket_directory} port={made.port} user=postgres dbname=postgres"
        beside = "options='-c session_preload_libraries=plpgsql'"
        others = run_command("doctor", "--dsn", f"{place} {beside}")
        with made.connect() as connection:
            connection.execute("ALTER ROLE postgres SET session_preload_libraries = plpgsql")
        own = _doctor(made)
        denied = _doctor(made, user="reader")
    assert "is installed, but new sessions of this role do not have it" in outcome.stdout
    assert "ALTER SYSTEM SET session_preload_libraries = 'pg_lookahead'" in outcome.stdout
    assert "PGOPTIONS; or name pg_lookahead there, too." in others.stdout
    assert "ALTER SYSTEM" not in others.stdout
    assert (
        "which wins: ALTER ROLE \"postgres\" SET session_preload_libraries = 'pg_lookahead', "
        "'plpgsql'\n" in own.stdout
    )
    assert "warning pg_lookahead cannot be loaded: access to library" in denied.stdout
    assert "have one add it to session_preload_libraries" in denied.stdout
    assert "Install it" not in denied.stdout


def test_a_server_without_the_library(server_factory: ServerFactory) -> None:
    with server_factory() as stock:
        outcome = _doctor(stock)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert "warning pg_lookahead cannot be loaded: could not access file" in outcome.stdout
    # Named in a setting before, it would keep everybody out.
    assert "Install it for this server (make install PG_CONFIG=...), then" in outcome.stdout
    assert "superuser" not in outcome.stdout


def test_json(server: WatchedServer) -> None:
    found = json.loads(_doctor(server, "--json").stdout)
    assert (found["schema"], found["schema_version"]) == ("lookahead-doctor", 1)
    assert found["server"]["scans"]["index scans"] is None
    assert found["lines"][0]["level"] == "ok"


@pytest.mark.parametrize("command", ["doctor", "partitions"])
def test_a_lock_is_not_waited_for(
    server: WatchedServer, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("lookahead.guarded_connection._LOOK_LIMIT_S", 0.1)
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    with server.connect() as connection, connection.transaction():
        connection.execute("LOCK pg_catalog.pg_extension")
        outcome = run_command(command, "--dsn", place)
    assert outcome.status is ExitStatus.FAILURE
    assert "error: a query of lookahead failed: canceling statement" in outcome.stderr


@pytest.mark.parametrize("command", [("doctor",), ("check", "SELECT 1"), ("partitions",)])
def test_a_pooler_in_between(
    server: WatchedServer, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Its clients have process numbers that it made up; its sessions are other people's next."""
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 7)
    monkeypatch.setattr(GuardedConnection, "_search", lambda *_, **__: pytest.fail("changed"))
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    outcome = run_command(*command, "--dsn", place)
    assert outcome.status is ExitStatus.ENVIRONMENT
    assert "error: there is a connection pooler in between" in outcome.stderr


def test_no_server() -> None:
    outcome = run_command("doctor", "-h", "/nowhere")
    assert outcome.status is ExitStatus.ENVIRONMENT
    both = run_command("doctor", "--dsn", "", "-h", "/nowhere")
    assert both.status is ExitStatus.USAGE


_SERVER = Server(
    version="18.6",
    in_recovery=False,
    database="shop",
    role="dba",
    database_bytes=100 * _GB,
    shared_buffers=8 * _GB,
    effective_cache_size=24 * _GB,
    settings={
        "shared_preload_libraries": "other, pg_lookahead",
        "session_preload_libraries": "",
        "io_method": "worker",
    },
    loaded="0.2.0",
    has_extension=True,
)


def _said(server: Server) -> list[str]:
    return [f"{line.level}: {line.text}" for line in judge(server)]


def test_the_order_of_libraries_is_shown() -> None:
    assert "ok: pg_lookahead 0.2.0, by shared_preload_libraries (other, pg_lookahead)" in (
        _said(_SERVER)
    )
    both = replace(
        _SERVER, settings={**_SERVER.settings, "session_preload_libraries": '"pg_lookahead"'}
    )
    assert "note: shared_preload_libraries suffices" in _said(both)
    path = {"shared_preload_libraries": "/usr/lib/pg_lookahead.so"}
    named = replace(_SERVER, settings={**_SERVER.settings, **path})
    assert "ok: pg_lookahead 0.2.0, by shared_preload_libraries (/usr/lib/pg_lookahead.so)" in (
        _said(named)
    )


def test_libraries_that_were_loaded_before() -> None:
    """Those that look at commands keep a COPY from going in batches."""
    watched = replace(_SERVER, watchers=("pg_stat_statements", "pgaudit"))
    assert any(line.startswith("warning: COPY is left") for line in _said(_with_inserts(watched)))
    for other in (watched, _with_inserts(_SERVER)):  # inserts are off, or nobody looks
        assert not any("COPY" in line for line in _said(other))


_OFF = "pg_lookahead.enabled"


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("user", f'ALTER ROLE "dba" RESET {_OFF}; for sessions that begin later.'),
        ("database", f'ALTER DATABASE "shop" RESET {_OFF}; for'),
        ("database user", f'ALTER ROLE "dba" IN DATABASE "shop" RESET {_OFF}; for'),
        ("global", f"ALTER ROLE ALL RESET {_OFF}; for"),
        ("configuration file", f"ALTER SYSTEM RESET {_OFF}, or take its line out of postgresql"),
        ("command line", f"The server was started with -c {_OFF}: start"),
        (None, f"RESET {_OFF}, where it was set"),
    ],
)
def test_what_takes_a_setting_away(source: str | None, remedy: str) -> None:
    settings = {**_SERVER.settings, _OFF: "off"}
    server = replace(_SERVER, settings=settings, sources={_OFF: source} if source else {})
    for in_recovery in (False, True):
        lines = judge(replace(server, in_recovery=in_recovery))
        (found,) = (line.remedy for line in lines if line.text == f"{_OFF} is off")
        is_replicated = in_recovery and remedy.startswith(("ALTER ROLE", "ALTER DATABASE"))
        where = "On the primary: " if is_replicated else ""
        assert found.startswith(f"If that is not wanted: {where}{remedy}")


def _with_inserts(server: Server) -> Server:
    return replace(server, settings={**server.settings, "pg_lookahead.enable_bulk_insert": "on"})


def test_settings_that_fight_each_other() -> None:
    settings = {
        **_SERVER.settings,
        "pg_lookahead.enable_bulk_insert": "on",
        "pg_lookahead.bulk_extend_size": "0",
        "pg_lookahead.enable_index_build": "on",
        "max_parallel_maintenance_workers": "0",
        "pg_lookahead.disable": "on",
        "pg_lookahead.enabled": "off",
    }
    said = " ".join(_said(replace(_SERVER, settings=settings)))
    assert "warning: inserts in batches are on, and bulk_extend_size = 0 leaves" in said
    assert "warning: index builds are left to PostgreSQL: max_parallel" in said
    assert "warning: pg_lookahead.disable is on" in said
    assert said.count("pg_lookahead.enabled is off") == 1


@pytest.mark.parametrize(
    ("size_gb", "words"),
    [(4, "fits into shared_buffers"), (20, "fits into effective_cache_size"), (100, "is larger")],
)
def test_memory_against_data(size_gb: int, words: str) -> None:
    said = " ".join(_said(replace(_SERVER, database_bytes=size_gb * _GB)))
    assert words in said
    assert "memory" not in said  # the server does not tell


def test_reasons_and_devices() -> None:
    server = replace(
        _SERVER,
        in_recovery=True,
        loaded="0.1.0",
        scans={"index scans": "self-check"},
        fallbacks={"copy (cluster)": {"other extension": 12_000}},
        since="2026-11-28 10:00",
        tablespaces=(
            Tablespace("fast", "259:0", "id", None),
            Tablespace("slow", None, None, "no profile of this device"),
        ),
    )
    said = _said(server)
    assert said[0].startswith("ok: PostgreSQL 18.6, standby, database shop (100 GB), role dba")
    assert "note: this lookahead is 0.2.0, the library 0.1.0" in said
    assert "warning: index scans are left to PostgreSQL: self-check" in said
    assert "note: fell back since 2026-11-28 10:00, copy (cluster): other extension 12,000" in said
    assert "ok: tablespace fast: device 259:0, profile id" in said
    assert any("slow: no device to be seen; no profile: no profile of" in line for line in said)
    assert "note: OS read-ahead and kind of these devices are not known from here" in said


def test_an_extension_comes_to_a_standby_from_its_primary() -> None:
    for in_recovery in (False, True):
        lines = judge(replace(_SERVER, in_recovery=in_recovery, has_extension=False))
        (remedy,) = (one.remedy for one in lines if one.remedy.startswith("CREATE EXTENSION"))
        assert remedy.endswith("on the primary.") == in_recovery


def test_policies_that_nobody_obeys() -> None:
    (line,) = (one for one in judge(replace(_SERVER, policies=2)) if "policy" in one.text)
    assert line.text.startswith("2 tables have an interval policy, which nobody obeys unless")
    assert "maintenance_interval = '1min' does that" in line.remedy
    settings = {**_SERVER.settings, "pg_lookahead.maintenance_interval": "1min"}
    told = [one.remedy for one in judge(replace(_SERVER, policies=2, settings=settings))]
    assert any("is 1min: is pg_lookahead in shared_preload" in remedy for remedy in told)
    for quiet in (_SERVER, replace(_SERVER, policies=2, in_recovery=True)):
        assert not any("policy" in text for text in _said(quiet))


def test_policies_from_a_dump() -> None:
    settings = {**_SERVER.settings, "pg_lookahead.maintenance_interval": "1min"}
    server = replace(_SERVER, policies=3, automatic=1, settings=settings)
    assert [text for text in _said(server) if "polic" in text] == [
        "ok: 3 tables have an interval policy, looked after every 1min",
        "note: 2 of the policies came with a dump and wait for a first call of "
        "pg_lookahead_maintain_partitions()",
    ]
    assert not any("dump" in text for text in _said(replace(server, automatic=3)))


def test_another_major_release() -> None:
    (_, line) = judge(replace(_SERVER, version="17.4"))
    assert line.text == "pg_lookahead needs PostgreSQL 18"
