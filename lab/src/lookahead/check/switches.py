"""The settings and rights of a session that decide whether a command is PostgreSQL's."""

from collections.abc import Mapping
from typing import Any

from lookahead.errors import UsageError
from lookahead.guarded_connection import GuardedConnection

Switches = Mapping[str, Any]
BULK_INSERT = "pg_lookahead.enable_bulk_insert"
BULK_EXTEND_SIZE = "pg_lookahead.bulk_extend_size"
_SETTINGS = """
    SELECT name, CASE name WHEN 'maintenance_work_mem' THEN setting::pg_catalog.int4 >= 2048
                           ELSE setting NOT IN ('off', '0') END
    FROM pg_catalog.pg_settings
    WHERE name IN ('pg_lookahead.enabled', 'pg_lookahead.disable',
                   'pg_lookahead.enable_index_build', 'pg_lookahead.enable_bulk_insert',
                   'pg_lookahead.bulk_extend_size', 'max_parallel_maintenance_workers',
                   'maintenance_work_mem', 'default_transaction_read_only', 'in_hot_standby')
    UNION ALL SELECT role, pg_catalog.pg_has_role(role, 'USAGE')
    FROM pg_catalog.unnest(ARRAY['pg_read_server_files', 'pg_execute_server_program']
                           ::pg_catalog.name[]) AS role"""


def switches_of(connection: GuardedConnection) -> Switches:
    """Whether each of them is on, enough, or the role's."""
    return dict(connection.execute(_SETTINGS).fetchall())


def what_is_off(switch: str, switches: Switches) -> str:
    """Which setting is in the way; "" if none is."""
    if switches.get("pg_lookahead.disable"):
        return "pg_lookahead.disable is on"
    off = [name for name in ("pg_lookahead.enabled", switch) if not switches.get(name)]
    return f"{off[0]} is off" if off else ""


def require_writing(switches: Switches, *, is_reindex: bool = False) -> None:
    """LabError where nothing may be written; REINDEX is for read-only transactions, too."""
    for name in ("in_hot_standby", "default_transaction_read_only")[: 1 if is_reindex else 2]:
        if switches.get(name):
            raise UsageError(f"the server refuses the statement: {name} is on")
