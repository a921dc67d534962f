"""The experiment "concurrent-scans": several sessions read at once, each other pages.

Each session has a bitmap scan of its own share of the page table, all begin together, cold. What is
compared is the mean time of a session, by stock at several effective_io_concurrency and by us at
several distances: a device that is kept busy by other sessions leaves little to gain, and nothing
may be lost.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from lookahead.device.io_sampler import IoSampler
from lookahead.errors import LabError
from lookahead.experiments.arms import BITMAP_SCAN, arm_of, concurrency_arm, connect_arm
from lookahead.experiments.bitmap_arms import percent
from lookahead.experiments.io_methods import IO_METHODS, available_methods
from lookahead.experiments.page_table import Selection, select_value
from lookahead.experiments.page_table_setup import (
    SCAN_SETTINGS,
    needed_bytes,
    prepare_page_table,
)
from lookahead.experiments.request import ConcurrentScansRequest, Size
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import (
    Trial,
    Trials,
    alternate,
    explain_trial,
    run_trials,
    warm_up,
)
from lookahead.machine import backend_cpu_ms
from lookahead.measurements import (
    Arm,
    Factor,
    NodeEvidence,
    Question,
    Sample,
    Scenario,
)
from lookahead.render import ProgressBar, Terminal

# Of the pages for each session: of 16 sessions few meet in one page, and the others lie between.
_SHARE = 0.05
_STOCK, _OURS = "bitmap, default", "ours"


@dataclass(frozen=True)
class SizeDefaults:
    """What a size measures; `depths` beside the defaults of both sides."""

    table_pages: int
    sessions: tuple[int, ...]
    depths: tuple[int, ...]
    io_methods: tuple[str, ...]
    rounds: int


DEFAULTS: dict[Size, SizeDefaults] = {
    "demo": SizeDefaults(40_000, (1, 4), (), ("worker",), 4),
    "quick": SizeDefaults(70_000, (1, 4, 16), (64,), ("worker",), 4),
    "full": SizeDefaults(280_000, (1, 4, 16), (4, 64, 256), IO_METHODS, 6),
}


@dataclass(frozen=True)
class _Session:
    """What one session did."""

    time_ms: float
    evidence: NodeEvidence
    cpu_ms: float | None


def run_concurrent_scans(request: ConcurrentScansRequest, terminal: Terminal) -> Path:
    """Measure and write the result; returns its path. Raises LabError."""
    defaults = DEFAULTS[request.run.size]
    wanted = SizeDefaults(
        table_pages=request.table_pages or defaults.table_pages,
        sessions=request.sessions or defaults.sessions,
        depths=request.depths or defaults.depths,
        io_methods=request.io_methods or defaults.io_methods,
        rounds=request.repetitions or defaults.rounds,
    )
    return run_trials(
        request.run,
        "concurrent-scans",
        terminal,
        lambda run: _measure(run, request, wanted),
        rounds=wanted.rounds,
        settings=SCAN_SETTINGS,
        needed_bytes=needed_bytes(wanted.table_pages),
        io_methods=wanted.io_methods,
    )


def _measure(run: Run, request: ConcurrentScansRequest, wanted: SizeDefaults) -> None:
    methods = available_methods(run, wanted.io_methods, explicit=request.io_methods is not None)
    trials = Trials(run)
    selections = [Selection(number, _SHARE, "uniform") for number in range(max(wanted.sessions))]
    prepare_page_table(run, trials, wanted.table_pages, selections, {"io_method": methods[0]})
    chosen = [
        (sessions, trial_of(sessions, method, wanted.depths))
        for method in methods
        for sessions in wanted.sessions
    ]
    total = sum(len(trial.arms) for _, trial in chosen) * wanted.rounds
    with run.terminal.progress(total) as bar:
        for sessions, trial in chosen:
            _measure_trial(run, trials, trial, sessions, wanted.rounds, bar)


def _measure_trial(
    run: Run, trials: Trials, trial: Trial, sessions: int, rounds: int, bar: ProgressBar
) -> None:
    run.server.restart(trial.server)
    trials.compare_rows(trial, [arm for arm in trial.arms if arm.name in (_STOCK, _OURS)])
    trials.begin(trial)
    arms = {arm.name: arm for arm in trial.arms}
    for number, name in alternate(list(arms), rounds):
        bar.describe(f"{trial.scenario.label}: {name}")
        cold = trials.cool(trial.server)
        device = run.device.name if run.device else None
        with IoSampler(device) as sampler:
            done = _run_sessions(run, trial, arms[name], sessions)
        cpu = [one.cpu_ms for one in done if one.cpu_ms is not None]
        times = tuple(one.time_ms for one in done)
        trials.add_sample(
            Sample(
                scenario=trial.scenario,
                round=number,
                sequence=0,
                arm=name,
                time_ms=sum(times) / len(times),
                session_ms=times,
                evidence=done[0].evidence,
                backend_cpu_ms=sum(cpu) if len(cpu) == len(done) else None,
                cold=cold,
                use=sampler.timeline().overall(),
            )
        )
        bar.advance()


def trial_of(sessions: int, method: str, depths: tuple[int, ...]) -> Trial:
    """So many sessions in all arms; the statement is that of the first session."""
    scenario = Scenario(
        (
            Factor("sessions", str(sessions)),
            Factor("pages each", percent(_SHARE)),
            Factor("I/O method", method),
        )
    )
    arms = (
        *(concurrency_arm(BITMAP_SCAN, depth) for depth in depths),
        concurrency_arm(BITMAP_SCAN, None),
        concurrency_arm(BITMAP_SCAN, None, "on"),
        *(
            arm_of(
                f"ours, distance {depth}",
                BITMAP_SCAN,
                "on",
                {"pg_lookahead.prefetch_distance": str(depth)},
            )
            for depth in depths
        ),
    )
    stock = tuple(arm.name for arm in arms if arm.library == "off")
    return Trial(
        scenario=scenario,
        statement=select_value(0),
        arms=arms,
        questions=(
            Question(scenario, "stock's default", (_STOCK,), (_OURS,)),
            Question(scenario, "best of stock", stock, (_OURS,)),
        ),
        server={"io_method": method},
    )


def _run_sessions(run: Run, trial: Trial, arm: Arm, sessions: int) -> list[_Session]:
    """All sessions, begun together; raises what one of them raised."""
    connections: list[psycopg.Connection[Any]] = []
    try:
        for _ in range(sessions):
            connections.append(connect_arm(run.server, arm))
            warm_up(connections[-1], trial, arm)
        return _together(connections, arm)
    finally:
        for connection in connections:
            connection.close()


def _together(connections: Sequence[psycopg.Connection[Any]], arm: Arm) -> list[_Session]:
    start = threading.Barrier(len(connections))
    done: dict[int, _Session] = {}
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            start.wait()
            done[number] = _session(connections[number], arm, number)
        except (LabError, psycopg.Error) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [done[number] for number in range(len(connections))]


def _session(connection: psycopg.Connection[Any], arm: Arm, number: int) -> _Session:
    """The scan of the pages of one session."""
    backend = connection.info.backend_pid
    before = backend_cpu_ms(backend)
    time_ms, evidence = explain_trial(connection, select_value(number), arm)
    after = backend_cpu_ms(backend)
    cpu_ms = None if before is None or after is None else after - before
    return _Session(time_ms, evidence, cpu_ms)
