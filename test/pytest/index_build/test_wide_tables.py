"""Indexes on columns far behind in wide rows: NULLs, columns that rows do not have, moved rows."""

import pytest
from extension.probes import need_extension

from index_build.stories import check_trees, compare
from index_build.twins import Twins

_COLUMNS = 200
_ROWS = 2000


@pytest.mark.parametrize("kind", ["text", "int2"])
def test_columns_far_behind(twins: Twins, kind: str) -> None:
    """Several columns of a row are found in one walk over it."""
    need_extension(twins.connection, "amcheck")
    columns = ", ".join(f"c{n} {kind}" for n in range(_COLUMNS))
    values = ", ".join(f"NULLIF((i + {n}) % 7, i % 50)::{kind}" for n in range(_COLUMNS))
    last = [f"c{n}" for n in range(_COLUMNS - 4, _COLUMNS)]
    statements = (
        f"CREATE TABLE w ({columns}) WITH (autovacuum_enabled = off)",
        f"INSERT INTO w SELECT {values} FROM generate_series(1, {_ROWS}) i",
        "ALTER TABLE w DROP COLUMN c3, ADD COLUMN late int DEFAULT 5, ADD COLUMN later text",
        f"UPDATE w SET late = 6, c5 = NULL WHERE c{_COLUMNS - 1} = '3'",
        f"CREATE INDEX w_last ON w ({', '.join(last)})",
        f"CREATE INDEX w_late ON w (late, c{_COLUMNS - 1}, later, c0)",
        f"CREATE INDEX w_mixed ON w (c{_COLUMNS - 1} DESC, c0) INCLUDE (late, c9)",
        f"CREATE INDEX w_one ON w (c{_COLUMNS - 1})",
    )
    check_trees(twins.connection, compare(twins, statements, built=4))
