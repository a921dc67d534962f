"""What a control is: statements, executions per sample, and the procedure that executes them.

A shape is executed in a loop within the server, by a procedure of its own, so that nothing of a
client or of planning dilutes what the executor pays. `:key` is an integer that goes through 0 ..
`KEYS` - 1 in large steps, the same ones in the same order for every arm. Every text is one line,
as a single-user server wants it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from lookahead.experiments.control_tables import KEYS, STEP

State = Literal["cached", "os-cached", "cold"]
"""Where the data lies before each sample: shared buffers, the OS cache only, the disk."""


@dataclass(frozen=True)
class Shape:
    """`statements` are executed one after the other, `executions` times in a sample.

    `setup` makes what they need. `settings` are those of the session, `nodes` the node types that
    their plans must have. `reset` precedes each sample. Without statements it is connecting itself
    that is measured.
    """

    name: str
    statements: tuple[str, ...]
    executions: int
    setup: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    reset: str | None = None
    commits: bool = False
    preloaded: bool = False
    state: State = "cached"
    pages: int = 0

    @property
    def procedure_name(self) -> str:
        """What `procedure` makes."""
        return f"control_{self.name.replace('-', '_')}"


def setup_of(shapes: Iterable[Shape]) -> tuple[str, ...]:
    """What makes the tables of all these shapes, each of them once, in order."""
    return tuple(dict.fromkeys(statement for shape in shapes for statement in shape.setup))


def procedure(shape: Shape) -> str:
    """CREATE PROCEDURE name(first_number int, executions int, INOUT elapsed_ms float8).

    It executes the shape with the keys of numbers first_number and following. A session plans its
    statements once (`plan_cache_mode = force_generic_plan`).
    """
    body = " ".join(f"{_performed(statement)};" for statement in shape.statements)
    commit = " COMMIT;" if shape.commits else ""
    return (
        f"CREATE OR REPLACE PROCEDURE {shape.procedure_name}(first_number int, executions int, "
        "INOUT elapsed_ms float8) LANGUAGE plpgsql AS $body$ "
        "DECLARE started timestamptz := clock_timestamp(); call_key int; BEGIN "
        "FOR call_number IN first_number .. first_number + executions - 1 LOOP "
        f"call_key := call_number::bigint * {STEP} % {KEYS}; {body}{commit} END LOOP; "
        "elapsed_ms := extract(epoch FROM clock_timestamp() - started) * 1000; END $body$"
    )


def with_key(statement: str, key: str) -> str:
    """The statement with this text for its key."""
    return statement.replace(":key", key)


def _performed(statement: str) -> str:
    """As PL/pgSQL executes it: a SELECT without INTO is a PERFORM there, all rows of it."""
    text = with_key(statement, "call_key")
    return f"PERFORM {text.removeprefix('SELECT ')}" if text.startswith("SELECT ") else text


INDEX_SCANS = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
