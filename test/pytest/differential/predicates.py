"""Random conditions and orders that an index can serve."""

from __future__ import annotations

from random import Random

from differential.schema import Column, Index, Key, Table

COMPARISONS = ("<", "<=", "=", ">=", ">")


def condition(rng: Random, key: Key, alias: str) -> str:
    """One condition on ``key``: comparison, range, list, array or NULL test."""
    column = key.sql(alias)
    one, two = key.literal(rng), key.literal(rng)
    low, high = f"least({one}, {two})", f"greatest({one}, {two})"
    listed = [key.literal(rng) for _ in range(rng.choice((1, 2, 3, 8, 20)))]
    if rng.random() < 0.2:
        listed.append(f"NULL::{key.type}")
    if rng.random() < 0.2:
        listed.append(listed[0])
    array = f"ARRAY[{', '.join(listed)}]::{key.type}[]"
    choices = (
        (f"{column} = {one}", 5),
        (f"{column} {rng.choice(COMPARISONS)} {one}", 5),
        (f"{column} BETWEEN {low} AND {high}", 5),
        (f"{column} > {low} AND {column} < {high}", 2),
        (f"{column} IN ({', '.join(listed)})", 4),
        (f"{column} = ANY ({array})", 3),
        (f"{column} {rng.choice(COMPARISONS)} ANY ({array})", 1),
        (f"{column} = ANY ('{{}}'::{key.type}[])", 0.3),
        (f"{column} IS NULL", 1),
        (f"{column} IS NOT NULL", 1.5),
        (f"{column} = NULL::{key.type}", 0.2),
        (f"{column} = (SELECT {one})", 1),
    )
    texts, weights = zip(*choices, strict=True)
    return str(rng.choices(texts, weights)[0])


def row_comparison(rng: Random, index: Index, alias: str) -> str:
    """``(a, b) > (x, y)`` over the leading keys of an index with two keys or more."""
    keys = index.keys[: rng.randint(2, len(index.keys))]
    left = ", ".join(key.sql(alias) for key in keys)
    right = ", ".join(key.literal(rng) for key in keys)
    return f"({left}) {rng.choice(('<', '<=', '>=', '>'))} ({right})"


def index_condition(rng: Random, index: Index, alias: str) -> str:
    """Conditions that make ``index`` usable: on its prefix, or past it (skip scan)."""
    parts: list[str] = []
    if index.predicate and rng.random() < 0.85:
        parts.append(index.predicate.format(q=f"{alias}."))
    if len(index.keys) > 1 and rng.random() < 0.15:
        parts.append(row_comparison(rng, index, alias))
    elif rng.random() < 0.9:
        parts += [condition(rng, key, alias) for key in _chosen_keys(rng, index)]
    return " AND ".join(parts) or "true"


def _chosen_keys(rng: Random, index: Index) -> tuple[Key, ...]:
    """Mostly a prefix of the keys, sometimes only later ones (which asks for a skip scan)."""
    if len(index.keys) > 1 and rng.random() < 0.2:
        return index.keys[1:2]
    return index.keys[: rng.randint(1, len(index.keys))]


def filter_condition(rng: Random, table: Table, alias: str) -> str:
    """A condition that no index need serve; may raise an error in mid-scan."""
    column: Column = rng.choice(table.columns)
    position = rng.randrange(max(table.rows, 2))
    choices = (
        (f"{alias}.payload % 2 = 0", 4),
        (f"{alias}.{column.name} <> {column.literal(rng)}", 4),
        (f"{alias}.id % 7 <> 3", 4),
        (f"100 / ({alias}.id - {position}) <> 1", 1.5),
        (f"{alias}.pad > 'a'", 2),
        ("false", 0.2),
    )
    texts, weights = zip(*choices, strict=True)
    return str(rng.choices(texts, weights)[0])


def where(rng: Random, table: Table, index: Index, alias: str) -> str:
    """A full WHERE condition built around ``index``, now and then around another way to rows."""
    choice = rng.random()
    if table.gist and choice < 0.12:
        return inside_box(rng, table, alias)
    if table.gin and choice < 0.24:
        return in_array(rng, alias)
    parts = [index_condition(rng, index, alias)]
    if choice < 0.4:
        # Two indexes of one table: a bitmap of both.
        second = index_condition(rng, rng.choice(table.indexes), alias)
        parts = [f"({parts[0]} {rng.choice(('AND', 'OR', 'OR'))} {second})"]
    if rng.random() < 0.3:
        parts.append(filter_condition(rng, table, alias))
    return " AND ".join(parts)


def inside_box(rng: Random, table: Table, alias: str) -> str:
    """A range of ids that the GiST index can answer."""
    start = rng.randrange(max(table.rows, 1))
    end = start + rng.choice((3, 40, 1000))
    low, high = sorted((rng.randrange(7), rng.randrange(7)))
    box = f"box(point({start}, {low}), point({end}, {high}))"
    return f"point({alias}.id, {alias}.payload) <@ {box}"


def in_array(rng: Random, alias: str) -> str:
    """Numbers in an array that the GIN index can answer."""
    wanted = ", ".join(str(rng.randrange(-6, 40)) for _ in range(rng.choice((1, 2, 5))))
    return f"ARRAY[{alias}.id % 40, -{alias}.payload] {rng.choice(('@>', '&&'))} '{{{wanted}}}'"


def narrow(rng: Random, table: Table, alias: str, width: int) -> str:
    """A range of at most ``width`` ids, to keep what follows cheap."""
    start = rng.randrange(max(table.rows, 1))
    return f"{alias}.id BETWEEN {start} AND {start + width - 1}"


def order_by(rng: Random, index: Index, alias: str, *, total: bool) -> str:
    """ORDER BY the index's order (forward or backward); ``total`` adds id as tie-break."""
    backward = rng.random() < 0.4
    keys = index.keys[: rng.randint(1, len(index.keys))]
    parts = [key.order(alias, backward) for key in keys]
    if total:
        parts.append(f"{alias}.id")
    return "ORDER BY " + ", ".join(parts)


def limit(rng: Random) -> str:
    """LIMIT and OFFSET clauses around the sizes at which streams start and ramp."""
    text = f" LIMIT {rng.choice((0, 1, 2, 3, 5, 9, 10, 17, 40, 100, 400))}"
    if rng.random() < 0.3:
        text += f" OFFSET {rng.choice((1, 4, 20, 150))}"
    return text


def output(rng: Random, table: Table, alias: str) -> str:
    """A select list; wide enough to notice a wrong row, never the whole padding."""
    chosen = rng.sample(table.columns, rng.randint(1, len(table.columns)))
    parts = [f"{alias}.id", *(f"{alias}.{column.name}" for column in chosen)]
    if rng.random() < 0.3:
        parts += [f"{alias}.payload", f"left({alias}.pad, 5)"]
    if rng.random() < 0.2:
        parts += [f"{alias}.tableoid::regclass", f"{alias}.ctid"]
    if rng.random() < 0.1:
        parts.append(f"{alias}.xmin")
    return ", ".join(parts)
