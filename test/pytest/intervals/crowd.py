"""Sessions that use table events all the time, and know what has to be in it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

from extension.probes import Connection
from server_log import WatchedServer
from waiting import wait_until

from intervals.recipes import ROWS, settle

_FIRST = datetime(2025, 6, 1, tzinfo=UTC)
_MINUTES_BEFORE = 500 * 24 * 60  # before 2027
_MINUTES_BEYOND = 110 * 24 * 60  # within the four partitions after it
_BEYOND = datetime(2027, 1, 1, tzinfo=UTC)


class Crowd:
    """One who writes and three who read; `rows` is what was acknowledged."""

    def __init__(self, server: WatchedServer, seed: int) -> None:
        self.rows: dict[int, tuple[datetime, str]] = {}
        self.beyond = False
        self.over = Event()
        self.running: list[Future[None]] = []
        self.rounds = {"write": 0, "count": 0, "look up": 0, "join": 0}
        self._server = server
        self._random = random.Random(seed)

    def await_rounds(self) -> None:
        """Return once everybody has been through some more rounds."""
        goal = {who: count + 3 for who, count in self.rounds.items()}
        wait_until(
            lambda: (
                any(one.done() for one in self.running)
                or all(self.rounds[who] >= count for who, count in goal.items())
            ),
            "all go on",
        )
        for one in self.running:
            if one.done():
                one.result()

    def write(self) -> None:
        with self._server.connect() as session:
            settle(session)
            while not self.over.is_set():
                self._change_one(session)
                self.rounds["write"] += 1

    def _moment(self) -> datetime:
        if self.beyond and self._random.random() < 0.5:
            return _BEYOND + timedelta(minutes=self._random.randrange(_MINUTES_BEYOND))
        return _FIRST + timedelta(minutes=self._random.randrange(_MINUTES_BEFORE))

    def _change_one(self, session: Connection) -> None:
        """Insert a row, and now and then move, change or delete one."""
        at, customer = self._moment(), self._random.randint(1, 10)
        row = session.execute(
            "INSERT INTO events (at, customer, body) VALUES (%s, %s, 'new') RETURNING id",
            (at, customer),
            prepare=True,
        ).fetchone()
        assert row is not None
        assert row[0] not in self.rows, "a number twice"
        self.rows[row[0]] = (at, "new")
        key = self._random.choice(list(self.rows))
        what = self._random.randrange(4)
        if what == 0:
            done = session.execute("DELETE FROM events WHERE id = %s", (key,), prepare=True)
            del self.rows[key]
        elif what == 1:
            done = session.execute(
                "UPDATE events SET body = 'again' WHERE id = %s", (key,), prepare=True
            )
            self.rows[key] = (self.rows[key][0], "again")
        else:
            at = self._moment()
            done = session.execute(
                "UPDATE events SET at = %s WHERE id = %s", (at, key), prepare=True
            )
            self.rows[key] = (at, self.rows[key][1])
        assert done.rowcount == 1

    def count(self) -> None:
        """All first rows are there once."""
        self._read("count", f"SELECT count(*), count(DISTINCT id) FROM events WHERE id <= {ROWS}")

    def look_up(self) -> None:
        """All first rows of May 2026 are there once: only one partition is looked at."""
        self._read(
            "look up",
            "SELECT count(*), count(DISTINCT id) FROM events WHERE body = 'first' "
            "AND at >= '2026-05-01' AND at < '2026-06-01'",
        )

    def join(self) -> None:
        """One table after the other in a transaction, the other way round than a foreign key."""
        with self._server.connect() as session:
            settle(session)
            while not self.over.is_set():
                with session.transaction():
                    session.execute("SELECT FROM customers WHERE id = 1")
                    found = session.execute("SELECT count(*) FROM events WHERE id = 1").fetchone()
                assert found == (1,)
                self.rounds["join"] += 1

    def _read(self, who: str, query: str) -> None:
        dynamic: Any = query
        with self._server.connect() as session:
            settle(session)
            first = session.execute(dynamic, prepare=True).fetchone()
            assert first is not None
            assert first[0] == first[1] > 0
            while not self.over.is_set():
                assert session.execute(dynamic, prepare=True).fetchone() == first
                self.rounds[who] += 1


@contextmanager
def crowd(server: WatchedServer, seed: int) -> Iterator[Crowd]:
    """Everybody is at work while the block runs, and has had no error when it ends."""
    people = Crowd(server, seed)
    with ThreadPoolExecutor(len(people.rounds)) as pool:
        work = (people.write, people.count, people.look_up, people.join)
        people.running = [pool.submit(one) for one in work]
        try:
            yield people
            people.await_rounds()
        finally:
            people.over.set()
            for one in people.running:
                one.result(100)
