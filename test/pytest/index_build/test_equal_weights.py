"""Texts that a collation gives the same weight: their bytes decide, unless it says otherwise."""

import pytest
from extension.probes import need_extension, need_icu

from index_build.twins import Twins, check_tree, complaint, with_workers

# The same letters, composed and decomposed, mixed and repeated.
_SAME = (
    r"(ARRAY[U&'caf\00e9', U&'cafe\0301', 'cafe', U&'\00e9t\00e9', U&'e\0301te\0301'])[1 + i % 5]"
)
_TEXTS = {
    "these only": f"{_SAME} || (i / 100)",
    "among others": f"CASE WHEN i % 25 < 5 THEN {_SAME} ELSE 'kind ' || i % 25 END",
}


@pytest.mark.parametrize("rows", [20, 5_000])
@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("texts", _TEXTS)
def test_same_index(twins: Twins, rows: int, deterministic: bool, texts: str) -> None:
    session = twins.connection
    need_icu(session)
    session.execute(f"SET maintenance_work_mem = '64MB'; {with_workers(0)}")
    session.execute(
        "CREATE COLLATION weights (provider = icu, locale = 'und', "
        f"deterministic = {deterministic})"
    )
    session.execute(
        f"CREATE TABLE w AS SELECT i, {_TEXTS[texts]} AS s FROM generate_series(1, {rows}) i"
    )
    create = "CREATE INDEX w_i ON w (s COLLATE weights)"
    stock = twins.build("stock", create, "w_i")
    session.execute("DROP INDEX w_i")
    ours = twins.build("ours", create, "w_i")
    assert complaint(stock, ours) == ""
    assert twins.tally.built == 1
    need_extension(session, "amcheck")
    check_tree(session, "w_i")
    session.execute("DROP TABLE w; DROP COLLATION weights")
