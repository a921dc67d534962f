"""Random statements that lock or change rows they find by index (always rolled back)."""

from __future__ import annotations

from random import Random

from differential.case import Case, Step, statement
from differential.predicates import limit, narrow, order_by, where
from differential.queries import Tables, joinable, pick
from differential.schema import Column, Index, Table


def lock_rows(rng: Random, tables: Tables) -> Case:
    """SELECT ... FOR one of the four row locks, in index order."""
    table, index = pick(rng, tables)
    strength = rng.choice(("UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"))
    wait = rng.choice(("", "", " NOWAIT", " SKIP LOCKED"))
    tail = order_by(rng, index, "a", total=False) if rng.random() < 0.7 else ""
    sql = (
        f"SELECT a.id, a.payload, a.ctid FROM {table.name} a WHERE {where(rng, table, index, 'a')} "
        f"{tail}{limit(rng)} FOR {strength}{wait}"
    )
    return statement("lock_rows", sql, writes=True)


def _assignment(rng: Random, table: Table) -> str:
    """SET list: an unindexed column (HOT) or a key (moves the row within the index)."""
    column: Column = rng.choice(table.columns)
    return rng.choice(
        (
            "payload = a.payload + 1",
            "payload = a.payload + 1",
            f"{column.name} = {column.literal(rng)}",
            f"{column.name} = NULL",
            f"payload = 0, {column.name} = {column.literal(rng)}",
        )
    )


def _small_where(rng: Random, table: Table, index: Index) -> str:
    """A condition by index that touches few rows, so that tables do not grow without end."""
    return f"{where(rng, table, index, 'a')} AND {narrow(rng, table, 'a', 250)}"


def update(rng: Random, tables: Tables) -> Case:
    """UPDATE by index, alone or driven by another table."""
    table, index = pick(rng, tables)
    sql = f"UPDATE {table.name} a SET {_assignment(rng, table)} "
    if rng.random() < 0.3:
        other, _ = pick(rng, tables)
        left, right = joinable(rng, table, other)
        sql += (
            f"FROM {other.name} b WHERE a.{left} = b.{right} AND {narrow(rng, other, 'b', 60)} AND "
            f"{narrow(rng, table, 'a', 400)}"
        )
    else:
        sql += f"WHERE {_small_where(rng, table, index)}"
    return statement(
        "update", f"{sql} RETURNING a.id, a.payload, a.{table.columns[0].name}", writes=True
    )


def delete(rng: Random, tables: Tables) -> Case:
    """DELETE by index, sometimes through a join or an ordered subquery."""
    table, index = pick(rng, tables)
    choice = rng.random()
    if choice < 0.3:
        chosen = order_by(rng, index, "s", total=True)
        condition = where(rng, table, index, "s")
        inside = f"SELECT s.id FROM {table.name} s WHERE {condition} {chosen} LIMIT 40"
        condition = f"a.id IN ({inside})"
    elif choice < 0.5:
        other, _ = pick(rng, tables)
        left, right = joinable(rng, table, other)
        inside = f"SELECT 1 FROM {other.name} b WHERE b.{right} = a.{left} AND b.payload >= 0"
        condition = f"{narrow(rng, table, 'a', 100)} AND EXISTS ({inside})"
    else:
        condition = _small_where(rng, table, index)
    return statement(
        "delete",
        f"DELETE FROM {table.name} a WHERE {condition} RETURNING a.id, a.ctid",
        writes=True,
    )


def merge(rng: Random, tables: Tables) -> Case:
    """MERGE that updates or deletes what an index finds."""
    table, _ = pick(rng, tables)
    source, index = pick(rng, tables)
    inside = (
        f"SELECT DISTINCT s.id FROM {source.name} s WHERE {where(rng, source, index, 's')} "
        f"AND {narrow(rng, source, 's', 80)}"
    )
    assignment = _assignment(rng, table).replace("a.payload", "payload")
    sql = (
        f"MERGE INTO {table.name} a USING ({inside}) b ON a.id = b.id AND a.id % 2 = 0 "
        f"WHEN MATCHED AND a.payload > 3 THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {assignment} "
        "RETURNING merge_action(), a.id"
    )
    return statement("merge", sql, writes=True)


def copy_rows(rng: Random, tables: Tables) -> Case:
    """INSERT ... SELECT from a table into itself: the scan must not see its own rows."""
    table, index = pick(rng, tables)
    names = ", ".join(column.name for column in table.columns)
    sql = (
        f"INSERT INTO {table.name} (id, {names}, payload) "
        f"SELECT a.id + 1000000, {names}, a.payload "
        f"FROM {table.name} a WHERE {_small_where(rng, table, index)} RETURNING id"
    )
    return statement("copy_rows", sql, writes=True)


def changing_with(rng: Random, tables: Tables) -> Case:
    """A data-modifying CTE beside a query that reads the same table."""
    table, index = pick(rng, tables)
    action = rng.choice(("DELETE FROM {t} a WHERE {w}", "UPDATE {t} a SET payload = -5 WHERE {w}"))
    changed = action.format(t=table.name, w=_small_where(rng, table, index))
    use = rng.choice(
        (f"SELECT count(*), sum(a.payload) FROM {table.name} a WHERE a.id >= 0", "SELECT * FROM d")
    )
    return statement(
        "changing_with", f"WITH d AS ({changed} RETURNING a.id, a.payload) {use}", writes=True
    )


def own_changes(rng: Random, tables: Tables) -> Case:
    """Reads between changes of the same transaction, with savepoints rolled back and released.

    No row is found by its address: the transaction's own are where the other arm left room.
    """
    while True:
        case = _own_changes(rng, tables)
        if not any("ctid" in step.sql for step in case.steps):
            return case


def _own_changes(rng: Random, tables: Tables) -> Case:
    table, index = pick(rng, tables)
    steps: list[Step] = []
    for number in range(rng.randint(2, 4)):
        steps.append(Step(f"SAVEPOINT s{number}"))
        change = rng.choice((update, delete, copy_rows))(rng, (table,))
        sql = change.steps[0].sql.replace("RETURNING a.id, a.ctid", "RETURNING a.id")
        steps.append(Step(sql, as_set=True))
        steps.append(
            Step(
                f"SELECT a.id, a.payload FROM {table.name} a WHERE {where(rng, table, index, 'a')} "
                f"{order_by(rng, index, 'a', total=True)}",
                as_set=True,
            )
        )
        steps.append(
            Step(
                rng.choice(
                    (f"ROLLBACK TO s{number}", f"ROLLBACK TO s{number}", f"RELEASE s{number}")
                )
            )
        )
    steps.append(
        Step(f"SELECT count(*), sum(a.id), sum(a.payload) FROM {table.name} a WHERE a.id >= 0")
    )
    return Case("own_changes", tuple(steps), writes=True)


MODIFICATIONS = (
    (lock_rows, 6),
    (update, 6),
    (delete, 5),
    (merge, 2),
    (copy_rows, 2),
    (changing_with, 3),
    (own_changes, 4),
)


def random_modification(rng: Random, tables: Tables) -> Case:
    """Any of the above."""
    makers, weights = zip(*MODIFICATIONS, strict=True)
    case: Case = rng.choices(makers, weights)[0](rng, tables)
    return case
