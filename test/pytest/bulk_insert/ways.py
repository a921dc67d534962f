"""Ways to give a table rows: INSERT or COPY, into a table that is partitioned or not."""

from __future__ import annotations

from dataclasses import dataclass

from extension.probes import Connection, scalar
from psycopg import sql

_PARTITIONS = 4


@dataclass(frozen=True)
class Way:
    copies: bool
    partitioned: bool

    @property
    def name(self) -> str:
        verb = "copy" if self.copies else "insert"
        return f"{verb} into partitions" if self.partitioned else verb

    def making(self, table: str, columns: str, key: str, options: str = "") -> str:
        """Makes the table; `options` are those of storage. Partitions are by the hash of `key`."""
        if not self.partitioned:
            return f"CREATE TABLE {table} ({columns}){options}"
        parts = (
            f"; CREATE TABLE {table}_{n} PARTITION OF {table} "
            f"FOR VALUES WITH (MODULUS {_PARTITIONS}, REMAINDER {n}){options}"
            for n in range(_PARTITIONS)
        )
        return f"CREATE TABLE {table} ({columns}) PARTITION BY HASH ({key}){''.join(parts)}"

    def statement(self, session: Connection, table: str, query: str) -> str:
        """What gives the table the rows of a query; those of a COPY are in a file after this."""
        if not self.copies:
            return f"INSERT INTO {table} {query}"
        path = rows_file(session)
        session.execute(f"COPY ({query}) TO '{path}'")
        return f"COPY {table} FROM '{path}'"


INSERT = Way(copies=False, partitioned=False)
COPY = Way(copies=True, partitioned=False)
INSERT_PARTITIONS = Way(copies=False, partitioned=True)
COPY_PARTITIONS = Way(copies=True, partitioned=True)
WAYS = (INSERT, COPY, INSERT_PARTITIONS, COPY_PARTITIONS)


def rows_file(session: Connection) -> str:
    """Where the session can have the server write rows; each session has a file of its own."""
    directory = scalar(session, "SELECT current_setting('data_directory')")
    return f"{directory}/rows-{session.info.backend_pid}"


def leaves(table: str) -> str:
    """Query of the tables that have the rows: the partitions, or the table itself."""
    return (
        f"SELECT oid AS relid FROM pg_class WHERE oid = '{table}'::regclass AND relkind = 'r' "
        f"UNION ALL SELECT relid FROM pg_partition_tree('{table}') WHERE isleaf"
    )


def size(session: Connection, table: str) -> int:
    """Pages of the table, or of all its partitions."""
    pages = f"SELECT sum(pg_relation_size(relid)) / 8192 FROM ({leaves(table)}) leaf"
    return int(scalar(session, pages))


def check_sound(session: Connection, table: str) -> None:
    """amcheck finds nothing wrong with the rows and the btrees of the table."""
    heap = f"SELECT count(*) FROM ({leaves(table)}) t, verify_heapam(relid, check_toast => true)"
    assert scalar(session, heap) == 0, f"verify_heapam complains of {table}"
    names = session.execute(
        "SELECT indexrelid::regclass::text FROM pg_index "
        "JOIN pg_class ON pg_class.oid = indexrelid "
        f"WHERE indrelid IN ({leaves(table)}) AND relam = 403"
    ).fetchall()
    for (name,) in names:
        check = sql.SQL("SELECT bt_index_check({}, heapallindexed => true)").format(name)
        session.execute(check)
