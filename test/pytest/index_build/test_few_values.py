"""Columns of fixed sizes that are mostly equal: rows are compared from the first bytes on in which
they differ, and words of their keys are made of the columns that these have."""

import pytest

from index_build.twins import Twins, complaint, with_workers

_ROWS = 10_000
_BIT = "(hashint4(i + {}) & 1)"
# With padding between them, and zeros that are equal and look different.
_COLUMNS = {
    "flag": f"{_BIT.format(1)} = 0",
    "small": f"({_BIT.format(2)} - 1)::int2",
    "large": f"({_BIT.format(3)} * -1)::int8",
    "single": f"(CASE WHEN {_BIT.format(4)} = 0 THEN '-0' ELSE '0' END)::float4",
    "sign": f"(CASE WHEN {_BIT.format(5)} = 0 THEN 'a' ELSE 'b' END)::\"char\"",
    "twin": f"(CASE WHEN {_BIT.format(6)} = 0 THEN '0' ELSE '-0' END)::float8",
    "id": f"lpad(to_hex({_BIT.format(7)}), 32, '0')::uuid",
    "day": f"'2026-11-22'::date + {_BIT.format(8)}",
    "number": "(hashint4(i) % 100)::int4",
    "word": f"repeat('w', {_BIT.format(9)})",
    "amount": f"{_BIT.format(10)}::numeric",
}
_KEYS = {
    "all": ", ".join(_COLUMNS).replace("word", 'word COLLATE "C"'),
    "descending": ", ".join(f"{name} DESC" for name in _COLUMNS if name != "word"),
    "padded": "flag, large, sign, number",
    "behind_a_text": 'flag, word COLLATE "C", number, small',
    # As many columns of the largest values as an index can have.
    "uuids": ", ".join(["id"] * 32),
    "included": "small, flag, twin) INCLUDE (number, word",
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("nulls", [0, 5])
@pytest.mark.parametrize("keys", _KEYS)
def test_same_index(twins: Twins, keys: str, nulls: int, workers: int) -> None:
    session = twins.connection
    columns = ", ".join(
        f"CASE WHEN hashint4(i + {100 + n}) & 15 >= {nulls} THEN {made} END AS {name}"
        for n, (name, made) in enumerate(_COLUMNS.items())
    )
    session.execute(f"SET maintenance_work_mem = '80MB'; {with_workers(workers)}")
    session.execute(
        "CREATE TABLE v WITH (autovacuum_enabled = off) AS "
        f"SELECT {columns} FROM generate_series(1, {_ROWS}) i"
    )
    try:
        create = f"CREATE INDEX v_i ON v ({_KEYS[keys]})"
        stock = twins.build("stock", create, "v_i")
        session.execute("DROP INDEX v_i")
        ours = twins.build("ours", create, "v_i")
        assert complaint(stock, ours) == ""
        assert twins.tally.built == 1
    finally:
        session.execute("DROP TABLE v")
