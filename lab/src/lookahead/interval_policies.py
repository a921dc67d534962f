"""What a server tells of its interval policies, and what is wrong with one.

The extension's view has a row for each table with a policy; its columns are described in
docs/intervals.md.
"""

from dataclasses import dataclass
from typing import Any

from lookahead.errors import UnavailableError
from lookahead.extension import LIBRARY
from lookahead.formats import NOTHING, one_line
from lookahead.guarded_connection import GuardedConnection, find_member
from lookahead.report.tables import Table, table_of

_VIEW = "pg_lookahead_intervals"
_TITLE = "Tables with an interval policy"
_SECONDS = 19  # of a time as ISO 8601 has it, up to the seconds


@dataclass(frozen=True)
class Policy:
    """A row of the view, by column."""

    row: dict[str, Any]

    @property
    def table(self) -> str:
        """Its name, with the schema."""
        return one_line(str(self.row["parent"]))

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

    def cell(self, column: str) -> str:
        """A column as it stands in a table."""
        value = self.row[column]
        return NOTHING if value is None else one_line(str(value))

    def time(self, column: str) -> str:
        """A column that is a time, to the second."""
        value = self.row[column]
        return NOTHING if value is None else str(value)[:_SECONDS]


def read_policies(connection: GuardedConnection) -> list[Policy]:
    """All that the server's database has; LabError where it has no such view."""
    view = find_member(connection, LIBRARY, "view", _VIEW)
    if view is None:
        raise UnavailableError(
            f"this database has no view {_VIEW} of the extension",
            "Name the database with --dsn or PGDATABASE; CREATE EXTENSION pg_lookahead makes it.",
        )
    query = f"SELECT pg_catalog.to_jsonb(v) FROM {view.schema}.{_VIEW} v ORDER BY v.parent::text"
    return [Policy(row[0]) for row in connection.execute(query.encode(), ()).fetchall()]


def policies_table(policies: list[Policy]) -> Table:
    """A row for each table."""
    return table_of(
        _TITLE,
        policies,
        labels=(
            ("parent", lambda policy: policy.table),
            ("step", lambda policy: policy.cell("step")),
            ("oldest", lambda policy: policy.cell("oldest")),
            ("newest", lambda policy: policy.cell("newest")),
            ("next run", lambda policy: policy.time("next_run")),
            ("state", lambda policy: policy.problem or "good"),
        ),
        numbers=(
            ("partitions", lambda policy: policy.cell("partitions")),
            ("ahead", lambda policy: policy.cell("ahead")),
            ("wanted", lambda policy: policy.cell("premake")),
        ),
        caption="Ahead: partitions after the one in use, of those that the policy wants",
    )
