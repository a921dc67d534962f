"""Plans over indexes that do not exist, which HypoPG and advisors have explained."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from compiling import loadable_library
from server_log import ServerFactory, WatchedServer

from extension.probes import QUIET, Plan, explain, nodes
from lookahead.extension import Stage
from lookahead.installation import Installation

_SOURCE = Path(__file__).with_name("hypothetical_index.c")
_INDEXES_AND_MERGES = ";".join(
    f"SET enable_{other} = off"
    for other in ("seqscan", "bitmapscan", "sort", "hashjoin", "nestloop", "material")
)


@pytest.fixture(scope="module")
def advisor(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that shows such indexes, built for the server under test."""
    return loadable_library(_SOURCE, tmp_path_factory, installation)


@pytest.fixture(scope="module")
def server(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    settings = {**QUIET, "session_preload_libraries": ""}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute(
                "CREATE TABLE h AS SELECT i AS k, i % 7 AS v FROM generate_series(1, 5000) i;"
                "CREATE INDEX ON h (k)"
            )
            session.execute("VACUUM ANALYZE h")
        yield started


@pytest.mark.parametrize(
    ("statement", "reasons"),
    [
        ("SELECT * FROM h WHERE k < 9", ["index access method"]),
        ("SELECT k FROM h WHERE k < 9", ["index-only scan"]),
        ("UPDATE h SET v = 0 WHERE k = 9", ["index access method"]),
        (
            "SELECT * FROM h a JOIN (SELECT k FROM h) b USING (k)",
            ["index access method", "mark and restore"],
        ),
    ],
)
@pytest.mark.parametrize("ours_first", [True, False])
def test_plans_are_explained(
    server: WatchedServer, advisor: Path, ours_first: bool, statement: str, reasons: list[str]
) -> None:
    """Nothing is looked up of an index that core does not look up either."""
    libraries = ["pg_lookahead", str(advisor)]
    with server.connect() as session:
        for library in libraries if ours_first else reversed(libraries):
            session.execute(f"LOAD '{library}'")
        session.execute(_INDEXES_AND_MERGES)
        plan = explain(session, statement, "LOOKAHEAD")
        assert _scans(plan) == [
            ("hypothetical", {"Status": "stock", "Reason": reason}) for reason in reasons
        ]
        session.execute("SET pg_lookahead.enabled = off")
        assert _bare(plan) == _bare(explain(session, statement, "LOOKAHEAD"))


def _scans(plan: Plan) -> list[tuple[str, object]]:
    return [(node["Index Name"], node["Lookahead"]) for node in nodes(plan) if "Index Name" in node]


def _bare(plan: Plan) -> list[dict[str, object]]:
    """What PostgreSQL itself says of each node."""
    return [
        {k: v for k, v in node.items() if k not in ("Lookahead", "Plans")} for node in nodes(plan)
    ]
