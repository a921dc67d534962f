"""What `lookahead doctor` looks at on a server, and what it says of it.

Everything is asked by a session like any other of that role: what the role may not see is told so,
nothing is guessed. `examine` asks, `judge` is pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import psycopg

import lookahead
from lookahead.device.disk import Disk, disks_of
from lookahead.doctor_line import Line, Tablespace, memory_line, storage_lines
from lookahead.extension import LIBRARY
from lookahead.formats import one_line, server_size
from lookahead.guarded_connection import GuardedConnection, find_member, server_message
from lookahead.installation import SUPPORTED_MAJOR
from lookahead.load_order import loaded_libraries, watchers_before, way_out
from lookahead.machine import is_server_process
from lookahead.setting_source import altering, quoted, reset_of

_OFF_BY_DEFAULT = ("enable_interval_creation", "enable_late_start")
_INTERVAL = f"{LIBRARY}.maintenance_interval"
_SHARED, _SESSION = "shared_preload_libraries", "session_preload_libraries"
_PRELOADED = (_SHARED, _SESSION, "local_preload_libraries")
# What every CREATE TABLE falls back for, with the index of its TOAST table.
_USUAL = "system catalog"
_REASONS = "docs/troubleshooting.md: reasons."
_SETTINGS = """
    SELECT name, pg_catalog.current_setting(name), source FROM pg_catalog.pg_settings
    WHERE name IN ('shared_preload_libraries', 'session_preload_libraries',
                   'local_preload_libraries', 'io_method', 'debug_io_direct',
                   'shared_buffers', 'effective_cache_size', 'max_parallel_maintenance_workers')
       OR name LIKE 'pg\\_lookahead.%%'"""
_SERVER = """
    SELECT pg_catalog.current_setting('server_version'), pg_catalog.pg_is_in_recovery(),
           pg_catalog.current_database()::pg_catalog.text, current_user::pg_catalog.text,
           pg_catalog.pg_database_size(pg_catalog.current_database()),
           pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_buffers')),
           pg_catalog.pg_size_bytes(pg_catalog.current_setting('effective_cache_size')),
           pg_catalog.inet_server_addr() IS NOT DISTINCT FROM pg_catalog.inet_client_addr()"""
# A table that every database has; settings choose the kind of scan, this one and no other.
_SCANS = {
    "index scans": "enable_indexscan",
    "bitmap scans": "enable_bitmapscan",
    "sequential scans": "enable_seqscan",
}
# What is served besides, and the settings that it takes.
_BESIDE_SCANS = {
    "nested loops": {f"{LIBRARY}.enable_join_prefetch"},
    "index builds": {f"{LIBRARY}.enable_index_build", "max_parallel_maintenance_workers"},
    "inserts": {f"{LIBRARY}.enable_bulk_insert"},
}
_SCAN = """
    EXPLAIN (LOOKAHEAD, FORMAT JSON)
    SELECT relname FROM pg_catalog.pg_class WHERE oid < 2000::pg_catalog.oid"""
_FALLBACKS = """
    SELECT feature, fallbacks, scope, pg_catalog.to_char(stats_reset, 'YYYY-MM-DD HH24:MI')
    FROM {schema}.pg_stat_lookahead ORDER BY 1"""
_POLICIES = """
    SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE automatic)
    FROM {schema}.pg_lookahead_intervals"""
_VERSION = f"SELECT extversion FROM pg_catalog.pg_extension WHERE extname = '{LIBRARY}'"
_DEVICES = "SELECT tablespace, device, profile, reason FROM {schema}.pg_lookahead_device ORDER BY 1"


@dataclass(frozen=True)
class Server:
    """What a session finds. `settings` lack those that the role may not see; `sources` are theirs.

    `loaded` is the version of the library that the session had from its beginning, `problem` why
    it could not be loaded later either; `denied` is that this role may not. `scans` has the reason
    why a kind of scan is left to PostgreSQL, None of one that is not; `fallbacks` counts of `scope`
    by feature and reason, `since` that time.
    `extension` is the version of the extension, `closed` why its views cannot be read.
    `policies` are those of interval partitions in this database, `automatic` how many of them are
    maintained without anybody's call. `disks` are None of another machine. `watchers` look at
    commands, and were loaded before.
    """

    version: str
    in_recovery: bool
    database: str
    role: str
    database_bytes: int
    shared_buffers: int
    effective_cache_size: int
    settings: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict)
    loaded: str | None = None
    problem: str | None = None
    denied: bool = False
    scans: Mapping[str, str | None] = field(default_factory=dict)
    has_extension: bool = False
    extension: str | None = None
    closed: str | None = None
    fallbacks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    since: str | None = None
    tablespaces: tuple[Tablespace, ...] = ()
    disks: tuple[Disk, ...] | None = None
    policies: int = 0
    automatic: int = 0
    watchers: tuple[str, ...] = ()


def examine(connection: GuardedConnection) -> Server:
    """Ask the server; nothing is changed, beyond loading the library into this session."""
    *known, may_be_here = _row(connection, _SERVER)
    is_here = may_be_here and is_server_process(connection.info.backend_pid)
    version, in_recovery, database, role, size, buffers, cache = known
    major_fits = connection.info.server_version // 10000 == SUPPORTED_MAJOR
    loaded = loaded_libraries(connection).get(LIBRARY) if major_fits else None
    problem, denied = None, False
    if loaded is None and major_fits:
        try:
            connection.execute(f"LOAD '{LIBRARY}'")
        except psycopg.Error as error:
            problem = server_message(error)
            denied = isinstance(error, psycopg.errors.InsufficientPrivilege)
    settings = _rows(connection, _SETTINGS)
    can_explain = major_fits and problem is None
    view = find_member(connection, LIBRARY, "view", "pg_stat_lookahead") if can_explain else None
    return Server(
        version=version,
        in_recovery=in_recovery,
        database=database,
        role=role,
        database_bytes=size,
        shared_buffers=buffers,
        effective_cache_size=cache,
        settings={name: value for name, value, _ in settings},
        sources={name: source for name, _, source in settings},
        loaded=loaded,
        problem=problem,
        denied=denied,
        scans={kind: _reason(connection, kind) for kind in _SCANS} if can_explain else {},
        has_extension=view is not None,
        watchers=watchers_before(connection) if can_explain else (),
        **(_of_extension(connection, view.schema, is_here=is_here) if view else {}),
    )


def _rows(connection: GuardedConnection, query: str) -> list[tuple[Any, ...]]:
    # With parameters, though there are none: as such, find_member() has doubled each "%".
    return connection.execute(query.encode(), ()).fetchall()


def _row(connection: GuardedConnection, query: str) -> tuple[Any, ...]:
    (row,) = _rows(connection, query)
    return row


def _reason(connection: GuardedConnection, kind: str) -> str | None:
    """Why this kind of scan is left to PostgreSQL."""
    with connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
        for setting in _SCANS.values():
            value = "on" if setting == _SCANS[kind] else "off"
            connection.execute(f"SET LOCAL {setting} = {value}".encode())
        (document,) = _row(connection, _SCAN)
    group = document[0]["Plan"].get("Lookahead", {"Status": "stock", "Reason": "EXPLAIN has none"})
    return str(group.get("Reason")) if group.get("Status") == "stock" else None


def _of_extension(connection: GuardedConnection, schema: str, *, is_here: bool) -> dict[str, Any]:
    """The fields of `Server` that its views tell."""
    (version,) = _row(connection, _VERSION)
    try:
        policies, automatic = _row(connection, _POLICIES.format(schema=schema))
        devices = _rows(connection, _DEVICES.format(schema=schema))
        fallbacks = _rows(connection, _FALLBACKS.format(schema=schema))
    except psycopg.Error as error:  # no right, or the views of another version
        if connection.closed or isinstance(error, psycopg.OperationalError):
            raise
        return {"closed": server_message(error), "extension": version}
    return {
        "extension": version,
        "policies": policies,
        "automatic": automatic,
        "tablespaces": tuple(Tablespace(*row) for row in devices),
        "disks": disks_of(row[1] for row in devices) if is_here else None,
        "fallbacks": {f"{row[0]} ({row[2]})": row[1] for row in fallbacks if row[1]},
        "since": next((row[3] for row in fallbacks), None),
    }


def judge(server: Server) -> Iterator[Line]:
    """What there is to say, in the order in which one asks."""
    kind = "standby, " if server.in_recovery else ""
    size = server_size(server.database_bytes)
    name, role = one_line(server.database), one_line(server.role)
    yield Line("ok", f"PostgreSQL {server.version}, {kind}database {name} ({size}), role {role}")
    if not server.version.startswith(str(SUPPORTED_MAJOR)):
        yield Line(
            "warning",
            f"{LIBRARY} needs PostgreSQL {SUPPORTED_MAJOR}",
            "Nothing else can be looked at.",
        )
        return
    yield from _library(server)
    if server.problem is None:
        yield from _switches(server)
        yield from _left(server)
        yield from _maintenance(server)
    yield memory_line(server.database_bytes, server.shared_buffers, server.effective_cache_size)
    yield from storage_lines(server.settings, server.tablespaces, server.disks)


def _library(server: Server) -> Iterator[Line]:
    places = {
        name: [one.strip(' "') for one in server.settings[name].split(",") if one.strip()]
        for name in _PRELOADED
        if name in server.settings
    }
    named = [name for name in places if LIBRARY in [PurePath(one).stem for one in places[name]]]
    if server.problem is not None:
        # A library that is not there, named in a setting, keeps everybody from connecting.
        remedy = f"Install it for this server (make install PG_CONFIG=...), then add to {_SESSION}."
        if server.denied:
            remedy = f"Where LOAD '{LIBRARY}' works for a superuser, have one add it to {_SESSION}."
        yield Line("warning", f"{LIBRARY} cannot be loaded: {server.problem}", remedy)
        return
    if server.loaded is None:
        yield Line(
            "warning",
            f"{LIBRARY} is installed, but new sessions of this role do not have it",
            _preloading(server, places.get(_SESSION)),
        )
    else:
        where = " and ".join(f"{one} ({', '.join(places[one])})" for one in named)
        yield Line("ok", f"{LIBRARY} {server.loaded}, by {where or 'a setting that is not shown'}")
        if server.loaded != lookahead.__version__:
            yield Line(
                "note",
                f"this lookahead is {lookahead.__version__}, the library {server.loaded}",
                "Install both from one version; sessions keep what they loaded.",
            )
    if len(named) > 1:
        yield Line("note", f"{named[0]} suffices", f"Take {LIBRARY} out of {named[1]}.")
    if _SHARED not in places:
        yield Line(
            "note",
            "this role may not see which libraries are loaded where, and in which order",
            _grant(server, "pg_read_all_settings"),
        )


def _preloading(server: Server, libraries: list[str] | None) -> str:
    """How to add ours to those that are preloaded, None where they are not known."""
    if libraries is None:
        return f"Have a superuser add {LIBRARY} to {_SESSION}."
    names = (one.replace("'", "''") for one in (LIBRARY, *libraries))
    value = f"{_SESSION} = " + ", ".join(f"'{one}'" for one in names)
    source, of = server.sources.get(_SESSION), (server.role, server.database)
    if source in ("client", "command line"):
        return f"{reset_of(_SESSION, source, *of)}; or name {LIBRARY} there, too."
    if own := altering(source, *of, in_recovery=server.in_recovery):
        text = "It has a setting of its own, which wins, also on standbys, which need the library"
        return f"{text}, too: {own} SET {value}"
    return f"ALTER SYSTEM SET {value}, or a line in postgresql.conf; then SELECT pg_reload_conf()."


def _switches(server: Server) -> Iterator[Line]:
    off = [
        name
        for name, value in sorted(server.settings.items())
        if name.startswith(f"{LIBRARY}.enable_") and value == "off"
    ]
    if server.settings.get(f"{LIBRARY}.disable") == "on":
        yield Line(
            "warning",
            f"{LIBRARY}.disable is on: everything is left to PostgreSQL",
            _reset(server, f"{LIBRARY}.disable"),
        )
    if server.settings.get(f"{LIBRARY}.enabled") == "off":
        name = f"{LIBRARY}.enabled"
        yield Line("warning", f"{name} is off", _reset(server, name))
    for name in off:
        if name.removeprefix(f"{LIBRARY}.") in _OFF_BY_DEFAULT:
            text = f"{name} is off, as by default"
            yield Line("note", text, f"SET {name} = on tries it in a session.")
        else:
            yield Line("warning", f"{name} is off", _reset(server, name))
    yield from _hindered(server)


def _reset(server: Server, name: str) -> str:
    of = (server.sources.get(name), server.role, server.database)
    return f"If that is not wanted: {reset_of(name, *of, in_recovery=server.in_recovery)}."


def _grant(server: Server, what: str) -> str:
    return f"GRANT {what} TO {quoted(server.role)}{_on_primary(server)}, or ask as a superuser."


def _on_primary(server: Server) -> str:
    return " on the primary" if server.in_recovery else ""


def _hindered(server: Server) -> Iterator[Line]:
    """What other settings keep from working."""
    builds = server.settings.get(f"{LIBRARY}.enable_index_build") == "on"
    if builds and server.settings.get("max_parallel_maintenance_workers") == "0":
        yield Line(
            "warning",
            "index builds are left to PostgreSQL: max_parallel_maintenance_workers is 0",
            "Set it to 1 or more; builds of a table with parallel_workers = 0 take no worker.",
        )
    inserts = server.settings.get(f"{LIBRARY}.enable_bulk_insert") == "on"
    if inserts and server.settings.get(f"{LIBRARY}.bulk_extend_size") in ("0", "0kB"):
        yield Line(
            "warning",
            "inserts in batches are on, and bulk_extend_size = 0 leaves new tables and COPY out",
            _reset(server, f"{LIBRARY}.bulk_extend_size"),
        )
    if inserts and server.watchers:
        yield Line(
            "warning",
            f"COPY is left to PostgreSQL: loaded before {LIBRARY}: {', '.join(server.watchers)}",
            f"To have its rows inserted in batches: {way_out(server.watchers)}.",
        )


def _served(server: Server) -> list[str]:
    """Scans as plans have shown them, the rest as far as settings tell."""
    found = [kind for kind, reason in server.scans.items() if reason is None]
    on = {name for name, value in server.settings.items() if value not in ("off", "0")}
    if server.in_recovery:  # nothing is built or inserted there
        on -= {f"{LIBRARY}.enable_index_build", f"{LIBRARY}.enable_bulk_insert"}
    if "direct I/O" in server.scans.values():
        on.discard(f"{LIBRARY}.enable_join_prefetch")
    if f"{LIBRARY}.enabled" in on and f"{LIBRARY}.disable" not in on:
        found += [what for what, needed in _BESIDE_SCANS.items() if needed <= on]
    return found


def _left(server: Server) -> Iterator[Line]:
    if served := _served(server):
        yield Line("ok", f"{LIBRARY} serves {', '.join(served)}")
    for kind, reason in server.scans.items():
        if reason is not None:
            yield Line("warning", f"{kind} are left to PostgreSQL: {reason}", _REASONS)
    unknown = "what fell back, and on which devices tables lie, is not known here"
    if not server.has_extension:
        where = f"in this database{_on_primary(server)}"
        yield Line("note", unknown, f"CREATE EXTENSION {LIBRARY} {where}.")
    differs = server.extension and server.loaded not in (None, server.extension)
    if differs:
        yield Line(
            "warning",
            f"the extension in this database is {server.extension}, the library {server.loaded}",
            f"ALTER EXTENSION {LIBRARY} UPDATE{_on_primary(server)}, or install that library.",
        )
    if server.closed is not None:
        remedy = _grant(server, "USAGE ON its SCHEMA and SELECT on its views")
        remedy = "See above." if differs else remedy
        yield Line("note", f"{unknown}: {server.closed}", remedy)
    for feature, reasons in server.fallbacks.items():
        told = ", ".join(
            f"{one_line(reason)} {count:,}" for reason, count in reasons.items() if reason != _USUAL
        )
        since = f" since {server.since}" if server.since else ""
        if told:
            yield Line("note", f"fell back{since}, {feature}: {told}", _REASONS)


def _maintenance(server: Server) -> Iterator[Line]:
    """Whether somebody has to call it; a standby gets what its primary does."""
    if not server.policies or server.in_recovery:
        return
    tables = f"{server.policies} {'table has' if server.policies == 1 else 'tables have'}"
    interval = server.settings.get(_INTERVAL, "0")
    if server.automatic:
        yield Line("ok", f"{tables} an interval policy, looked after every {interval}")
        if server.automatic < server.policies:
            yield Line(
                "note",
                f"{server.policies - server.automatic} of the policies came with a dump or a "
                "copy of a database, and wait for a first call of "
                "pg_lookahead_maintain_partitions()",
                "docs/intervals.md: by itself.",
            )
        return
    remedy = f"{_INTERVAL} = '1min' does that, with {LIBRARY} in {_SHARED} and after a restart."
    if interval != "0":
        remedy = f"{_INTERVAL} is {interval}: is {LIBRARY} in {_SHARED}? Restart the server."
    yield Line(
        "note",
        f"{tables} an interval policy, which nobody obeys unless somebody calls "
        "pg_lookahead_maintain_partitions()",
        remedy,
    )
