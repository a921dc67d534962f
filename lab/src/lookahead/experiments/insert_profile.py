"""What there is to see of an insert of one row, as comments: its plan, and where its time goes.

By perf: the share of a function is that of the samples in which it is on the backend's stack.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from lookahead.account import own_account
from lookahead.errors import LabError, last_lines
from lookahead.experiments.arms import connect_arm
from lookahead.experiments.runner import Run
from lookahead.experiments.trials import run_together
from lookahead.measurements import Arm
from lookahead.server import PrivateServer, Session

# What the source article names, by the function in which all of it happens.
_TOLD = {
    "routing": "ExecFindPartition",
    "locks": "LockAcquireExtended",
    "executor start": "standard_ExecutorStart",
}
_SECONDS = 3
# As few servers keep frame pointers, 8 kB of each stack are kept, and unwound later.
_RECORD = ("record", "-q", "-F", "997", "--call-graph", "dwarf,8192")
_REPORT = ("report", "--stdio", "--no-inline")
_SHARES = (*_REPORT, "--children", "-g", "none", "-s", "symbol")
# Calls from the outermost function inwards, without those of less than 3 %.
_TREE = (*_REPORT, "--no-children", "-g", "caller,3", "-s", "comm")
# "    18.20%     0.29%  [.] ExecInsert"
_SHARE = re.compile(r"^\s*([0-9.]+)%\s+[0-9.]+%\s+\[\.\]\s+(\S+)", re.MULTILINE)


def explained(server: PrivateServer, arm: Arm, statement: str) -> Iterator[str]:
    """What EXPLAIN (ANALYZE, BUFFERS) says of the statement, not of a session's first."""
    with connect_arm(server, arm) as session:
        session.execute(statement)
        for (line,) in session.execute(f"EXPLAIN (ANALYZE, BUFFERS) {statement}").fetchall():
            yield f"-- {line}"


def profiled(run: Run, arm: Arm, statement: str, label: str) -> Iterator[str]:
    """The calls of a backend that executes the statement again and again; says their shares.

    Without perf, or where it is not permitted, that is said instead.
    """
    try:
        with TemporaryDirectory() as folder, connect_arm(run.server, arm) as session:
            data = str(Path(folder, "perf.data"))
            process = ("-p", str(session.info.backend_pid), "--", "sleep", str(_SECONDS))
            insert = partial(_insert, session, statement, monotonic() + _SECONDS)
            run_together([partial(_perf, *_RECORD, "-o", data, *process), insert])
            shares, tree = shares_of(_perf(*_SHARES, "-i", data)), _perf(*_TREE, "-i", data)
    except (OSError, LabError) as error:
        advice = "Install perf (linux-perf), or lower kernel.perf_event_paranoid."
        run.find("note", f"inserts of single rows are not profiled: {error}", advice)
        return
    told = ", ".join(f"{what} {shares.get(name, 0.0):.1f} %" for what, name in _TOLD.items())
    run.find("note", f"single rows into {label}, shares of the backend's samples: {told}")
    lines = (line.rstrip() for line in tree.splitlines() if not line.startswith("#"))
    yield from (f"-- {line}" for line in lines if line.strip(" |"))


def shares_of(report: str) -> dict[str, float]:
    """The share of each function outside of the kernel, in percent."""
    return {name: float(percent) for percent, name in _SHARE.findall(report)}


def _perf(*arguments: str) -> str:
    done = own_account().run(["perf", *arguments])
    if done.returncode != 0:
        raise LabError(last_lines(done.stdout + done.stderr))
    return done.stdout


def _insert(session: Session, statement: str, until: float) -> str:
    """Rows of one number after the other, up to a time; returns a text as perf does."""
    for number in takewhile(lambda _: monotonic() < until, count()):
        session.execute(statement.encode(), (number, number), prepare=True)
    return ""
