"""Long keys: common beginnings of any length, compressed values, and texts with long sort keys."""

import pytest
from extension.probes import Connection, need_extension, need_icu

from index_build.stories import check_trees, compare
from index_build.twins import Counters, Twins, with_workers

_ICU = '"und-x-icu"'

# Each names many words of eight bytes in which rows agree before they differ; the deepest of them
# have used up the stack of a sort that calls itself for each word.
_DEEP = {
    "one_letter_more_each": "SELECT (repeat('k', i % 900) || i) FROM generate_series(1, 12000) i",
    "one_word_more_each": "SELECT (repeat('b', 8 * i) || 'a') FROM generate_series(1, 600) i",
    "equal": "SELECT repeat('e', 2000 - i % 3) FROM generate_series(1, 3000) i",
    "prefix_of_one_another": "SELECT repeat('p', i) FROM generate_series(1, 2500) i",
    "several_prefixes": (
        "SELECT repeat(chr(97 + i % 3), 8 << (i % 9)) || i FROM generate_series(1, 9000) i"
    ),
    "compressed_and_not": (
        "SELECT repeat('c', 100 * (i % 60)) || i % 900 FROM generate_series(1, 3000) i"
    ),
}
_COLUMNS = {
    "text": 's COLLATE "C"',
    "descending": 's COLLATE "C" DESC',
    "behind_others": 'n, f DESC, s COLLATE "C", n',
    "icu": f"s COLLATE {_ICU}",
}


def _make(session: Connection, rows: str, workers: int, memory: str) -> list[str]:
    """Settings, and the statements that make table `l` of rows with one text."""
    session.execute(f"SET maintenance_work_mem = '{memory}'; {with_workers(workers)}")
    table = "CREATE TABLE l (s text, n int, f float8) WITH (autovacuum_enabled = off)"
    return [table, f"INSERT INTO l SELECT s, NULLIF(1, length(s)), 0.5 FROM ({rows}) r (s)"]


@pytest.mark.parametrize(
    ("memory", "workers", "built"), [("2MB", 0, 0), ("64MB", 0, 1), ("160MB", 2, 1)]
)
@pytest.mark.parametrize("columns", _COLUMNS)
@pytest.mark.parametrize("rows", _DEEP)
def test_deep_keys(
    twins: Twins, rows: str, columns: str, memory: str, workers: int, built: int
) -> None:
    """What the data are decides neither how deep the sort nests nor how often it passes them.

    With 2 MB some are left to PostgreSQL.
    """
    session = twins.connection
    if columns == "icu":
        need_icu(session)
    need_extension(session, "amcheck")
    story = _make(session, _DEEP[rows], workers, memory)
    told = compare(twins, [*story, f"CREATE INDEX l_i ON l ({_COLUMNS[columns]})"], built=built)
    check_trees(session, told)


@pytest.mark.parametrize("columns", ["text", "behind_others", "icu"])
def test_compressed_keys_are_not_decompressed_for_each_word(twins: Twins, columns: str) -> None:
    """Else the statement's time limit, minutes, would not be enough."""
    session = twins.connection
    if columns == "icu":
        need_icu(session)
    rows = "SELECT repeat('b', 100000) || i FROM generate_series(1, 200) i"
    story = _make(session, rows, 0, "64MB")
    compare(twins, [*story, f"CREATE INDEX l_i ON l ({_COLUMNS[columns]})"], built=1)


def test_texts_alike_in_the_beginning_of_their_sort_keys(twins: Twins) -> None:
    """Short and long texts in ICU collations, alike in the beginning, stand in one order."""
    session = twins.connection
    need_icu(session)
    need_extension(session, "amcheck")
    rows = (
        "SELECT left(repeat((ARRAY['ab', 'äb', 'Ab', 'ÄB', '間', 'a-b', '12', 'é', 'e', '-', '̈'])"
        "[1 + i % 11], 1 + i % 13) || md5((i % 700)::text), 1 + i * 7 % 60) "
        "FROM generate_series(1, 9000) i"
    )
    session.execute(
        "CREATE COLLATION IF NOT EXISTS caseless_l (provider = icu, "
        "locale = 'und-u-ks-level2', deterministic = false); "
        "CREATE COLLATION IF NOT EXISTS numbers_l (provider = icu, locale = 'und-u-kn-true')"
    )
    for collation in (_ICU, '"sv-x-icu"', '"fr-CA-x-icu"', "caseless_l", "numbers_l"):
        for memory, workers in (("2MB", 0), ("160MB", 2)):
            story = _make(session, rows, workers, memory)
            keys = f"s COLLATE {collation}, n"
            told = compare(
                twins, [*story, f"CREATE INDEX l_i ON l ({keys})"], built=int(memory != "2MB")
            )
            check_trees(session, told)
            assert "collation" not in Counters.of(session).left, collation
