"""A table `p` of a key `k` and a text `s`, and its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from extension.probes import Connection

SIZE = "SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree('p')"
WHERE = "SELECT tableoid::regclass::text, k::text, s FROM p ORDER BY 1, 2, 3"


def series(value: str, count: int = 2000) -> str:
    return f"INSERT INTO p SELECT {value}, 'x' || i FROM generate_series(1, {count}) i"


def ranges(bounds: Mapping[str, str]) -> str:
    return "; ".join(
        f"CREATE TABLE {name} PARTITION OF p {bound}" for name, bound in bounds.items()
    )


def from_to(*edges: str) -> str:
    pairs = pairwise(edges)
    return ranges(
        {f"p{n}": f"FOR VALUES FROM ({low}) TO ({high})" for n, (low, high) in enumerate(pairs)}
    )


def lists(*values: str) -> str:
    return ranges({f"p{n}": f"FOR VALUES IN ({value})" for n, value in enumerate(values)})


def make(session: Connection, key: str, by: str, partitions: str) -> None:
    session.execute(
        f"DROP TABLE IF EXISTS p; CREATE TABLE p (k {key}, s text) PARTITION BY {by}; {partitions}"
    )
