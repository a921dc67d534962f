"""A campaign: rounds of one primary each, copied or killed in the middle of random index builds.

A round's settings, events and builds depend on the seed and its own number, so that any round
replays alone; the moments within the builds, and so which indexes a crash leaves, do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

import psycopg
from extension.probes import QUIET, Connection, need_extension, scalar
from index_build.twins import SWITCH, Counters
from replication import wait_for_replay
from server_log import ServerFactory, WatchedServer
from waiting import wait_until

from backups.builds import Build, make_tables, random_build
from backups.copies import base_backup, check_server, file_copy
from backups.halting import halted
from lookahead.errors import LabError, last_lines
from lookahead.extension import Stage

_EVENTS_PER_ROUND = 4
_END_SECONDS = 250.0
# Tablespaces within the data directory, which a copy of that has too.
_PLACES = {"allow_in_place_tablespaces": "on"}


@dataclass
class Tally:
    """What a campaign did: events by kind, builds halted in mid-load, indexes looked through."""

    events: Counter[str] = field(default_factory=Counter)
    halted: int = 0
    built: int = 0
    checked: int = 0


@dataclass(frozen=True)
class Tools:
    """What rounds need of the test that runs them."""

    make_server: ServerFactory
    stage: Stage
    test_stage: Stage


class Round:
    """One primary and what happens to it. ``label`` is what a replay needs."""

    def __init__(self, tools: Tools, seed: int, number: int, tally: Tally) -> None:
        self.label = f"LOOKAHEAD_ROUND={number} --seed {seed}"
        self._rng = Random(f"{seed}:backups:{number}")
        self._tools = tools
        self._tally = tally
        self._misled = self._rng.random() < 0.25
        self._settings = _random_settings(self._rng)
        self._script: list[str] = [f"{self._settings}"]

    def run(self) -> None:
        """Make the primary, let things happen to it, and look through it at the end."""
        stage = self._tools.test_stage if self._misled else self._tools.stage
        primary = self._tools.make_server(stage=stage, settings=self._settings, start=False)
        try:
            with primary:
                self._prepare(primary)
                events = self._rng.choices(*zip(*_EVENTS, strict=True), k=_EVENTS_PER_ROUND)
                for event in events:
                    self._script.append(f"-- {event.__name__}")
                    self._tally.events[event.__name__] += 1
                    event(self, primary)
                self._tally.checked += check_server(primary, whole=True)
                if self._settings["full_page_writes"] == "on":
                    self._rewind(primary)
        except (AssertionError, LabError, psycopg.Error) as error:
            script = "\n".join(self._script)
            raise AssertionError(f"{self.label}: {error}\nafter:\n{script}") from error

    def _prepare(self, primary: WatchedServer) -> None:
        primary.initdb()
        if self._rng.random() < 0.5:
            self._script.append("-- without data checksums")
            programs, data = primary.bindir, primary.data_directory
            done = primary.account.run([programs / "pg_checksums", "--disable", "-D", data])
            assert done.returncode == 0, done.stderr
        primary.start()
        with primary.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "amcheck")
            make_tables(session)

    @contextmanager
    def _halted_build(
        self, primary: WatchedServer, *, copied: bool = False
    ) -> Iterator[Callable[[Callable[[], None]], None]]:
        """A random build, halted in mid-load; the caller gets what runs work during the halt.

        That may be to copy the server if it is said to be `copied`.
        """
        with primary.connect() as watcher, primary.connect() as builder:
            build = self._next_build(watcher, copied=copied)
            with (
                halted(self._rng, watcher, builder, build) as moment,
                ThreadPoolExecutor(1) as pool,
            ):
                self._tally.halted += moment.is_inside
                yield lambda work: moment.meet(pool.submit(work))
            self._tally.built += Counters.of(builder).built

    def _next_build(self, watcher: Connection, *, copied: bool = False) -> Build:
        query = (
            "SELECT relname FROM pg_class WHERE relkind = 'i' AND relname ~ '^[il]_' "
            "AND relnamespace = 'public'::regnamespace ORDER BY 1"
        )
        existing = [str(row[0]) for row in watcher.execute(query).fetchall()]
        build = random_build(self._rng, existing, misled=self._misled, copied=copied)
        self._script.append(str(build))
        return build

    def _undisturbed_build(self, primary: WatchedServer) -> None:
        with self._halted_build(primary):
            pass

    @contextmanager
    def _copy(
        self, settings: dict[str, str], stage: Stage | None = None
    ) -> Iterator[WatchedServer]:
        """A server without data; replay needs no library either."""
        both = {**QUIET, "shared_buffers": "16MB", **_PLACES, **settings}
        with self._tools.make_server(stage=stage, settings=both, start=False) as copy:
            try:
                yield copy
            except psycopg.Error as error:
                log = last_lines(copy.read_log())
                raise AssertionError(f"{error}\nThe copy's log ends with:\n{log}") from error

    def _backup(self, primary: WatchedServer) -> None:
        """A standby made of a backup that was taken in mid-build; perhaps it takes over."""
        take = self._rng.choice((base_backup, base_backup, file_copy))
        early, promote = self._rng.random() < 0.5, self._rng.random() < 0.3
        with self._copy({"primary_conninfo": _conninfo(primary)}) as copy:
            with self._halted_build(primary, copied=True) as meanwhile:
                meanwhile(lambda: take(primary, copy))
                if early:
                    _follow(copy)
            if not early:
                _follow(copy)
            self._undisturbed_build(primary)
            self._compare(primary, copy)
            if promote:
                _promote(copy)
                self._tally.checked += check_server(copy, whole=True)

    def _compare(self, primary: WatchedServer, standby: WatchedServer) -> None:
        """The standby has replayed all there is, and its indexes are sound."""
        with primary.connect() as source, standby.connect() as session:
            wait_for_replay(source, session)
        self._tally.checked += check_server(standby)

    def _point_in_time(self, primary: WatchedServer) -> None:
        """A backup taken in one build, recovered to a moment inside another one."""
        target: list[str] = []

        def look() -> None:
            with primary.connect() as session:
                target.append(str(scalar(session, "SELECT pg_current_wal_insert_lsn()")))

        restore = f'cp "{primary.data_directory}/pg_wal/%f" "%p"'
        with self._copy({"restore_command": restore}) as copy:
            with self._halted_build(primary, copied=True) as meanwhile:
                meanwhile(lambda: base_backup(primary, copy))
            with self._halted_build(primary) as meanwhile:
                meanwhile(look)
            with primary.connect() as session:
                # Flushes it, and ends the segment that the target may lie in.
                session.execute("SELECT pg_switch_wal()")
            (copy.data_directory / "recovery.signal").touch()
            copy.start({"recovery_target_lsn": target[0], "recovery_target_action": "promote"})
            _await_end_of_recovery(copy)
            self._tally.checked += check_server(copy, whole=True)

    def _crash(self, primary: WatchedServer) -> None:
        """Everything is killed in mid-build."""
        with primary.connect() as watcher, primary.connect() as builder:
            build = self._next_build(watcher)
            try:
                with halted(self._rng, watcher, builder, build) as moment:
                    self._tally.halted += moment.is_inside
                    moment.go_on()
                    primary.crash()
            except psycopg.OperationalError:
                pass
        primary.start()
        self._tally.checked += check_server(primary)

    def _crash_after_checkpoint(self, primary: WatchedServer) -> None:
        """A checkpoint in mid-build, and everything is killed as soon as the build has ended."""

        def checkpoint() -> None:
            with primary.connect() as session:
                session.execute("CHECKPOINT")

        with self._halted_build(primary) as meanwhile:
            meanwhile(checkpoint)
        primary.crash()
        primary.start()
        self._tally.checked += check_server(primary)

    def _rewind(self, primary: WatchedServer) -> None:
        """The primary is outrun in mid-build by its standby, and becomes the standby of that."""
        self._script.append("-- _rewind")
        self._tally.events["_rewind"] += 1
        settings = {**self._settings, "primary_conninfo": _conninfo(primary)}
        with self._copy(settings, self._tools.stage) as other:
            base_backup(primary, other)
            _follow(other)
            with self._halted_build(primary) as meanwhile:
                meanwhile(lambda: _promote(other))
            self._undisturbed_build(primary)
            primary.stop(self._rng.choice(("fast", "immediate")))
            with other.connect() as session:
                session.execute("CHECKPOINT; REINDEX TABLE b")
            _rewind_to(primary, other)
            _follow(primary, {"primary_conninfo": _conninfo(other)})
            self._compare(other, primary)


def _random_settings(rng: Random) -> dict[str, str]:
    return {
        **QUIET,
        SWITCH: "on",
        "full_page_writes": rng.choice(("on", "off")),
        "wal_consistency_checking": rng.choice(("", "all")),
        "shared_buffers": rng.choice(("1MB", "16MB", "128MB")),
        "max_wal_size": rng.choice(("32MB", "4GB")),
        "wal_level": rng.choice(("replica", "logical")),
        "wal_log_hints": "on",
        "wal_keep_size": "4GB",
        "max_parallel_workers": "8",
        **_PLACES,
        "log_checkpoints": "off",
    }


def _conninfo(server: WatchedServer) -> str:
    return f"host={server.socket_directory} port={server.port} user=postgres"


def _follow(copy: WatchedServer, settings: dict[str, str] | None = None) -> None:
    (copy.data_directory / "standby.signal").touch()
    copy.start(settings)


def _promote(copy: WatchedServer) -> None:
    with copy.connect() as session:
        assert scalar(session, "SELECT pg_promote(true, 100)")


def _await_end_of_recovery(copy: WatchedServer) -> None:
    def over() -> bool:
        with copy.connect() as session:
            return not scalar(session, "SELECT pg_is_in_recovery()")

    wait_until(over, "the end of recovery", _END_SECONDS)


def _rewind_to(target: WatchedServer, source: WatchedServer) -> None:
    """Make a stopped server a copy of a running one whose history parted from its own."""
    places = (
        f"--target-pgdata={target.data_directory}",
        f"--source-server={_conninfo(source)} dbname=postgres",
    )
    target.run_client("pg_rewind", "--no-sync", *places)


# What may happen, and how often.
_EVENTS: tuple[tuple[Callable[[Round, WatchedServer], None], int], ...] = (
    (Round._backup, 5),
    (Round._point_in_time, 3),
    (Round._crash, 2),
    (Round._crash_after_checkpoint, 2),
)
