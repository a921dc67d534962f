"""What users' pages say about a server is what a server says: settings, and queries to paste."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_log import ServerFactory, WatchedServer

from extension.probes import QUIET, Connection, need_extension, scalar
from lookahead.extension import Stage

_TOP = Path(__file__).resolve().parents[3]
_WHO = {"user": "any user", "sighup": "configuration file"}


@pytest.fixture(scope="module")
def released(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    """A server with the library as users get it, which counts statements."""
    settings = {
        **QUIET,
        "pg_lookahead.enable_bulk_insert": "on",  # as by default
        "shared_preload_libraries": "pg_lookahead, pg_stat_statements",
        "session_preload_libraries": "",
    }
    with server_factory(stage=stage, settings=settings) as started:
        yield started


@pytest.fixture
def session(released: WatchedServer) -> Iterator[Connection]:
    with released.connect() as connection:
        yield connection


def _queries(page: str) -> list[str]:
    """The SQL of a page that begins with a select."""
    blocks = re.findall(r"^```sql\n(.*?)^```$", (_TOP / page).read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if block.startswith("SELECT")]


def test_table_of_settings(session: Connection) -> None:
    """Names, defaults, ranges and who may change them."""
    rows = session.execute(
        "SELECT name, current_setting(name), coalesce(min_val || ' to ' || max_val, ''), context "
        "FROM pg_settings WHERE name LIKE 'pg\\_lookahead.%'"
    ).fetchall()
    expected = {
        (name, f"`{value}`" if value else "empty", limits, _WHO[context])
        for name, value, limits, context in rows
    }
    table = re.findall(
        r"^\| \[`([\w.]+)`\]\(#\w+\) \| ([^|]*) \| ([^|]*?) ?\| ([^|]*) \|",
        (_TOP / "docs/settings.md").read_text(),
        re.MULTILINE,
    )
    assert len(table) == len(rows)
    assert set(table) == expected


def test_readme_says_what_is_on_by_default(session: Connection) -> None:
    """Inserts in batches are, whose figures it shows; what is off names its setting."""
    default = scalar(session, "SHOW pg_lookahead.enable_bulk_insert")
    readme = (_TOP / "README.md").read_text()
    assert re.findall(r"^\| INSERT of many rows, .* \| (\w+) \|$", readme, re.MULTILINE) == [
        default
    ]
    assert default == "on"
    off = re.findall(r"\| \[off\]\(docs/settings\.md#pg_lookahead(\w+)\) \|$", readme, re.MULTILINE)
    assert off == ["enable_late_start", "enable_interval_creation"]
    assert {scalar(session, f"SHOW pg_lookahead.{name}") for name in off} == {"off"}


def test_readme_asks_a_server(released: WatchedServer, session: Connection) -> None:
    """The three queries of "Will it help me?" find what they ask for, and nothing else."""
    need_extension(session, "pg_stat_statements")
    reads, tables, writes = _queries("README.md")
    session.execute(
        "CREATE TABLE big AS SELECT g AS k, repeat('x', 100) FROM generate_series(1, 9) g"
    )
    session.execute("SET effective_cache_size = 1")
    assert [str(row[0]) for row in session.execute(tables).fetchall()] == ["big"]
    session.execute("RESET effective_cache_size")
    assert session.execute(tables).fetchall() == []
    kept = [
        "CREATE UNIQUE INDEX ON big (k)",
        "REINDEX TABLE big",
        "ALTER TABLE big ADD PRIMARY KEY (k)",
        "CREATE TABLE other AS SELECT * FROM big",
        "INSERT INTO other SELECT * FROM big",
        "COPY big FROM '/dev/null'",
        "COPY public.big (k) FROM '/dev/null'",
    ]
    left = ["COPY (SELECT abs(k) FROM big) TO '/dev/null'", "COPY big TO '/dev/null'", "TABLE big"]
    session.execute("SELECT pg_stat_statements_reset()")
    for statement in (*kept, *left):
        session.execute(statement)
    assert {row[0] for row in session.execute(writes).fetchall()} == set(kept)
    session.execute("CREATE EXTENSION pg_lookahead")
    session.execute("SELECT pg_lookahead_evict('big'), pg_stat_statements_reset()")
    session.execute("SELECT count(*) FROM big")
    found = session.execute(reads).fetchall()
    assert [row[4] for row in found if row[0].startswith("SELECT count(*) FROM big")] == [1]


def test_install_finds_what_names_the_library(released: WatchedServer, session: Connection) -> None:
    query, _ = _queries("docs/install.md")
    session.execute("CREATE ROLE loader")
    session.execute("ALTER ROLE loader SET session_preload_libraries = 'pg_lookahead'")
    session.execute("ALTER DATABASE postgres SET pg_lookahead.gap_limit = 3")
    assert set(session.execute(query).fetchall()) == {
        ("server", "shared_preload_libraries = pg_lookahead, pg_stat_statements"),
        ("database (all), role loader", "session_preload_libraries=pg_lookahead"),
        ("database postgres, role (all)", "pg_lookahead.gap_limit=3"),
    }
