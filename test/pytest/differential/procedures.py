"""Random PL/pgSQL blocks that change what they scan.

A block leaves what it saw in the table ``trace``, which the next step reads; the
transaction is rolled back, so ``trace`` is empty again for the other arm.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from differential.case import Case, Step
from differential.predicates import narrow, order_by, where
from differential.queries import Tables, pick
from differential.schema import Table

Maker = Callable[[Random, Tables], Case]
TRACE_TABLE = "CREATE TABLE trace (seq int GENERATED ALWAYS AS IDENTITY, seen int, note text)"
_READ_TRACE = "SELECT row_number() OVER (ORDER BY seq), seen, note FROM trace ORDER BY seq"


def _body(rng: Random, table: Table) -> str:
    """What the loop does with each row ``r``."""
    column = rng.choice(table.columns)
    value = column.literal(rng)
    return rng.choice(
        (
            f"UPDATE {table.name} SET payload = payload + 1 WHERE id = r.id;",
            f"UPDATE {table.name} SET {column.name} = {value} WHERE id = r.id;",
            f"DELETE FROM {table.name} WHERE id = r.id + 1;",
            f"INSERT INTO {table.name} (id, {column.name}, payload) "
            f"VALUES (3000000 + n, {value}, n);",
            "",
        )
    )


def _trouble(rng: Random) -> str:
    """A failed subtransaction in some passes of the loop."""
    if rng.random() < 0.5:
        return ""
    return (
        f"IF n % {rng.choice((2, 7, 20))} = 0 THEN BEGIN PERFORM 1 / (n - n); "
        "EXCEPTION WHEN division_by_zero THEN "
        "INSERT INTO trace (seen, note) VALUES (n, 'caught'); END; END IF;"
    )


def for_loop(rng: Random, tables: Tables) -> Case:
    """FOR r IN query LOOP ... END LOOP, perhaps left early."""
    table, index = pick(rng, tables)
    query = (
        f"SELECT a.id, a.payload FROM {table.name} a WHERE {where(rng, table, index, 'a')} "
        f"AND {narrow(rng, table, 'a', 300)} {order_by(rng, index, 'a', total=False)}"
    )
    leave = (
        f"EXIT WHEN n > {rng.choice((3, 12, 60))};" if rng.random() < 0.5 else "EXIT WHEN n > 150;"
    )
    block = (
        f"DO $do$ DECLARE r record; n int := 0; BEGIN FOR r IN {query} LOOP n := n + 1; "
        f"INSERT INTO trace (seen, note) VALUES (r.id, r.payload::text); {_body(rng, table)} "
        f"{_trouble(rng)} {leave} END LOOP; END $do$"
    )
    return Case(
        "for_loop", (Step(block), Step(_READ_TRACE)), explainable=query, writes=True, walks=True
    )


def explicit_cursor(rng: Random, tables: Tables) -> Case:
    """OPEN, FETCH, MOVE and WHERE CURRENT OF inside a block."""
    table, index = pick(rng, tables)
    scroll = rng.choice(("NO SCROLL", "NO SCROLL", "SCROLL"))
    query = (
        f"SELECT a.id, a.payload FROM {table.name} a WHERE {where(rng, table, index, 'a')} "
        f"{order_by(rng, index, 'a', total=False)}"
    )
    move = rng.choice(
        ("", f"IF n % 5 = 0 THEN MOVE FORWARD {rng.choice((1, 3, 30))} IN k; END IF;")
    )
    change = rng.choice(
        ("", f"IF n % 3 = 0 THEN UPDATE {table.name} SET payload = -n WHERE CURRENT OF k; END IF;")
    )
    block = (
        f"DO $do$ DECLARE k {scroll} CURSOR FOR {query}; i int; p int; n int := 0; "
        "BEGIN OPEN k; LOOP "
        "FETCH k INTO i, p; EXIT WHEN NOT FOUND; n := n + 1; "
        f"INSERT INTO trace (seen, note) VALUES (i, p::text); {change} {move} {_trouble(rng)} "
        f"EXIT WHEN n > {rng.choice((5, 40, 150))}; END LOOP; CLOSE k; END $do$"
    )
    return Case(
        "explicit_cursor",
        (Step(block), Step(_READ_TRACE)),
        explainable=query,
        writes=True,
        walks=True,
    )


def error_inside_savepoint(rng: Random, tables: Tables) -> Case:
    """A scan that fails half way through inside a savepoint, and runs again after it."""
    table, index = pick(rng, tables)
    query = (
        f"SELECT a.id, 10 / (a.id - {rng.randrange(max(table.rows, 2))}) FROM {table.name} a "
        f"WHERE {where(rng, table, index, 'a')} {order_by(rng, index, 'a', total=False)}"
    )
    repaired = query.replace("10 / (", "10 + (")
    steps = [Step("SAVEPOINT e"), Step(query), Step("ROLLBACK TO e"), Step(repaired)]
    if rng.random() < 0.5:
        steps = [
            Step(f"DECLARE k NO SCROLL CURSOR FOR {repaired}"),
            Step("FETCH 5 FROM k"),
            *steps,
            Step("FETCH 5 FROM k"),
            Step("FETCH ALL FROM k"),
        ]
    return Case("error_inside_savepoint", tuple(steps))


PROCEDURES: tuple[tuple[Maker, int], ...] = (
    (for_loop, 4),
    (explicit_cursor, 3),
    (error_inside_savepoint, 4),
)


def random_procedure(rng: Random, tables: Tables) -> Case:
    """Any of the above."""
    makers, weights = zip(*PROCEDURES, strict=True)
    case: Case = rng.choices(makers, weights)[0](rng, tables)
    return case
