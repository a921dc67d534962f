"""What is indexed: the keys by name, the tables that have them, the conditions of a build.

`lookahead_build` has a column for every key; its values follow from the row's number and the seed,
so that any order but the table's own is random. `pgbench_accounts` is pgbench's.
"""

import time
from dataclasses import dataclass
from typing import Literal

import psycopg

from lookahead.errors import LabError
from lookahead.experiments.conditions import BLOCK_BYTES, fetch_row
from lookahead.experiments.experiment import memory_label
from lookahead.measurements import Factor, Scenario, Table
from lookahead.server import PrivateServer, Session

TABLE = "lookahead_build"
PGBENCH_TABLE = "pgbench_accounts"
_INDEX = "lookahead_built"
# Row with header, line pointer and alignment, of either table; and the largest index on it.
ROW_BYTES = 140
INDEX_ROW_BYTES = 40
_ROWS_PER_SCALE = 100_000  # pgbench's
Command = Literal["create", "concurrently", "reindex"]


@dataclass(frozen=True)
class Collation:
    """A collation that not every server has: what says that it is missing, and what to do."""

    name: str
    provider: Literal["icu", "libc"]
    locale: str
    missing: str
    hint: str

    def is_there(self, connection: Session) -> bool:
        """Whether it can be used, made if need be."""
        try:
            connection.execute(
                f"CREATE COLLATION IF NOT EXISTS {self.name} "
                f"(provider = {self.provider}, locale = '{self.locale}')"
            )
        except (psycopg.errors.InvalidParameterValue, psycopg.errors.FeatureNotSupported):
            return False
        return True


_ICU = Collation(
    "lookahead_icu",
    "icu",
    "und",
    "this server was built without ICU",
    "Leave text-icu out, or name another server with --pg-config.",
)
_LIBC = Collation(
    "lookahead_libc",
    "libc",
    "en_US.UTF-8",
    "the C library has no locale en_US.UTF-8",
    "Leave text-libc out, or make it: localedef -i en_US -f UTF-8 en_US.UTF-8 (as root).",
)


@dataclass(frozen=True)
class BuildKey:
    """`definition` is what CREATE INDEX says in parentheses; `collation`, what it needs for that.

    A `fresh` key is measured before the table is vacuumed: none of its pages is all-visible.
    `command` is what builds the index.
    """

    name: str
    title: str
    definition: str
    unique: bool = False
    table: str = TABLE
    collation: Collation | None = None
    fresh: bool = False
    command: Command = "create"

    @property
    def build(self) -> str:
        """The measured statement."""
        return f"REINDEX INDEX {_INDEX}" if self.command == "reindex" else self.create

    @property
    def create(self) -> str:
        """Makes the index."""
        if self.table == PGBENCH_TABLE:
            return (
                f"ALTER TABLE {self.table} ADD CONSTRAINT {_INDEX} PRIMARY KEY ({self.definition})"
            )
        words = ["CREATE", *(["UNIQUE"] if self.unique else []), "INDEX"]
        words += ["CONCURRENTLY"] if self.command == "concurrently" else []
        return f"{' '.join(words)} {_INDEX} ON {self.table} ({self.definition})"

    @property
    def drop(self) -> str:
        """Removes what `create` made."""
        if self.table == PGBENCH_TABLE:
            return f"ALTER TABLE {self.table} DROP CONSTRAINT {_INDEX}"
        return f"DROP INDEX {_INDEX}"

    @property
    def index(self) -> str:
        """The name of the index."""
        return _INDEX


_ALL = (
    BuildKey("not-vacuumed", "bigint, random, nothing all-visible", "random", fresh=True),
    BuildKey("int-sorted", "int, sorted", "id"),
    BuildKey("int-reverse", "int, sorted backward", "id DESC"),
    BuildKey("bigint-random", "bigint, random", "random"),
    BuildKey("int-few", "int, 201 values", "few"),
    BuildKey("int-many", "int, 1 value for 100 rows", "many"),
    BuildKey("timestamptz", "timestamptz, random", "at"),
    BuildKey("uuid", "uuid, random", "token"),
    BuildKey("text-c", 'text of 14 characters, "C"', 'name COLLATE "C"'),
    BuildKey("text-icu", "text of 14 characters, ICU", f"name COLLATE {_ICU.name}", collation=_ICU),
    BuildKey(
        "text-libc", "text of 14 characters, en_US", f"name COLLATE {_LIBC.name}", collation=_LIBC
    ),
    BuildKey("int-text", 'int of 201 values and text, "C"', 'few, name COLLATE "C"'),
    BuildKey("unique", "int, sorted, unique", "id", unique=True),
    BuildKey("reindex", "bigint, random, REINDEX", "random", command="reindex"),
    BuildKey("concurrent-bigint", "bigint, random, concurrently", "random", command="concurrently"),
    BuildKey(
        "concurrent-text", 'text, "C", concurrently', 'name COLLATE "C"', command="concurrently"
    ),
    BuildKey("pgbench", "primary key of pgbench_accounts", "aid", True, PGBENCH_TABLE),
)
KEYS = {key.name: key for key in _ALL}


@dataclass(frozen=True)
class Conditions:
    """Under what an index is built: max_parallel_maintenance_workers, maintenance_work_mem, and the
    step by which ours extends the new file, both in kB."""

    key: BuildKey
    rows: int
    workers: int
    memory_kb: int
    extend_kb: int

    @property
    def scenario(self) -> Scenario:
        """The factors in the order in which they are shown."""
        return Scenario(
            (
                Factor("key", self.key.name),
                Factor("workers", str(self.workers)),
                Factor("memory", memory_label(self.memory_kb)),
                Factor("step", f"{self.extend_kb} kB"),
                Factor("rows", f"{self.rows:,}"),
            )
        )


_HASH = "(hashint8extended(i, {seed} + {salt}) & 9223372036854775807)"


def make_table(connection: Session, rows: int, seed: int) -> Table:
    """Make and fill `lookahead_build`; not vacuumed, hint bits set."""
    started = time.monotonic()
    few, many, at, name = (_HASH.format(seed=seed, salt=salt) for salt in range(1, 5))
    connection.execute(
        f"CREATE TABLE {TABLE} (id int NOT NULL, few int, random bigint, many int, "
        "at timestamptz, token uuid, name text)"
    )
    connection.execute(
        f"INSERT INTO {TABLE} SELECT i, {few} % 201, hashint8extended(i, {seed}), "
        f"{many} % {max(rows // 100, 1)}, "
        f"timestamptz '2020-01-01 00:00+00' + {at} % 150000000 * interval '1 s', "
        f"md5({seed} || ' ' || i)::uuid, 'user_' || lpad(({name} % 1000000000)::text, 9, '0') "
        f"FROM generate_series(1, {rows}) AS i"
    )
    return _facts(connection, TABLE, started)


def make_pgbench_table(server: PrivateServer, connection: Session, rows: int) -> Table:
    """Let pgbench make its tables without keys, of at least one of its units."""
    started = time.monotonic()
    scale = max(rows // _ROWS_PER_SCALE, 1)
    server.run_client("pgbench", "-i", "-I", "dtG", "-q", "-s", str(scale))
    vacuum(connection, PGBENCH_TABLE)
    return _facts(connection, PGBENCH_TABLE, started)


def vacuum(connection: Session, table: str) -> None:
    """Make every page all-visible; LabError when some are not."""
    connection.execute(f"VACUUM (FREEZE, ANALYZE) {table}")
    pages, visible = fetch_row(
        connection, f"SELECT relpages, relallvisible FROM pg_class WHERE relname = '{table}'"
    )
    if pages != visible:
        raise LabError(f'{pages - visible} pages of table "{table}" are not all-visible')


def _facts(connection: Session, table: str, started: float) -> Table:
    # Also brings the table into the cache of the operating system.
    rows, size = fetch_row(connection, f"SELECT count(*), pg_table_size('{table}') FROM {table}")
    return Table(
        name=table,
        rows=rows,
        pages=size // BLOCK_BYTES,
        table_bytes=size,
        index_bytes=0,
        build_seconds=round(time.monotonic() - started, 1),
    )
