"""Texts in locales of the C library, whose sort keys a build takes for a guess only.

Sort keys are made wrong by a test setting: no library is known whose first weights are.
"""

from collections.abc import Iterator

import psycopg
import pytest
from extension.probes import QUIET, Connection, need_extension, need_icu
from server_log import ServerFactory, WatchedServer

from index_build.twins import (
    ARMS,
    SWITCH,
    Arm,
    Counters,
    Twins,
    check_tree,
    choose,
    complaint,
    with_workers,
)
from lookahead.extension import Stage

_ROWS = 30_000
# Letters that differ in accent and case only, signs, lengths, one long beginning, duplicates, and
# texts of which strcoll() and strxfrm() of glibc 2.36 have different opinions.
_TEXTS = (
    "CASE i % 8 WHEN 0 THEN md5(i::text) WHEN 1 THEN upper(left(md5((i / 2)::text), 4)) "
    "WHEN 2 THEN left(md5((i / 2)::text), 4) WHEN 3 THEN repeat('long beginning ', 40) || i % 500 "
    "WHEN 4 THEN 'a' || repeat('-', i % 5) || 'b' || i % 90 WHEN 5 THEN NULL "
    "WHEN 6 THEN (ARRAY['cote', 'coté', 'côte', 'côté', 'Cote', '間8', '間8)', '表̈', '表̈⭠'])"
    "[1 + i % 9] || CASE i % 5 WHEN 0 THEN (i % 40)::text ELSE '' END "
    "ELSE 'same' END"
)
_TABLE = (
    f"SELECT i AS id, i % 11 AS few, {_TEXTS} AS s, md5(i::text) || i % 2 AS u "
    f"FROM generate_series(1, {_ROWS}) i"
)


@pytest.fixture(scope="module", autouse=True)
def _table(server: WatchedServer) -> Iterator[None]:
    with server.connect() as session:
        session.execute(f"CREATE TABLE c AS {_TABLE}")
        session.execute("UPDATE c SET few = few + 1 WHERE id % 7 = 0; DELETE FROM c WHERE id < 90")
        yield
        session.execute("DROP TABLE c")


def _collation(session: Connection, locale: str) -> str:
    """The collation for a locale, made if there is none; skips where the system has no such."""
    name = f"libc_{locale.partition('.')[0].lower()}"
    try:
        session.execute(
            f"CREATE COLLATION IF NOT EXISTS {name} (provider = libc, locale = '{locale}')"
        )
    except psycopg.errors.InvalidParameterValue:
        pytest.skip(f"this system has no locale {locale}")
    return name


@pytest.mark.parametrize(("memory", "workers"), [("2MB", 0), ("128MB", 2)])
@pytest.mark.parametrize(
    "keys",
    [
        "s COLLATE {c}",
        "s COLLATE {c} DESC NULLS FIRST",
        "few DESC, s COLLATE {c}",
        "s COLLATE {c}, id DESC",
        "lower(s) COLLATE {c}, u COLLATE {c}",
        'u COLLATE "C", s COLLATE {c}',
    ],
)
@pytest.mark.parametrize("locale", ["C.UTF-8", "en_US.UTF-8"])
def test_same_index(twins: Twins, locale: str, keys: str, memory: str, workers: int) -> None:
    session = twins.connection
    create = f"CREATE INDEX c_i ON c ({keys.format(c=_collation(session, locale))})"
    session.execute("SET min_parallel_table_scan_size = 0; SET maintenance_work_mem = '128MB'")
    stock = twins.build("stock", create, "c_i")
    session.execute(f"SET maintenance_work_mem = '{memory}'")
    session.execute(f"DROP INDEX c_i; {with_workers(workers)}")
    ours = twins.build("ours", create, "c_i")
    assert complaint(stock, ours) == ""
    assert twins.tally.built == 1
    assert not twins.tally.left
    need_extension(session, "amcheck")
    check_tree(session, "c_i")
    session.execute("DROP INDEX c_i")


@pytest.fixture(scope="module")
def misled(server_factory: ServerFactory, test_stage: Stage) -> Iterator[WatchedServer]:
    """A server on which the sort keys of some texts are wrong."""
    settings = {**QUIET, SWITCH: "on", "pg_lookahead.test_fail_sort_keys": "on"}
    settings |= {"min_parallel_table_scan_size": "0", "maintenance_work_mem": "160MB"}
    with server_factory(stage=test_stage, settings=settings) as started:
        with started.connect() as session:
            session.execute("CREATE EXTENSION pg_lookahead")
            need_extension(session, "amcheck")
            _collation(session, "C.UTF-8")
            session.execute(f"CREATE TABLE c AS {_TABLE}")
        yield started


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX {i} ON c (s COLLATE libc_c)",
        "CREATE INDEX {i} ON c (few, s COLLATE libc_c DESC)",
        "CREATE UNIQUE INDEX {i} ON c (u COLLATE libc_c, id)",
        "CREATE INDEX CONCURRENTLY {i} ON c (s COLLATE libc_c, id)",
        "BEGIN; SAVEPOINT s; CREATE INDEX {i} ON c (u COLLATE libc_c); COMMIT",
    ],
)
def test_wrong_sort_keys(misled: WatchedServer, statement: str, workers: int) -> None:
    """PostgreSQL builds the index after all; the session does not try the collation again."""
    builds = {}
    for arm in ARMS:
        # A session knows nothing of what others have found out.
        with misled.connect() as session:
            choose(session, arm)
            session.execute(with_workers(workers))
            session.execute(statement.format(i="c_i"))
            assert Counters.of(session).left == ({"collation": 1} if arm == "ours" else {})
            builds[arm] = Twins(session, misled.data_directory).read("c_i")
            check_tree(session, "c_i")
            session.execute(statement.format(i="c_again"))
            if arm == "ours":
                assert Counters.of(session) == Counters(0, {"collation": 2})
            session.execute("DROP INDEX c_i, c_again")
    assert complaint(builds["stock"], builds["ours"]) == ""


def test_a_session_does_not_try_a_distrusted_collation_again(misled: WatchedServer) -> None:
    """Nor when its sort keys would be right; other collations and sessions are not concerned."""
    create = "CREATE INDEX c_i ON c (s COLLATE {}); DROP INDEX c_i"
    with misled.connect() as session, misled.connect() as other:
        session.execute(create.format("libc_c"))
        for one in (session, other):
            one.execute("SET pg_lookahead.test_fail_sort_keys = off")
            one.execute(create.format("libc_c"))
        assert Counters.of(session) == Counters(0, {"collation": 2})
        assert Counters.of(other) == Counters(1, {})
        session.execute(create.format('"C"'))
        assert Counters.of(session).built == 1


@pytest.mark.parametrize("kind", ["UNLOGGED", "TEMP"])
def test_wrong_sort_keys_of_other_tables(misled: WatchedServer, kind: str) -> None:
    with misled.connect() as session:
        session.execute(f"CREATE {kind} TABLE k AS SELECT * FROM c WHERE id < 5000")
        session.execute("CREATE INDEX k_u ON k (u COLLATE libc_c)")
        assert Counters.of(session).left["collation"] == 1
        check_tree(session, "k_u")
        session.execute("DROP TABLE k")


def test_wrong_sort_keys_and_duplicates(misled: WatchedServer) -> None:
    """The error is stock's, whether the order or the duplicate is noticed first."""
    for keys in ("few, s COLLATE libc_c", "s COLLATE libc_c"):
        with misled.connect() as session:
            with pytest.raises(psycopg.errors.UniqueViolation, match='unique index "c_one"'):
                session.execute(f"CREATE UNIQUE INDEX c_one ON c ({keys})")
            session.execute("CREATE INDEX c_i ON c (id); DROP INDEX c_i")


@pytest.mark.expects_in_log("was terminated by signal 9")
def test_crash_after_wrong_sort_keys(misled: WatchedServer) -> None:
    """Recovery replays the pages of the first attempt, their removal, and PostgreSQL's build."""
    with misled.connect() as session:
        session.execute("CHECKPOINT")
        session.execute("CREATE INDEX c_i ON c (s COLLATE libc_c)")
        assert Counters.of(session) == Counters(0, {"collation": 1})
    misled.crash()
    misled.start()
    with misled.connect() as session:
        check_tree(session, "c_i")
        session.execute("DROP INDEX c_i")


# Letters that "shifted" collations ignore, and marks of which it matters what they follow.
_IGNORED = r"(ARRAY['-', ' ', U&'\00AD', U&'\0344', U&'\0301', U&'\200D', 'a'])"


@pytest.mark.parametrize(
    "keys", ["x COLLATE {c}", "n, x COLLATE {c} DESC", 'x COLLATE {c}, x COLLATE "C"']
)
@pytest.mark.parametrize("locale", ["th", "und-u-ka-shifted", "und-u-ka-shifted-ks-level4"])
def test_collations_whose_sort_keys_are_not_their_order(
    twins: Twins, locale: str, keys: str
) -> None:
    session = twins.connection
    need_icu(session)
    session.execute(f"CREATE COLLATION ignoring (provider = icu, locale = '{locale}')")
    session.execute(
        f"CREATE TABLE g AS SELECT i % 3 AS n, {_IGNORED}[1 + i % 7] || {_IGNORED}[1 + i / 7 % 7] "
        f"|| repeat({_IGNORED}[1 + i / 49 % 7], i / 343 % 2) AS x FROM generate_series(0, 685) i"
    )
    create = f"CREATE INDEX g_i ON g ({keys.format(c='ignoring')})"
    stock = twins.build("stock", create, "g_i")
    session.execute("DROP INDEX g_i")
    ours = twins.build("ours", create, "g_i")
    session.execute("DROP TABLE g; DROP COLLATION ignoring")
    assert complaint(stock, ours) == ""
    assert twins.tally.left == {"collation": 1}


@pytest.mark.parametrize("arm", ARMS)
def test_a_locale_that_is_gone_is_not_looked_for(server: WatchedServer, arm: Arm) -> None:
    """Where keys are compared byte by byte, core needs none."""
    with server.connect() as session:
        session.execute(
            "CREATE COLLATION lost (provider = libc, locale = 'C');"
            "UPDATE pg_collation SET collcollate = 'gone', collctype = 'gone' "
            "WHERE collname = 'lost'"
        )
    with server.connect() as session:
        choose(session, arm)
        session.execute("CREATE INDEX c_i ON c (s COLLATE lost text_pattern_ops)")
        assert Counters.of(session).built == (arm == "ours")
        session.execute("DROP INDEX c_i; DROP COLLATION lost")
