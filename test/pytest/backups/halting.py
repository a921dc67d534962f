"""Stops the processes of a build while its pages are on their way, as a busy machine may."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import Random

from extension.probes import Connection
from waiting import wait_until

from backups.builds import Build

# Whoever stands between logging and writing holds a checkpoint up, so a halt ends in any case.
# Any other backup takes a second, and many on a busy machine.
_LONGEST_HALT_SECONDS = 20.0
# Of a build, in statements of core that take locks which a halted process may have.
_END_SECONDS = 250.0
_LOADED = """
    SELECT tuples_done::float8 / tuples_total FROM pg_stat_progress_create_index
    WHERE pid = %s AND tuples_total > 0 AND phase LIKE '%%loading tuples%%'"""
_PROCESSES = "SELECT pid FROM pg_stat_activity WHERE %s IN (pid, leader_pid)"


class Moment:
    """A build under way, and whether its processes are halted in mid-load."""

    def __init__(self, building: Future[object], processes: list[int]) -> None:
        self.building = building
        self.is_inside = bool(processes)
        self._processes = processes

    def go_on(self) -> None:
        """Let the halted processes run."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
        self._processes = []

    def meet(self, work: "Future[None]") -> None:
        """Let them run as soon as the work has ended, or soon enough if it cannot end before."""
        deadline = time.monotonic() + _LONGEST_HALT_SECONDS
        wait_until(
            lambda: work.done() or time.monotonic() > deadline, "the end of the halt", _END_SECONDS
        )
        self.go_on()
        work.result(_END_SECONDS)


@contextmanager
def halted(rng: Random, watcher: Connection, builder: Connection, build: Build) -> Iterator[Moment]:
    """Begin a build and halt some of its processes at a random moment of its load.

    The build has ended when the block has. A short one may end before it can be halted.
    """
    for statement in (*build.settings, *build.before):
        builder.execute(statement)
    share, pid = rng.random() * 0.8, builder.info.backend_pid
    whom = rng.choice(("all", "all", "leader", "workers"))
    with ThreadPoolExecutor(1) as pool:
        building: Future[object] = pool.submit(builder.execute, build.statement)
        moment = Moment(building, _halt(watcher, building, pid, share, whom))
        try:
            yield moment
        finally:
            moment.go_on()
        building.result(_END_SECONDS)
    if build.ending:
        builder.execute(build.ending)


def _halt(
    watcher: Connection, building: Future[object], pid: int, share: float, whom: str
) -> list[int]:
    """Halt processes once such a share of the entries is loaded; returns which, maybe none."""
    while not building.done():
        row = watcher.execute(_LOADED, (pid,)).fetchone()
        if row is None or row[0] <= share:
            continue
        found = {int(row[0]) for row in watcher.execute(_PROCESSES, (pid,)).fetchall()}
        chosen = {"all": found, "leader": {pid}, "workers": found - {pid} or {pid}}[whom]
        for process in chosen:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
        return sorted(chosen)
    return []
