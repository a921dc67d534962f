"""What a server tells of its interval policies, and what is wrong with one.

The extension's view has a row for each table with a policy; its columns are described in
docs/intervals.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lookahead.errors import UnavailableError
from lookahead.extension import LIBRARY
from lookahead.formats import NOTHING, one_line, server_size
from lookahead.guarded_connection import GuardedConnection, find_member
from lookahead.report.tables import Table, table_of

_VIEW = "pg_lookahead_intervals"
_RETIREMENT = "pg_lookahead_retirement"
_TITLE = "Tables with an interval policy"
_RETIRED_TITLE = "What the next maintenance takes out"
_SECONDS = 19  # of a time as ISO 8601 has it, up to the seconds


@dataclass(frozen=True)
class Policy:
    """A row of the view, by column."""

    row: dict[str, Any]

    @property
    def table(self) -> str:
        return _cell(self.row["parent"])

    @property
    def problem(self) -> str:
        """Why somebody should look at it; "" when all is well."""
        if self.row["last_sqlstate"]:
            message = self.row["last_error"] or "the message is for the table's owner"
            return f"error {self.row['last_sqlstate']}: {one_line(message)}"
        if self.row["ahead"] is None:
            return "not known: the table is locked, or the policy does not fit it"
        if self.row["behind"]:
            return f"behind: no partition from {one_line(self.row['wanted'])} on"
        return ""

    @property
    def blocked(self) -> tuple[str, ...]:
        """Old partitions that stay, each with the reason."""
        return tuple(map(one_line, (self.row["blocked"] or "").splitlines()))

    @property
    def is_automatic(self) -> bool:
        """Whether the server maintains its tables without anybody's call."""
        return bool(self.row["automatic"])


@dataclass(frozen=True)
class Retired:
    """A partition that the next maintenance would take out: a row of the extension's function."""

    table: str
    row: dict[str, Any]


def _cell(value: object) -> str:
    return NOTHING if value is None else one_line(str(value))


def _of(column: str) -> Callable[[Policy | Retired], str]:
    return lambda one: _cell(one.row[column])


def read_policies(connection: GuardedConnection) -> tuple[list[Policy], list[Retired]]:
    """All that the server's database has; LabError where it has no such view.

    What goes next is not told of tables that are locked or do not fit their policy.
    """
    view = find_member(connection, LIBRARY, "view", _VIEW)
    if view is None:
        raise UnavailableError(
            f"this database has no view {_VIEW} of the extension",
            "Name the database with --dsn or PGDATABASE; CREATE EXTENSION pg_lookahead makes it.",
        )
    query = f"SELECT pg_catalog.to_jsonb(v) FROM {view.schema}.{_VIEW} v ORDER BY v.parent::text"
    policies = [Policy(row[0]) for row in connection.execute(query.encode(), ()).fetchall()]
    query = f"""
        SELECT v.parent::text, pg_catalog.to_jsonb(r) FROM {view.schema}.{_VIEW} v
        CROSS JOIN LATERAL {view.schema}.{_RETIREMENT}(v.parent) r
        WHERE v.retention IS NOT NULL AND v.ahead IS NOT NULL ORDER BY v.parent::text"""
    rows = connection.execute(query.encode(), ()).fetchall()
    return policies, [Retired(one_line(row[0]), row[1]) for row in rows]


def policies_table(policies: list[Policy]) -> Table:
    """A row for each table."""
    return table_of(
        _TITLE,
        policies,
        labels=(
            ("parent", lambda policy: policy.table),
            *((name, _of(name)) for name in ("step", "oldest", "newest")),
            ("next run", lambda policy: _cell(policy.row["next_run"])[:_SECONDS]),
            ("state", lambda policy: policy.problem or "good"),
        ),
        numbers=(
            ("partitions", _of("partitions")),
            ("ahead", _of("ahead")),
            ("wanted", _of("premake")),
        ),
        caption="Ahead: partitions after the one in use, of those that the policy wants",
    )


def retired_table(retired: list[Retired]) -> Table:
    """A row for each partition."""
    return table_of(
        _RETIRED_TITLE,
        retired,
        labels=(
            ("parent", lambda one: one.table),
            ("partition", _of("partition")),
            ("from", _of("lower_bound")),
            ("to", _of("upper_bound")),
            ("action", _of("action")),
            ("why", _of("reason")),
        ),
        numbers=(
            (
                "size",
                lambda one: NOTHING if one.row["size"] is None else server_size(one.row["size"]),
            ),
        ),
    )
