"""Ways to copy a running cluster, and what is looked at in the copy once it has started."""

import re
from collections.abc import Callable

import psycopg
from extension.probes import Connection, scalar
from server_log import WatchedServer

from backups.builds import KEYS

# Takes a copy of the first server, to be the data of the second one.
Take = Callable[[WatchedServer, WatchedServer], None]

# What a server says when it meets a page that should not be as it is.
_DAMAGE = (
    "unexpected zero page",
    "invalid page",
    "is uninitialized",
    "inconsistent page found",
    "references invalid pages",
    "contains references to invalid pages",
    "could not read blocks",
    "PANIC",
)
# What REINDEX CONCURRENTLY appends to the name of an index that it could not put in its place.
_LEFT_BEHIND = re.compile(r"(_cc(new|old)\d*)+$")
# Of ordinary and unlogged tables. CONCURRENTLY leaves invalid ones.
_INDEXES = """
    SELECT c.relname, i.indrelid::regclass::text, c.relpersistence
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'public'::regnamespace AND i.indisvalid AND c.relkind = 'i'
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = i.indrelid AND deptype = 'e')
    ORDER BY c.relname"""
_THIS_INDEX = (
    "enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; "
    "SET LOCAL enable_incremental_sort = off"
)


def base_backup(primary: WatchedServer, copy: WatchedServer) -> None:
    """What pg_basebackup makes."""
    options = ("--checkpoint=fast", "--no-sync")
    primary.run_client("pg_basebackup", "-D", copy.data_directory, *options)


def file_copy(primary: WatchedServer, copy: WatchedServer) -> None:
    """The files as they are while a backup is under way, without the WAL."""
    source, target = primary.data_directory, copy.data_directory
    with primary.connect() as session:
        session.execute("SELECT pg_backup_start('copy', fast => true)")
        # Files may go while they are copied; what remains of them is in the WAL.
        # The folder is there already, empty.
        primary.account.run(["cp", "-a", f"{source}/.", target])
        label = scalar(session, "SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)")
    written = primary.account.run(["tee", target / "backup_label"], input=label)
    assert written.returncode == 0, written.stderr
    (target / "postmaster.pid").unlink()
    for segment in (target / "pg_wal").glob("0*"):
        segment.unlink()


def check_server(server: WatchedServer, *, whole: bool = False) -> int:
    """All indexes are sound and have the rows of their tables; returns how many there are.

    `whole` also descends to each leaf, which cannot be done during recovery.
    """
    with server.connect() as session:
        in_recovery = bool(scalar(session, "SELECT pg_is_in_recovery()"))
        indexes = session.execute(_INDEXES).fetchall()
        for name, table, persistence in indexes:
            if persistence == "p" or not in_recovery:
                _check_index(session, name, table, whole=whole and not in_recovery)
    found = [line for line in server.read_log().splitlines() if any(t in line for t in _DAMAGE)]
    assert not found, "\n".join(found[:20])
    return len(indexes)


def _check_index(session: Connection, name: str, table: str, *, whole: bool) -> None:
    try:
        session.execute("SELECT bt_index_check(%s, heapallindexed => true)", (name,))
        if whole:
            session.execute(
                "SELECT bt_index_parent_check(%s, true, rootdescend => true, checkunique => true)",
                (name,),
            )
    except psycopg.Error as error:
        raise AssertionError(f"{name}: {error}") from error
    keys, where = KEYS[_LEFT_BEHIND.sub("", name)]
    with session.transaction(force_rollback=True):
        session.execute(f"SET LOCAL {_THIS_INDEX}")
        by_index = scalar(
            session, f"SELECT count(*) FROM (SELECT FROM {table} {where} ORDER BY {keys}) o"
        )
        session.execute("SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off")
        session.execute("SET LOCAL enable_seqscan = on")
        by_heap = scalar(session, f"SELECT count(*) FROM {table} {where}")
    assert by_index == by_heap, f"{name}: {by_index} rows by index, {by_heap} in the table"
