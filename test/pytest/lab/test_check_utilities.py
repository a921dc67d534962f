"""Which commands `lookahead check` tells by their words, and what of them; without a server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from lookahead.check.advice import Advice
from lookahead.check.statement import explained_errors, has_parameters, unseen_functions
from lookahead.check.utilities import advise_utility, without_plan
from lookahead.errors import LabError, UsageError
from lookahead.guarded_connection import GuardedConnection

_SETTINGS: list[tuple[Any, ...]] = [
    (f"pg_lookahead.{name}", name != "disable")
    for name in ("enabled", "disable", "enable_index_build", "enable_bulk_insert")
] + [
    (name, True)
    for name in (
        "pg_lookahead.bulk_extend_size",
        "max_parallel_maintenance_workers",
        "maintenance_work_mem",
    )
]
_PLAN = {"Plan": {"Lookahead": {"Status": "eligible"}}}


class _Server:
    """One that has each table, with so many rows; it keeps the name that was asked for."""

    def __init__(self, rows: float | None = 1e6) -> None:
        self.rows, self.asked, self.kind = rows, "", "r"

    @contextmanager
    def users_names(self) -> Iterator[None]:
        yield

    def require_single(self, text: bytes) -> None:
        pass

    def execute(
        self, query: str | bytes, values: Sequence[Any] | None = (), **_: Any
    ) -> SimpleNamespace:
        query = query if isinstance(query, str) else query.decode()
        found: list[tuple[Any, ...]] = _SETTINGS
        if query.startswith("EXPLAIN"):
            found = [([_PLAN],)]
        elif "tgqual" in query:
            found = []
        elif "is_taken" in query:
            found = [(False,)]
        elif "parse_ident" in query:
            found = [(2,)]
        elif "regclass" in query and values and isinstance(values[0], str):
            self.asked, found = values[0], [(1,)]
        elif "relkind" in query:
            known = (
                self.kind,
                self.rows,
                False,
                False,
                2,
                "",
                *(False, False, None),
                *(True, True, True),
                *(False, False),
            )
            found = [] if self.rows is None else [known]
        elif "loaded_modules" in query:
            found = [("pg_lookahead", None)]
        return SimpleNamespace(fetchone=lambda: next(iter(found), None), fetchall=lambda: found)

    def advise(self, statement: str) -> Advice | None:
        self.kind = "i" if statement.startswith("REINDEX INDEX") else "r"
        return advise_utility(cast(GuardedConnection, self), statement)


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("CREATE INDEX ON t (k)", "t"),
        ('CREATE INDEX i ON"t"(k)', '"t"'),
        ('create unique index"i"on only"a""b"using"btree"(k)', '"a""b"'),
        ("CREATE INDEX ion ON onlyt* USING btree (k)", "onlyt"),
        ("CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON a . t (k)", "a . t"),
        ("CREATE INDEX ON e\u0301$1 (k)", "e\u0301$1"),
        ("ALTER TABLE t ADD PRIMARY KEY (k)", "t"),
        ('alter table only"a" . t*add constraint"c"unique(k, "b)")', '"a" . t'),
        ("ALTER TABLE IF EXISTS t ADD UNIQUE NULLS NOT DISTINCT (k) INCLUDE (b)", "t"),
        ("ALTER TABLE t ADD UNIQUE (k, b) WITH (fillfactor = 90) DEFERRABLE ;", "t"),
        ("REINDEX(VERBOSE)TABLE CONCURRENTLY t ; ", "t"),
        ('REINDEX INDEX"i"', '"i"'),
        ('COPY"t"FROM STDIN', '"t"'),
        ("COPY BINARY t (k)FROM STDIN", "t"),
        ("COPY binaryt FROM STDIN", "binaryt"),
    ],
)
def test_commands_that_are_told_by_their_words(statement: str, table: str) -> None:
    server = _Server()
    advice = server.advise(statement)
    assert advice is not None
    assert (server.asked, advice.verdict) == (table, "yes")


@pytest.mark.parametrize(
    "statement",
    [
        "COPY 2024 FROM STDIN",
        "CREATE INDEX ON 123 (k)",
        "CREATE INDEX i\xa0ON t (k)",
        "COPY\xa0t FROM STDIN",
        "COPY (SELECT 1) TO STDOUT",
        "COPY tfrom STDIN",
        "REINDEX SCHEMA s",
        "REINDEX TABLE t; SELECT 1",
        "CREATE INDEXES ON t (k)",
        "ALTER TABLE t ADD PRIMARY KEY (k, b WITHOUT OVERLAPS)",
        "ALTER TABLE t ADD PRIMARY KEY USING INDEX i",
        "ALTER TABLE t ADD CONSTRAINT unique_k CHECK (k > 0)",
        "ALTER TABLE t ADD UNIQUE (k), ADD PRIMARY KEY (b)",
        "ALTER TABLE t ADD UNIQUE (k) INCLUDE (b), ADD COLUMN k serial",
        "SELECT 1",
    ],
)
def test_other_statements(statement: str) -> None:
    """Digits would be an OID; a blank that is none to PostgreSQL is a letter."""
    assert _Server().advise(statement) is None


@pytest.mark.parametrize(
    ("rest", "verdict"),
    [
        ("(k) WHERE k > 5", "unknown"),
        ("(k)where(k > 5)", "unknown"),
        ("(k, (where$a))", "yes"),
        ("(k, (where\u0301))", "yes"),
        ("(k, (t . \n where))", "yes"),
        ("(k); SELECT 1 WHERE true", "yes"),
    ],
)
def test_whether_an_index_is_partial(rest: str, verdict: str) -> None:
    advice = _Server().advise(f"CREATE INDEX ON t {rest}")
    assert advice is not None
    assert advice.verdict == verdict


def test_few_rows() -> None:
    advice = _Server(1).advise("CREATE INDEX ON t (k)")
    assert advice is not None
    assert advice.conclusion == "too few rows to gain from it: t has about 1"


def test_a_table_that_is_gone_meanwhile() -> None:
    with pytest.raises(UsageError, match="there is no table t"):
        _Server(None).advise("COPY t FROM STDIN")


@pytest.mark.timeout(20)
def test_blanks_take_no_longer() -> None:
    assert _Server().advise(f"REINDEX TABLE t{' ' * 200_000}x") is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["1" * 200_000, "a" * 200_000, f"e{chr(0x301) * 200_000}"])
def test_long_words_of_a_plan_take_no_longer(text: str) -> None:
    plan = {"Node Type": "Result", "Output": [text]}
    assert unseen_functions(cast(GuardedConnection, None), [plan]) == ()


def test_a_parameter_is_none_within_a_name() -> None:
    assert not has_parameters("SELECT 1 AS e\u0301$1")


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("/* a */ -- b\n  VACUUM t", "no"),
        ("VACUUM (VERBOSE) full_t", "no"),
        ("PREPARE TRANSACTION 't'", "no"),
        ("ALTER SYSTEM SET a = 1", "no"),
        ("DOCUMENT", "no"),
        ("PREPARE p AS SELECT 1", "unknown"),
        ("DO 'BEGIN END'", "unknown"),
        ("COPY (SELECT 1) TO STDOUT", "unknown"),
        ("vacuum(verbose, full) t", "unknown"),
        ("VACUUM FULL", "unknown"),
        ("ALTER TABLE t ALTER a TYPE int8", "unknown"),
        ('CREATE INDEX i ON U&"t" (k)', "unknown"),
    ],
)
def test_what_has_no_plan(statement: str, verdict: str) -> None:
    advice = without_plan(statement)
    assert advice.verdict == verdict
    assert advice.conclusion.startswith("EXPLAIN has no plan of it: ")


def test_planning_that_takes_too_long() -> None:
    with (
        pytest.raises(LabError, match="the planning of the statement was not finished") as caught,
        explained_errors("SELECT 1", 0, "the planning of the statement"),
    ):
        raise psycopg.errors.QueryCanceled("late")
    assert caught.value.hint.startswith("A time limit (60 s of lookahead's own, or a shorter")
