"""Random SELECT statements over random tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from differential.case import Case, Step, statement
from differential.predicates import (
    index_condition,
    limit,
    narrow,
    order_by,
    output,
    where,
)
from differential.schema import Column, Index, Key, Table

Tables = Sequence[Table]
# Without Material the inner index scan itself marks and restores its position.
MERGE_BY_INDEX = tuple(
    (f"enable_{plan}", "off")
    for plan in (
        "hashjoin",
        "nestloop",
        "material",
        "sort",
        "seqscan",
        "bitmapscan",
        "indexonlyscan",
    )
)
_WITHOUT_MAX = ("bool", "uuid")


def pick(rng: Random, tables: Tables) -> tuple[Table, Index]:
    """A table and one of its indexes."""
    table = rng.choice(tables)
    return table, rng.choice(table.indexes)


def joinable(rng: Random, left: Table, right: Table) -> tuple[str, str]:
    """Names of a column of each table that can be compared and do not match too often."""
    pairs = [
        (a.name, b.name)
        for a in left.columns
        for b in right.columns
        if a.type == b.type and a.type != "bool" and b.domain * 40 > right.rows
    ]
    return rng.choice(pairs) if pairs and rng.random() < 0.7 else ("id", "id")


def driving(rng: Random, tables: Tables, rows: int) -> tuple[Table, str]:
    """A subquery called ``a`` of at most ``rows`` rows that drives a join."""
    table, index = pick(rng, tables)
    total = order_by(rng, index, "s", total=True)
    condition = where(rng, table, index, "s")
    return table, f"(SELECT s.* FROM {table.name} s WHERE {condition} {total} LIMIT {rows}) a"


def plain(rng: Random, tables: Tables) -> Case:
    """One table: conditions, with or without order and LIMIT."""
    table, index = pick(rng, tables)
    columns, condition = output(rng, table, "a"), where(rng, table, index, "a")
    sql = f"SELECT {columns} FROM {table.name} a WHERE {condition}"
    ordered, limited = rng.random() < 0.65, rng.random() < 0.4
    total = rng.random() < 0.2
    if ordered:
        sql += " " + order_by(rng, index, "a", total=total)
    if limited:
        sql += limit(rng)
    return statement("plain", sql, limited=limited and not (ordered and total))


def nested_loop(rng: Random, tables: Tables) -> Case:
    """A join whose inner side is an index scan that is rescanned for each outer row."""
    outer, source = driving(rng, tables, 60)
    inner, index = pick(rng, tables)
    left, right = joinable(rng, outer, inner)
    extra = f" AND {index_condition(rng, index, 'b')}" if rng.random() < 0.4 else ""
    join = rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
    sql = (
        f"SELECT a.id, {output(rng, inner, 'b')} FROM {source} {join} {inner.name} b "
        f"ON a.{left} = b.{right}{extra}"
    )
    return statement("nested_loop", sql)


def _plain_leading_keys(table: Table) -> list[Key]:
    """Leading keys of its indexes that are columns with some, but not too many, duplicates."""
    leading = [index.keys[0] for index in table.indexes if not index.predicate]
    return [key for key in leading if key.is_column and key.distinct * 40 > table.rows]


def merge_join(rng: Random, tables: Tables) -> Case:
    """A join in key order with duplicates, so that the inner side marks and restores."""
    (outer, first), (inner, second) = pick(rng, tables), pick(rng, tables)
    left, right = joinable(rng, outer, inner)
    pairs = [
        (a.sql("a"), b.sql("b"))
        for a in _plain_leading_keys(outer)
        for b in _plain_leading_keys(inner)
        if a.type == b.type
    ]
    join = rng.choice(pairs) if pairs and rng.random() < 0.8 else (f"a.{left}", f"b.{right}")
    conditions = [f"{join[0]} = {join[1]}", narrow(rng, outer, "a", 500)]
    if rng.random() < 0.4:
        conditions += [where(rng, outer, first, "a"), where(rng, inner, second, "b")]
    sql = (
        f"SELECT a.id, b.id, b.payload FROM {outer.name} a JOIN {inner.name} b "
        f"ON {' AND '.join(conditions)} ORDER BY {join[0]}"
    )
    limited = rng.random() < 0.3
    case = statement("merge_join", sql + (limit(rng) if limited else ""), limited=limited)
    return replace(case, settings=MERGE_BY_INDEX) if rng.random() < 0.8 else case


def lateral(rng: Random, tables: Tables) -> Case:
    """A LATERAL subquery with its own order and LIMIT, rescanned with new parameters."""
    outer, source = driving(rng, tables, 80)
    inner, index = pick(rng, tables)
    left, right = joinable(rng, outer, inner)
    compare = rng.choice(("=", "=", ">=", "<"))
    tail = (
        order_by(rng, index, "b", total=rng.random() < 0.5) + f" LIMIT {rng.choice((1, 2, 5, 30))}"
    )
    condition = f"b.{right} {compare} a.{left}"
    if rng.random() < 0.5:
        condition += f" AND {index_condition(rng, index, 'b')}"
    sql = (
        f"SELECT a.id, l.* FROM {source} {rng.choice(('CROSS JOIN LATERAL', 'LEFT JOIN LATERAL'))} "
        f"(SELECT {output(rng, inner, 'b')} FROM {inner.name} b WHERE {condition} {tail}) l"
    )
    sql += " ON true" if "LEFT JOIN LATERAL" in sql else ""
    return statement("lateral", sql, limited=True)


def semi_join(rng: Random, tables: Tables) -> Case:
    """EXISTS, NOT EXISTS, IN and NOT IN: scans that end at the first match."""
    outer, source = driving(rng, tables, 80)
    inner, index = pick(rng, tables)
    left, right = joinable(rng, outer, inner)
    inside, few = where(rng, inner, index, "b"), narrow(rng, inner, "b", 50)
    test = rng.choice(
        (
            f"EXISTS (SELECT 1 FROM {inner.name} b WHERE b.{right} = a.{left} AND {inside})",
            f"NOT EXISTS (SELECT 1 FROM {inner.name} b WHERE b.{right} = a.{left} AND {inside})",
            f"a.{left} IN (SELECT b.{right} FROM {inner.name} b WHERE {inside})",
            f"a.{left} NOT IN (SELECT b.{right} FROM {inner.name} b WHERE {inside} AND {few})",
        )
    )
    return statement("semi_join", f"SELECT a.id, a.{left} FROM {source} WHERE {test}")


def correlated(rng: Random, tables: Tables) -> Case:
    """Scalar subqueries that run once per outer row (or, uncorrelated, once)."""
    outer, source = driving(rng, tables, 60)
    inner, index = pick(rng, tables)
    left, right = joinable(rng, outer, inner)
    largest = "b.id" if index.keys[0].type in _WITHOUT_MAX else index.keys[0].sql("b")
    value = rng.choice(
        (
            f"SELECT count(b.payload) FROM {inner.name} b WHERE b.{right} = a.{left}",
            f"SELECT b.payload FROM {inner.name} b WHERE b.{right} >= a.{left} "
            f"{order_by(rng, index, 'b', total=True)} LIMIT 1",
            f"SELECT max({largest}) FROM {inner.name} b "
            f"WHERE b.payload >= 0 AND b.{right} = a.{left}",
            f"SELECT sum(b.payload) FROM {inner.name} b WHERE {where(rng, inner, index, 'b')}",
        )
    )
    return statement("correlated", f"SELECT a.id, ({value}) FROM {source}")


def aggregate(rng: Random, tables: Tables) -> Case:
    """Grouping, DISTINCT and windows over the order an index gives."""
    table, index = pick(rng, tables)
    key, condition = index.keys[0].sql("a"), where(rng, table, index, "a")
    source = f"FROM {table.name} a WHERE {condition}"
    largest = "a.id" if index.keys[0].type in _WITHOUT_MAX else key
    total = order_by(rng, index, "a", total=True)
    sql = rng.choice(
        (
            f"SELECT {key}, count(*), sum(a.payload) {source} GROUP BY {key} ORDER BY {key}",
            f"SELECT count(a.payload), sum(a.id), min(a.pad) {source}",
            f"SELECT DISTINCT {key} {source}",
            f"SELECT DISTINCT ON ({key}) {key}, a.id, a.payload {source} ORDER BY {key}, a.id",
            f"SELECT a.id, row_number() OVER ({total}), lag(a.id, 2) OVER ({total}) {source}",
            f"SELECT array_agg(s.id) FROM (SELECT a.id {source} {total} LIMIT 300) s",
            f"SELECT max({largest}) {source} AND a.payload IS NOT NULL",
        )
    )
    return statement("aggregate", sql)


def with_query(rng: Random, tables: Tables) -> Case:
    """CTEs, materialised or not, and a recursive walk from key to next key."""
    table, index = pick(rng, tables)
    if rng.random() < 0.35:
        column: Column = rng.choice(table.columns)
        step = (
            f"SELECT (SELECT a.{column.name} FROM {table.name} a "
            f"WHERE a.{column.name} > w.v AND a.payload >= 0 ORDER BY a.{column.name} LIMIT 1), "
            "w.n + 1 FROM w WHERE w.v IS NOT NULL AND w.n < 60"
        )
        return statement(
            "recursive",
            f"WITH RECURSIVE w(v, n) AS (SELECT {column.literal(rng)}, 0 UNION ALL {step}) TABLE w",
        )
    condition, total = where(rng, table, index, "a"), order_by(rng, index, "a", total=True)
    inside = f"SELECT a.* FROM {table.name} a WHERE {condition} {total}"
    word = rng.choice(("", "MATERIALIZED ", "NOT MATERIALIZED "))
    tail = rng.choice(("", limit(rng)))
    return statement(
        "cte",
        f"WITH c AS {word}({inside}) SELECT x.id, y.payload FROM c x JOIN c y ON x.id = y.id + 1 "
        f"ORDER BY x.id{tail}",
    )


def set_operation(rng: Random, tables: Tables) -> Case:
    """UNION and friends of two ranges of one table."""
    table, index = pick(rng, tables)
    one, two = (
        f"SELECT a.id, {index.keys[0].sql('a')} AS k FROM {table.name} a "
        f"WHERE {where(rng, table, index, 'a')}"
        for _ in range(2)
    )
    operation = rng.choice(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
    tail = rng.choice(("", " ORDER BY 2, 1", f" ORDER BY 2, 1{limit(rng)}"))
    return statement("set_operation", f"({one}) {operation} ({two}){tail}")


def prepared(rng: Random, tables: Tables) -> Case:
    """A generic plan executed several times with other parameters."""
    table, index = pick(rng, tables)
    key = index.keys[0]
    extra = f" AND {index.predicate.format(q='a.')}" if index.predicate else ""
    condition = rng.choice(
        (
            f"{key.sql('a')} BETWEEN $1 AND $2",
            f"{key.sql('a')} IN ($1, $2)",
            f"{key.sql('a')} >= $1 AND $2 IS NOT NULL",
        )
    )
    query = (
        f"SELECT {output(rng, table, 'a')} FROM {table.name} a WHERE {condition}{extra} "
        f"{order_by(rng, index, 'a', total=True)}{limit(rng)}"
    )
    steps = [
        Step("SET LOCAL plan_cache_mode = force_generic_plan"),
        Step(f"PREPARE p ({key.type}, {key.type}) AS {query}"),
    ]
    for _ in range(rng.randint(2, 5)):
        if rng.random() < 0.3:
            steps.append(
                Step(f"SET LOCAL effective_io_concurrency = {rng.choice((0, 1, 16, 200))}")
            )
        steps.append(Step(f"EXECUTE p ({key.literal(rng)}, {key.literal(rng)})"))
    return Case("prepared", tuple(steps), epilogue=(Step("DEALLOCATE ALL"),))


QUERIES = (
    (plain, 30),
    (nested_loop, 8),
    (merge_join, 6),
    (lateral, 9),
    (semi_join, 7),
    (correlated, 7),
    (aggregate, 8),
    (with_query, 5),
    (set_operation, 4),
    (prepared, 6),
)


def random_query(rng: Random, tables: Tables) -> Case:
    """Any of the above; every third single statement also compares index counters."""
    makers, weights = zip(*QUERIES, strict=True)
    case: Case = rng.choices(makers, weights)[0](rng, tables)
    if case.explainable and rng.random() < 0.15:
        return replace(case, counters=True)
    return case
