"""Executes the statement with the library switched on and off in alternation.

First both arms send all their rows within one snapshot, and the rows are compared by hash; then
pairs of EXPLAIN ANALYZE are timed on the server.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from lookahead.check.statement import explain, explained_errors, read_only
from lookahead.check.target import Target
from lookahead.errors import LabError
from lookahead.experiments.schedule import alternate
from lookahead.measurements import ARMS, Arm
from lookahead.stats import RatioEstimate, ratio_of_medians

_HASH_RANGE = 1 << 256


@dataclass(frozen=True)
class CheckSample:
    """One execution as EXPLAIN (ANALYZE, BUFFERS) reports it; blocks are of 8 kB."""

    pair: int
    arm: Arm
    execution_ms: float
    shared_hit_blocks: int
    shared_read_blocks: int


@dataclass(frozen=True)
class Measurement:
    """Pairs of executions and what follows; `caches` says in what state they found the caches.

    `same_order` is whether the rows came in the same order too; other rows are an error.
    """

    caches: str
    rows: int
    same_order: bool
    samples: tuple[CheckSample, ...]
    estimate: RatioEstimate


@dataclass(frozen=True)
class _Digest:
    """Rows, SHA-256 in the order received, and a sum of hashes that knows no order."""

    rows: int
    ordered: str
    unordered: int


class _RawLoader(Loader):
    """Leaves a value as the server wrote it: not every one has a counterpart in Python."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def measure(
    target: Target, statement: str, pairs: int, seed: int, make_cold: Callable[[], str] | None
) -> Measurement:
    """Compare rows, then take `pairs` pairs; `make_cold` precedes each execution if given.

    Raises LabError when the statement writes, fails or returns other rows.
    """
    rows, same_order = _compare_rows(target, statement)
    samples = []
    caches = "as the executions before left them"
    for pair, arm in alternate(ARMS, pairs):
        if make_cold is not None:
            caches = make_cold()
        samples.append(_sample(target, statement, pair, arm))
    times: dict[Arm, list[float]] = {
        arm: [item.execution_ms for item in sorted(samples, key=_pair) if item.arm == arm]
        for arm in ARMS
    }
    estimate = ratio_of_medians(times["stock"], times["lookahead"], seed=seed)
    return Measurement(caches, rows, same_order, tuple(samples), estimate)


def _pair(sample: CheckSample) -> int:
    return sample.pair


def _compare_rows(target: Target, statement: str) -> tuple[int, bool]:
    digests = []
    with target.connect() as connection, read_only(connection):
        for arm in ARMS:
            _choose(connection, arm)
            digests.append(_digest(connection, statement))
    stock, ours = digests
    if (stock.rows, stock.unordered) != (ours.rows, ours.unordered):
        raise LabError(
            f"the rows differ: {stock.rows} with the library off, {ours.rows} with it on, "
            "of other content",
            "Does the statement call a volatile function such as random()? If not, this is a bug "
            "of pg_lookahead, report it.",
        )
    return stock.rows, stock.ordered == ours.ordered


def _digest(connection: psycopg.Connection[Any], statement: str) -> _Digest:
    ordered, unordered, rows = hashlib.sha256(), 0, 0
    with connection.cursor() as cursor, explained_errors(statement):
        for info in connection.adapters.types:
            cursor.adapters.register_loader(info.oid, _RawLoader)
        for row in cursor.stream(statement.encode()):
            text = b"\x1e".join(b"\x00" if value is None else b"\x01" + value for value in row)
            one = hashlib.sha256(text).digest()
            ordered.update(one)
            unordered = (unordered + int.from_bytes(one)) % _HASH_RANGE
            rows += 1
    return _Digest(rows, ordered.hexdigest(), unordered)


def _sample(target: Target, statement: str, pair: int, arm: Arm) -> CheckSample:
    with target.connect() as connection, read_only(connection):
        _choose(connection, arm)
        explain(connection, statement, "LOOKAHEAD")  # loads catalogs
        document = explain(connection, statement, "ANALYZE, TIMING OFF, BUFFERS, LOOKAHEAD")
    plan = document["Plan"]
    return CheckSample(
        pair=pair,
        arm=arm,
        execution_ms=float(document["Execution Time"]),
        shared_hit_blocks=int(plan["Shared Hit Blocks"]),
        shared_read_blocks=int(plan["Shared Read Blocks"]),
    )


def _choose(connection: psycopg.Connection[Any], arm: Arm) -> None:
    connection.execute(f"SET LOCAL pg_lookahead.enabled = {'on' if arm == 'lookahead' else 'off'}")
