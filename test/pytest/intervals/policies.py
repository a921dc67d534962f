"""How policies are set, and what tables with one look like."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from extension.probes import Connection, scalar
from server_log import WatchedServer
from waiting import wait_until

WAITED = "canceling statement due to lock timeout"
PENDING = "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"

# A table that references s.p, of which one row is referenced.
REFERENCED = """
    ALTER TABLE s.p ADD PRIMARY KEY (k); CREATE TABLE s.f (k date REFERENCES s.p);
    INSERT INTO s.f SELECT max(k) FROM s.p"""

CHILDREN = """
    SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_class c
    JOIN pg_inherits ON inhrelid = c.oid WHERE inhparent = %s::regclass"""


def make(session: Connection, key: str, by: str = "k") -> None:
    """Table s.p with a key column of a type."""
    execute(session, f"CREATE TABLE s.p (k {key}, t text) PARTITION BY RANGE ({by})")


def set_policy(session: Connection, arguments: str, table: str = "s.p") -> None:
    """Call pg_lookahead_set_interval(); `arguments` stand behind the table."""
    execute(session, f"SELECT pg_lookahead_set_interval('{table}', {arguments})")


def execute(session: Connection, statement: str) -> list[Any]:
    """The rows of a statement that is put together; none where it has none."""
    dynamic: Any = statement
    result = session.execute(dynamic)
    return result.fetchall() if result.description else []


def seq_scans(session: Connection, table: str) -> int:
    """How often a table of schema s was read from end to end."""
    session.execute("SELECT pg_stat_force_next_flush()")
    query = f"SELECT seq_scan FROM pg_stat_user_tables WHERE relid = 's.{table}'::regclass"
    return int(scalar(session, query))


def hear(session: Connection, statement: str) -> list[str]:
    """Execute a statement; what the session was told is returned."""
    heard: list[str] = []

    def listen(notice: Any) -> None:
        heard.append(notice.message_primary or "")

    session.add_notice_handler(listen)
    execute(session, statement)
    session.remove_notice_handler(listen)
    return heard


def maintain(session: Connection, table: str | None = None) -> list[str]:
    """Maintain one table, or all; what the session was told is returned."""
    of = "" if table is None else f"'{table}'"
    return hear(session, f"CALL pg_lookahead_maintain_partitions({of})")


def bounds(session: Connection, table: str = "s.p") -> list[tuple[str, str]]:
    """Lower and upper bounds of all ranges, as they are written, in order of the lower ones."""
    rows = session.execute(CHILDREN, (table,)).fetchall()
    ranges = [row[1].removeprefix("FOR VALUES FROM (")[:-1] for row in rows if "FROM" in row[1]]
    pairs = [tuple(text.replace("'", "").split(") TO (")) for text in ranges]
    return sorted(
        ((low, high) for low, high in pairs), key=lambda pair: (_number(pair[0]), pair[0])
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def names(session: Connection, table: str = "s.p") -> list[str]:
    """The names of all partitions, in their order."""
    return sorted(row[0] for row in session.execute(CHILDREN, (table,)).fetchall())


def state(session: Connection, column: str, table: str = "s.p") -> Any:
    """A column of the view, of a table."""
    return scalar(
        session,
        f"SELECT {column} FROM pg_lookahead_intervals WHERE parent = '{table}'::regclass",
    )


@contextmanager
def maintaining(
    session: Connection, server: WatchedServer, table: str = "s.p", deadlock: str = "5s"
) -> Iterator[Future[list[str]]]:
    """Maintenance by a session of its own, which waits for somebody when the block begins.

    For half of deadlock_timeout in the strongest mode; for several others beside it for a third,
    and for five sixths in a weaker one.
    """

    def run() -> list[str]:
        with server.connect() as own:
            own.execute("SET lock_timeout = '60s'")
            scalar(own, f"SELECT set_config('deadlock_timeout', '{deadlock}', false)")
            return maintain(own, table)

    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        wait_until(lambda: running.done() or scalar(session, waiting), "maintenance waits")
        assert not running.done()
        yield running
        running.result(100)


def leave_marked(aged: Connection, server: WatchedServer, policy: str) -> str:
    """Set a policy, and leave the oldest partition marked; its name is returned."""
    oldest = names(aged)[0]
    set_policy(aged, policy)
    aged.execute("SET lock_timeout = '100ms'")
    with server.connect(autocommit=False) as reader:
        reader.execute("SELECT count(*) FROM s.p")
        maintain(aged)
    assert scalar(aged, PENDING) == 1
    aged.execute("RESET lock_timeout")
    return oldest
