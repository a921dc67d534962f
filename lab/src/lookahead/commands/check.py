"""`lookahead check STATEMENT`: would the library help this statement, here?"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click
import psycopg

from lookahead.check.advice import Advice, advice_lines
from lookahead.check.measure import Measurement, MeasurePlan, measure, measurement_lines
from lookahead.check.opinion import advise_on
from lookahead.check.plan_tree import plan_nodes
from lookahead.check.statement import (
    PLANNING_LIMIT_S,
    has_parameters,
    limit_time,
    read_only,
    volatile_functions,
)
from lookahead.check.target import Target, cold_maker
from lookahead.check.workload import judge_top, workload_lines
from lookahead.commands.context import CommandContext, pass_command_context
from lookahead.commands.options import (
    dsn_option,
    kind_option,
    seed_option,
)
from lookahead.errors import UsageError
from lookahead.experiments.experiment import Count, Number
from lookahead.formats import one_line, require_text
from lookahead.guarded_connection import connection_lost
from lookahead.stats import VERDICT_PAIRS

# Of the JSON output; a change of meaning or name is a new version.
_SCHEMA, _SCHEMA_VERSION = "lookahead-check", 3
# Twice the fewest that allow a verdict; of a long statement the time limit leaves fewer.
_DEFAULT_PAIRS = 2 * VERDICT_PAIRS
_MAX_STATEMENT_BYTES = 16 << 20
_MAX_PAIRS, _MAX_TOP = 1000, 1000
_DEFAULT_TIME_LIMIT_S = 60.0
_MAX_TIME_LIMIT_S = 86400.0


@dataclass(frozen=True)
class CheckRequest:
    """The options; see their help."""

    statement: str | None
    dsn: str | None
    top: int | None
    measures: bool
    allows_volatile: bool
    cold: bool
    repetitions: int
    time_limit: float
    seed: int
    as_json: bool

    def check_consistency(self) -> None:
        for option, given in (("--cold", self.cold), ("--allow-volatile", self.allows_volatile)):
            if given and not self.measures:
                raise UsageError(f"{option} needs --measure", "Nothing is executed without it.")
        if (self.statement is None) == (self.top is None):
            raise UsageError(
                "name either a statement or --top",
                "Such as `lookahead check 'SELECT ...'` or `lookahead check --top 20`.",
            )
        if self.top is not None and self.measures:
            raise UsageError("--top measures nothing", "Leave --measure out.")


@click.command()
@click.argument("statement", required=False)
@dsn_option("Connection string of the server.")
@click.option(
    "--top",
    type=kind_option(Count(1, _MAX_TOP)),
    metavar="N",
    help="Instead of a STATEMENT: those of pg_stat_statements that read most in this database.",
)
@click.option(
    "--measure",
    "measures",
    is_flag=True,
    help="Execute it with the library on and off in alternation, in read-only transactions.",
)
@click.option(
    "--allow-volatile",
    "allows_volatile",
    is_flag=True,
    help="With --measure: also a statement that calls volatile functions or reads foreign tables.",
)
@click.option(
    "--cold",
    is_flag=True,
    help="With --measure: empty the caches of its tables before each execution. Needs "
    "pg_lookahead_evict().",
)
@click.option(
    "--repetitions",
    type=kind_option(Count(1, _MAX_PAIRS)),
    default=_DEFAULT_PAIRS,
    show_default=True,
    help="With --measure: pairs of executions, one with the library off and one with it on. One "
    "more pair compares the rows.",
)
@click.option(
    "--time-limit",
    type=kind_option(Number(_MAX_TIME_LIMIT_S)),
    default=_DEFAULT_TIME_LIMIT_S,
    show_default=True,
    metavar="SECONDS",
    help="With --measure: for all executions together. The one under way is cancelled, and the "
    "pairs that are finished count.",
)
@seed_option("Seed of the interval.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_command_context
def check(context: CommandContext, /, **options: Any) -> None:
    """Would the library help this statement on this server?

    The first line says YES, WHEN COLD, LITTLE, NO or DON'T KNOW, and why. Then come the scans of
    the plan: what the library would do, or why the scan stays with PostgreSQL; and how many pages
    of the table it reads, to within a factor of 2, or that this does not follow from the
    statistics. CREATE INDEX, REINDEX and COPY have a first line only. A statement with parameters
    ($1) is judged by its generic plan. The statement is not executed unless --measure is given;
    planning it, for a minute at most, can call functions declared immutable or stable: its own, and
    those in the views, indexes and policies of its tables. A STATEMENT of "-" is read from standard
    input. With --top, a line tells of each statement of pg_stat_statements with many reads whether
    it would gain, and the first one of the whole workload. Those of other roles are not planned,
    but a superuser's by a superuser.

    A read-only transaction changes no table. It does not prevent what functions do beside them:
    replication slots, files, signals and messages to other processes and servers. So --measure
    refuses statements that call volatile functions or read foreign tables, unless --allow-volatile
    is given, and believes what functions are declared as. Connect as a role that may do no more
    than the statement needs.

    Exit status: 0 whatever the verdict; 1 the execution failed, or the time limit came before the
    first pair was complete; 2 wrong options, the server refuses the statement, or it was to be
    measured and writes, calls volatile functions, reads foreign tables or has parameters; 3 no
    connection, no library, or no way to empty caches; 5 the rows with the library differ from those
    without; 130 interrupted.
    """
    request = CheckRequest(**options)
    request.check_consistency()
    require_text(request.dsn or "", "--dsn")
    if request.top is not None:
        _check_top(context, request, request.top)
        return
    text = _standard_input() if request.statement == "-" else request.statement or ""
    require_text(text, "the statement")
    try:
        advice, measurement = _check(context, request, text)
    except psycopg.OperationalError as error:
        raise connection_lost(error) from None
    _show(context, text, advice, measurement, as_json=request.as_json)


def _standard_input() -> str:
    content = sys.stdin.buffer.read(_MAX_STATEMENT_BYTES + 1) if sys.stdin else b""
    if len(content) > _MAX_STATEMENT_BYTES:
        raise UsageError("the statement is too long", "At most 16 MB are read.")
    return content.decode(errors="surrogateescape")


def _check_top(context: CommandContext, request: CheckRequest, number: int) -> None:
    try:
        judged = judge_top(Target(request.dsn or ""), number)
    except psycopg.OperationalError as error:
        raise connection_lost(error) from None
    if request.as_json:
        head = {"schema": "lookahead-check-top", "schema_version": 1}
        statements = [asdict(one) for one in judged]
        context.terminal.raw(json.dumps({**head, "statements": statements}, indent=2))
        return
    for line in workload_lines(judged):
        context.terminal.result(line)


def _check(
    context: CommandContext, request: CheckRequest, statement: str
) -> tuple[Advice, Measurement | None]:
    target = Target(request.dsn or "")
    plan, advice = advise_on(target, statement)
    if not request.measures:
        return advice, None
    _refuse_to_execute(plan, statement)
    if not request.allows_volatile:
        _refuse_volatile(target, plan, statement)
    maker = cold_maker(target, plan) if request.cold else None
    times = MeasurePlan(request.repetitions, request.time_limit, request.seed)
    return advice, _measure(context, target, statement, times, maker)


def _measure(
    context: CommandContext,
    target: Target,
    statement: str,
    times: MeasurePlan,
    maker: Callable[[], str] | None,
) -> Measurement:
    terminal = context.terminal
    terminal.step(
        f"executes the statement {times.executions} times, at most {times.time_limit_s:g} s in all"
    )
    with terminal.progress(times.executions) as bar:
        begun = 0

        def report(text: str) -> None:
            nonlocal begun
            if begun:
                bar.advance()
            begun += 1
            bar.describe(text)
            terminal.log_only(text)

        return measure(target, statement, times, maker, report)


def _refuse_volatile(target: Target, plan: dict[str, Any], statement: str) -> None:
    if any(node["Node Type"] == "Foreign Scan" for node in plan_nodes(plan)):
        raise UsageError(
            "the statement reads a foreign table, and what that executes is not undone",
            "--allow-volatile executes it nevertheless; without --measure it is not executed.",
        )
    with target.connect() as connection, read_only(connection):
        limit_time(connection, PLANNING_LIMIT_S)
        found = volatile_functions(connection, statement)
    if found:
        raise UsageError(
            f"the statement calls volatile functions: {', '.join(map(one_line, found))}",
            "A read-only transaction does not undo what they do beside tables. --allow-volatile "
            "executes it nevertheless; without --measure it is not executed at all.",
        )


def _refuse_to_execute(plan: dict[str, Any], statement: str) -> None:
    if any(node["Node Type"] == "ModifyTable" for node in plan_nodes(plan)):
        raise UsageError(
            "the statement writes: its plan modifies a table",
            "Only statements that read are executed; leave --measure out.",
        )
    if not plan["Plans"]:
        raise UsageError(
            "the statement is no query", "Only queries are measured; leave --measure out."
        )
    if has_parameters(statement):
        raise UsageError(
            "the statement has parameters, so it cannot be executed",
            "Put values in their place; without --measure its generic plan is checked.",
        )
    if len(plan["Plans"]) != 1:
        raise UsageError(
            "the statement cannot be measured: rules make several statements of it",
            "Measure one of them; leave --measure out.",
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
