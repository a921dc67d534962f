"""A difference as text: what happened, and a psql script that does it again."""

from __future__ import annotations

from collections.abc import Sequence

from differential.case import ArmResult, Case, Row
from differential.runner import OFF, Difference
from differential.settings import Profile, set_local

_SHOWN_ROWS = 12


def script(case: Case, profile: Profile, build: Sequence[str]) -> str:
    """A psql script: the tables, then both arms in the order in which they ran."""
    arms = ("on", "off") if profile.on_first else ("off", "on")
    lines = ["\\set ON_ERROR_STOP 0", *(f"{statement};" for statement in build)]
    for arm in arms:
        settings = {**profile.shared, **dict(case.settings), **(profile.on if arm == "on" else OFF)}
        lines += [f"\\echo arm: {arm}", f"BEGIN ISOLATION LEVEL {profile.isolation};"]
        lines.append(f"{set_local(settings)};")
        if case.explainable:
            lines.append(f"EXPLAIN (COSTS OFF) {case.explainable};")
        lines += [f"{step.sql};" for step in case.steps if arm == "on" or not step.arm_on_only]
        lines.append("COMMIT;" if case.commits else "ROLLBACK;")
        lines += [f"{step.sql};" for step in case.epilogue]
    return "\n".join(lines) + "\n"


def explain_difference(difference: Difference) -> str:
    """The first rows that differ, by step, and both plans when they differ."""
    lines = [f"difference: {difference.reason}"]
    if difference.off.plan:
        lines += ["plan:", difference.off.plan]
    if difference.off.plan != difference.on.plan:
        lines += ["plan with look-ahead:", difference.on.plan]
    theirs = [outcome for outcome in difference.on.outcomes if outcome.sql]
    for number, (off, on) in enumerate(zip(difference.off.outcomes, theirs, strict=False)):
        if (off.sqlstate, off.tag, off.rows) == (on.sqlstate, on.tag, on.rows):
            continue
        lines.append(f"step {number}: {off.sql}")
        lines.append(f"  off: {off.sqlstate or 'ok'} {off.tag}, {len(off.rows)} rows")
        lines.append(f"  on:  {on.sqlstate or 'ok'} {on.tag}, {len(on.rows)} rows")
        lines += _first_rows(off.rows, on.rows)
    return "\n".join(lines + _counters(difference.off, difference.on))


def _first_rows(off: Sequence[Row], on: Sequence[Row]) -> list[str]:
    """Rows from the first position that differs on."""
    start = next(
        (n for n, pair in enumerate(zip(off, on, strict=False)) if pair[0] != pair[1]),
        min(len(off), len(on)),
    )
    lines = []
    for position in range(start, min(start + _SHOWN_ROWS, max(len(off), len(on)))):
        lines.append(f"  row {position}: off {_row(off, position)} | on {_row(on, position)}")
    return lines


def _row(rows: Sequence[Row], position: int) -> str:
    if position >= len(rows):
        return "-"
    return str(tuple(None if value is None else value.decode() for value in rows[position]))


def _counters(off: ArmResult, on: ArmResult) -> list[str]:
    if off.counters == on.counters:
        return []
    return [f"counters off: {off.counters}", f"counters on:  {on.counters}"]
