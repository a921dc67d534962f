"""Statements whose children start late have the rows of those whose children all start."""

import random

import pytest
from extension.probes import Connection

from late_start.tables import count_started, execute_kept, late_starts

_OFF = "SET pg_lookahead.enable_late_start = off"
_ON = "SET pg_lookahead.enable_late_start = on"

# Statements, by what is peculiar to them.
_STATEMENTS = {
    "subselect": "SELECT * FROM p WHERE k = (SELECT k FROM w WHERE id = {id})",
    "a range": "SELECT k, t FROM p WHERE k >= (SELECT k FROM w WHERE id = {id}) AND v = 3",
    "between": "SELECT k FROM p WHERE k > (SELECT min(a) FROM w WHERE id < {id}) AND k < 300",
    "an array": "SELECT k, v FROM p"
    " WHERE k = ANY ((SELECT array_agg(k) FROM w WHERE id < {id})::int[])",
    "a join": "SELECT w.id, p.k, p.t FROM w, p WHERE p.k = w.k AND w.id < {id}",
    "a left join": "SELECT w.id, p.t FROM w LEFT JOIN p ON p.k = w.k WHERE w.id > {id}",
    "a semijoin": "SELECT id FROM w"
    " WHERE EXISTS (SELECT 1 FROM p WHERE p.k = w.k AND p.v > w.id % 7)",
    "lateral": "SELECT id, s.k FROM w, LATERAL"
    " (SELECT k FROM p WHERE k < w.k ORDER BY k DESC LIMIT 2) s WHERE id < {id}",
    "expression": "SELECT id, (SELECT max(t) FROM p WHERE p.k = w.k) FROM w WHERE id < {id}",
    "ordered": "SELECT k FROM p WHERE k > (SELECT k FROM w WHERE id = {id}) ORDER BY k LIMIT 30",
    "merged": "SELECT v, k FROM p WHERE k > (SELECT k FROM w WHERE id = {id})"
    " ORDER BY v, k LIMIT 40",
    "equal keys": "SELECT v, t FROM p WHERE k > (SELECT k FROM w WHERE id = {id})"
    " ORDER BY v LIMIT 100",
    "merged anew": "SELECT id, s.v, s.t FROM w, LATERAL"
    " (SELECT v, t FROM p WHERE k < w.k ORDER BY v LIMIT 5) s WHERE id < {id}",
    "none": "SELECT * FROM p WHERE k = (SELECT nullif(k, k) FROM w WHERE id = {id})",
    "two levels": "SELECT * FROM l WHERE a = (SELECT a FROM w WHERE id = {id})",
    "both levels": "SELECT l.*, id FROM w, l WHERE l.a = w.a AND l.b = w.id AND id > {id}",
    "two tables": "SELECT count(*) FROM p, l WHERE p.k = (SELECT k FROM w WHERE id = {id})"
    " AND l.a = (SELECT a FROM w WHERE id = {id})",
    "together": "SELECT k FROM p WHERE k = (SELECT k FROM w WHERE id = {id}) UNION ALL"
    " SELECT b FROM l WHERE a = (SELECT a FROM w WHERE id = {id})",
    "with": "WITH s AS MATERIALIZED (SELECT * FROM p WHERE k >= (SELECT k FROM w WHERE id = {id}))"
    " SELECT count(*), max(s.t) FROM s JOIN s AS u USING (k)",
    # Slots of the first child are of another kind than those of the default partition.
    "kinds of slots": "SELECT k + v, t || 'x' FROM"
    " (SELECT * FROM p WHERE k >= (SELECT k FROM w WHERE id = {id}) OFFSET 0) s",
    "system columns": "SELECT tableoid::regclass, ctid, k FROM p"
    " WHERE k < (SELECT k FROM w WHERE id = {id})",
}
_NESTED = "SET enable_hashjoin = off; SET enable_mergejoin = off;"
_WAYS = {
    "any plan": "",
    "index scans": f"{_NESTED} SET enable_seqscan = off; SET enable_bitmapscan = off",
    "sequential": f"{_NESTED} SET enable_indexscan = off; SET enable_indexonlyscan = off;"
    " SET enable_bitmapscan = off",
    "awake": "SET pg_lookahead.test_start_after = 0; SET enable_seqscan = off",
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("name", _STATEMENTS)
def test_same_rows(session: Connection, name: str, way: str) -> None:
    session.execute(_WAYS[way] or "SELECT")
    before = late_starts(session)
    for number in (0, 3, 12, 29, 60, 61, 62):
        query = _STATEMENTS[name].format(id=number)
        session.execute(_ON)
        late = execute_kept(session, query)
        session.execute(_OFF)
        assert late == execute_kept(session, query)
    # Pruning at run time looks into no array of a parameter.
    if way == "index scans" and name != "an array":
        assert late_starts(session) > before


# Of these few children are wanted.
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("subselect", 1),
        ("none", 0),
        ("a range", 4),
        ("merged", 4),
        ("two levels", 2),
        ("two tables", 3),
    ],
)
def test_few_start(session: Connection, name: str, wanted: int) -> None:
    session.execute(_WAYS["index scans"])
    query = _STATEMENTS[name].format(id=10)  # k is 370, a is 20
    before = late_starts(session)
    started = count_started(session, query)
    assert late_starts(session) > before
    # The first child starts always.
    assert wanted <= started <= wanted + 2
    session.execute(_OFF)
    assert count_started(session, query) > 40


def test_random_rescans(session: Connection, seed: int) -> None:
    """Children come one by one, in any order, and the scan goes on from what there is."""
    print(f"seed {seed}")
    draw = random.Random(seed)
    session.execute(_WAYS["index scans"])
    for _ in range(20):
        keys = [draw.randrange(-20, 480) for _ in range(draw.randrange(1, 30))]
        values = ", ".join(f"({key}, {key + draw.choice((1, 15, 200))})" for key in keys)
        order, limit = draw.choice(("k", "v", "v DESC, k", "t")), draw.randrange(1, 12)
        query = (
            f"SELECT c.*, s.* FROM (VALUES {values}) c (lo, hi) LEFT JOIN LATERAL (SELECT * FROM p"
            f" WHERE k >= c.lo AND k < c.hi ORDER BY {order} LIMIT {limit}) s ON true"
        )
        session.execute(_ON)
        late = execute_kept(session, query)
        session.execute(_OFF)
        assert late == execute_kept(session, query), query
