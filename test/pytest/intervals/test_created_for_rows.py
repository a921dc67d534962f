"""Partitions that are created because a row needs one, by each kind of statement."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from intervals.needed import ON, await_waiting, rows
from intervals.policies import bounds, hear, make, names, set_policy

_THREE = "(5, 'a'), (15, 'b'), (-5, 'c')"
_INSERTS = {
    "values": f"INSERT INTO s.p VALUES {_THREE}",
    "columns": "INSERT INTO s.p (t, k) VALUES ('a', 5), ('b', 15), ('c', -5)",
    "select": f"INSERT INTO s.p SELECT k, t FROM (VALUES {_THREE}) v (k, t)",
    "many": "INSERT INTO s.p SELECT k / 100 FROM (SELECT generate_series(-999, 1999, 1) k) v "
    "WHERE k IN (-500, 500, 1500)",
    "returning": f"INSERT INTO s.p VALUES {_THREE} RETURNING *",
    "do nothing": f"INSERT INTO s.p VALUES {_THREE}, (5, 'd') ON CONFLICT DO NOTHING",
    "do update": f"INSERT INTO s.p VALUES {_THREE} ON CONFLICT (k) DO UPDATE SET t = 'd'",
    "with": f"WITH n AS (INSERT INTO s.p VALUES {_THREE} RETURNING k) SELECT * FROM n",
    "with in an insert": f"WITH n AS (INSERT INTO s.p VALUES {_THREE} RETURNING k) "
    "INSERT INTO s.q SELECT k FROM n",
    "merge": f"MERGE INTO s.p USING (VALUES {_THREE}) v (k, t) ON p.k = v.k "
    "WHEN NOT MATCHED THEN INSERT VALUES (v.k, v.t)",
    "loop": "DO $$ BEGIN FOR i IN 0..2 LOOP INSERT INTO s.p VALUES (i * 10 - 5); END LOOP; END $$",
    "explained": f"EXPLAIN (ANALYZE, COSTS OFF) INSERT INTO s.p VALUES {_THREE}",
    "view": f"INSERT INTO s.v VALUES {_THREE}",
}


@pytest.mark.parametrize("batches", ["on", "off"])
@pytest.mark.parametrize("way", _INSERTS)
def test_inserts(table: Connection, way: str, batches: str) -> None:
    table.execute("CREATE TABLE s.q (k int); CREATE VIEW s.v AS SELECT * FROM s.p")
    table.execute(f"SET pg_lookahead.enable_bulk_insert = {batches}".encode())
    assert hear(table, _INSERTS[way]) == []
    assert rows(table) == [("s.p_m10", -5), ("s.p_0", 5), ("s.p_10", 15)]


def test_explain_alone_creates_nothing(table: Connection) -> None:
    table.execute("EXPLAIN INSERT INTO s.p VALUES (5)")
    assert bounds(table) == []


def test_gaps_stay(table: Connection) -> None:
    table.execute("INSERT INTO s.p VALUES (5), (95)")
    assert bounds(table) == [("0", "10"), ("90", "100")]


_TEN, _HOUR = "{} * 10", "'2001-01-01'::{} + {{}} * interval '1 h'"
# Of each type a step, the lower bound of a range by its number, and what is less than all steps.
_KEYS = {
    "smallint": ("10", _TEN, "1"),
    "int": ("10", _TEN, "1"),
    "bigint": ("3::bigint << 31", "{} * (3::bigint << 31)", "1"),
    "numeric": ("10", _TEN, "0.01"),
    "date": ("'1 day'", "'2001-01-01'::date + {}", "1"),
    "timestamp": ("'1 h'", _HOUR.format("timestamp"), "interval '1 us'"),
    "timestamptz": ("'1 h'", _HOUR.format("timestamptz"), "interval '1 us'"),
}


@pytest.mark.parametrize("key", _KEYS)
def test_keys_at_bounds(session: Connection, key: str) -> None:
    """The first and last keys of ranges that are there and of others, in turns."""
    step, bound, least = _KEYS[key]
    make(session, key)
    for there in (0, 3):
        made = f"pg_lookahead_create_range_partitions('s.p', {bound.format(there)}, {step}, 1)"
        session.execute(f"SELECT {made}".encode())
    set_policy(session, f"{step}, {bound.format(0)}")
    session.execute(ON)
    first = [f"({bound.format(number)})" for number in (0, 3, 1, 4)]
    final = [f"({bound.format(number)} - {least})" for number in (1, 4, 0, 3)]
    inserts = [f"({one})" for pair in zip(first, final, strict=True) for one in pair]
    for one in inserts:
        session.execute(f"INSERT INTO s.p VALUES {one}".encode())
    session.execute(f"INSERT INTO s.p VALUES {', '.join(reversed(inserts))}".encode())
    found = scalar(session, "SELECT count(DISTINCT tableoid) FROM s.p")
    assert (found, len(bounds(session))) == (6, 6)


def test_every_row_of_a_large_insert(table: Connection) -> None:
    """Batches are under way when a partition is missing."""
    table.execute("SET pg_lookahead.enable_bulk_insert = on; CREATE INDEX ON s.p (t)")
    table.execute("INSERT INTO s.p SELECT i, 'x' || i FROM generate_series(0, 39) i")
    table.execute(
        "INSERT INTO s.p SELECT i, 'x' || i FROM "
        "(SELECT generate_series(1000, 1199) i UNION ALL SELECT generate_series(40, 79)) v"
        " ORDER BY i % 7, i"
    )
    assert len(names(table)) == 28
    assert scalar(table, "SELECT count(*) FROM s.p WHERE t = 'x' || k") == 280
    scan = "SELECT count(*) FROM s.p WHERE t > ''"
    table.execute("SET enable_seqscan = off")
    assert scalar(table, scan) == 280


def test_copy(table: Connection) -> None:
    table.execute("SET pg_lookahead.enable_bulk_insert = on; CREATE INDEX ON s.p (t)")
    with table.cursor() as cursor, cursor.copy("COPY s.p FROM STDIN") as copy:
        for i in range(200):
            copy.write(f"{i * 7 % 200}\tx{i}\n")
    assert len(names(table)) == 20
    assert scalar(table, "SELECT count(DISTINCT t) FROM s.p") == 200


def test_copy_tells_the_line(table: Connection) -> None:
    table.execute("SET pg_lookahead.enable_bulk_insert = on")
    with (
        pytest.raises(psycopg.errors.CheckViolation) as caught,
        table.cursor() as cursor,
        cursor.copy("COPY s.p FROM STDIN") as copy,
    ):
        copy.write("1\ta\n11\tb\n90000\tc\n")
    assert "line 3" in str(caught.value.diag.context)
    assert bounds(table) == [("0", "10"), ("10", "20")]
    assert rows(table) == []


def test_copy_quotes_no_other_line(table: Connection) -> None:
    """Rows that waited fail when a later one needs a partition."""
    table.execute("SET pg_lookahead.enable_bulk_insert = on")
    with (
        pytest.raises(psycopg.errors.UniqueViolation) as caught,
        table.cursor() as cursor,
        cursor.copy("COPY s.p FROM STDIN") as copy,
    ):
        copy.write("1\ta\n1\tb\n11\tc\n")
    assert caught.value.diag.context == "COPY p, line 2"


def test_copy_by_postgresql_creates_nothing(table: Connection) -> None:
    with (
        pytest.raises(psycopg.errors.CheckViolation),
        table.cursor() as cursor,
        cursor.copy("COPY s.p FROM STDIN") as copy,
    ):
        copy.write("1\ta\n")
    assert bounds(table) == []


@pytest.mark.parametrize("key", ["k", "(k + 0)"])
def test_update(session: Connection, key: str) -> None:
    make(session, "int", by=key)
    set_policy(session, "10")
    session.execute(ON)
    session.execute("INSERT INTO s.p SELECT i FROM generate_series(0, 19) i")
    session.execute("UPDATE s.p SET k = k + 100 WHERE k IN (3, 4, 15)")
    assert bounds(session) == [("0", "10"), ("10", "20"), ("100", "110"), ("110", "120")]
    assert rows(session)[-1] == ("s.p_110", 115)
    session.execute("UPDATE s.p SET t = 'x'")
    assert scalar(session, "SELECT count(*) FROM s.p WHERE t = 'x'") == 20


def test_merge_that_updates(table: Connection) -> None:
    table.execute("INSERT INTO s.p SELECT i FROM generate_series(0, 19) i")
    table.execute(
        "MERGE INTO s.p USING (VALUES (5), (15), (300)) v (k) ON p.k = v.k "
        "WHEN MATCHED AND v.k = 5 THEN UPDATE SET k = p.k + 100 "
        "WHEN MATCHED THEN UPDATE SET t = 'y' WHEN NOT MATCHED THEN INSERT VALUES (v.k, 'z')"
    )
    assert rows(table)[-2:] == [("s.p_100", 105), ("s.p_300", 300)]
    assert scalar(table, "SELECT count(*) FROM s.p") == 21


def test_partitions_with_columns_in_another_order(table: Connection) -> None:
    table.execute("CREATE TABLE s.other (gone int, t text, k int NOT NULL)")
    table.execute("ALTER TABLE s.other DROP gone; ALTER TABLE s.p DROP t, ADD t text")
    table.execute("ALTER TABLE s.p ATTACH PARTITION s.other FOR VALUES FROM (0) TO (10)")
    table.execute("INSERT INTO s.p SELECT i, 'x' FROM generate_series(0, 29) i")
    table.execute("UPDATE s.p SET t = 'y', k = k + 100 WHERE k IN (1, 11)")
    table.execute(
        "MERGE INTO s.p USING (VALUES (2), (12)) v (k) ON p.k = v.k "
        "WHEN MATCHED THEN UPDATE SET k = p.k + 200, t = 'y'"
    )
    assert rows(table)[-4:] == [
        ("s.p_100", 101),
        ("s.p_110", 111),
        ("s.p_200", 202),
        ("s.p_210", 212),
    ]
    assert scalar(table, "SELECT count(*) FROM s.p WHERE t = 'y'") == 4


def test_an_update_beside_another(table: Connection, server: WatchedServer) -> None:
    """The row's last version is what needs a partition."""
    table.execute("INSERT INTO s.p VALUES (5)")
    with server.connect(autocommit=False) as other, ThreadPoolExecutor(1) as pool:
        other.execute("UPDATE s.p SET k = 6")
        running = pool.submit(table.execute, "UPDATE s.p SET k = k + 100")
        await_waiting(other)
        other.commit()
        running.result(100)
    assert rows(table) == [("s.p_100", 106)]


@pytest.mark.parametrize(
    "which", ["FROM s.x WHERE p.k = x.k", "WHERE k >= (SELECT min(k) FROM s.x)"]
)
def test_pruning_that_begins_again(table: Connection, server: WatchedServer, which: str) -> None:
    """A row that another transaction has changed is looked up once more, by the old directory."""
    table.execute("INSERT INTO s.p VALUES (5), (25), (45); CREATE TABLE s.x AS TABLE s.p")
    for way in ("hashjoin", "mergejoin", "seqscan", "bitmapscan"):
        table.execute(f"SET enable_{way} = off".encode())
    with server.connect(autocommit=False) as other, ThreadPoolExecutor(1) as pool:
        other.execute("UPDATE s.p SET t = 'z' WHERE k = 25")
        running = pool.submit(table.execute, f"UPDATE s.p SET k = p.k + 10 {which}".encode())
        await_waiting(other)
        other.commit()
        running.result(100)
    assert [row[1] for row in rows(table)] == [15, 35, 55]


def test_prepared(table: Connection) -> None:
    table.execute(
        "SET plan_cache_mode = force_generic_plan; PREPARE i (int) AS INSERT INTO s.p VALUES ($1)"
    )
    for key in (5, 15, 6, 25, 1):
        table.execute(f"EXECUTE i ({key})".encode())
    assert len(rows(table)) == 5


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_levels(table: Connection, server: WatchedServer, level: str) -> None:
    table.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
    assert rows(table) == []
    with server.connect() as other:
        other.execute(ON)
        other.execute("INSERT INTO s.p VALUES (15)")
    table.execute("INSERT INTO s.p VALUES (5), (16)")
    assert rows(table) == [("s.p_0", 5), ("s.p_10", 16)]
    table.execute("COMMIT")
    assert len(rows(table)) == 3


def test_what_is_rolled_back(table: Connection) -> None:
    table.execute("BEGIN; INSERT INTO s.p VALUES (1); SAVEPOINT a; INSERT INTO s.p VALUES (11)")
    table.execute("ROLLBACK TO a; INSERT INTO s.p VALUES (21); ROLLBACK")
    assert rows(table) == []
    assert len(names(table)) == 3


def test_triggers(table: Connection) -> None:
    """Also those of rows that were inserted by the routing of before."""
    table.execute(
        "CREATE TABLE s.seen (n serial, what text);"
        "CREATE FUNCTION s.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO s.seen (what) VALUES (TG_WHEN || TG_LEVEL || TG_TABLE_NAME);"
        " RETURN NEW; END $$;"
        "CREATE FUNCTION s.sum() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO s.seen (what) SELECT 'sum' || sum(k) FROM new; RETURN NULL; END $$;"
        "CREATE TRIGGER a BEFORE INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION s.see();"
        "CREATE TRIGGER b AFTER INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION s.see();"
        "CREATE TRIGGER c AFTER INSERT ON s.p REFERENCING NEW TABLE AS new"
        " FOR EACH STATEMENT EXECUTE FUNCTION s.sum()"
    )
    table.execute("INSERT INTO s.p VALUES (1), (11), (2), (21), (12)")
    seen = [row[0] for row in table.execute("SELECT what FROM s.seen ORDER BY n").fetchall()]
    order = ["p_0", "p_10", "p_0", "p_20", "p_10"]
    assert seen == [f"BEFOREROW{p}" for p in order] + [f"AFTERROW{p}" for p in order] + ["sum47"]


def test_statements_in_statements(table: Connection) -> None:
    """A trigger's own statement needs a partition while the outer one goes on."""
    table.execute("CREATE TABLE s.q (k int) PARTITION BY RANGE (k)")
    set_policy(table, "10", "s.q")
    table.execute(
        "CREATE FUNCTION s.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO s.q VALUES (NEW.k); RETURN NEW; END $$;"
        "CREATE TRIGGER f BEFORE INSERT ON s.p FOR EACH ROW EXECUTE FUNCTION s.f()"
    )
    table.execute("INSERT INTO s.p VALUES (1), (11), (21)")
    assert len(rows(table, "s.q")) == len(rows(table)) == 3


def test_sixteen_sessions(table: Connection, server: WatchedServer) -> None:
    begin = Barrier(16)

    def insert(number: int) -> None:
        with server.connect() as own:
            own.execute(ON)
            begin.wait(100)
            for i in range(30):
                own.execute("INSERT INTO s.p VALUES (%s)", (i * 10 + number % 10,))

    table.execute("ALTER TABLE s.p DROP CONSTRAINT p_pkey")
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(insert, number) for number in range(16)]:
            done.result(200)
    assert len(names(table)) == 30
    assert len(rows(table)) == 480
