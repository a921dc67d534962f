"""`lookahead check STATEMENT`: would the library help this statement, here?"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import psycopg

from lookahead.check.advice import Advice, advise, plan_nodes
from lookahead.check.coldness import cold_maker
from lookahead.check.display import advice_lines, measurement_lines
from lookahead.check.facts import collect_facts
from lookahead.check.measure import Measurement, measure
from lookahead.check.statement import explain, read_only
from lookahead.check.target import Target, connection_lost, open_target
from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.options import library_option, pg_config_option, seed_option
from lookahead.errors import ExitStatus, LabError

# Of the JSON output; a change of meaning or name is a new version.
_SCHEMA, _SCHEMA_VERSION = "lookahead-check", 1
_DEFAULT_PAIRS = 6
_MAX_PAIRS = 1000


@dataclass(frozen=True)
class CheckRequest:
    """The options; see their help."""

    statement: str
    dsn: str | None
    directory: Path | None
    pg_config: Path | None
    library: Path | None
    measures: bool
    cold: bool
    repetitions: int
    seed: int
    as_json: bool

    def check_consistency(self) -> None:
        """LabError when options contradict each other."""
        if self.cold and not self.measures:
            raise LabError(
                "--cold needs --measure",
                "Nothing is executed without it.",
                status=ExitStatus.USAGE,
            )
        if self.dsn is not None and self.directory is not None:
            raise LabError(
                "--dsn and --directory exclude each other",
                "Name one server.",
                status=ExitStatus.USAGE,
            )


@click.command()
@click.argument("statement")
@click.option(
    "--dsn",
    metavar="STRING",
    help="Connection string of the server. Default: libpq's rules (PGHOST, PGDATABASE, ...).",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Instead the private server that `lookahead run ... --keep` has kept there.",
)
@pg_config_option("pg_config of the private server's PostgreSQL 18.")
@library_option("Folder of the pg_lookahead to load into the private server.")
@click.option(
    "--measure",
    "measures",
    is_flag=True,
    help="Execute it with the library on and off in alternation, in read-only transactions.",
)
@click.option(
    "--cold",
    is_flag=True,
    help="With --measure: empty the caches of its tables before each execution. Needs "
    "pg_lookahead_evict() or a private server.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1, _MAX_PAIRS),
    default=_DEFAULT_PAIRS,
    show_default=True,
    help="With --measure: executions with each setting.",
)
@seed_option("Seed of the interval.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_command_context
def check(context: CommandContext, /, **options: Any) -> None:
    """Would the library help this statement on this server?

    Shows for each scan of its plan what the library would do, or why the scan stays with
    PostgreSQL. The statement is not executed unless --measure is given. A STATEMENT of "-" is read
    from standard input.

    Exit status: 0 whatever the verdict; 1 the execution failed, or the rows differ; 2 the server
    refuses the statement, or it writes and was to be measured; 3 no connection, no library.
    """
    request = CheckRequest(**options)
    request.check_consistency()
    text = request.statement
    if text == "-":
        text = sys.stdin.read()
    try:
        advice, measurement = _check(request, text)
    except psycopg.OperationalError as error:
        raise connection_lost(error) from None
    _show(context, text, advice, measurement, as_json=request.as_json)


def _check(request: CheckRequest, statement: str) -> tuple[Advice, Measurement | None]:
    place = (request.dsn, request.directory, request.pg_config, request.library)
    with open_target(*place) as target:
        plan, advice = _advise(target, statement)
        if not request.measures:
            return advice, None
        _refuse_to_write(plan)
        maker = cold_maker(target, plan) if request.cold else None
        return advice, measure(target, statement, request.repetitions, request.seed, maker)


def _advise(target: Target, statement: str) -> tuple[dict[str, Any], Advice]:
    with target.connect() as connection, read_only(connection):
        plan: dict[str, Any] = explain(connection, statement, "VERBOSE, LOOKAHEAD")["Plan"]
        return plan, advise(plan, collect_facts(connection, plan))


def _refuse_to_write(plan: dict[str, Any]) -> None:
    if any(node["Node Type"] == "ModifyTable" for node in plan_nodes(plan)):
        raise LabError(
            "the statement writes: its plan modifies a table",
            "Only statements that read are executed; leave --measure out.",
            status=ExitStatus.USAGE,
        )


def _show(
    context: CommandContext,
    statement: str,
    advice: Advice,
    measurement: Measurement | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        document = {
            "schema": _SCHEMA,
            "schema_version": _SCHEMA_VERSION,
            "statement": statement,
            **asdict(advice),
            "measurement": asdict(measurement) if measurement else None,
        }
        context.terminal.raw(json.dumps(document, indent=2))
        return
    for line in advice_lines(advice):
        context.terminal.result(line)
    for line in measurement_lines(measurement) if measurement else ():
        context.terminal.result(line)
