"""`lookahead doctor`: is the library loaded here, what is in its way, what to do about it."""

from dataclasses import asdict

import click

from lookahead.commands.options import (
    SERVER_COMMAND,
    CommandContext,
    pass_command_context,
    server_options,
)
from lookahead.doctor import Server, examine, judge
from lookahead.guarded_connection import asking


@click.command(context_settings=SERVER_COMMAND)
@server_options("Connection string of the server.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_command_context
def doctor(context: CommandContext, /, dsn: str | None, as_json: bool) -> None:
    """Say on one screen how the library stands on a server.

    Whether new sessions have it, what is left to PostgreSQL and why, memory against data, devices;
    a line each, and below it what to do. Works with any role, and says what that may not see.
    Nothing is changed. Name the server itself, not a connection pooler.

    Exit status: 0 whatever is found; 1 the server ended a query; 2 wrong options; 3 no connection.
    """
    failure = "the server does not answer as expected"
    with asking(dsn or "", "lookahead doctor", failure) as connection:
        server = examine(connection)
    _show(context, server, as_json=as_json)


def _show(context: CommandContext, server: Server, *, as_json: bool) -> None:
    lines = list(judge(server))
    if as_json:
        found = {"server": asdict(server), "lines": [asdict(line) for line in lines]}
        context.terminal.document("lookahead-doctor", 1, found)
        return
    for line in lines:
        context.terminal.result(f"{line.level:<8}{line.text}")
        if line.remedy:
            context.terminal.result(f"        {line.remedy}")
