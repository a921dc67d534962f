"""Where everything is in shared buffers, each plan node touches the buffers that it does in stock.

The statements are those whose instructions `make cost-of-nothing` counts, without the long ones.
"""

from collections.abc import Iterator

import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import QUIET, Connection, explain, nodes
from lookahead.extension import LIBRARY, Stage
from lookahead_bench.control_shape import Shape, setup_of, with_key
from lookahead_bench.control_shapes import CACHED_SHAPES
from lookahead_bench.control_shapes_more import MORE_CACHED_SHAPES

# Of one sample in the experiment: what is executed less often takes long.
_SHORT = 100
_SHAPES = {
    shape.name: shape
    for shape in (*CACHED_SHAPES, *MORE_CACHED_SHAPES)
    if not shape.preloaded
    and shape.executions > _SHORT
    and shape.statements[0].startswith("SELECT")
    and shape.reset is None
}
_KEYS = (0, 777, 90_000)
NodeBuffers = tuple[str, int, int]


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    """A server with all tables in shared buffers, whose sessions choose the library themselves."""
    settings = {
        **QUIET,
        "shared_buffers": "512MB",
        "session_preload_libraries": "",
        # Functions plan their statements once.
        "plan_cache_mode": "force_generic_plan",
    }
    with server_factory(stage=stage, settings=settings) as started:
        with started.connect() as connection:
            for statement in setup_of(_SHAPES.values()):
                connection.execute(statement)
        yield started


@pytest.mark.parametrize("name", _SHAPES)
def test_cached_statements_touch_the_buffers_of_stock(server: WatchedServer, name: str) -> None:
    shape = _SHAPES[name]
    with server.connect() as connection:
        stock = _touched(connection, shape)
    with server.connect(options=f"-c session_preload_libraries={LIBRARY}") as connection:
        loaded = _touched(connection, shape)
    assert {node for node, _, _ in stock} >= set(shape.nodes)
    assert loaded == stock


def _touched(connection: Connection, shape: Shape) -> list[NodeBuffers]:
    """What each node hit and read, when everything it needs had been read before."""
    for setting, value in shape.settings.items():
        connection.execute(f"SET {setting} = {value}")
    statements = [with_key(text, str(key)) for text in shape.statements for key in _KEYS]
    for statement in statements:
        connection.execute(statement)
    return [
        (node["Node Type"], node["Shared Hit Blocks"], node["Shared Read Blocks"])
        for statement in statements
        for node in nodes(explain(connection, statement, "ANALYZE, BUFFERS"))
    ]
