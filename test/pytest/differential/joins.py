"""Random joins of two to six tables, mostly by nested loops that look their inner side up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from differential.case import Case, Step, statement
from differential.predicates import filter_condition, index_condition, limit, order_by
from differential.queries import Tables, driving
from differential.schema import Index, Key, Table

_LOOPS = {"enable_hashjoin": "off", "enable_mergejoin": "off"}
_LOOK_UPS = {**_LOOPS, "enable_indexscan": "on", "enable_seqscan": "off"}
_INTEGERS = ("int2", "int4")
# What a plan's nodes did. How many entries are dead depends on who was there before; a scan with
# IN (...) that stops early has searched ahead (docs/limitations.md).
EXECUTED = """CREATE FUNCTION executed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $f$
DECLARE
    line text;
    searches_ahead boolean;
BEGIN
    FOR line IN EXECUTE
        'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query
    LOOP
        IF line ~ '->|Index Cond:' THEN
            searches_ahead := line ~ 'Index Cond:.* = ANY ';
        END IF;
        CONTINUE WHEN line ~ 'Heap (Fetches|Blocks)';
        CONTINUE WHEN searches_ahead AND line ~ 'Index Searches:';
        RETURN NEXT line;
    END LOOP;
END $f$"""
# More would make some statements join millions of rows.
_MOST_MATCHES = 8


@dataclass
class Joined:
    """What stands in FROM so far: aliases with their tables, and the text."""

    text: str
    members: list[tuple[str, Table]] = field(default_factory=list)

    def alias(self) -> str:
        return f"j{len(self.members)}"


def _value(rng: Random, joined: Joined, kind: str) -> str:
    """A column of an earlier table that can be compared with a key of this type."""
    alias, table = rng.choice(joined.members)
    fitting = [c.name for c in table.columns if c.type == kind]
    if kind in _INTEGERS:
        fitting += [c.name for c in table.columns if c.type in _INTEGERS] + ["id", "id"]
    if not fitting:
        return ""
    value = f"{alias}.{rng.choice(fitting)}"
    if kind == "int4" and rng.random() < 0.08:
        return f"({value} + {rng.choice((0, 1))})"
    if kind == "text" and rng.random() < 0.1:
        return f"{value}::varchar"
    return value


def _compared(rng: Random, key: Key, alias: str, value: str) -> str:
    """One key of an index and a value of an earlier table."""
    column = key.sql(alias)
    choice = rng.random()
    if choice < 0.8:
        return f"{column} = {value}"
    if choice < 0.86:
        return f"{column} IN ({value}, {key.literal(rng)})"
    if choice < 0.9:
        return f"{column} = ANY (ARRAY[{value}, {key.literal(rng)}]::{key.type}[])"
    if choice < 0.94:
        return f"({column} = {value} OR {alias}.id = {rng.randrange(50)})"
    return f"({column}, {alias}.id) >= ({value}, {rng.randrange(50)}) AND {column} <= {value}"


def _usable(table: Table) -> list[Index]:
    """Its btrees with few rows for each key."""
    return [
        index
        for index in table.indexes
        if index.method == "btree" and index.keys[0].distinct * _MOST_MATCHES >= table.rows
    ]


def _matched(rng: Random, joined: Joined, table: Table, alias: str) -> str:
    """A condition by which an index of ``table`` is looked up by values of earlier tables."""
    index = rng.choice(_usable(table))
    parts = []
    for key in index.keys[: rng.choice((1, 1, 2, 3))]:
        value = _value(rng, joined, key.type)
        if not value:
            break
        parts.append(_compared(rng, key, alias, value))
    if not parts:
        parts = [f"{alias}.id = {_value(rng, joined, 'int4')}"]
    if index.predicate and rng.random() < 0.85:
        parts.append(index.predicate.format(q=f"{alias}."))
    if rng.random() < 0.2:
        parts.append(index_condition(rng, rng.choice(table.indexes), alias))
    if rng.random() < 0.2:
        parts.append(filter_condition(rng, table, alias))
    return " AND ".join(parts)


def _source(rng: Random, tables: Tables) -> Joined:
    """The first member: a table's rows, some of which may throw, or something like them."""
    table, text = driving(rng, tables, rng.choice((1, 5, 30, 80)))
    inside = text.removesuffix(" a")
    rows = rng.choice(
        (
            inside,
            inside,
            inside,
            f"(SELECT * FROM {inside} x WHERE {filter_condition(rng, table, 'x')} OFFSET 0)",
            f"(SELECT * FROM {inside} x UNION ALL SELECT * FROM {inside} y)",
            f"(SELECT * FROM {inside} x ORDER BY x.payload, x.id)",
            f"(SELECT DISTINCT ON (x.payload, x.id) x.* FROM {inside} x)",
            f"(SELECT x.* FROM {inside} x, generate_series(1, 3) g WHERE x.id % g = 0)",
            f"(SELECT * FROM {inside} x WHERE random() >= 0)",
            f"(SELECT * FROM {inside} x WHERE x.id < length(current_setting('port')) + 1000)",
            f"(SELECT * FROM {table.name} x WHERE {filter_condition(rng, table, 'x')} "
            f"AND x.id % 50 = {rng.randrange(50)})",
        )
    )
    return Joined(f"{rows} j0", [("j0", table)])


def _lateral(rng: Random, joined: Joined, table: Table) -> str:
    """A subquery over one of the tables that is begun anew for each row before it."""
    index = rng.choice(table.indexes)
    condition = _matched(rng, joined, table, "b")
    total = order_by(rng, index, "b", total=True)
    return rng.choice(
        (
            f"(SELECT b.* FROM {table.name} b WHERE {condition} {total} "
            f"LIMIT {rng.choice((1, 1, 2, 5))})",
            f"(SELECT b.* FROM {table.name} b WHERE {condition} OFFSET 0)",
            f"(SELECT b.* FROM {table.name} b JOIN {table.name} c ON c.id = b.id "
            f"WHERE {condition} LIMIT 3)",
            f"(SELECT b.*, count(*) OVER () FROM {table.name} b WHERE {condition})",
        )
    )


def _add_member(rng: Random, joined: Joined, tables: Tables, *, plain: bool) -> None:
    """One more table, joined to any of those before."""
    table, alias = rng.choice(tables), joined.alias()
    join = rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
    if not plain and rng.random() < 0.25:
        joined.text += f" {join} LATERAL {_lateral(rng, joined, table)} {alias} ON true"
    else:
        condition = _matched(rng, joined, table, alias)
        joined.text += f" {join} {table.name} {alias} ON {condition}"
    joined.members.append((alias, table))


def _exists(rng: Random, joined: Joined, tables: Tables) -> str:
    """A semi or anti join, or a plan of an expression where it stands below OR."""
    table, second = rng.choice(tables), rng.choice(tables)
    condition = _matched(rng, joined, table, "e")
    word = rng.choice(("EXISTS", "EXISTS", "NOT EXISTS"))
    more = ""
    if rng.random() < 0.3:
        inner = Joined("", [("e", table)])
        more = f" JOIN {second.name} f ON {_matched(rng, inner, second, 'f')}"
    test = f"{word} (SELECT FROM {table.name} e{more} WHERE {condition})"
    if rng.random() < 0.25:
        return f"({test} OR j0.payload = 3)"
    return test


def _scalar(rng: Random, joined: Joined, tables: Tables) -> str:
    """A plan of an expression in the target list."""
    table, second = rng.choice(tables), rng.choice(tables)
    condition = _matched(rng, joined, table, "s")
    inner = Joined("", [("s", table)])
    both = f"{table.name} s JOIN {second.name} u ON {_matched(rng, inner, second, 'u')}"
    return rng.choice(
        (
            f"(SELECT count(s.payload) FROM {table.name} s WHERE {condition})",
            f"(SELECT count(u.payload) FROM {both} WHERE {condition})",
            f"(SELECT u.id FROM {both} WHERE {condition} ORDER BY s.id, u.id LIMIT 1)",
            f"EXISTS (SELECT FROM {both} WHERE {condition})",
            f"CASE WHEN j0.payload > 2 THEN (SELECT max(s.id) FROM {table.name} s "
            f"WHERE {condition}) END",
            f"ARRAY(SELECT u.id FROM {both} WHERE {condition})",
        )
    )


def _joined(rng: Random, tables: Tables, *, plain: bool) -> Joined:
    joined = _source(rng, tables)
    for _ in range(rng.choices((1, 2, 3, 4, 5), (5, 4, 3, 1, 1))[0]):
        _add_member(rng, joined, tables, plain=plain)
    return joined


def join_query(rng: Random, tables: Tables) -> tuple[str, bool]:
    """A SELECT over a join, and whether a LIMIT may pick other rows in another order."""
    joined = _joined(rng, tables, plain=False)
    columns = [f"{alias}.id" for alias, _ in joined.members]
    alias, table = rng.choice(joined.members)
    columns.append(f"{alias}.{rng.choice(table.columns).name}")
    if rng.random() < 0.15:
        columns.append(alias)
    if rng.random() < 0.3:
        columns.append(_scalar(rng, joined, tables))
    if rng.random() < 0.1:
        columns.append(f"100 / nullif(j0.id - {rng.randrange(table.rows + 1)}, 7)")
    tests = [_exists(rng, joined, tables) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    sql = f"SELECT {', '.join(columns)} FROM {joined.text}"
    if tests:
        sql += f" WHERE {' AND '.join(tests)}"
    return _finished(rng, sql, len(joined.members))


def _finished(rng: Random, sql: str, members: int) -> tuple[str, bool]:
    """With what stands above a join: all, some or none of its rows are wanted."""
    choice = rng.random()
    if choice < 0.25:
        return sql + limit(rng), True
    if choice < 0.35:
        ids = ", ".join(str(number + 1) for number in range(members))
        return f"{sql} ORDER BY {ids}" + (limit(rng) if choice < 0.3 else ""), False
    if choice < 0.42:
        return f"SELECT count(*) FROM ({sql}) q", False
    if choice < 0.48:
        return f"WITH q AS MATERIALIZED ({sql}) SELECT x.* FROM q x LIMIT 7", True
    if choice < 0.52:
        return (
            f"SELECT * FROM (SELECT row_number() OVER () AS n, q.* FROM ({sql}) q) w WHERE n < 9",
            True,
        )
    return sql, False


def many_tables(rng: Random, tables: Tables) -> Case:
    """A join of any kind, as one statement."""
    sql, limited = join_query(rng, tables)
    case = statement("join", sql, limited=limited)
    return _by_loops(rng, case)


def counted_rows(rng: Random, tables: Tables) -> Case:
    """A join all of whose rows are wanted: each node has as many as without look-ahead."""
    joined = _joined(rng, tables, plain=True)
    sql = f"SELECT count(*), sum(j0.id) FROM {joined.text}"
    case = _by_loops(rng, Case("counted_join", (Step(f"SELECT executed($${sql}$$)"),)))
    return replace(case, settings=(*case.settings, ("max_parallel_workers_per_gather", "0")))


def random_join(rng: Random, tables: Tables) -> Case:
    """Either kind."""
    return (counted_rows if rng.random() < 0.2 else many_tables)(rng, tables)


def _by_loops(rng: Random, case: Case) -> Case:
    settings = dict(rng.choice((_LOOPS, _LOOK_UPS, _LOOK_UPS))) if rng.random() < 0.9 else {}
    if rng.random() < 0.6:
        settings["enable_memoize"] = "off"
    if rng.random() < 0.6:
        settings["enable_material"] = "off"
    return replace(case, settings=tuple(settings.items()))
