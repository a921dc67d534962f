"""The arms of trials: which plan is forced, with which settings, by stock's code or ours.

A plan is chosen by switching the other ones off, never by a hint in the statement: all arms execute
the same text.
"""

from collections.abc import Mapping
from typing import Any

import psycopg

from lookahead.measurements import Arm, Library
from lookahead.server import PrivateServer

SEQ_SCAN, INDEX_SCAN, BITMAP_SCAN = "Seq Scan", "Index Scan", "Bitmap Heap Scan"
_PLAN_SETTINGS: dict[str, dict[str, str]] = {
    SEQ_SCAN: {"enable_indexscan": "off", "enable_bitmapscan": "off"},
    INDEX_SCAN: {"enable_seqscan": "off", "enable_bitmapscan": "off"},
    BITMAP_SCAN: {"enable_seqscan": "off", "enable_indexscan": "off"},
    "": {},
}
# effective_io_concurrency of PostgreSQL 18.
DEFAULT_CONCURRENCY = 16
# An empty list of libraries leaves ours out of the process altogether.
_NOT_LOADED = "-c session_preload_libraries="


def arm_of(
    name: str, plan: str, library: Library = "off", settings: Mapping[str, str] | None = None
) -> Arm:
    """An arm whose plan is forced; `settings` are those of its sessions beside that."""
    return Arm(name, library, plan, {**_PLAN_SETTINGS[plan], **(settings or {})})


def concurrency_arm(
    plan: str,
    value: int | None,
    library: Library = "off",
    settings: Mapping[str, str] | None = None,
) -> Arm:
    """An arm with this effective_io_concurrency, None for the server's default.

    Its name is such as "bitmap, 64", "bitmap, default" or "ours, 64"; ours at the default is
    "ours".
    """
    base = "ours" if library == "on" else {BITMAP_SCAN: "bitmap", SEQ_SCAN: "seq"}[plan]
    chosen = dict(settings or {})
    if value is None:
        name = base if library == "on" else f"{base}, default"
    else:
        name = f"{base}, {value}"
        chosen["effective_io_concurrency"] = str(value)
    return arm_of(name, plan, library, chosen)


def connect_arm(server: PrivateServer, arm: Arm) -> psycopg.Connection[Any]:
    """A session of the arm."""
    if arm.library == "not loaded":
        connection = server.connect(options=_NOT_LOADED)
    else:
        connection = server.connect()
        connection.execute(f"SET pg_lookahead.enabled = {arm.library}")
    for name, value in arm.settings.items():
        connection.execute(f"SET {name} = '{value}'")
    return connection
