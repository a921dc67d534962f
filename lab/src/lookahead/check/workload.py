"""The statements that read most from outside shared buffers, as pg_stat_statements has them.

What it calls a read may have come from the system's cache. Statements are kept with parameters, so
each is judged by its generic plan.

Planning calls functions: those of the statement, and those in the views, indexes and policies of
its tables. Whoever may run statements could have theirs planned, so those of another role are not
planned with the rights of the one that connects; unless both are superusers, who may do everything
anyway.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg

from lookahead.check.facts import CachedBytes, cached_bytes
from lookahead.check.opinion import advise_on
from lookahead.check.statement import PLANNING_LIMIT_S
from lookahead.check.target import connect
from lookahead.check.verdicts import VERDICTS, Verdict
from lookahead.errors import LabError, UnavailableError
from lookahead.formats import one_line, require_text
from lookahead.guarded_connection import explained_queries, find_member, server_message

_EXTENSION = "pg_stat_statements"
# A statement of others' is told as NULL or by a text without a plan; those are left out, and what
# was only planned.
_TOP = """
    WITH statement AS (
        SELECT userid, query, pg_catalog.sum(calls)::pg_catalog.float8 AS calls,
               pg_catalog.sum(shared_blks_read)::pg_catalog.float8 AS reads
        FROM {schema}.pg_stat_statements
        WHERE dbid = (SELECT oid FROM pg_catalog.pg_database
                      WHERE datname = pg_catalog.current_database())
        GROUP BY userid, query)
    SELECT pg_catalog.convert_to(query, CASE pg_catalog.getdatabaseencoding()
               WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END),
           calls, reads, (SELECT pg_catalog.sum(reads) FROM statement),
           pg_catalog.pg_get_userbyid(userid)::pg_catalog.text,
           owner.rolname = session_user OR (owner.rolsuper AND own.rolsuper)
    FROM statement LEFT JOIN pg_catalog.pg_roles owner ON owner.oid = userid
    CROSS JOIN (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user) AS own
    WHERE reads > 0 AND calls > 0 AND query IS NOT NULL AND query <> '<insufficient privilege>'
    ORDER BY reads DESC, query LIMIT %s"""
_Row = tuple[str, float, float, float, str, bool]
# What a list of constants is kept as, with the first of them.
_LIST = "/*, ... */"
_OF_A_LIST = "its list of values is kept as one value: check it with the values"
# So many times what a generic plan reads, a statement reads something else. Pages of indexes are
# in it. Arbitrary.
_MORE, _FEW = 4, 16
_SHOWN_LETTERS = 72
# A value's place that the grammar or a type has none for.
_OF_VALUE = re.compile(r"[ \"]\$[0-9]")
_GAINS = ("yes", "when cold")
_OF_ANOTHER = "planning it could call its role's functions with your rights: run this as that role"


@dataclass(frozen=True)
class Judged:
    """A statement that `role` ran; `share` is that of all reads of the database (0..1)."""

    role: str
    query: str
    calls: float
    reads: float
    share: float
    verdict: Verdict
    reason: str


def judge_top(dsn: str, number: int) -> list[Judged]:
    """The statements with the most reads; LabError where they cannot be had."""
    rows, cached = _top(dsn, number)
    return [
        Judged(
            role,
            query,
            calls,
            reads,
            reads / total,
            *(
                _opinion(dsn, query, reads / calls, cached)
                if is_trusted
                else ("unknown", _OF_ANOTHER)
            ),
        )
        for query, calls, reads, total, role, is_trusted in rows
    ]


def _top(dsn: str, number: int) -> tuple[list[_Row], CachedBytes]:
    """The statements, and what is cached: that is asked once for all of them."""
    with connect(dsn) as connection:
        connection.limit_time(PLANNING_LIMIT_S, in_transaction=False)
        view = find_member(connection, _EXTENSION, "view", _EXTENSION)
        if view is None:
            raise UnavailableError(
                f"this database has no extension {_EXTENSION}",
                f"Name {_EXTENSION} in shared_preload_libraries, start the server anew, and CREATE "
                f"EXTENSION {_EXTENSION}.",
            )
        try:
            rows = connection.execute(_TOP.format(schema=view.schema).encode(), (number,))
            found = [(row[0].decode(errors="surrogateescape"), *row[1:]) for row in rows]
        except psycopg.Error as error:
            raise UnavailableError(
                f"{_EXTENSION} cannot be read: {server_message(error)}",
                one_line(error.diag.message_hint or ""),
            ) from None
        return found, cached_bytes(connection)


def _opinion(dsn: str, query: str, reads_each: float, cached: CachedBytes) -> tuple[Verdict, str]:
    if _LIST in query:
        return "unknown", _OF_A_LIST
    try:
        require_text(query, "the statement")  # where the database has any encoding
        with explained_queries():
            _, advice = advise_on(dsn, query, lambda _: cached)
    except UnavailableError:  # the server is gone, or shuts us out
        raise
    except LabError as error:
        # Such as a type that no parameter can have, a table that is gone, or a limit of the role.
        reason = one_line(error.message.partition("\n")[0])
        way = ": check it with the values" if _OF_VALUE.search(reason) else ""
        return "unknown", f"{reason}{way}"
    pages = advice.most_pages
    if advice.verdict == "little" and pages is not None and reads_each > _MORE * max(pages, _FEW):
        return "unknown", (
            f"it read {reads_each:,.0f} pages a call, its generic plan {pages:,} at most: check it "
            "with values"
        )
    return advice.verdict, advice.conclusion


def workload_lines(judged: Sequence[Judged]) -> Iterator[str]:
    """What it says of the whole workload, then of each statement."""
    if not judged:
        yield f"NO: {_EXTENSION} has no statement of this database that read anything"
        return
    gains = [one for one in judged if one.verdict in _GAINS]
    share, shown = sum(one.share for one in gains), sum(one.share for one in judged)
    yield (
        f"{len(gains)} of {len(judged)} statements would gain; they have {share:.0%} of the reads "
        f"of this database, all that are shown {shown:.0%}"
    )
    for one in judged:
        text = " ".join(one.query.split())
        text = text if len(text) <= _SHOWN_LETTERS else f"{text[: _SHOWN_LETTERS - 3]}..."
        calls = "1 call" if one.calls == 1 else f"{one.calls:,.0f} calls"
        read = f"{one.share:.0%} of the reads, {one.reads:,.0f} in {calls}"
        yield f"{read} of {one_line(one.role)}: {one_line(text)}"
        yield f"  {VERDICTS[one.verdict]}: {one_line(one.reason)}"
