"""`lookahead check STATEMENT`: would the library help this statement, here?"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import click

from lookahead.check.advice import Advice, advice_lines
from lookahead.check.measure import Measurement, MeasurePlan, measure, measurement_lines
from lookahead.check.opinion import advise_on
from lookahead.check.plan_tree import plan_nodes
from lookahead.check.statement import (
    PLANNING_LIMIT_S,
    has_parameters,
    read_only,
    reads_elsewhere,
    volatile_functions,
)
from lookahead.check.target import cold_maker, connect
from lookahead.check.workload import judge_top, workload_lines
from lookahead.commands.options import (
    SERVER_COMMAND,
    CommandContext,
    kind_option,
    pass_command_context,
    seed_option,
    server_options,
)
from lookahead.errors import UsageError
from lookahead.experiments.experiment import Count, Number
from lookahead.formats import one_line, require_text
from lookahead.guarded_connection import explained_queries
from lookahead.stats import VERDICT_PAIRS

# Twice the fewest that allow a verdict; of a long statement the time limit leaves fewer.
_DEFAULT_PAIRS = 2 * VERDICT_PAIRS
_MAX_STATEMENT_BYTES = 16 << 20
_MAX_PAIRS, _MAX_TOP = 1000, 1000
_DEFAULT_TIME_LIMIT_S = 60.0
_MAX_TIME_LIMIT_S = 86400.0


@click.command(context_settings=SERVER_COMMAND)
@click.argument("statement", required=False)
@server_options("Connection string of the server.")
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
    help="With --measure: for all executions and evictions together. The one under way is "
    "cancelled, and the pairs that are finished count.",
)
@seed_option("Seed of the interval.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_command_context
def check(context: CommandContext, /, **options: Any) -> None:
    """Would the library help this statement on this server?

    The first line says YES, WHEN COLD, LITTLE, NO or DON'T KNOW, and why. Then come the scans of
    the plan: what the library would do, or why the scan stays with PostgreSQL; and how many pages
    of the table it reads, to within a factor of 2, or that this does not follow from the
    statistics. Commands that have no plan have a first line only. A statement with parameters
    ($1) is judged by its generic plan. The statement is not executed unless --measure is given;
    planning it, for a minute at most, can call functions declared immutable or stable, and those of
    operators: its own, and those in the views, indexes, policies and defaults of its tables. A
    STATEMENT of "-" is read from standard input. With --top, the first line is about the whole
    workload, and those below are about the statements of pg_stat_statements that read most. Only
    statements of your own role are planned, as a superuser those of all superusers.

    A read-only transaction changes no table. It does not prevent what functions do beside them:
    replication slots, files, signals and messages to other processes and servers. So --measure
    refuses statements that call volatile functions or read foreign tables, unless --allow-volatile
    is given, and believes what functions are declared as. Connect as a role that may do no more
    than the statement needs.

    Exit status: 0 whatever the verdict; 1 the execution failed, the planning or a query of the
    command's own was ended, the connection was lost, or the time limit came before the first pair
    was complete; 2 wrong options, the server refuses the statement, or it was to be measured and
    writes, is no query, calls volatile functions, reads foreign tables or has parameters; 3 no
    connection, no library, or no way to empty caches; 5 the rows with the library differ from
    those without; 130 interrupted.
    """
    dsn, as_json, plan = options["dsn"] or "", options["as_json"], _measure_plan(options)
    if options["top"] is not None:
        _check_top(context, dsn, options["top"], as_json=as_json)
        return
    text = _standard_input() if options["statement"] == "-" else options["statement"]
    require_text(text, "the statement")
    with explained_queries():
        advice, measurement = _check(context, dsn, text, plan)
    _show(context, text, advice, measurement, as_json=as_json)


def _measure_plan(options: Mapping[str, Any]) -> MeasurePlan | None:
    """What is to be measured; LabError when options contradict each other."""
    measures = options["measures"]
    for option, name in (("--cold", "cold"), ("--allow-volatile", "allows_volatile")):
        if options[name] and not measures:
            raise UsageError(f"{option} needs --measure", "Nothing is executed without it.")
    if (options["statement"] is None) == (options["top"] is None):
        raise UsageError(
            "name either a statement or --top",
            "Such as `lookahead check 'SELECT ...'` or `lookahead check --top 20`.",
        )
    if options["top"] is not None and measures:
        raise UsageError("--top measures nothing", "Leave --measure out.")
    asked = ("repetitions", "time_limit", "seed", "cold", "allows_volatile")
    return MeasurePlan(*(options[name] for name in asked)) if measures else None


def _standard_input() -> str:
    try:
        content = sys.stdin.buffer.read(_MAX_STATEMENT_BYTES + 1) if sys.stdin else b""
    except OSError as error:  # nohup gives one that can be written only
        raise UsageError(f"standard input cannot be read: {error.strerror}") from None
    if len(content) > _MAX_STATEMENT_BYTES:
        raise UsageError("the statement is too long", "At most 16 MB are read.")
    return content.decode(errors="surrogateescape")


def _check_top(context: CommandContext, dsn: str, number: int, *, as_json: bool) -> None:
    with explained_queries():
        judged = judge_top(dsn, number)
    if as_json:
        statements = [asdict(one) for one in judged]
        context.terminal.document("lookahead-check-top", 1, {"statements": statements})
        return
    for line in workload_lines(judged):
        context.terminal.result(line)


def _check(
    context: CommandContext, dsn: str, statement: str, plan: MeasurePlan | None
) -> tuple[Advice, Measurement | None]:
    tree, advice = advise_on(dsn, statement)
    if plan is None:
        return advice, None
    _refuse_to_execute(tree, statement)
    if not plan.allows_volatile:
        _refuse_volatile(dsn, tree, statement)
    maker = cold_maker(dsn, tree) if plan.cold else None
    return advice, _measure(context, dsn, statement, plan, maker)


def _measure(
    context: CommandContext,
    dsn: str,
    statement: str,
    plan: MeasurePlan,
    maker: Callable[[float], str] | None,
) -> Measurement:
    terminal = context.terminal
    terminal.step(
        f"executes the statement {plan.executions} times, at most {plan.time_limit_s:g} s in all"
    )
    with terminal.progress(plan.executions) as bar:
        begun = 0

        def report(text: str) -> None:
            nonlocal begun
            if begun:
                bar.advance()
            begun += 1
            bar.describe(text)
            terminal.log_only(text)

        return measure(dsn, statement, plan, maker, report)


def _refuse_volatile(dsn: str, plan: dict[str, Any], statement: str) -> None:
    if any(map(_is_elsewhere, plan_nodes(plan))):
        raise reads_elsewhere()
    with connect(dsn) as connection, read_only(connection):
        connection.limit_time(PLANNING_LIMIT_S)
        found = volatile_functions(connection, statement)
    if found:
        raise UsageError(
            f"the statement calls volatile functions: {', '.join(map(one_line, found))}",
            "A read-only transaction does not undo what they do beside tables. --allow-volatile "
            "executes it nevertheless; without --measure it is not executed at all.",
        )


def _is_elsewhere(node: Mapping[str, Any]) -> bool:
    """Whether another server executes what the node returns."""
    is_citus = str(node.get("Custom Plan Provider", "")).startswith("Citus")
    return is_citus or node["Node Type"] == "Foreign Scan"


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
        found = {
            "statement": statement,
            **asdict(advice),
            "measurement": asdict(measurement) if measurement else None,
        }
        context.terminal.document("lookahead-check", 3, found)
        return
    for line in advice_lines(advice):
        context.terminal.result(line)
    for line in measurement_lines(measurement) if measurement else ():
        context.terminal.result(line)
