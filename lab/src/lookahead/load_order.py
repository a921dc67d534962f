"""Libraries whose place in the order of loading decides whether a COPY is inserted in batches.

A library that looks at utility commands, and was loaded before pg_lookahead, would not see a COPY
that pg_lookahead executes; so such a COPY is PostgreSQL's.
"""

from lookahead.extension import LIBRARY
from lookahead.guarded_connection import GuardedConnection

# Nothing tells whether a library looks at commands. These do; of others pg_stat_lookahead tells
# afterwards, as fallbacks of inserts by the reason "other extension".
_WATCHERS = frozenset(
    ("citus", "pg_stat_monitor", "pg_stat_statements", "pgaudit", "sepgsql", "timescaledb")
)
# With another one before it the server does not start.
_FIRST = "citus"
# In the order in which this session got them.
_LOADED = """
    SELECT pg_catalog.regexp_replace(file_name, '[.]so$', ''), version
    FROM pg_catalog.pg_get_loaded_modules() WITH ORDINALITY AS loaded (m, version, file_name, place)
    ORDER BY place"""


def loaded_libraries(connection: GuardedConnection) -> dict[str, str | None]:
    """The libraries of the session with their versions, in the order of loading."""
    return dict(connection.execute(_LOADED).fetchall())


def watchers_before(connection: GuardedConnection) -> tuple[str, ...]:
    """Which of the libraries that look at commands this session has loaded before ours."""
    loaded = list(loaded_libraries(connection))
    ahead = loaded[: loaded.index(LIBRARY)] if LIBRARY in loaded else loaded
    return tuple(name for name in ahead if name in _WATCHERS)


def way_out(watchers: tuple[str, ...]) -> str:
    """What can be done about those that came first."""
    if _FIRST in watchers:
        return f"{_FIRST} insists on being first, so COPY stays PostgreSQL's"
    return f"name {LIBRARY} first in shared_preload_libraries (docs/install.md: order of libraries)"
