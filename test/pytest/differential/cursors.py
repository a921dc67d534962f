"""Random walks over cursors: the place where look-ahead meets time.

Between two FETCHes anything may happen: savepoints come and go, rows change, settings
change, other cursors move. What a cursor returns must not depend on how far ahead it read.
"""

from __future__ import annotations

from random import Random

from differential.case import Case, Step
from differential.joins import join_query
from differential.predicates import narrow, order_by, where
from differential.queries import Tables, joinable, pick
from differential.schema import Table
from differential.settings import io_settings, lookahead_settings

_BACKWARD = ("PRIOR", "BACKWARD", "FIRST", "LAST", "ABSOLUTE", "-2")
COUNTS = (0, 1, 1, 2, 3, 5, 8, 13, 40, 200)


def _query(rng: Random, tables: Tables) -> tuple[str, Table, bool]:
    """A query for a cursor, its table, and whether WHERE CURRENT OF can name it."""
    table, index = pick(rng, tables)
    if rng.random() < 0.2:
        return join_query(rng, tables)[0], table, False
    tail = order_by(rng, index, "a", total=rng.random() < 0.2) if rng.random() < 0.7 else ""
    condition = where(rng, table, index, "a")
    if rng.random() < 0.25:
        other, _ = pick(rng, tables)
        left, right = joinable(rng, table, other)
        sql = (
            f"SELECT a.id, b.id, b.payload FROM {table.name} a JOIN {other.name} b "
            f"ON a.{left} = b.{right} WHERE {condition} AND {narrow(rng, table, 'a', 300)} {tail}"
        )
        return sql, table, False
    lock = rng.choice(("", "", " FOR UPDATE", " FOR SHARE"))
    columns = f"a.id, a.payload, a.{table.columns[0].name}"
    sql = f"SELECT {columns} FROM {table.name} a WHERE {condition} {tail}{lock}"
    return sql, table, True


def _fetch(rng: Random, cursor: str, scroll: str) -> str:
    """FETCH or MOVE; backward now and then even where that is an error."""
    verb = rng.choice(("FETCH", "FETCH", "FETCH", "MOVE"))
    count = rng.choice(COUNTS)
    forward = rng.choice(
        (f"{count}", f"FORWARD {count}", "NEXT", f"RELATIVE {count}" if count else "NEXT", "ALL")
    )
    backward = rng.choice(
        (
            "PRIOR",
            f"BACKWARD {count}",
            "FIRST",
            "LAST",
            f"ABSOLUTE {count}",
            "BACKWARD ALL",
            "RELATIVE -2",
            "FORWARD 0",
        )
    )
    wish = 0.45 if scroll == "SCROLL " else 0.04
    return f"{verb} {backward if rng.random() < wish else forward} FROM {cursor}"


class Walk:
    """Builds the steps of one walk; remembers open savepoints."""

    def __init__(self, rng: Random, tables: Tables, *, test_settings: bool) -> None:
        self.rng = rng
        self.tables = tables
        self.test_settings = test_settings
        self.steps: list[Step] = []
        self.savepoints: list[str] = []
        self.writes = False

    def add(self, sql: str, *, arm_on_only: bool = False) -> None:
        """Append a step."""
        self.steps.append(Step(sql, arm_on_only))

    def savepoint(self) -> None:
        """Open, release or roll back to a savepoint."""
        rng = self.rng
        if not self.savepoints or rng.random() < 0.4:
            name = f"s{len(self.steps)}"
            self.savepoints.append(name)
            self.add(f"SAVEPOINT {name}")
            return
        position = rng.randrange(len(self.savepoints))
        name = self.savepoints[position]
        if rng.random() < 0.6:
            self.add(f"ROLLBACK TO {name}")
            del self.savepoints[position + 1 :]
        else:
            self.add(f"RELEASE {name}")
            del self.savepoints[position:]

    def failure(self) -> None:
        """An error between fetches, inside a savepoint that is rolled back."""
        name = f"e{len(self.steps)}"
        self.add(f"SAVEPOINT {name}")
        self.add(
            self.rng.choice(
                ("SELECT 1 / 0", "SELECT nothing_of_the_kind", "FETCH 1 FROM unheard_of")
            )
        )
        self.add(f"ROLLBACK TO {name}")

    def settings(self) -> None:
        """Change what the read stream or look-ahead would use if it began anew."""
        for name, value in io_settings(self.rng).items():
            self.add(f"SET LOCAL {name} = {value}")
        if self.rng.random() < 0.6:
            chosen = lookahead_settings(self.rng, test_settings=self.test_settings)
            if self.rng.random() < 0.3:
                chosen["pg_lookahead.enabled"] = "off"
            name, value = self.rng.choice(tuple(chosen.items()))
            self.add(f"SET LOCAL {name} = '{value}'", arm_on_only=True)

    def change(self, table: Table) -> None:
        """Change rows under the open cursor."""
        rng = self.rng
        self.writes = True
        column = rng.choice(table.columns)
        value, first = column.literal(rng), 2000000 + 100 * len(self.steps)
        condition = narrow(rng, table, table.name, rng.choice((1, 30, 200)))
        self.add(
            rng.choice(
                (
                    f"UPDATE {table.name} SET payload = payload + 1 WHERE {condition}",
                    f"UPDATE {table.name} SET {column.name} = {value} WHERE {condition}",
                    f"DELETE FROM {table.name} WHERE {condition}",
                    f"INSERT INTO {table.name} (id, {column.name}, payload) "
                    f"SELECT {first} + g, {value}, g FROM generate_series(1, 20) g",
                )
            )
        )

    def current_of(self, table: Table, cursor: str) -> None:
        """Change the row that the cursor stands on."""
        self.writes = True
        action = self.rng.choice(
            (
                f"UPDATE {table.name} SET payload = -7 WHERE CURRENT OF {cursor} RETURNING id",
                f"DELETE FROM {table.name} WHERE CURRENT OF {cursor} RETURNING id",
            )
        )
        self.guarded(action)

    def guarded(self, sql: str) -> None:
        """A step that may well fail: its savepoint keeps the rest of the walk alive.

        Rolling back a step that succeeded would be another walk than the one wanted, so the
        ROLLBACK TO is a step of its own kind: it hits failed and successful ones alike, but only
        half of the time.
        """
        if self.rng.random() < 0.5:
            self.add(sql)
            return
        name = f"g{len(self.steps)}"
        self.add(f"SAVEPOINT {name}")
        self.add(sql)
        self.add(f"ROLLBACK TO {name}")

    def fetch(self, cursor: str, scroll: str) -> None:
        """FETCH or MOVE, guarded where it goes backward through a cursor that cannot."""
        sql = _fetch(self.rng, cursor, scroll)
        backward = any(word in sql for word in _BACKWARD)
        if backward and scroll != "SCROLL ":
            self.guarded(sql)
        else:
            self.add(sql)


def cursor_walk(rng: Random, tables: Tables, *, test_settings: bool) -> Case:
    """One or two cursors of any kind under 5 to 40 random steps."""
    walk = Walk(rng, tables, test_settings=test_settings)
    cursors: list[tuple[str, str, Table, bool]] = []
    for number in range(rng.choice((1, 1, 1, 2))):
        scroll = rng.choices(("", "NO SCROLL ", "SCROLL "), (3, 6, 2))[0]
        sql, table, updatable = _query(rng, tables)
        walk.writes = walk.writes or " FOR " in sql
        walk.add(f"DECLARE k{number} {scroll}CURSOR FOR {sql}")
        cursors.append((f"k{number}", scroll, table, updatable))
    for _ in range(rng.randint(4, 30)):
        cursor, scroll, table, updatable = rng.choice(cursors)
        choice = rng.random()
        if choice < 0.6:
            walk.fetch(cursor, scroll)
        elif choice < 0.72:
            walk.savepoint()
        elif choice < 0.78:
            walk.failure()
        elif choice < 0.86:
            walk.settings()
        elif choice < 0.93:
            walk.change(table)
        elif updatable:
            walk.current_of(table, cursor)
    for cursor, *_ in cursors:
        walk.add(f"FETCH ALL FROM {cursor}")
        if rng.random() < 0.5:
            walk.add(f"CLOSE {cursor}")
    return Case(
        "cursor", tuple(walk.steps), explainable=walk.steps[0].sql, writes=walk.writes, walks=True
    )


def held_cursor(rng: Random, tables: Tables, *, test_settings: bool) -> Case:
    """A WITH HOLD cursor, partly read before COMMIT and partly after it."""
    del test_settings
    table, index = pick(rng, tables)
    scroll = rng.choice(("NO SCROLL ", "", "SCROLL "))
    sql = (
        f"SELECT a.id, a.payload FROM {table.name} a WHERE {where(rng, table, index, 'a')} "
        f"{order_by(rng, index, 'a', total=False)}"
    )
    if rng.random() < 0.4:
        sql = join_query(rng, tables)[0]
    before = [Step(f"DECLARE h {scroll}CURSOR WITH HOLD FOR {sql}")]
    before += [Step(_fetch(rng, "h", scroll)) for _ in range(rng.randint(0, 4))]
    after = [Step(_fetch(rng, "h", scroll)) for _ in range(rng.randint(1, 5))]
    return Case(
        "held_cursor",
        tuple(before),
        explainable=before[0].sql,
        commits=True,
        walks=True,
        epilogue=(*after, Step("FETCH ALL FROM h"), Step("CLOSE ALL")),
    )


def random_cursor(rng: Random, tables: Tables, *, test_settings: bool) -> Case:
    """Either kind."""
    make = held_cursor if rng.random() < 0.15 else cursor_walk
    return make(rng, tables, test_settings=test_settings)
