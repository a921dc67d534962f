"""The data directory that every count starts from a copy of: tables, procedures, checked plans."""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from lookahead.errors import LabError
from lookahead.extension import Stage
from lookahead.installation import Installation
from lookahead.server import PrivateServer
from lookahead_bench.control_shape import Shape, procedure, setup_of, with_key

# Nothing in the background, nothing that depends on the clock, no wait for the disk.
_SETTINGS = {
    "autovacuum": "off",
    "checkpoint_timeout": "1d",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "synchronous_commit": "off",
    # Each count says for itself whether it loads the library.
    "session_preload_libraries": "",
}
# Every count copies the directory, WAL included.
_INITDB_OPTIONS = ("--wal-segsize=1",)


def prepared_server(
    installation: Installation, stage: Stage, shapes: Sequence[Shape]
) -> PrivateServer:
    """A server that has been stopped in good order and holds what the shapes need.

    Raises LabError when a plan is not the one that the shape is about.
    """
    server = PrivateServer(
        installation, stage=stage, settings=_SETTINGS, initdb_options=_INITDB_OPTIONS
    )
    try:
        server.start({"min_wal_size": "2MB", "max_wal_size": "64MB"})
        with server.connect() as connection:
            for statement in setup_of(shapes):
                connection.execute(statement)
            for shape in shapes:
                _check_plans(connection, shape)
                connection.execute(procedure(shape))
        server.stop()
    except BaseException:
        server.close("immediate")
        raise
    return server


def _check_plans(connection: psycopg.Connection[Any], shape: Shape) -> None:
    found: set[str] = set()
    with connection.transaction(force_rollback=True):
        for name, value in shape.settings.items():
            connection.execute(f"SET LOCAL {name} = {value}")
        for statement in shape.statements:
            explain = f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {with_key(statement, '$1')}"
            # Bytes and no parameters: $1 is the server's, not a placeholder of the driver.
            row = connection.execute(explain.encode()).fetchone()
            assert row is not None
            found.update(_node_types(row[0][0]["Plan"]))
    missing = [node for node in shape.nodes if node not in found]
    if missing:
        raise LabError(
            f'the plans of "{shape.name}" lack {", ".join(missing)}: {", ".join(sorted(found))}',
            "The shape would count something else; this is a bug, report it.",
        )


def _node_types(plan: dict[str, Any]) -> Iterator[str]:
    yield plan["Node Type"]
    for child in plan.get("Plans", ()):
        yield from _node_types(child)
