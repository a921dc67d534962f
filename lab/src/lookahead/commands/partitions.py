"""`lookahead partitions`: tables with an interval policy, and whether they are looked after."""

import json

import click

from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.options import dsn_option, only_one
from lookahead.errors import LabError
from lookahead.formats import require_text
from lookahead.guarded_connection import asking
from lookahead.interval_policies import (
    Policy,
    Retired,
    policies_table,
    read_policies,
    retired_table,
)
from lookahead.report.tables import Table, to_csv, to_markdown
from lookahead.terminal import Terminal

# Of the JSON output; a change of meaning or name is a new version.
_SCHEMA, _SCHEMA_VERSION = "lookahead-partitions", 1


@click.command()
@dsn_option("Connection string of the database.")
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
    require_text(dsn or "", "--dsn")
    with asking(dsn or "", "lookahead partitions", "the view cannot be read") as connection:
        policies, retired = read_policies(connection)
    if as_json:
        context.terminal.raw(_document(policies, retired))
    elif markdown or csv:
        tables = _tables(policies, retired)
        context.terminal.raw((to_csv(tables) if csv else to_markdown(tables)).rstrip())
    else:
        _show(context.terminal, policies, retired)
    _judge(policies)


def _tables(policies: list[Policy], retired: list[Retired]) -> list[Table]:
    return [policies_table(policies), *([retired_table(retired)] if retired else [])]


def _document(policies: list[Policy], retired: list[Retired]) -> str:
    rows = [{**policy.row, "problem": policy.problem or None} for policy in policies]
    head = {"schema": _SCHEMA, "schema_version": _SCHEMA_VERSION}
    going = [{"parent": one.table, **one.row} for one in retired]
    return json.dumps({**head, "policies": rows, "retirement": going}, indent=2)


def _show(terminal: Terminal, policies: list[Policy], retired: list[Retired]) -> None:
    if not policies:
        terminal.result("no table of this database has an interval policy")
        return
    terminal.tables(_tables(policies, retired))
    by_hand = [policy.table for policy in policies if not policy.is_automatic]
    if not by_hand:
        terminal.result("maintenance runs by itself")
    elif len(by_hand) == len(policies):
        terminal.result("maintenance runs when somebody calls pg_lookahead_maintain_partitions()")
    else:
        terminal.result(
            f"maintenance runs by itself, but for {', '.join(by_hand)}: a policy from a dump waits "
            "for the first call of pg_lookahead_maintain_partitions()"
        )
    for policy in policies:
        for reason in policy.blocked:
            terminal.finding(
                "warning",
                f"{policy.table}: {reason}",
                "Maintenance tries again.",
            )


def _judge(policies: list[Policy]) -> None:
    wrong = [policy for policy in policies if policy.problem]
    if wrong:
        told = "; ".join(f"{policy.table}: {policy.problem}" for policy in wrong)
        hint = (
            "Maintenance runs by itself, and tries again. The view pg_lookahead_intervals and the "
            "server's log tell more."
            if all(policy.is_automatic for policy in wrong)
            else "CALL pg_lookahead_maintain_partitions() maintains them; is it called from time "
            "to time? The view pg_lookahead_intervals tells more."
        )
        raise LabError(f"{len(wrong)} of {len(policies)} tables need attention: {told}", hint)
