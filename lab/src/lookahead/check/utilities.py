"""What is to be said of commands that EXPLAIN does not take: CREATE INDEX, REINDEX, COPY.

They are told by their first words, and judged by their table and the settings of the session; COPY
by what EXPLAIN says of an INSERT, too. What becomes of them pg_stat_lookahead tells afterwards.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lookahead.check.advice import Advice
from lookahead.check.inserts import inserting
from lookahead.check.sql_text import BEGIN, END, NAME, code_of
from lookahead.check.statement import explain, explained_errors
from lookahead.check.switches import (
    BULK_EXTEND_SIZE,
    BULK_INSERT,
    require_writing,
    switches_of,
    what_is_off,
)
from lookahead.check.verdicts import Verdict
from lookahead.errors import UsageError
from lookahead.formats import one_line
from lookahead.guarded_connection import GuardedConnection
from lookahead.load_order import watchers_before, way_out

INDEX_BUILD = "pg_lookahead.enable_index_build"
# Builds of fewer rows take a few milliseconds by either code. Arbitrary.
_FEW_ROWS = 10_000
# ASCII: other blanks are letters to PostgreSQL.
_FLAGS = re.IGNORECASE | re.ASCII
_TABLE = rf"(?P<table>{NAME}(?:\s*\.\s*{NAME})*)\s*"
_CONCURRENTLY = rf"(?P<concurrently>concurrently{END}\s*)?"
_CREATE_INDEX = re.compile(
    rf"\s*create\s+(?:unique\s+)?index{END}\s*{_CONCURRENTLY}(?P<spared>if\s+not\s+exists{END}\s*)?"
    rf"(?:(?P<index>{NAME})\s*)??on{END}\s*(?P<only>only{END}\s*)?{_TABLE}(?:\*\s*)?"
    rf"(?:using{END}\s*(?P<method>{NAME})\s*)?\("
    rf"(?:\s*(?P<key>{NAME})\s*(?:(?:asc|desc){END}\s*)?(?:nulls\s+(?:first|last){END}\s*)?"
    r"(?=[,)]))?",
    _FLAGS,
)
_LISTED = r'(?:"[^"]*"|[^()"])*+'
# The index of a constraint, but for a temporal one's, which is no btree.
_ADD_KEY = re.compile(
    rf"\A\s*alter\s+table{END}\s*(?:if\s+exists{END}\s*)?(?P<only>only{END}\s*)?{_TABLE}"
    rf"(?:\*\s*)?add{END}\s*(?:constraint{END}\s*(?P<index>{NAME})\s*)?"
    rf"(?:(?P<primary>primary\s+key)|unique(?:\s+nulls\s+(?:not\s+)?distinct)?)\s*"
    # One subcommand: a second one may make other indexes, or the column.
    rf'(?=\((?![^()]*\soverlaps\s*\)){_LISTED}\)(?:"[^"]*"|[^(),"]|\({_LISTED}\))*+\Z)',
    _FLAGS,
)
_AS_INDEX = r"CREATE UNIQUE INDEX \g<index> ON \g<only>\g<table> "
_REINDEX = re.compile(
    rf"\s*reindex{END}\s*(?:\([^)]*\)\s*)?(?:table|(?P<of_index>index)){END}\s*"
    rf"{_CONCURRENTLY}{_TABLE}(?:;\s*)?\Z",
    _FLAGS,
)
_COPY = re.compile(
    rf"\s*copy{END}\s*(?:binary{END}\s*)?{_TABLE}"
    rf'(?:\((?P<columns>(?:"[^"]*"|[^)"])*)\)\s*)?(?P<direction>from|to){END}\s*'
    rf"(?:(?P<source>stdin|stdout|program){END})?",
    _FLAGS,
)
# What has no plan, and may execute queries or build indexes.
_HAS_INSIDE = re.compile(
    r"\s*(?:alter\s+(?:table|materialized)|call|cluster|copy|create\s+(?:unique\s+)?index|do|"
    rf"explain|fetch|move|prepare(?!\s+transaction)|refresh|reindex|vacuum\s*(?:\([^)]*)?full){END}",
    _FLAGS,
)
_BEHIND_DOT = re.compile(r"\.\s+", _FLAGS)
# A column of this name has a table's before it.
_WHERE = re.compile(rf"{BEGIN}(?<!\.)where{END}", _FLAGS)
# With these it is PostgreSQL's: unsuitable() in la_copy.c.
_COPY_OPTION = re.compile(rf"{BEGIN}(?:where|freeze|on_error){END}", _FLAGS)
_COLUMN_LIST = re.compile(rf"{BEGIN}force_\w+\s*\([^)]*\)", _FLAGS)
_BATCHES = "its rows would be inserted in larger batches"
_TYPES = ": see docs/limitations.md, index builds"
_ROLES = {None: "pg_read_server_files", "program": "pg_execute_server_program"}
_TOO_LITTLE = {"max_parallel_maintenance_workers": "0", "maintenance_work_mem": "below 2 MB"}
_LEFT_PARTS = {"p": "partitioned again", "f": "foreign tables"}
# How sure it is that an index whose first column `a` has type `t` is built: LaBuildKey's kinds, and
# la_build_collation_is_shifted() of all columns of the index or table. 0: never; 1: that depends.
_FIT = """
    CASE WHEN t.oid < 16384 AND t.typname ~ '^(bool|char|int[248]|oid|float[48]|numeric|uuid|bytea|'
                 'inet|cidr|macaddr|date|time|timestamp|timestamptz|text|varchar)$'
         THEN CASE WHEN EXISTS (
                  SELECT FROM pg_catalog.pg_attribute b
                  JOIN pg_catalog.pg_collation c ON c.oid = b.attcollation
                  JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
                  WHERE b.attrelid = a.attrelid AND CASE c.collprovider
                        WHEN 'd' THEN d.datlocale ELSE c.colllocale END ~* '^th|ka-|alternate'
              ) THEN 1 ELSE 2 END
         WHEN t.typtype IN ('c', 'e', 'm', 'r') OR t.typcategory = 'A'
              OR t.oid < 16384 AND t.typname !~ '^(bpchar|name|reg|text|varchar)' THEN 0
         ELSE 1 END"""
_KEY = f"""
    SELECT {_FIT} FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s::pg_catalog.oid AND a.attnum > 0
      AND a.attname = (pg_catalog.parse_ident(%s))[1]::pg_catalog.name"""
# An index lies in the schema of its table. Names that are too long are cut, as the server does.
_TAKEN = """
    SELECT pg_catalog.count(*) > 0 AS is_taken FROM pg_catalog.pg_class
    WHERE relname = (pg_catalog.parse_ident(%s))[1]::pg_catalog.name AND relnamespace = (
        SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = %s::pg_catalog.oid)"""
_INSERT = (
    "INSERT INTO {} OVERRIDING SYSTEM VALUE SELECT {} FROM pg_catalog.generate_series(1, 1000)"
)
# Of an index: its table's rows. What a name means is the user's business, so it is asked before.
_FACTS = f"""
    SELECT named.relkind::pg_catalog.text,
           pg_catalog.sum(greatest(leaf.reltuples, 0)) FILTER (WHERE leaf.relkind IN ('r', 'm')),
           pg_catalog.bool_or(leaf.reltuples < 0 AND leaf.relkind IN ('r', 'm')),
           pg_catalog.bool_or(own.indpred IS NOT NULL),
           pg_catalog.max((
               SELECT pg_catalog.max(CASE WHEN i.indclass[0] < 16384 THEN {_FIT} ELSE 1 END)
               FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
               JOIN pg_catalog.pg_am m ON m.oid = x.relam
               JOIN pg_catalog.pg_attribute a ON a.attrelid = x.oid AND a.attnum = 1
               JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
               WHERE i.indrelid = leaf.oid AND x.oid = coalesce(own.indexrelid, x.oid)
                 AND m.amname = 'btree')),
           coalesce(pg_catalog.string_agg(leaf.relkind::pg_catalog.text, '')
                    FILTER (WHERE leaf.oid <> named.oid), ''),
           named.oid < 12000 OR named.relnamespace = 'pg_toast'::pg_catalog.regnamespace,
           EXISTS (SELECT FROM pg_catalog.pg_index i
                   WHERE i.indrelid = named.oid AND i.indisprimary),
           pg_catalog.bool_and(leaf.relam IN (
               SELECT oid FROM pg_catalog.pg_am
               WHERE amhandler <> 'pg_catalog.heap_tableam_handler'::pg_catalog.regproc))
               FILTER (WHERE leaf.relkind IN ('r', 'm')),
           pg_catalog.pg_has_role(named.relowner, 'USAGE'),
           pg_catalog.has_schema_privilege(named.relnamespace, 'CREATE'),
           pg_catalog.bool_and(pg_catalog.has_table_privilege(
               coalesce(own.indrelid, named.oid), 'MAINTAIN')),
           pg_catalog.row_security_active(named.oid),
           named.relhasrules OR pg_catalog.bool_or(EXISTS (
               SELECT FROM pg_catalog.pg_depend d
               WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid IN (
                   SELECT oid FROM pg_catalog.pg_constraint WHERE conrelid = leaf.oid
                   UNION ALL SELECT oid FROM pg_catalog.pg_attrdef WHERE adrelid = leaf.oid
                   UNION ALL SELECT indexrelid FROM pg_catalog.pg_index WHERE indrelid = leaf.oid
                   UNION ALL SELECT oid FROM pg_catalog.pg_trigger
                             WHERE tgrelid = leaf.oid AND leaf.oid <> named.oid
                               AND tgtype & 5 = 5)
               UNION ALL SELECT FROM pg_catalog.pg_attribute a
               JOIN pg_catalog.pg_type t ON t.oid = a.atttypid WHERE a.attrelid = leaf.oid
                 AND (t.typtype = 'd' OR t.oid >= 16384 AND t.typtype <> 'e')))
    FROM pg_catalog.pg_class named
    LEFT JOIN pg_catalog.pg_index own ON own.indexrelid = named.oid,
    LATERAL (
        SELECT coalesce(own.indrelid, named.oid) AS relid
        UNION SELECT relid FROM pg_catalog.pg_partition_tree(coalesce(own.indrelid, named.oid))
    ) AS part
    JOIN pg_catalog.pg_class leaf ON leaf.oid = part.relid
    WHERE named.oid = %s::pg_catalog.oid GROUP BY named.oid"""
_RESOLVE = "SELECT %s::pg_catalog.regclass::pg_catalog.oid"


@dataclass(frozen=True)
class _Table:
    """What is named: a table, or an index of one; `kind` is that of pg_class.

    `rows` are those of it and its partitions, None where it was never analyzed. `is_partial` is an
    index's; `fit` is that of the best btree, of the index or of the table, None without one, or
    where an index is made that of its first column; `part_kinds` are those of partitions.
    `is_doubtful` is one with rules, which EXPLAIN of an INSERT follows and COPY does not, or of
    which a row may call a user's function, be it of a type, beside the table's own triggers.
    `has_other_method` says that no heap has its rows. `has_index` says that the name of an
    index to be made is taken, `may_create` that this role may make one in the table's schema,
    `is_maintained` that it may REINDEX.
    """

    name: str
    kind: str
    rows: float | None
    is_partial: bool
    fit: int | None
    part_kinds: str
    is_catalog: bool
    has_primary_key: bool
    has_other_method: bool | None
    is_owned: bool
    may_create: bool
    is_maintained: bool
    has_row_security: bool
    is_doubtful: bool
    has_index: bool = False


def advise_utility(connection: GuardedConnection, statement: str) -> Advice | None:
    """Advice for one of these commands, None for any other statement.

    Raises LabError when there is no such table.
    """
    text = code_of(statement, keeps_names=True)
    copy = _COPY.match(text)
    added = _ADD_KEY.match(text)
    match = copy or _CREATE_INDEX.match(_ADD_KEY.sub(_AS_INDEX, text)) or _REINDEX.match(text)
    if match is None:
        return None
    with explained_errors(statement), connection.users_names():
        connection.require_single(statement.encode())
        ((oid,),) = connection.execute(_RESOLVE, (match["table"],)).fetchall()
    table = _table(connection, match, oid)
    switches = switches_of(connection)
    is_copy_to = copy is not None and copy["direction"].lower() == "to"
    if copy and table.kind not in ("rpm" if is_copy_to else "rp"):
        return Advice((), "no", f"{table.name} is no table that rows are stored in")
    if is_copy_to:
        whole = "COPY of a table reads it in order; COPY (SELECT ...) is checked by its query"
        return Advice((), "no", whole)
    if table.has_index and match["spared"]:
        return Advice((), "no", "there is such a name, so IF NOT EXISTS makes no index")
    require_writing(switches, is_reindex=match.re is _REINDEX)
    if refusal := _refused_key(table, added) or _refusal(table, match, switches):
        raise UsageError(f"the server refuses the statement: {refusal}")
    if copy:
        if reason := _against_copy(table, copy, switches, watchers_before(connection)):
            return Advice((), "no", f"{_BATCHES}, but {reason}")
        return Advice((), *_of_copy(connection, table, copy))
    return Advice((), *_of_build(table, match, switches))


def without_plan(statement: str) -> Advice:
    """Advice for what has no plan, and is none of these commands."""
    if _HAS_INSIDE.match(code_of(statement)):
        inside = "check its queries, or REINDEX TABLE where it builds indexes"
        return Advice((), "unknown", f"EXPLAIN has no plan of it: {inside}")
    why = "it is a command, or rules leave nothing of it"
    return Advice((), "no", f"EXPLAIN has no plan of it: {why}")


def _table(connection: GuardedConnection, match: re.Match[str], oid: int) -> _Table:
    """What is named."""
    facts = connection.execute(_FACTS, (oid,)).fetchone()
    if facts is None:  # dropped meanwhile
        raise UsageError(f"there is no table {one_line(match['table'])}", "Check its name.")
    kind, rows, is_unknown, *more = facts
    table = _Table(one_line(match["table"]), kind, None if is_unknown else float(rows or 0), *more)
    if match.re is not _CREATE_INDEX:
        return table
    key = connection.execute(_KEY, (oid, match["key"])).fetchone() if match["key"] else (1,)
    taken = connection.execute(_TAKEN, (match["index"], oid)).fetchone()
    is_taken = bool(match["index"] and taken and taken[0])
    return replace(table, fit=key and key[0], has_index=is_taken)


def _refused_key(table: _Table, added: re.Match[str] | None) -> str:
    """Why PostgreSQL would refuse a constraint whatever its index; "" where nothing is known."""
    if added and table.kind == "m":
        return f"{table.name} is a materialized view, which has no constraints"
    has_key = added and added["primary"] and table.has_primary_key
    return f"{table.name} has a primary key already" if has_key else ""


def _refusal(table: _Table, match: re.Match[str], switches: Mapping[str, Any]) -> str:
    """Why PostgreSQL would refuse the command; "" where nothing is known."""
    if match.re is _COPY:
        role = _ROLES.get(match["source"] and match["source"].lower())
        if role and not switches[role]:
            return f"this role has no privileges of {role}"
        if table.has_row_security:
            return f"{table.name} has row security, and COPY FROM is not for such tables"
        return ""
    if match.re is _REINDEX:
        if table.kind not in ("iI" if match["of_index"] else "rpmt"):
            return f"{table.name} is no {'index' if match['of_index'] else 'table with indexes'}"
        return "" if table.is_maintained else f"this role may not MAINTAIN {table.name}"
    if table.kind not in "rpm":
        return f"{table.name} is no table with indexes"
    if not table.is_owned:
        return f"this role does not own {table.name}"
    if not table.may_create:
        return f"this role may not CREATE in the schema of {table.name}"
    if table.has_index:
        return f"there is a {one_line(match['index'])} already"
    if match["concurrently"] and table.kind == "p":
        return f"{table.name} is partitioned, and CONCURRENTLY is not for such tables"
    return f"{table.name} has no column {one_line(match['key'])}" if table.fit is None else ""


def _of_build(
    table: _Table, match: re.Match[str], switches: Mapping[str, Any]
) -> tuple[Verdict, str]:
    is_reindex = match.re is _REINDEX
    method = "" if is_reindex else (match["method"] or "btree").strip('"').lower()
    if is_reindex and table.fit is None:
        return "no", f"only btree indexes are built by pg_lookahead, and {table.name} has none"
    if not is_reindex and match["only"] and table.kind == "p":
        return "no", f"ONLY {table.name} builds nothing: its partitions have the rows"
    if not is_reindex and method != "btree":
        return "no", f"only btree indexes are built by pg_lookahead, not {one_line(method)}"
    if off := what_is_off(INDEX_BUILD, switches):
        return "no", f"index builds are left to PostgreSQL: {off}"
    for name, value in _TOO_LITTLE.items():
        if not switches[name]:
            return "no", f"index builds are left to PostgreSQL: {name} is {value}"
    if table.is_catalog:
        return "no", f"{table.name} is PostgreSQL's own, and its indexes are left to PostgreSQL"
    if table.fit == 0:
        return "no", f"PostgreSQL builds indexes whose first column is of such a type{_TYPES}"
    if table.has_other_method:
        return "unknown", f"PostgreSQL may build indexes of {table.name}, whose rows no heap has"
    if table.rows is None:
        return "unknown", f"{table.name} was never analyzed: ANALYZE tells how large it is"
    if table.rows < _FEW_ROWS:
        few = f"too few rows to gain from it: {table.name} has about {table.rows:,.0f}"
        return "little", few
    rows = f"about {table.rows:,.0f} rows of {table.name}"
    if table.is_partial or (not is_reindex and _WHERE.search(_rest(match))):
        return "unknown", f"of {rows} those that WHERE selects would be sorted: how many?"
    if table.fit == 1:
        return "unknown", f"{rows} would be sorted: by whom, its first column decides{_TYPES}"
    return "yes", (
        f"{rows} would be sorted and written by pg_lookahead"
        f"{', as far as its indexes are btrees' if is_reindex else ''}; "
        "afterwards pg_stat_lookahead tells whether they were, or why not"
    )


def _of_copy(
    connection: GuardedConnection, table: _Table, match: re.Match[str]
) -> tuple[Verdict, str]:
    """What the library says of an INSERT, which needs a value for each column that is named."""
    doubt = f"{_BATCHES}, unless functions of users or rules of {table.name} forbid it"
    if table.is_doubtful:
        return "unknown", doubt
    into, values = match["table"], ""
    if columns := match["columns"]:
        into, values = f"{into} ({columns})", "NULL" + ", NULL" * code_of(columns).count(",")
    (document,) = explain(connection, _INSERT.format(into, values), "VERBOSE, LOOKAHEAD")
    group, facts = document["Plan"].get("Lookahead", {}), inserting(connection, document["Plan"])
    if group.get("Reason") == "volatile function":
        return "unknown", doubt
    if group.get("Status", "stock") == "stock":
        return "no", f"{_BATCHES}, but PostgreSQL inserts them: {group.get('Reason')}"
    if facts is not None and facts.doubtful:
        return "unknown", doubt
    return "yes", (
        f"its rows would be inserted into {table.name} in larger batches; afterwards "
        "pg_stat_lookahead tells whether they were, or why not"
    )


def _against_copy(
    table: _Table, match: re.Match[str], switches: Mapping[str, Any], ahead: tuple[str, ...]
) -> str:
    """Why it is left to PostgreSQL; "" where nothing is known to be in the way."""
    if off := what_is_off(BULK_INSERT, switches):
        return off
    if option := _COPY_OPTION.search(_COLUMN_LIST.sub("", _rest(match))):
        return f"a COPY with {option[0].upper()} is left to PostgreSQL"
    for kind, what in _LEFT_PARTS.items():
        if kind in table.part_kinds:
            return f"partitions of {table.name} are {what}"
    if not switches.get(BULK_EXTEND_SIZE) and table.kind != "p":
        return f"{BULK_EXTEND_SIZE} is 0"
    if ahead:
        looks = "looks" if len(ahead) == 1 else "look"
        return f"{' and '.join(ahead)} {looks} at commands and came first: {way_out(ahead)}"
    return ""


def _rest(match: re.Match[str]) -> str:
    """What follows of the command, without quoted names; a column is right behind its dot."""
    rest = code_of(match.string)[match.end() :]
    return _BEHIND_DOT.sub(".", rest.partition(";")[0])
