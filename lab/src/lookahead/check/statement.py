"""Runs the user's statement so that it cannot change anything, and explains what goes wrong.

Always one statement in a read-only transaction that is rolled back. It goes through the extended
protocol, which takes one statement at a time: a second one after a semicolon is refused by the
server and cannot end the transaction.

Names in the statement mean what they mean to the user, in everything else what they mean to the
server (guarded_connection.py).

Which volatile functions a statement would call neither EXPLAIN's text nor pg_depend tell: the one
leaves expressions out (the rows of VALUES), the other knows no functions of the server's own. The
plan's tree has them all, with views, policies and inlined functions put in their place, and
`debug_print_plan` makes the server send it. Types of values that are made are followed to the
domains in them and these to their checks, and to the operator classes that users have made for
them; aggregates to their parts. What a function calls out of the server's sight is not known: its
declared volatility is believed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from lookahead.check.plan_tree import plan_nodes, texts_of
from lookahead.check.sql_text import BEGIN, NAME, code_of
from lookahead.errors import LabError, UsageError
from lookahead.formats import one_line
from lookahead.guarded_connection import GuardedConnection, server_message

# Beginnings of SQLSTATE: time limits of a transaction, rollback, insufficient resources, a lock not
# to be had, operator intervention, system error, internal error.
_SERVER_STATES = ("25P03", "25P04", "40", "53", "55P03", "57", "58", "XX")
# Of the planning of one statement, in seconds. Arbitrary.
PLANNING_LIMIT_S = 60.0
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# Of a role that may, the tree stays out of the server's log.
_PRINT_PLAN = """
    SELECT pg_catalog.set_config('debug_print_plan', 'on', true),
           pg_catalog.set_config('debug_print_parse', 'on', true),
           pg_catalog.set_config('debug_pretty_print', 'off', true),
           pg_catalog.set_config('client_min_messages', 'log', true),
           CASE WHEN pg_catalog.has_parameter_privilege('log_min_messages', 'SET')
                THEN pg_catalog.set_config('log_min_messages', 'panic', true) END"""
_STOP_PRINTING = """
    SELECT pg_catalog.set_config('debug_print_plan', 'off', true),
           pg_catalog.set_config('debug_print_parse', 'off', true)"""
_PLANNING = "the planning of the statement"
_OWN_LIMIT = f"{PLANNING_LIMIT_S:g} s of lookahead's own, or a shorter "
_ONE = "One statement that EXPLAIN takes is checked."
# With parentheses: without them a statement that begins with ANALYZE would be executed.
_EXPLAIN = "EXPLAIN (COSTS OFF) "
_FUNCTION = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid|hashfuncid|negfuncid) (\d+)")
_OF_TYPES = r"\w*typ(?:e|es|id) (?:\(o )?([\d ]+)"
_TYPES = re.compile(f":{_OF_TYPES}")
# Of values that are made; what is read or handed on has been checked when it was. What a record is
# made of is known of its parts only; jsonb_populate_record_valid() returns none of what it makes.
_RECORD, _ANYARRAY, _POPULATE_VALID = 2249, 2277, 6338
# So is a column of a row, and what the server's own aggregates and window functions hand on.
# array_agg() does not: what workers send is read as by array_recv() (array_agg_deserialize()).
_HANDED_ON = (
    r":fieldnum \d+ :resulttype \d+"
    r"|:(?:aggfnoid (?!2335 )|winfnoid )\d{1,4} :\w+type \d+"
    r"(?: :aggcollid \d+ :inputcollid \d+ :\w+type \d+)?"
)
_READ = r"(?:var|param|coalesce|case|minmax|ref\w+)type |aggargtypes"
_MADE = re.compile(f"{_HANDED_ON}|:(?!{_READ}){_OF_TYPES}")
# (schema, name) as they are written, of whatever stands before a parenthesis.
_CALL = re.compile(rf"{BEGIN}({NAME}\.)?({NAME})\(")
_PARAMETER = re.compile(rf"{BEGIN}\$[0-9]")
# Functions in C that execute the text that they are given, or what it names: views, the checks of a
# domain. Some are declared stable.
_EXECUTE_TEXTS = (
    "^(crosstab|connectby|xpath_table|dblink|fmgr_sql|ts_stat|ts_rewrite|pg_input_"
    "|(query|cursor|table|schema|database)_to_xml|(array|domain|(multi)?range|record)_in$)"
)
# Declared stable, and each uses up a transaction id.
_TAKE_IDS = "^(txid_current|pg_current_xact_id)$"
# Other ones in C, the server's own among them, execute none, as far as anybody knows. Of its own in
# SQL those count whose tree has a table: round(numeric) calls another function.
_WITH_STATEMENTS = """
    SELECT DISTINCT p.proname::pg_catalog.text
    FROM ROWS FROM (
        pg_catalog.unnest(%s::pg_catalog.text[]), pg_catalog.unnest(%s::pg_catalog.text[])
    ) AS called(schema, name)
    JOIN pg_catalog.pg_proc p ON p.proname = called.name
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_catalog.pg_language l ON l.oid = p.prolang
    WHERE called.schema IN ('', n.nspname)
      AND (p.oid >= 16384 AND l.lanname NOT IN ('internal', 'c')
           OR p.prosqlbody::pg_catalog.text ~ ':rtekind 0' OR p.proname ~ %s) ORDER BY 1"""
_OPERATORS = re.compile(r":opnos? (?:\(o )?([\d ]+)")
# Made when the statement is read; the plan may have none of them left.
_LITERAL = re.compile(r":consttype \d+(?= [^{}]*:constisnull false)")
_INDEXES = re.compile(r":indexid (\d+)")
# The node of an aggregate tells what its states are of, that of one over a window does not.
_WINDOWS = re.compile(r":winfnoid (\d{5,})")
# Of domains, records, arrays and ranges what they are made of, each of whatever that is made of: in
# all of these parts a value that is made of text or JSON is checked, and values are compared. What
# is in a record that a function returns its parameters tell. Of others, and in the anyarray of
# pg_statistic (2277), it may be any type.
_PARTS = """
    WITH RECURSIVE part AS (
        SELECT pg_catalog.unnest(%(types)s::pg_catalog.oid[]) AS oid
        UNION SELECT pg_catalog.unnest(proallargtypes) FROM pg_catalog.pg_proc
              WHERE oid = ANY (%(functions)s::pg_catalog.oid[])
        UNION SELECT 2277::pg_catalog.oid FROM pg_catalog.pg_proc
              WHERE oid = ANY (%(functions)s::pg_catalog.oid[]) AND oid >= 16384
                AND prorettype = 2249 AND coalesce(2249 = ANY (proallargtypes), true)
        UNION SELECT CASE state.typtype WHEN 'p' THEN 2277 ELSE state.oid END
              FROM pg_catalog.pg_aggregate
              JOIN pg_catalog.pg_type state ON state.oid IN (aggtranstype, aggmtranstype)
              WHERE aggfnoid = ANY (%(windows)s::pg_catalog.oid[])
                AND (agginitval IS NOT NULL OR aggminitval IS NOT NULL)
        UNION
        SELECT within.oid FROM part JOIN pg_catalog.pg_type whole ON whole.oid = part.oid,
            LATERAL (
                SELECT whole.typbasetype AS oid
                UNION ALL SELECT whole.typelem
                UNION ALL SELECT atttypid FROM pg_catalog.pg_attribute
                          WHERE attrelid = whole.typrelid AND attnum > 0 AND NOT attisdropped
                UNION ALL SELECT rngsubtype FROM pg_catalog.pg_range
                          WHERE whole.oid IN (rngtypid, rngmultitypid)
                UNION ALL SELECT casttarget FROM pg_catalog.pg_cast
                          WHERE castsource = whole.oid AND castmethod = 'b' AND castcontext = 'i'
                UNION ALL SELECT oid FROM pg_catalog.pg_type WHERE whole.oid = 2277) AS within
        WHERE within.oid <> 0)"""
_DOMAIN_CHECKS = f"""{_PARTS}
    SELECT conbin::pg_catalog.text FROM pg_catalog.pg_constraint
    WHERE contypid IN (SELECT oid FROM part WHERE oid <> 0) AND conbin IS NOT NULL
    UNION SELECT proargdefaults::pg_catalog.text FROM pg_catalog.pg_proc
    WHERE oid = ANY (%(checks)s::pg_catalog.oid[]) AND proargdefaults IS NOT NULL"""
# Casts are found by the type of a value, too: to json where JSON is made, of users' types that are
# neither rows nor domains (json_categorize_type() in jsonfuncs.c); to text by quote_literal(),
# quote_nullable() and || of any type, which have these numbers.
_VOLATILE = f"""{_PARTS},
    called AS (
        SELECT pg_catalog.unnest(%(functions)s::pg_catalog.oid[]) AS oid
        UNION SELECT oprcode FROM pg_catalog.pg_operator
              WHERE oid = ANY (%(operators)s::pg_catalog.oid[])
        UNION SELECT pg_catalog.unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn,
                  aggdeserialfn, aggmtransfn, aggminvtransfn, aggmfinalfn]::pg_catalog.oid[])
              FROM pg_catalog.pg_aggregate
              WHERE aggfnoid = ANY (%(functions)s::pg_catalog.oid[])
        UNION SELECT amproc FROM pg_catalog.pg_amproc
              JOIN pg_catalog.pg_opfamily f ON f.oid = amprocfamily
              JOIN pg_catalog.pg_type t ON t.oid IN (amproclefttype, amprocrighttype)
              WHERE amproc >= 16384 AND opfmethod IN (403, 405)
                AND (t.typtype = 'p' OR t.oid IN (SELECT oid FROM part))
        UNION SELECT rngcanonical FROM pg_catalog.pg_range
              JOIN part ON part.oid IN (rngtypid, rngmultitypid)
        UNION SELECT amproc FROM pg_catalog.pg_amproc
              JOIN pg_catalog.pg_opclass c ON c.opcfamily = amprocfamily
              JOIN pg_catalog.pg_index i ON c.oid = ANY (i.indclass::pg_catalog.oid[])
              JOIN pg_catalog.pg_proc p ON p.oid = amproc
              WHERE i.indexrelid = ANY (%(indexes)s::pg_catalog.oid[])
                AND 2281 <> ALL (p.proargtypes::pg_catalog.oid[])
        UNION SELECT oprcode FROM pg_catalog.pg_amop
              JOIN pg_catalog.pg_operator o ON o.oid = amopopr
              JOIN pg_catalog.pg_type t ON t.oid IN (amoplefttype, amoprighttype)
              WHERE o.oid >= 16384 AND amopmethod IN (403, 405, 3580)
                AND (t.typtype = 'p' OR t.oid IN (SELECT oid FROM part))),
    cast_to AS (
        SELECT castfunc AS oid FROM pg_catalog.pg_cast
              JOIN pg_catalog.pg_type source ON source.oid = castsource
              JOIN part ON part.oid = castsource WHERE source.typtype <> 'd' AND CASE casttarget
                  WHEN 114 THEN castsource >= 16384 AND source.typtype <> 'c'
                  WHEN 25 THEN ARRAY[1285, 1290, 2003, 2004]::pg_catalog.oid[]
                       && ARRAY(SELECT oid FROM called) END)
    SELECT oid::pg_catalog.regprocedure::pg_catalog.text FROM pg_catalog.pg_proc
    WHERE oid IN (SELECT oid FROM called UNION SELECT oid FROM cast_to)
      AND (provolatile = 'v' OR proname ~ %(texts)s) ORDER BY 1"""


class StatementCancelled(LabError):
    """A time limit or somebody's cancel ended the statement."""


@contextmanager
def read_only(connection: GuardedConnection) -> Iterator[None]:
    """A read-only transaction with one snapshot; rolled back at the end."""
    connection.execute(_BEGIN)
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("ROLLBACK")


def explain(
    connection: GuardedConnection, statement: str, options: str
) -> tuple[dict[str, Any], ...]:
    """EXPLAIN's documents for the statement: one, or what rules make of it; none without a plan.

    Errors of the statement become LabErrors.
    """
    is_generic = has_parameters(statement)
    prefix = f"EXPLAIN ({options}{', GENERIC_PLAN' if is_generic else ''}, FORMAT JSON) "
    done = "the statement" if "ANALYZE" in options else _PLANNING
    text = f"{prefix}{statement}".encode()
    with explained_errors(statement, len(prefix), done):
        try:
            found = _explained(connection, text, is_generic=is_generic)
        except psycopg.errors.SyntaxError:
            if not _is_command(connection, statement, text):
                raise
            return ()
    # What has no plan is a mere string.
    return tuple(document for document in found if isinstance(document, dict))


def _explained(connection: GuardedConnection, text: bytes, *, is_generic: bool) -> list[Any]:
    with connection.users_names():
        if is_generic:
            connection.require_single(text)
        # Binary results are to be had through the extended protocol only, which wants values for
        # parameters.
        cursor = connection.execute(text, binary=not is_generic)
        try:
            row = cursor.fetchone()
        except RecursionError:
            raise LabError(
                "the plan is nested too deeply to be read", "Check a part of the statement."
            ) from None
    assert row is not None
    return list(row[0])


def _is_command(connection: GuardedConnection, statement: str, explained: bytes) -> bool:
    """Whether the grammar has the statement, and no EXPLAIN of it.

    In a failed transaction the server looks at the grammar only, so an error that it finds there
    is of that. Raises LabError with its place in the statement.
    """
    if not re.search(r"[^\s;]", code_of(statement)):
        return False
    with suppress(psycopg.errors.SyntaxError):
        try:
            connection.require_single(explained)
        except psycopg.errors.InFailedSqlTransaction:
            return False
    with explained_errors(statement), suppress(psycopg.errors.InFailedSqlTransaction):
        connection.require_single(statement.encode())
    return True


def has_parameters(statement: str) -> bool:
    """Whether `$1` and the like stand in it, as in the statements of pg_stat_statements."""
    return _PARAMETER.search(code_of(statement)) is not None


def unseen_functions(
    connection: GuardedConnection, plans: Iterable[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Functions that a plan of EXPLAIN (VERBOSE) calls, and whose own statements it does not show.

    By their names: overloaded ones are all meant.
    """
    called = {
        (schema.rstrip("."), name)
        for plan in plans
        for node in plan_nodes(plan)
        for text in texts_of(node)
        for schema, name in _CALL.findall(code_of(text, keeps_names=True))
    }
    names = [[text.strip('"').replace('""', '"') for text in pair] for pair in sorted(called)]
    if not names:
        return ()
    columns = ([pair[0] for pair in names], [pair[1] for pair in names], _EXECUTE_TEXTS)
    return tuple(row[0] for row in connection.execute(_WITH_STATEMENTS, columns))


@contextmanager
def explained_errors(
    statement: str, prefix_length: int = 0, done: str = _PLANNING
) -> Iterator[None]:
    """Turn what the server says against the statement into a LabError with its place.

    The statement stands behind a prefix, that of an EXPLAIN; `done` is what may not be finished.
    """
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise UsageError(
            f"the statement writes: {server_message(error)}",
            "Only statements that read are executed; without --measure it is not executed at all.",
        ) from None
    except psycopg.Error as error:
        place = _place(statement, error.diag.statement_position, prefix_length)
        # The statement itself is not to blame; without a state the connection was lost.
        if error.sqlstate is None or error.sqlstate.startswith(_SERVER_STATES):
            is_cancelled = isinstance(error, psycopg.errors.QueryCanceled)
            raise (StatementCancelled if is_cancelled else LabError)(
                f"{done} was not finished: {server_message(error)}",
                f"A time limit ({_OWN_LIMIT if done == _PLANNING else ''}statement_timeout), a "
                "cancel, a lack of resources, or an end of the server: see the server's log.",
            ) from None
        if done != _PLANNING:
            hint = one_line(error.diag.message_hint or "")
            raise LabError(f"its execution failed: {server_message(error)}{place}", hint) from None
        raise UsageError(
            f"the server refuses the statement: {server_message(error)}{place}",
            one_line(error.diag.message_hint or "")
            or (_ONE if isinstance(error, psycopg.errors.SyntaxError) else ""),
        ) from None


def _place(statement: str, position: str | None, prefix_length: int) -> str:
    """The line with the error and a caret below, as psql shows it; "" for an unknown place."""
    if position is None:
        return ""
    offset = min(max(int(position) - 1 - prefix_length, 0), len(statement))
    start = statement.rfind("\n", 0, offset) + 1
    end = statement.find("\n", offset)
    line = statement[start : end if end >= 0 else len(statement)]
    label = f"LINE {statement.count(chr(10), 0, offset) + 1}: "
    return f"\n  {label}{line}\n  {' ' * (len(label) + offset - start)}^"


def reads_elsewhere() -> UsageError:
    return UsageError(
        "the statement reads tables of other servers, and what these execute is not undone",
        "--allow-volatile executes it nevertheless; without --measure it is not executed.",
    )


def volatile_functions(connection: GuardedConnection, statement: str) -> tuple[str, ...]:
    """Their signatures, in the caller's transaction, which must not go on to execute anything.

    Raises LabError when the server does not show the plan's tree.
    """
    texts = _plan_trees(connection, statement)
    if not texts:
        raise LabError(
            "the server does not show which functions the statement calls",
            "--allow-volatile executes it whatever it calls.",
        )
    # Also of partitions that this session leaves out, and the one that executes may not.
    if any("{FOREIGNSCAN " in text for text in texts):
        raise reads_elsewhere()
    texts += _domain_checks(connection, texts)
    called = {
        "functions": list(_numbers(_FUNCTION, texts)),
        "operators": list(_numbers(_OPERATORS, texts)),
        "types": list(_numbers(_TYPES, texts)),
        "windows": list(_numbers(_WINDOWS, texts)),
        "indexes": list(_numbers(_INDEXES, texts)),
        "texts": f"{_EXECUTE_TEXTS}|{_TAKE_IDS}",
    }
    return tuple(str(row[0]) for row in connection.execute(_VOLATILE, called))


def _domain_checks(connection: GuardedConnection, texts: list[str]) -> set[str]:
    """Of the domains of which values are made, and what functions in them have for arguments."""
    checks: set[str] = set()
    known = -1
    while known < len(checks):
        known, every = len(checks), [*texts, *checks]
        functions = _numbers(_FUNCTION, every)
        is_valid_asked = _POPULATE_VALID in functions
        has_record = is_valid_asked or _RECORD in _numbers(_TYPES, every)
        # Of anyarray nothing makes values.
        types = _numbers(_TYPES if has_record else _MADE, every) - {_ANYARRAY}
        made = {
            "types": list(types),
            "functions": list(functions) if has_record else [],
            "windows": list(_numbers(_WINDOWS, every)),
            "checks": list(_numbers(_FUNCTION, checks)),
        }
        checks |= {row[0] for row in connection.execute(_DOMAIN_CHECKS, made)}
    return checks


def _plan_trees(connection: GuardedConnection, statement: str) -> list[str]:
    """Of the statement, and of what its planning itself planned."""
    texts: list[str] = []
    literals: set[str] = set()

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        text = " ".join((notice.message_detail or "").split())  # lines are broken anywhere
        if notice.message_primary == "plan:" and text:
            texts.append(text)
        elif notice.message_primary == "parse tree:":
            literals.update(_LITERAL.findall(text))

    connection.execute(_PRINT_PLAN)
    with explained_errors(statement, len(_EXPLAIN)), connection.users_names():
        # From here on: the queries that choose the names have plans, too.
        connection.add_notice_handler(keep)
        connection.execute(f"{_EXPLAIN}{statement}".encode(), binary=True)
        connection.remove_notice_handler(keep)
    connection.execute(_STOP_PRINTING)
    return texts and [*texts, *literals]


def _numbers(pattern: re.Pattern[str], texts: Iterable[str]) -> set[int]:
    """All numbers that the pattern's group has, wherever it matches."""
    groups = (match[1] or "" for text in texts for match in pattern.finditer(text))
    return {int(number) for group in groups for number in group.split()}
