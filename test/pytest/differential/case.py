"""The values that generator and runner exchange: a case, its steps and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass

Row = tuple[bytes | None, ...]


@dataclass(frozen=True)
class Step:
    """One statement of a case.

    ``arm_on_only`` steps change look-ahead and are left out when it is off. ``as_set`` steps read
    or return rows that the transaction has itself put somewhere: where, and so the order of equal
    keys, depends on the free space that earlier transactions left.
    """

    sql: str
    arm_on_only: bool = False
    as_set: bool = False


@dataclass(frozen=True)
class Case:
    """Statements run in one transaction, once with look-ahead off and once on.

    ``explainable`` is the statement whose plan decides how rows are compared (empty: rows
    are compared in order). ``limited`` says that a LIMIT without a total order may pick
    other rows when the plan itself is not deterministic; ``walks`` that rows are taken one by one,
    so that nothing can be compared when the arms got different plans. ``commits`` cases end with
    COMMIT because a step after it still reads a held cursor; they change nothing. ``settings`` are
    needed, by both arms, for the plan the case is about.
    """

    kind: str
    steps: tuple[Step, ...]
    explainable: str = ""
    limited: bool = False
    writes: bool = False
    walks: bool = False
    commits: bool = False
    counters: bool = False
    epilogue: tuple[Step, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What one step gave: rows as text, command tag, SQLSTATE ('' when it succeeded)."""

    sql: str
    sqlstate: str
    tag: str
    rows: tuple[Row, ...]
    as_set: bool = False


@dataclass(frozen=True)
class ArmResult:
    """All outcomes of one arm, the plan when asked for, and index counters when asked for."""

    outcomes: tuple[Outcome, ...]
    plan: str
    counters: tuple[Row, ...] = ()


def statement(kind: str, sql: str, *, limited: bool = False, writes: bool = False) -> Case:
    """A case of a single statement."""
    return Case(kind, (Step(sql),), explainable=sql, limited=limited, writes=writes)
