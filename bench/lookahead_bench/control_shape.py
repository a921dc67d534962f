"""What a control is: tables, statements, executions per sample, the procedure that executes them.

A shape is executed in a loop within the server, by a procedure of its own, so that nothing of a
client or of planning dilutes what the executor pays. `:key` is an integer that goes through 0 ..
`KEYS` - 1 in large steps, the same ones in the same order for every arm. Every text is one line,
as a single-user server wants it.

Indexes of the tables are made before the rows are inserted: so all their pages are in shared
buffers, which an index build passes by.

Before one is measured its plan is verified to be the same in all arms, and its reads."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lookahead.check.plan_tree import plan_nodes
from lookahead.errors import LabError
from lookahead.experiments.arms import parse_lookahead
from lookahead.server import Session

KEYS = 200_000
# A prime that does not divide KEYS: neighbours in k, or in time, lie pages apart.
STEP = 7919
SMALL_ROWS = 20
ACCOUNTS = 100_000
# Page header 24, line pointer 4, tuple header 24, two integers 8, a long varlena's length 4: a pad
# of 188 bytes makes items of 228 bytes, of which 35 fit into 8192 - 24 and a 36th does not.
PAGE_ROWS, _PAGE_PAD = 35, 188

ROW = (
    "CREATE TABLE control_row (id int PRIMARY KEY, k int NOT NULL, pad text NOT NULL)",
    "CREATE INDEX control_row_k ON control_row (k)",
    f"INSERT INTO control_row SELECT id, (id::bigint * {STEP} % {KEYS})::int, repeat('x', 100) "
    f"FROM generate_series(0, {KEYS - 1}) AS id",
    "VACUUM (FREEZE, ANALYZE) control_row",
)
SMALL = (
    "CREATE TABLE control_small (id int NOT NULL, label text NOT NULL)",
    f"INSERT INTO control_small SELECT id, 'label ' || id FROM generate_series(0, "
    f"{SMALL_ROWS - 1}) AS id",
    "VACUUM (FREEZE, ANALYZE) control_small",
)
BANK = (
    # Room for new versions on each page: what an update leaves is pruned by the next one.
    "CREATE TABLE control_account (id int PRIMARY KEY, value int NOT NULL, pad text NOT NULL) "
    "WITH (fillfactor = 50)",
    f"INSERT INTO control_account SELECT id, 0, repeat('x', 80) FROM generate_series(0, "
    f"{ACCOUNTS - 1}) AS id",
    "CREATE TABLE control_teller (id int PRIMARY KEY, value int NOT NULL)",
    "INSERT INTO control_teller SELECT id, 0 FROM generate_series(0, 99) AS id",
    "CREATE TABLE control_branch (id int PRIMARY KEY, value int NOT NULL)",
    "INSERT INTO control_branch SELECT id, 0 FROM generate_series(0, 9) AS id",
    "CREATE TABLE control_history (account int, teller int, branch int, at timestamptz)",
    "VACUUM (FREEZE, ANALYZE) control_account, control_teller, control_branch",
)
LOG = ("CREATE TABLE control_log (id int, k int, pad text)",)
CHILD = (
    "CREATE TABLE control_child (parent int NOT NULL REFERENCES control_row, value int)",
    "CREATE INDEX control_child_parent ON control_child (parent)",
)
QUEUE = (
    "CREATE TABLE control_queue (id int PRIMARY KEY, pad text NOT NULL)",
    f"INSERT INTO control_queue SELECT id, 'x' FROM generate_series(0, {KEYS - 1}) AS id",
    "VACUUM (FREEZE, ANALYZE) control_queue",
)


def partitions(count: int) -> tuple[str, ...]:
    """A table of so many partitions, with KEYS rows in all."""
    name, rows = f"control_part_{count}", KEYS // count
    return (
        f"CREATE TABLE {name} (id int PRIMARY KEY, k int NOT NULL) PARTITION BY RANGE (id)",
        f"DO $do$ BEGIN FOR number IN 0 .. {count - 1} LOOP EXECUTE format('CREATE TABLE "
        f"{name}_%s PARTITION OF {name} FOR VALUES FROM (%s) TO (%s)', number, number * {rows}, "
        f"(number + 1) * {rows}); END LOOP; END $do$",
        f"CREATE INDEX ON {name} (k)",
        f"INSERT INTO {name} SELECT id, id FROM generate_series(0, {KEYS - 1}) AS id",
        f"ANALYZE {name}",
    )


def page_table(table: str, pages: int) -> tuple[str, ...]:
    """A table of so many pages; k is a random order of its rows."""
    rows = pages * PAGE_ROWS
    return (
        f"CREATE TABLE {table} (id int NOT NULL, k int NOT NULL, pad text NOT NULL)",
        f"ALTER TABLE {table} ALTER pad SET STORAGE PLAIN",
        f"INSERT INTO {table} SELECT id, hashint4(id), repeat('x', {_PAGE_PAD}) "
        f"FROM generate_series(0, {rows - 1}) AS id",
        # Every page all-visible and written out: scans of it write nothing.
        f"VACUUM (FREEZE, ANALYZE) {table}",
    )


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


_ATTACHED = ("eligible", "prefetch")
# Of a table's pages that must come from outside of shared buffers, where they are not in these.
_MIN_READ_SHARE = 0.99


def check_plans(sessions: Mapping[str, Session], shape: Shape) -> dict[str, str]:
    """Plans as the measured sessions have them, by arm, generic ones; queries are executed once.

    Returns what there is to show. LabError when the arms have different plans, or not the one that
    the shape is about, or when cached data was read or other data was not. The first arm is without
    our library, the last with it.
    """
    bare, ours = next(iter(sessions)), list(sessions)[-1]
    plans = {
        arm: list(_nodes(connection, shape, has_library=arm != bare))
        for arm, connection in sessions.items()
    }
    types = {arm: [str(node["Node Type"]) for node in nodes] for arm, nodes in plans.items()}
    found = types[ours]
    missing = set(shape.nodes) - set(found)
    if missing or any(others != found for others in types.values()):
        raise LabError(
            f"control {shape.name} cannot be compared: its plans are {types}",
            f"All arms need the same plan, with {', '.join(shape.nodes)}; report this.",
        )
    attached = [arm for arm, nodes in plans.items() if any(map(_is_attached, nodes))]
    if not set(attached) <= {ours}:
        raise LabError(f"control {shape.name}: attached in {', '.join(attached)}", "Report this.")
    # The first to execute finds shared buffers as they are meant to be.
    blocks = max((int(node.get("Shared Read Blocks", 0)) for node in plans[bare]), default=0)
    _check_read(shape, blocks)
    return {
        "plan": ", ".join(dict.fromkeys(found)) or "none",
        "attached in": ", ".join(attached) or "none",
        "blocks read": f"{blocks:,}",
    }


def check_loaded(connection: Session, shape: Shape, arm: str, *, wanted: bool) -> None:
    """LabError when the library is in a backend that should be without it, or the reverse."""
    row = connection.execute(
        "SELECT count(*) FROM pg_catalog.pg_settings WHERE name = 'pg_lookahead.enabled'"
    ).fetchone()
    assert row is not None
    if (row[0] > 0) is not wanted:
        raise LabError(f"control {shape.name}: the arm {arm!r} is not what it says", "Report this.")


def prepared_statements(shape: Shape) -> Iterator[tuple[str, str]]:
    """(PREPARE, EXECUTE) of each statement; names are free to be used again in a session."""
    for number, statement in enumerate(shape.statements):
        name = f"control_{number}"
        yield f"PREPARE {name}(int) AS {with_key(statement, '$1')}", f"EXECUTE {name}(1000)"


def _nodes(connection: Session, shape: Shape, *, has_library: bool) -> Iterator[dict[str, Any]]:
    # Without the library its option of EXPLAIN is unknown.
    option = "LOOKAHEAD, " if has_library else ""
    for prepare, execute in prepared_statements(shape):
        connection.execute(prepare)
        analyze = "ANALYZE, BUFFERS, " if " AS SELECT " in prepare else ""
        row = connection.execute(f"EXPLAIN ({option}{analyze}FORMAT JSON) {execute}").fetchone()
        connection.execute("DEALLOCATE ALL")
        assert row is not None
        yield from plan_nodes(row[0][0]["Plan"])


def _is_attached(node: dict[str, Any]) -> bool:
    group = node.get("Lookahead")
    return group is not None and parse_lookahead(group).status in _ATTACHED


def _check_read(shape: Shape, blocks: int) -> None:
    if (blocks > 0) if shape.state == "cached" else (blocks < _MIN_READ_SHARE * shape.pages):
        raise LabError(
            f"control {shape.name} read {blocks} blocks from outside shared buffers",
            "Is another session at work on this server? Repeat the run.",
        )
