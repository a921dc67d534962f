"""`lookahead doctor`: is the library loaded here, what is in its way, what to do about it."""

from dataclasses import asdict

import click
from psycopg.conninfo import make_conninfo

from lookahead.commands.options import CommandContext, dsn_option, pass_command_context
from lookahead.doctor import Server, examine, judge
from lookahead.errors import UsageError
from lookahead.formats import require_text
from lookahead.guarded_connection import asking, is_connection_string


# As psql has it, -h is the host.
@click.command(context_settings={"help_option_names": ["--help"]})
@dsn_option("Connection string of the server.")
@click.option("-h", "--host", metavar="HOST", help="As psql has it, and so the next ones.")
@click.option("-p", "--port", metavar="PORT")
@click.option("-U", "--username", metavar="USER")
@click.option("-d", "--dbname", metavar="DATABASE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_command_context
def doctor(
    context: CommandContext,
    /,
    dsn: str | None,
    host: str | None,
    port: str | None,
    username: str | None,
    dbname: str | None,
    as_json: bool,
) -> None:
    """Say on one screen how the library stands on a server.

    Whether new sessions have it, what is left to PostgreSQL and why, memory against data, devices;
    a line each, and below it what to do. Works with any role, and says what that may not see.
    Nothing is changed. Name the server itself, not a connection pooler.

    Exit status: 0 whatever is found; 1 the server ended a query; 2 wrong options; 3 no connection.
    """
    place = {"host": host, "port": port, "user": username, "dbname": dbname}
    given = {name: value for name, value in place.items() if value is not None}
    if dsn is not None and given:
        raise UsageError("--dsn names the place already", "Leave -h, -p, -U and -d out.")
    if is_connection_string(dbname or ""):
        raise UsageError("-d takes the name of a database", "--dsn takes a connection string.")
    for text in (dsn, *given.values()):
        require_text(text or "", "the name of the server")
    failure = "the server does not answer as expected"
    with asking(dsn or make_conninfo(**given), "lookahead doctor", failure) as connection:
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
