"""A run of an experiment made of trials: from the request to the tables on the terminal."""

from collections.abc import Callable, Mapping
from pathlib import Path

from lookahead.experiments.request import RunRequest
from lookahead.experiments.runner import Run, open_run
from lookahead.render import Terminal
from lookahead.render_trials import trial_tables
from lookahead.results import Experiment, Parameters


def run_trials(
    request: RunRequest,
    experiment: Experiment,
    terminal: Terminal,
    measure: Callable[[Run], None],
    *,
    rounds: int,
    settings: Mapping[str, str],
    needed_bytes: int,
    io_methods: tuple[str, ...] = (),
    read_aheads_kb: tuple[int, ...] = (),
) -> Path:
    """Let `measure` fill the result, show it; returns its path. Raises LabError.

    `settings` are those of every start of the server.
    """
    parameters = Parameters(
        size=request.size,
        seed=request.seed,
        repetitions=rounds,
        pages=(),
        limits=(),
        heap_shares_percent=(),
        io_methods=io_methods,
        read_aheads_kb=read_aheads_kb,
    )
    with open_run(
        request, experiment, parameters, terminal, settings=settings, needed_bytes=needed_bytes
    ) as run:
        measure(run)
        path = run.path
    terminal.tables(trial_tables(run.document.trials))
    return path
