"""Runs one case in both arms and compares what they gave."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus

from differential.case import ArmResult, Case, Outcome, Row, Step
from differential.settings import Profile, set_local

OFF = {"pg_lookahead.enabled": "off"}
# PL/pgSQL cursors without a name are numbered through the life of the backend.
_NUMBERED_PORTAL = re.compile(r"<unnamed portal \d+>")
# Of the tables that statements can name, none of another session's among them.
_INDEXES = (
    "SELECT i.indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE c.relkind = 'i' AND c.oid >= 16384 AND pg_table_is_visible(i.indrelid)"
)
_STOCK_RUNS = 4
_FETCHED = (ExecStatus.TUPLES_OK, ExecStatus.SINGLE_TUPLE)


class ServerLostError(Exception):
    """The backend went away while running the statement in ``args[0]``."""


@dataclass(frozen=True)
class Difference:
    """Why two arms do not agree, and everything they gave."""

    reason: str
    off: ArmResult
    on: ArmResult


@dataclass(frozen=True)
class Verdict:
    """``difference`` is None when the arms agree; ``note`` says when they compared less."""

    difference: Difference | None
    note: str = ""


class Runner:
    """Executes cases over one connection. ``index_oids`` are watched by counter cases."""

    def __init__(
        self, connection: psycopg.Connection[object], index_oids: Sequence[int] = ()
    ) -> None:
        self._pg = connection.pgconn
        oids = ",".join(str(oid) for oid in index_oids)
        self._counter_query = (
            "SELECT o, pg_stat_get_xact_numscans(o), pg_stat_get_xact_tuples_returned(o), "
            f"pg_stat_get_xact_tuples_fetched(o) FROM unnest('{{{oids}}}'::oid[]) o"
        )

    def execute(self, sql: str) -> Outcome:
        """Run a string of one or more statements; the outcome is the last one's."""
        result = self._pg.exec_(sql.encode())
        if result.status == ExecStatus.FATAL_ERROR:
            sqlstate = result.error_field(DiagnosticField.SQLSTATE)
            if sqlstate is None or self._pg.status != 0:
                raise ServerLostError(sql, (result.error_message or b"").decode())
            message = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b""
            text = _NUMBERED_PORTAL.sub("<unnamed portal>", message.decode())
            return Outcome(sql, sqlstate.decode(), text, ())
        rows: tuple[Row, ...] = ()
        if result.status in _FETCHED:
            columns = range(result.nfields)
            value = result.get_value
            rows = tuple(tuple(value(row, n) for n in columns) for row in range(result.ntuples))
        return Outcome(sql, "", (result.command_status or b"").decode(), rows)

    def must(self, sql: str) -> Outcome:
        """Run what cannot fail unless the generator or the server is at fault."""
        outcome = self.execute(sql)
        if outcome.sqlstate:
            raise AssertionError(f"{outcome.sqlstate} {outcome.tag}\nstatement: {sql}")
        return outcome

    def run_arm(self, case: Case, profile: Profile, *, enabled: bool) -> ArmResult:
        """One arm from BEGIN to the end of its transaction and the case's epilogue."""
        settings = {**profile.shared, **dict(case.settings), **(profile.on if enabled else OFF)}
        self.must(f"BEGIN ISOLATION LEVEL {profile.isolation}; {set_local(settings)}")
        plan = ""
        if case.explainable:
            explained = self.execute(f"EXPLAIN (COSTS OFF) {case.explainable}")
            plan = "\n".join((row[0] or b"").decode() for row in explained.rows)
            if explained.sqlstate:
                self.must("ROLLBACK")
                return ArmResult((explained,), plan)
        before = self._read_counters() if case.counters else ()
        outcomes = [self._step(step) for step in case.steps if enabled or not step.arm_on_only]
        after: tuple[Row, ...] = ()
        if case.counters and not outcomes[-1].sqlstate:
            after = _growth(before, self._read_counters())
        # COMMIT runs a held cursor to its end and so may fail like any statement.
        outcomes.append(self.execute("COMMIT") if case.commits else self.must("ROLLBACK"))
        outcomes += [self._step(step) for step in case.epilogue]
        return ArmResult(tuple(outcomes), plan, after)

    def _step(self, step: Step) -> Outcome:
        return replace(
            self.execute(step.sql),
            sql="" if step.arm_on_only else step.sql,
            as_set=step.as_set,
        )

    def _read_counters(self) -> tuple[Row, ...]:
        return self.must(self._counter_query).rows

    def run(self, case: Case, profile: Profile) -> Verdict:
        """Both arms, in the order the profile says, and the comparison.

        Where rows are changed stock comes first: only then does running it once more tell whether
        a difference is its own.
        """
        if case.counters:
            return self._run_counters(case, profile)
        if profile.on_first and not case.writes:
            on = self.run_arm(case, profile, enabled=True)
            off = self.run_arm(case, profile, enabled=False)
            return compare(case, off, on)
        off = self.run_arm(case, profile, enabled=False)
        on = self.run_arm(case, profile, enabled=True)
        verdict = compare(case, off, on)
        if not (verdict.difference and case.writes):
            return verdict
        if self._stock_differs(case, profile, off):
            return Verdict(None, "stock unstable")
        off = self._run_on_new_indexes(case, profile, enabled=False)
        on = self._run_on_new_indexes(case, profile, enabled=True)
        again = compare(case, off, on)
        return again if again.difference else Verdict(None, "stock unstable")

    def _stock_differs(self, case: Case, profile: Profile, off: ArmResult) -> bool:
        """Whether stock itself gives another answer when the statement is run again.

        A change that was rolled back leaves index entries behind, and the next insertion may merge
        equal entries into a posting list. A backward scan returns the rows of one posting list in
        ascending order but lists in descending order, so equal keys may change places. Two answers
        may take turns, so that one more run gives the first again.
        """
        return any(
            compare(case, off, self.run_arm(case, profile, enabled=False)).difference
            for _ in range(_STOCK_RUNS)
        )

    def _run_on_new_indexes(self, case: Case, profile: Profile, *, enabled: bool) -> ArmResult:
        """One arm on indexes as the table's rows make them, whatever was rolled back before.

        Rows come out of GiST, SP-GiST and hash indexes in the order of their pages. Every change
        that was rolled back may have split one, and stock may give its old order again next time.
        """
        self.must("SET pg_lookahead.enabled = off")
        for (name,) in self.must(_INDEXES).rows:
            self.must(f"REINDEX INDEX {(name or b'').decode()}")
        self.must("RESET pg_lookahead.enabled")
        return self.run_arm(case, profile, enabled=enabled)

    def _run_counters(self, case: Case, profile: Profile) -> Verdict:
        """Compare index counters once earlier runs have left no dead item to be marked."""
        self.run_arm(case, profile, enabled=False)
        before = self.run_arm(case, profile, enabled=False)
        on = self.run_arm(case, profile, enabled=True)
        off = self.run_arm(case, profile, enabled=False)
        verdict = compare(case, off, on)
        if verdict.difference or verdict.note:
            return verdict
        if before.counters != off.counters:
            return Verdict(None, "counters not settled")
        if "Limit" in off.plan and "Nested Loop" in off.plan:
            return verdict  # such a join may have read more outer rows (docs/limitations.md)
        to_the_end = case.kind == "plain" and "Limit" not in off.plan
        columns = slice(0, 4) if to_the_end else slice(2, 4)
        if [row[columns] for row in off.counters] != [row[columns] for row in on.counters]:
            return Verdict(Difference("index counters (oid, scans, read, fetched) differ", off, on))
        return verdict


def _growth(before: Sequence[Row], after: Sequence[Row]) -> tuple[Row, ...]:
    """Counter rows as differences; the first column is the index's oid."""
    return tuple(
        (
            new[0],
            *(
                str(int(b or 0) - int(a or 0)).encode()
                for a, b in zip(old[1:], new[1:], strict=True)
            ),
        )
        for old, new in zip(before, after, strict=True)
    )


def compare(case: Case, off: ArmResult, on: ArmResult) -> Verdict:
    """Rows in order, tags and SQLSTATEs; less only where the plan itself promises less."""
    theirs = [outcome for outcome in on.outcomes if outcome.sql]
    if len(off.outcomes) != len(theirs):
        return Verdict(Difference("different number of outcomes", off, on))
    note = ""
    if off.plan != on.plan:
        note = "plan changed"
    elif "Gather" in off.plan:
        note = "parallel"
    if note == "plan changed" and case.walks:
        return Verdict(None, note)
    if note and any(outcome.sqlstate for outcome in (*off.outcomes, *theirs)):
        # Which participant reaches a failing row first, and whether LIMIT stops before, is open.
        return Verdict(None, f"{note}, error")
    for one, other in zip(off.outcomes, theirs, strict=True):
        reason = _disagreement(
            one, other, ordered=not (note or one.as_set), countable=not (note and case.limited)
        )
        if reason:
            return Verdict(Difference(f"{reason} differ in: {one.sql}", off, on), note)
    return Verdict(None, note)


def _disagreement(off: Outcome, on: Outcome, *, ordered: bool, countable: bool) -> str:
    """What differs between two outcomes of one step, or ''."""
    if off.sqlstate != on.sqlstate:
        return "SQLSTATEs"
    if off.tag != on.tag:
        return "messages" if off.sqlstate else "command tags"
    if len(off.rows) != len(on.rows):
        return "row counts"
    if ordered and off.rows != on.rows:
        return "rows (in order)"
    if not ordered and countable and sorted(map(repr, off.rows)) != sorted(map(repr, on.rows)):
        return "rows (as a set)"
    return ""
