"""`lookahead doctor`: what it finds on servers of several kinds, and what it says to do."""

import json
from collections.abc import Iterator
from os import getpid
from pathlib import Path

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer

from lab.outcome import Outcome, run_command
from lookahead.device.disk import disks_of
from lookahead.errors import ExitStatus
from lookahead.extension import Stage
from lookahead.guarded_connection import GuardedConnection
from lookahead.machine import is_server_process


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
    assert (
        "ok      pg_lookahead serves index scans, bitmap scans, sequential scans, nested loops, "
        "index builds, inserts" in lines
    )
    assert not any(line.startswith("warning") for line in lines)
    assert "        CREATE EXTENSION pg_lookahead in this database." in lines


def test_devices_of_tablespaces(server: WatchedServer) -> None:
    place = ("-h", str(server.socket_directory), "-p", str(server.port), "-U", "reader")
    outcome = run_command("doctor", *place, "-d", "extended")
    assert "tablespace pg_default, pg_global: " in outcome.stdout
    assert "pg_lookahead.device_profile is empty" in outcome.stdout
    assert "are not known from here" not in outcome.stdout


def test_a_server_behind_a_tunnel(server: WatchedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is not to be seen here; ours is no server's."""
    monkeypatch.setattr("lookahead.doctor.is_server_process", lambda _: is_server_process(getpid()))
    place = ("-h", str(server.socket_directory), "-p", str(server.port), "-U", "reader")
    outcome = run_command("doctor", *place, "-d", "extended")
    assert "OS read-ahead and kind of these devices are not known from here" in outcome.stdout
    assert "ok      device " not in outcome.stdout


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
    assert "ok      pg_lookahead serves index scans" in outcome.stdout
    assert "CREATE EXTENSION" not in outcome.stdout


def test_a_role_that_may_not_even_set_its_path(server: WatchedServer) -> None:
    with server.connect() as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION set_config FROM PUBLIC")
        outcome = _doctor(server, user="reader")
        connection.execute("GRANT EXECUTE ON FUNCTION set_config TO PUBLIC")
    assert outcome.status is ExitStatus.FAILURE
    assert "error: a query of lookahead failed: permission denied for function" in outcome.stderr


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


def test_settings_of_the_planner_do_not_matter(server: WatchedServer) -> None:
    """Each kind of scan is had nevertheless, and without processes above it."""
    off = " ".join(f"-c enable_{kind}=off" for kind in ("indexscan", "bitmapscan", "seqscan"))
    ours = "-c pg_lookahead.enable_bitmap_prefetch=off -c debug_parallel_query=on"
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=postgres"
    told = run_command("doctor", "--dsn", f"{place} options='{off} {ours}'").stdout
    assert "ok      pg_lookahead serves index scans, sequential scans, nested loops" in told
    assert "warning bitmap scans are left to PostgreSQL: disabled" in told
    left = f"{ours} -c pg_lookahead.enable_seq_prefetch=off"
    told = run_command("doctor", "--dsn", f"{place} options='{left}'").stdout
    assert "warning sequential scans are left to PostgreSQL: disabled" in told


def test_views_of_another_version(server: WatchedServer) -> None:
    view = '"100% odd".pg_lookahead_device'
    place = f"host={server.socket_directory} port={server.port} user=postgres dbname=extended"
    with server.connect("extended") as connection:
        connection.execute(f"ALTER VIEW {view} RENAME reason TO why")
        outcome = run_command("doctor", "--dsn", place)
        connection.execute(f"ALTER VIEW {view} RENAME why TO reason")
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert 'is not known here: column "reason" does not exist' in outcome.stdout


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
    assert (
        "ALTER SYSTEM SET session_preload_libraries = 'pg_lookahead', or a line in postgresql.conf;"
        in outcome.stdout
    )
    # Standbys get those, and without the library nobody connects there.
    assert "role or database" not in outcome.stdout
    assert "PGOPTIONS; or name pg_lookahead there, too." in others.stdout
    assert "ALTER SYSTEM" not in others.stdout
    assert (
        'which need the library, too: ALTER ROLE "postgres" SET session_preload_libraries = '
        "'pg_lookahead', 'plpgsql'\n" in own.stdout
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
