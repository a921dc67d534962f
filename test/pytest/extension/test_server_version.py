"""A major release of PostgreSQL to which nothing is ported: all steps aside, and the rest works.

The library is built as it would be for such a release; the differences between releases themselves
are for the compiler to see.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import INDEX_SCANS_ONLY, QUIET, explain, lookahead, make_shuffled, scalar
from lookahead.extension import find_stage
from lookahead.installation import Installation

_CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def unported(server_factory: ServerFactory, installation: Installation) -> Iterator[WatchedServer]:
    """A server with a library to which no feature is ported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COPT", "-DLA_PORTED_FEATURES=0")
        stage = find_stage(installation)
    with server_factory(stage=stage, settings=QUIET) as server:
        with server.connect() as session:
            make_shuffled(session, "u", 20000)
        yield server


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        INDEX_SCANS_ONLY,
        "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off",
        "SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off",
    ],
    ids=["index", "bitmap", "seq"],
)
def test_scans_are_cores_and_explain_says_why(unported: WatchedServer, settings: str) -> None:
    with unported.connect() as session:
        session.execute(settings)
        found = lookahead(explain(session, "SELECT sum(k) FROM u WHERE k >= 100"))
        assert found == [{"Status": "stock", "Reason": "server version"}]


@pytest.mark.long
def test_a_feature_that_is_off_says_the_same(unported: WatchedServer) -> None:
    with unported.connect() as session:
        session.execute(f"{INDEX_SCANS_ONLY}; SET pg_lookahead.enabled = off")
        (part,) = lookahead(explain(session, "SELECT sum(k) FROM u WHERE k >= 100"))
        assert part["Reason"] == "server version"


@pytest.mark.long
def test_indexes_are_built_by_core_and_nothing_is_counted(unported: WatchedServer) -> None:
    with unported.connect() as session:
        session.execute("CREATE EXTENSION pg_lookahead; CREATE INDEX u_again ON u (k)")
        assert scalar(session, "SELECT sum(nodes + scans) FROM pg_stat_lookahead") == 0
        assert scalar(session, "SELECT relations FROM pg_lookahead_evict('u')") >= 1
        assert scalar(session, "SELECT count(*) FROM pg_lookahead_device") >= 1


@pytest.mark.parametrize(
    ("version", "refused"), [(170009, True), (180006, False), (190000, False), (200000, True)]
)
def test_unknown_majors_are_refused_at_compile_time(
    tmp_path: Path, version: int, refused: bool
) -> None:
    """Only the test of the version is compiled: there are no headers of other releases here."""
    header = (_CHECKOUT / "src/la_compat.h").read_text()
    before_includes = header[: header.index("#include")] + "#endif\n"
    source = tmp_path / "version.c"
    source.write_text(f"#define PG_VERSION_NUM {version}\n{before_includes}")
    done = subprocess.run(
        ["cc", "-fsyntax-only", source], capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) == refused
    assert ("needs the header files of PostgreSQL 18 or 19" in done.stderr) == refused
