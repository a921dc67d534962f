"""A standby of a test's own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg
from extension.probes import Connection, scalar
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from lookahead.extension import Stage

# Replay takes its time where every page is checked on the way (wal_consistency_checking).
_REPLAY_SECONDS = 120
# Without it a checkpoint of the primary removes WAL that a slow standby still needs.
_SLOT = "standby"


@contextmanager
def standby_of(
    primary: WatchedServer,
    server_factory: ServerFactory,
    settings: Mapping[str, str],
    stage: Stage | None = None,
    *,
    start: bool = True,
) -> Iterator[WatchedServer]:
    """A base backup of the primary that follows it; without a stage it has no pg_lookahead."""
    conninfo = f"host={primary.socket_directory} port={primary.port} user=postgres"
    follows = {"primary_conninfo": conninfo, "primary_slot_name": _SLOT}
    with server_factory(stage=stage, settings={**settings, **follows}, start=False) as copy:
        options = ("--checkpoint=fast", "--no-sync", "--create-slot", f"--slot={_SLOT}")
        primary.run_client("pg_basebackup", "-D", copy.data_directory, *options)
        (copy.data_directory / "standby.signal").touch()
        if start:
            copy.start()
        yield copy


def wait_for_replay(primary: Connection, standby: Connection) -> None:
    """Return once the standby has replayed what the primary has written by now.

    A message flushes it. What is inserted and not flushed, as by a statement that changes no row
    but prunes pages, reaches the standby at any time later.
    """
    position = scalar(primary, "SELECT pg_logical_emit_message(false, 'replay', '', true)")

    def replayed() -> bool:
        try:
            return bool(scalar(standby, f"SELECT pg_last_wal_replay_lsn() >= '{position}'"))
        except psycopg.errors.SerializationFailure:
            # Even this question has a snapshot, and what is being replayed may conflict with it.
            return False

    wait_until(replayed, "the standby has replayed everything", _REPLAY_SECONDS)


def wait_for_conflict(standby: Connection, statement: str) -> None:
    """Return once a conflict with recovery has ended the transaction in which `statement` runs."""

    def conflict() -> bool:
        try:
            standby.execute(statement)
        except (psycopg.errors.SerializationFailure, psycopg.errors.OperationalError):
            return True
        return False

    wait_until(conflict, "the conflict has ended the transaction")
