"""`lookahead partitions`: tables with an interval policy, and whether they are looked after.

The extension's view has a row for each table with a policy; its columns are described in
docs/intervals.md.
"""

from collections.abc import Callable
from typing import Any

import click

from lookahead.commands.options import (
    SERVER_COMMAND,
    CommandContext,
    only_one,
    pass_command_context,
    server_options,
)
from lookahead.errors import LabError, UnavailableError
from lookahead.extension import LIBRARY
from lookahead.formats import NOTHING, one_line
from lookahead.guarded_connection import GuardedConnection, asking, find_member
from lookahead.report.tables import Cells, Table, table_of, to_csv, to_markdown
from lookahead.terminal import Terminal

_VIEW = "pg_lookahead_intervals"
_RETIREMENT = "pg_lookahead_retirement"
_SECONDS = 19  # of a time as ISO 8601 has it, up to the seconds

_Row = dict[str, Any]


@click.command(context_settings=SERVER_COMMAND)
@server_options("Connection string of the database.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--csv", is_flag=True, help="Print the table as CSV.")
@pass_command_context
def partitions(
    context: CommandContext, /, dsn: str | None, as_json: bool, markdown: bool, csv: bool
) -> None:
    """Show the tables of a database that have an interval policy.

    How many partitions each has, how far they reach ahead, what the last maintenance found, and
    which partitions the next one takes out. Nothing is changed.

    Exit status: 0 all is well, also without any policy; 1 a table is behind its policy, its
    maintenance failed, or that cannot be told; 2 wrong options; 3 no connection or no extension.
    """
    only_one({"json": as_json, "markdown": markdown, "csv": csv}, "Name one.")
    with asking(dsn or "", "lookahead partitions", "the view cannot be read") as connection:
        policies, retired = _read(connection)
    if as_json:
        found = {"policies": policies, "retirement": retired}
        context.terminal.document("lookahead-partitions", 1, found)
    elif markdown or csv:
        tables = _tables(policies, retired)
        context.terminal.raw((to_csv(tables) if csv else to_markdown(tables)).rstrip())
    else:
        _show(context.terminal, policies, retired)
    _judge(policies)


def _read(connection: GuardedConnection) -> tuple[list[_Row], list[_Row]]:
    """The policies of the database, each with its `problem`, and the partitions that go next.

    LabError where there is no such view. What goes next is not told of tables that are locked or do
    not fit their policy.
    """
    view = find_member(connection, LIBRARY, "view", _VIEW)
    if view is None:
        raise UnavailableError(
            f"this database has no view {_VIEW} of the extension",
            "Name the database with -d or PGDATABASE; CREATE EXTENSION pg_lookahead makes it.",
        )
    query = f"SELECT pg_catalog.to_jsonb(v) FROM {view.schema}.{_VIEW} v ORDER BY v.parent::text"
    policies = [row for (row,) in connection.execute(query.encode(), ())]
    query = f"""
        SELECT v.parent::text, pg_catalog.to_jsonb(r) FROM {view.schema}.{_VIEW} v
        CROSS JOIN LATERAL {view.schema}.{_RETIREMENT}(v.parent) r
        WHERE v.retention IS NOT NULL AND v.partitions IS NOT NULL ORDER BY v.parent::text"""
    retired = [{"parent": parent, **row} for parent, row in connection.execute(query.encode(), ())]
    return [{**row, "problem": _problem(row)} for row in policies], retired


def _problem(policy: _Row) -> str | None:
    """Why somebody should look at it; None when all is well."""
    if policy["last_sqlstate"]:
        message = policy["last_error"] or "the message is for the table's owner"
        return f"error {policy['last_sqlstate']}: {one_line(message)}"
    if policy["ahead"] is None:
        return "not known: the table or a partition is locked, or the policy does not fit it"
    if policy["behind"]:
        return f"behind: no partition from {one_line(policy['wanted'])} on"
    return None


def _cell(value: object) -> str:
    return NOTHING if value is None else one_line(str(value))


def _of(column: str) -> Callable[[_Row], str]:
    return lambda row: _cell(row[column])


_POLICY: Cells[_Row] = (
    *((name, _of(name)) for name in ("parent", "step", "oldest", "newest")),
    ("next run", lambda row: _cell(row["next_run"])[:_SECONDS]),
    ("state", lambda row: row["problem"] or "good"),
)
_REACH: Cells[_Row] = (
    ("partitions", _of("partitions")),
    ("ahead", _of("ahead")),
    ("wanted", _of("premake")),
)
_RETIRED: Cells[_Row] = (
    ("parent", _of("parent")),
    ("partition", _of("partition")),
    ("from", _of("lower_bound")),
    ("to", _of("upper_bound")),
    ("action", _of("action")),
    ("why", _of("reason")),
)


def _tables(policies: list[_Row], retired: list[_Row]) -> list[Table]:
    caption = "Ahead: partitions after the one in use, of those that the policy wants"
    tables = [table_of("Tables with an interval policy", policies, _POLICY, _REACH, caption)]
    if retired:
        tables.append(table_of("What the next maintenance takes out", retired, _RETIRED))
    return tables


def _show(terminal: Terminal, policies: list[_Row], retired: list[_Row]) -> None:
    if not policies:
        terminal.result("no table of this database has an interval policy")
        return
    terminal.tables(_tables(policies, retired))
    by_hand = [_cell(row["parent"]) for row in policies if not row["automatic"]]
    if not by_hand:
        terminal.result("maintenance runs by itself")
    elif len(by_hand) == len(policies):
        terminal.result("maintenance runs when somebody calls pg_lookahead_maintain_partitions()")
    else:
        terminal.result(
            f"maintenance runs by itself, but for {', '.join(by_hand)}: a policy that came "
            "with a dump or a copy of a database waits for the first call of "
            "pg_lookahead_maintain_partitions()"
        )
    for row in policies:
        for reason in (row["blocked"] or "").splitlines():
            text = f"{_cell(row['parent'])}: {one_line(reason)}"
            terminal.finding("warning", text, "Maintenance tries again.")


def _judge(policies: list[_Row]) -> None:
    wrong = [row for row in policies if row["problem"]]
    if wrong:
        told = "; ".join(f"{_cell(row['parent'])}: {row['problem']}" for row in wrong)
        hint = (
            "Maintenance runs by itself, and tries again. The view pg_lookahead_intervals and the "
            "server's log tell more."
            if all(row["automatic"] for row in wrong)
            else "CALL pg_lookahead_maintain_partitions() maintains them; is it called from time "
            "to time? The view pg_lookahead_intervals tells more."
        )
        raise LabError(f"{len(wrong)} of {len(policies)} tables need attention: {told}", hint)
