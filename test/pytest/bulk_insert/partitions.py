"""Random partitions of a table, by its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from bulk_insert.columns import KEY, Column

# Between these are the keys of most rows.
_LOWEST, _HIGHEST = 0, 11_000
_FIRST = 1000  # key of an insert; below it are rows that were there before


@dataclass(frozen=True)
class Partitions:
    """`clause` follows the table's columns, `making` what makes each partition.

    A partition is made by `CREATE TABLE name PARTITION OF parent bounds`, or as a table with
    columns in another order that is attached.
    """

    clause: str
    making: Sequence[str]
    by_expression: bool


def random_partitions(
    rng: Random, table: str, columns: Sequence[Column], persistence: str, options: str
) -> Partitions:
    """Partitions of `table`; `options` are those of storage."""
    kind = rng.choice((_ranges, _ranges, _remainders, _hashes))
    clause, bounds = kind(rng)
    making: list[str] = []
    has_deeper = rng.random() < 0.1  # which leaves all of it to core
    for number, bound in enumerate(bounds):
        name = f"{table}{number}"
        if has_deeper and rng.random() < 0.3 and bound != "DEFAULT":
            inner, inner_bounds = rng.choice((_remainders, _hashes))(rng)
            parent = f"{parent_persistence(persistence)}TABLE {name}"
            making.append(f"CREATE {parent} PARTITION OF {table} {bound} {inner}")
            making += [
                _leaf(rng, f"{name}_{n}", name, inner_bound, columns, persistence, options)
                for n, inner_bound in enumerate(inner_bounds)
            ]
        else:
            making.append(_leaf(rng, name, table, bound, columns, persistence, options))
    return Partitions(clause, making, by_expression="((" in " ".join([clause, *making]))


def parent_persistence(persistence: str) -> str:
    """There are no unlogged tables that are partitioned."""
    return "" if persistence == "UNLOGGED " else persistence


def _leaf(
    rng: Random,
    name: str,
    parent: str,
    bound: str,
    columns: Sequence[Column],
    persistence: str,
    options: str,
) -> str:
    if rng.random() < 0.7:
        return f"CREATE {persistence}TABLE {name} PARTITION OF {parent} {bound}{options}"
    parts = [f"{column.name} {_definition(column)}" for column in columns]
    rng.shuffle(parts)
    parts.insert(rng.randint(0, len(parts)), "other int")
    return (
        f"CREATE {persistence}TABLE {name} ({', '.join(parts)}){options}; "
        f"ALTER TABLE {name} DROP COLUMN other; "
        f"ALTER TABLE {parent} ATTACH PARTITION {name} {bound}"
    )


def _definition(column: Column) -> str:
    """As that of the parent; an identity column becomes one when it is attached."""
    return f"{column.type} NOT NULL" if "IDENTITY" in column.definition else column.definition


def _ranges(rng: Random) -> tuple[str, list[str]]:
    cuts = sorted(rng.sample(range(_LOWEST + 1, _HIGHEST), rng.choice((1, 2, 7, 40))))
    edges = [rng.choice(("MINVALUE", str(_LOWEST))), *map(str, cuts), "MAXVALUE"]
    bounds = [f"FOR VALUES FROM ({low}) TO ({high})" for low, high in pairwise(edges)]
    # A gap, but not where rows are that come before the inserts.
    later = [n for n, low in enumerate(edges[:-1]) if low.isdigit() and int(low) >= _FIRST]
    if later and rng.random() < 0.2:
        bounds.pop(rng.choice(later))
    return f" PARTITION BY RANGE ({KEY})", _with_default(rng, bounds)


def _remainders(rng: Random) -> tuple[str, list[str]]:
    """Of an expression, a few to each partition."""
    modulus = rng.choice((2, 5, 30))
    remainders = list(range(modulus))
    rng.shuffle(remainders)
    bounds = []
    while remainders:
        some = [remainders.pop() for _ in range(min(len(remainders), rng.randint(1, 4)))]
        bounds.append(f"FOR VALUES IN ({', '.join(map(str, some))})")
    if rng.random() < 0.3:
        bounds[-1] = bounds[-1].replace(")", ", NULL)")
    return f" PARTITION BY LIST ((abs({KEY}) % {modulus}))", _with_default(rng, bounds)


def _with_default(rng: Random, bounds: list[str]) -> list[str]:
    return [*bounds, "DEFAULT"] if rng.random() < 0.4 else bounds


def _hashes(rng: Random) -> tuple[str, list[str]]:
    modulus = rng.choice((1, 3, 16))
    return f" PARTITION BY HASH ({KEY})", [
        f"FOR VALUES WITH (MODULUS {modulus}, REMAINDER {n})" for n in range(modulus)
    ]
