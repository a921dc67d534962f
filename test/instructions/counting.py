"""Counts the instructions of one execution of a shape, by callgrind in a single-user server.

A server of one process has no timer, no other session and nothing in the background, so the same
library gives the same count. Around its loops each shape calls a function that does nothing else
there (`_MARK`); at each call callgrind writes down what was executed since the one before:

    mark   loop of 120   mark   loop of 20   mark   loop of 120   mark
      1    warming up      2       few         3       many         4

Warming up plans the statements, and brings all pages into shared buffers. Of the other two loops
the difference is taken, so that what a loop costs by itself drops out. Starting a server costs
more than a short loop, so several shapes follow one another in one.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

from profiles import functions, readable

from lookahead.errors import LabError, UnavailableError, last_lines
from lookahead.extension import LIBRARY
from lookahead.server import PrivateServer
from lookahead_bench.control_shape import Shape

_MARK = "pg_postmaster_start_time"
_TIME_LIMIT_SECONDS = 3600.0  # far more than a count takes on a busy machine
_OFTEN, _RARELY = (20, 120), (1, 2)
# From so many executions per sample of the experiment on, one of them is short.
_SHORT = 100


class Copies:
    """Copies of a stopped server's data directory, each in the hands of one count at a time.

    One that was only read serves the next count, too.
    """

    def __init__(self, server: PrivateServer) -> None:
        self.server = server
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._numbers = itertools.count()
        # A data directory includes the settings that stand beside it.
        _run(server, ["cp", server.directory / "settings.conf", server.work_directory])

    @contextmanager
    def borrowed(self, *, written: bool) -> Iterator[Path]:
        """A copy as it was made; what is `written` to it is removed."""
        try:
            folder = self._free.get_nowait()
        except Empty:
            folder = self.server.work_directory / f"copy-{next(self._numbers)}"
            _run(self.server, ["cp", "-a", "--reflink=auto", self.server.data_directory, folder])
        yield folder
        if written:
            _run(self.server, ["rm", "-rf", folder])
        else:
            self._free.put(folder)


def require_valgrind() -> None:
    """UnavailableError where the program that counts is missing."""
    if shutil.which("valgrind") is None:
        raise UnavailableError("valgrind is missing", "apt install valgrind")


def instructions(
    copies: Copies, shapes: Sequence[Shape], *, loaded: bool, keep: Path | None
) -> list[dict[str, float]]:
    """For each shape, the instructions of one execution by function, with the library or without.

    The profiles of the long loops go into the folder `keep`, named after the shapes.
    """
    arm = "with" if loaded else "without"
    output = copies.server.work_directory / f"{shapes[0].name}-{arm}"
    with copies.borrowed(written=not all(map(only_reads, shapes))) as folder:
        command = _command(copies.server, folder, output, loaded=loaded)
        _run(copies.server, command, "".join(map(_script, shapes)))
    found = []
    for number, shape in enumerate(shapes):
        # The one at the first mark is about what came before.
        few, many = (_profile(output, 4 * number + mark) for mark in (3, 4))
        if keep is not None:
            (keep / f"{shape.name}-{arm}").write_text(readable(many))
        fewer, more = _counts(shape)
        costs = functions(many)
        costs.subtract(functions(few))
        found.append({name: cost / (more - fewer) for name, cost in costs.items()})
    return found


def only_reads(shape: Shape) -> bool:
    """Whether the data directory is what it was before, and so is what later statements cost."""
    return shape.reset is None and all(
        statement.startswith("SELECT") for statement in shape.statements
    )


def _counts(shape: Shape) -> tuple[int, int]:
    return _OFTEN if shape.executions >= _SHORT else _RARELY


def _profile(output: Path, mark: int) -> str:
    """What callgrind wrote at the mark of this number, about the time since the one before."""
    try:
        return output.with_name(f"{output.name}.{mark}").read_text()
    except FileNotFoundError:
        raise LabError(f"callgrind saw fewer than {mark} calls of {_MARK}()") from None


def _command(
    server: PrivateServer, folder: Path, output: Path, *, loaded: bool
) -> list[str | Path]:
    return [
        "valgrind",
        "--tool=callgrind",
        "--vgdb=no",
        f"--dump-before={_MARK}",
        f"--callgrind-out-file={output}",
        server.bindir / "postgres",
        "--single",
        "-j",  # a command ends with a semicolon and an empty line
        *("-D", folder),
        *("-c", "exit_on_error=on"),
        *("-c", "plan_cache_mode=force_generic_plan"),
        *("-c", "shared_preload_libraries="),
        *("-c", f"session_preload_libraries={LIBRARY if loaded else ''}"),
        "postgres",
    ]


def _script(shape: Shape) -> str:
    few, many = _counts(shape)
    commands = [
        *(f"SET {name} = '{value}'" for name, value in shape.settings.items()),
        "DO $$ DECLARE mark timestamptz; number int; elapsed float8; BEGIN "
        f"FOREACH number IN ARRAY ARRAY[{many}, {few}, {many}] LOOP mark := {_MARK}(); "
        f"CALL {shape.procedure_name}(0, number, elapsed); END LOOP; mark := {_MARK}(); END $$",
        "RESET ALL",
    ]
    return "".join(f"{command};\n\n" for command in commands)


def _run(server: PrivateServer, command: Sequence[str | Path], script: str | None = None) -> None:
    # Few variables, always the same: they lie on the stack, whose addresses count with them.
    env = {"PATH": os.defpath, "LC_ALL": "C", **server.environment()}
    try:
        done = server.account.run(
            command,
            cwd=server.work_directory,
            env=env,
            input=script,
            timeout_seconds=_TIME_LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{command[0]} did not end within {_TIME_LIMIT_SECONDS:g} s") from None
    if done.returncode != 0:
        raise LabError(f"{command[0]} exits with {done.returncode}:\n{last_lines(done.stderr)}")
