"""What an attack on joins found: each by its own statement, beside PostgreSQL's."""

from typing import Any

import psycopg
import pytest
from extension.probes import Connection, explain, scalar
from server_log import WatchedServer

from join.tables import OUTER_ROWS, loops, make_cold

_INNER = "JOIN inner_rows i ON i.k = o.ref"
# Partitions without an index, beside an index of a partitioned table that a subplan looks into.
_SUBPLAN = (
    "SELECT o.id, s.* FROM outer_rows o, LATERAL (SELECT p.g, (SELECT count(q.pad) FROM parts q "
    "WHERE q.k = o.ref AND q.g >= p.g) m FROM plain_parts p WHERE p.k = o.ref OFFSET 0) s"
)
_PLAIN_PARTS = """
CREATE TABLE plain_parts (k int, g int) PARTITION BY RANGE (k);
CREATE TABLE plain_low PARTITION OF plain_parts FOR VALUES FROM (MINVALUE) TO (99);
CREATE TABLE plain_high PARTITION OF plain_parts FOR VALUES FROM (99) TO (MAXVALUE);
INSERT INTO plain_parts SELECT k, g FROM inner_rows;
ANALYZE plain_parts
"""
_NOTES = """
CREATE OR REPLACE FUNCTION note(x int) RETURNS int VOLATILE LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE '%', x; RETURN x; END $$;
CREATE OR REPLACE FUNCTION noted_hash(x int) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE 'hash of %', x; RETURN x; END $$;
CREATE OR REPLACE FUNCTION same(x int, y int) RETURNS bool IMMUTABLE LEAKPROOF LANGUAGE plpgsql AS
    $$ BEGIN RETURN x = y; END $$;
DROP OPERATOR IF EXISTS === (int, int) CASCADE;
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = same, HASHES);
CREATE OPERATOR CLASS noted FOR TYPE int USING hash AS
    OPERATOR 1 === (int, int), FUNCTION 1 noted_hash(int);
DROP SEQUENCE IF EXISTS s1, s2, s3;
CREATE SEQUENCE s1; CREATE SEQUENCE s2; CREATE SEQUENCE s3;
CREATE TABLE IF NOT EXISTS changed AS SELECT id, ref FROM outer_rows;
CREATE OR REPLACE FUNCTION change(x int) RETURNS int VOLATILE LANGUAGE plpgsql AS
    $$ BEGIN UPDATE changed SET ref = ref WHERE id = x; RETURN x; END $$;
CREATE OR REPLACE FUNCTION noted_check(x int) RETURNS bool VOLATILE LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE 'check of %', x; RETURN true; END $$;
CREATE DOMAIN noted_int AS int CHECK (noted_check(value));
CREATE OR REPLACE FUNCTION noted_order(x int, y int) RETURNS int VOLATILE LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE 'order of %', y; PERFORM set_config('my.order', y::text, true);
    RETURN x - y; END $$;
CREATE OPERATOR CLASS noted_order FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=,
    OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 noted_order(int, int);
CREATE TYPE noted_range AS RANGE (SUBTYPE = int, SUBTYPE_OPCLASS = noted_order);
CREATE INDEX ON changed USING btree (id noted_order);
DROP TYPE IF EXISTS noted_word, quoted_word CASCADE;
CREATE TYPE noted_word AS ENUM ('yes');
CREATE TYPE quoted_word AS ENUM ('yes');
CREATE OR REPLACE FUNCTION count_one() RETURNS text VOLATILE LANGUAGE sql AS
    $$ SELECT set_config('my.order', (1 + coalesce(nullif(current_setting('my.order', true), ''),
    '0')::int)::text, true) $$;
CREATE FUNCTION noted_json(x noted_word) RETURNS json VOLATILE LANGUAGE plpgsql AS
    $$ BEGIN RETURN count_one(); END $$;
CREATE FUNCTION noted_text(x quoted_word[]) RETURNS text VOLATILE LANGUAGE plpgsql AS
    $$ BEGIN RETURN count_one(); END $$;
CREATE CAST (noted_word AS json) WITH FUNCTION noted_json(noted_word);
CREATE CAST (quoted_word[] AS text) WITH FUNCTION noted_text(quoted_word[]);
CREATE TABLE collated (id int, ref int, c text COLLATE "C", p text COLLATE "POSIX",
    r noted_range, s noted_range, w noted_word, v quoted_word[]);
INSERT INTO collated SELECT id, ref, 'a', 'a', noted_range(id, id + 5),
    noted_range(id + 1, id + 9), 'yes', '{yes}' FROM outer_rows;
ANALYZE changed, collated;
DROP OPERATOR IF EXISTS ==== (int, int), <<<< (int, int) CASCADE;
DROP OPERATOR FAMILY IF EXISTS own_hash USING hash CASCADE;
DROP OPERATOR FAMILY IF EXISTS own_order USING btree CASCADE;
DROP OPERATOR FAMILY IF EXISTS own_points USING btree CASCADE;
CREATE OR REPLACE FUNCTION set_hash(x int) RETURNS int VOLATILE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('my.order', x::text, true); RETURN x; END $$;
CREATE OR REPLACE FUNCTION point_order(x point, y point) RETURNS int VOLATILE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('my.order', y::text, true); RETURN sign(x[0] - y[0]); END $$;
CREATE OPERATOR ==== (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq, HASHES);
CREATE OPERATOR <<<< (LEFTARG = int, RIGHTARG = int, FUNCTION = int4lt);
CREATE OPERATOR CLASS own_hash FOR TYPE int USING hash AS
    OPERATOR 1 ==== (int, int), FUNCTION 1 set_hash(int);
CREATE OPERATOR CLASS own_order FOR TYPE int USING btree AS OPERATOR 1 <<<<, OPERATOR 2 <=,
    OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 noted_order(int, int);
CREATE OPERATOR CLASS own_points DEFAULT FOR TYPE point USING btree AS
    OPERATOR 3 ~=, FUNCTION 1 point_order(point, point);
DROP OPERATOR FAMILY IF EXISTS own_left USING btree CASCADE;
CREATE OPERATOR CLASS own_left FOR TYPE point USING btree AS
    OPERATOR 1 <<, OPERATOR 3 ~=, FUNCTION 1 point_order(point, point)
"""
_LEFT_OUT = """
DROP TABLE IF EXISTS left_out;
DROP OPERATOR FAMILY IF EXISTS plain_order USING btree CASCADE;
CREATE OPERATOR CLASS plain_order FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=,
    OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int);
CREATE TABLE left_out (k int, g int) PARTITION BY RANGE (k);
CREATE TABLE left_out_low PARTITION OF left_out FOR VALUES FROM (MINVALUE) TO (99);
CREATE TABLE left_out_high PARTITION OF left_out FOR VALUES FROM (99) TO (MAXVALUE);
INSERT INTO left_out SELECT k, g FROM inner_rows;
CREATE INDEX ON left_out (g plain_order);
ANALYZE left_out
"""
_DROPS = """
CREATE OR REPLACE FUNCTION drop_left_out(x int) RETURNS int VOLATILE LANGUAGE plpgsql AS
    $$ BEGIN DROP TABLE IF EXISTS left_out_high; RETURN x; END $$
"""
_NINE = "'{1,2,3,4,5,6,7,8,9}'"
_SEEN = {
    "effects before an error": f"SELECT note(o.id) FROM (SELECT * FROM outer_rows "
    f"WHERE 1 / zero < 2 OFFSET 0) o {_INNER}",
    "an InitPlan that is executed again": "SELECT x.id, s.id, note(1000 + s.id) FROM "
    "(VALUES (1, 0), (2, 30), (3, 60)) x(id, first), LATERAL (SELECT o.id, i.g "
    f"FROM outer_rows o {_INNER} WHERE o.id < 100 AND o.id < CASE WHEN o.id = x.first "
    "THEN (SELECT note(x.id)) ELSE 1000 END OFFSET 0) s",
    "a hash function of a user": "SELECT note(o.id) FROM (SELECT o.id, o.ref FROM outer_rows o "
    "JOIN third t ON t.k === o.id OFFSET 0) o, LATERAL (SELECT * FROM inner_rows i "
    "WHERE i.k = o.ref OFFSET 0) i WHERE o.id < 40",
    "the rows of sequences": "SELECT s.w, s.v, nextval('s3') FROM (SELECT 1 AS w, last_value AS v "
    "FROM s1 UNION ALL SELECT 2, last_value FROM s2 UNION ALL SELECT 3, last_value FROM s3) s "
    "JOIN inner_rows i ON i.k = s.w",
    "who has changed a row": "SELECT o.id, o.x, change(o.id + 1) FROM (SELECT id, ref, "
    f"xmax::text <> '0' AS x FROM changed OFFSET 0) o {_INNER} WHERE o.id < 50",
    "a hash function of ANY": "SELECT note(o.id), o.q FROM (SELECT id, ref, "
    f"id === ANY ({_NINE}) q FROM outer_rows OFFSET 0) o {_INNER} WHERE o.id < 50",
    "a hash function of IN": "SELECT note(o.id), o.q FROM (SELECT id, ref, "
    f"id === ANY (SELECT k FROM third) q FROM outer_rows OFFSET 0) o {_INNER} WHERE o.id < 50",
    "the order of an index": "SELECT note(o.id) FROM (SELECT a.id, c.ref FROM outer_rows a "
    f"JOIN changed c ON c.id = a.id OFFSET 0) o {_INNER} WHERE o.id < 50",
    "the order of a range": "SELECT current_setting('my.order', true), o.q FROM "
    f"(SELECT id, ref, r && s q FROM collated OFFSET 0) o {_INNER} WHERE o.id < 50",
    "the greatest of two rows": "SELECT current_setting('my.order', true), o.q FROM "
    "(SELECT id, ref, GREATEST(ROW(r), ROW(s)) IS NULL q FROM collated OFFSET 0) o "
    f"{_INNER} WHERE o.id < 50",
    "the hash of an operator on PostgreSQL's function": "SELECT current_setting('my.order', true), "
    "o.q FROM (SELECT id, ref, id ==== ANY (SELECT k FROM third) q FROM outer_rows OFFSET 0) o "
    f"{_INNER} WHERE o.id < 50",
    "the order of two rows": "SELECT current_setting('my.order', true), o.q FROM "
    "(SELECT id, ref, ROW(id, ref) <<<< ROW(ref, id) q FROM outer_rows OFFSET 0) o "
    f"{_INNER} WHERE o.id < 50",
    "a class for a type that has none": "SELECT current_setting('my.order', true), o.q FROM "
    "(SELECT id, ref, GREATEST(point(id, 1), point(ref, 1))::text q FROM outer_rows OFFSET 0) o "
    f"{_INNER} WHERE o.id < 50",
    "the order of two arrays": "SELECT current_setting('my.order', true), o.q FROM "
    "(SELECT id, ref, ARRAY[point(id, 1)] < ARRAY[point(ref, 1)] q FROM outer_rows OFFSET 0) o "
    f"{_INNER} WHERE o.id < 50",
    "the order by an operator of PostgreSQL's": "SELECT current_setting('my.order', true), o.q "
    "FROM (SELECT id, ref, (SELECT n FROM (VALUES (point(id, 1), id), (point(ref, 1), ref)) v "
    f"(x, n) ORDER BY x USING << LIMIT 1) q FROM outer_rows OFFSET 0) o {_INNER} WHERE o.id < 50",
    "columns of a record": "SELECT note(o.id), o.a FROM (SELECT id, ref, j.a FROM outer_rows, "
    "jsonb_to_record(jsonb_build_object('a', id)) AS j (a noted_int) OFFSET 0) o "
    f"{_INNER} WHERE o.id < 50",
    "a type by its name": "SELECT note(o.id), o.q FROM (SELECT id, ref, "
    f"pg_input_is_valid(id::text, 'noted_int') q FROM outer_rows OFFSET 0) o {_INNER} "
    "WHERE o.id < 50",
    "JSON of an enum": "SELECT current_setting('my.order', true), o.q FROM (SELECT id, ref, "
    f"to_json(w)::text q FROM collated OFFSET 0) o {_INNER} WHERE o.id < 50",
    "a quoted array of enums": "SELECT current_setting('my.order', true), o.q FROM "
    f"(SELECT id, ref, quote_literal(v) q FROM collated OFFSET 0) o {_INNER} WHERE o.id < 50",
    "texts of two collations": "SELECT note(o.id), o.q FROM (SELECT id, ref, "
    f"CASE WHEN id < 100 THEN true ELSE c = p END q FROM collated OFFSET 0) o {_INNER}",
    "a domain of JSON": "SELECT o.j, note(o.id) FROM (SELECT id, ref, "
    f"JSON_VALUE(('{{\"a\": ' || id::text || '}}')::jsonb, '$.a' RETURNING noted_int) j "
    f"FROM outer_rows OFFSET 0) o {_INNER}",
}


def _outcome(
    connection: Connection, query: str, fetches: int = 0, before: str = ""
) -> tuple[Any, ...]:
    """Rows, the error's SQLSTATE, and what was said on the way; in one transaction."""
    rows: list[Any] = []
    notices: list[str | None] = []
    handler = lambda diagnostic: notices.append(diagnostic.message_primary)  # noqa: E731
    connection.add_notice_handler(handler)
    state = None
    connection.execute(f"BEGIN; {before}")
    try:
        if fetches:
            connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}")
            for _ in range(fetches):
                rows += connection.execute("FETCH 1 FROM c").fetchall()
        else:
            rows = connection.execute(query).fetchall()
    except psycopg.Error as error:
        state = error.sqlstate
    connection.execute("ROLLBACK")
    connection.remove_notice_handler(handler)
    return rows, state, notices


def _check_same(connection: Connection, query: str, fetches: int = 0, before: str = "") -> None:
    connection.execute("SET pg_lookahead.enabled = off; RESET pg_lookahead.test_start_after")
    expected = _outcome(connection, query, fetches, before)
    connection.execute("SET pg_lookahead.enabled = on; SET pg_lookahead.test_start_after = 0")
    assert _outcome(connection, query, fetches, before) == expected


def _make(connection: Connection, statements: str) -> None:
    connection.execute("SET client_min_messages = warning")
    connection.execute(statements)
    connection.execute("SET client_min_messages = notice")


def test_a_subplan_over_partitions_below_a_partition(connection: Connection) -> None:
    """A target that is none of the partition's own had no search, and crashed."""
    _make(connection, f"DROP TABLE IF EXISTS plain_parts; {_PLAIN_PARTS}")
    _check_same(connection, _SUBPLAN)


def test_a_bitmap_scan_beside_an_initplan(server: WatchedServer, connection: Connection) -> None:
    """Its pages are asked for in its own table."""
    connection.execute(
        "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_seqscan = off; "
        "SET enable_bitmapscan = on"
    )
    query = (
        "SELECT o.id, s.g FROM outer_rows o, LATERAL (SELECT m.g FROM many m WHERE m.k = o.id "
        "AND length(m.pad) > (SELECT count(*) FROM inner_rows WHERE k = 5) "
        "OFFSET 0) s WHERE o.id < 50"
    )
    _check_same(connection, query)
    connection.execute("RESET pg_lookahead.test_start_after")
    make_cold(server, connection, "many")
    (loop,) = loops(explain(connection, query))
    pages = scalar(connection, "SELECT count(DISTINCT ctid) FROM many WHERE k < 50")
    assert loop["Advised Blocks"] > 0.9 * pages
    assert scalar(connection, "SELECT count(*) FROM many WHERE k < 50") == pages


@pytest.mark.parametrize(
    "outer",
    [
        "(SELECT id, ref FROM outer_rows WHERE id < 10 UNION ALL "
        "(SELECT id, ref FROM outer_rows ORDER BY 1 / zero OFFSET 0))",
        "(SELECT a.id, y.ref FROM (SELECT id FROM outer_rows WHERE id < 10 OFFSET 0) a CROSS JOIN "
        "LATERAL (SELECT ref FROM outer_rows b WHERE b.id = a.id ORDER BY b.id / (b.id - 5) "
        "OFFSET 0) y)",
    ],
)
def test_a_sort_that_is_not_reached_with_the_first_row(connection: Connection, outer: str) -> None:
    _check_same(connection, f"SELECT o.id, i.g FROM {outer} o {_INNER}", fetches=4)


@pytest.mark.parametrize("limit", ["LIMIT 30", ""])
def test_rows_that_are_hard_to_find_are_not_looked_for(connection: Connection, limit: str) -> None:
    """The next one is the last of a table: whoever wants thirty does not read it all."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS sparse AS SELECT i AS id, i % 400 AS ref, i < 30 OR i = 49999 "
        "AS wanted FROM generate_series(0, 49999) i; SET pg_lookahead.test_start_after = 0"
    )
    query = f"SELECT o.id, i.g FROM sparse o {_INNER} WHERE o.wanted"
    above = query if limit == "" else f"SELECT * FROM ({query}) j {limit}"
    read = "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'sparse'"
    with connection.transaction():
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {above}")
        assert len(connection.execute("FETCH 30 FROM c").fetchall()) == 30
        assert scalar(connection, read) < 100


@pytest.mark.long
def test_a_row_that_is_too_large_for_a_copy(connection: Connection) -> None:
    """Its two values have more than 1 GB together."""
    query = (
        "SELECT o.id, length(o.a) + length(o.b), i.g FROM (SELECT id, ref, "
        "repeat('x', 540000000 * (id % 2)) a, repeat('y', 540000000 * (id % 2)) b FROM outer_rows "
        f"WHERE id < 4 OFFSET 0) o {_INNER}"
    )
    _check_same(connection, query)


@pytest.mark.parametrize("bitmap", ["off", "on"])
def test_scans_that_were_left_out(
    server: WatchedServer, connection: Connection, bitmap: str
) -> None:
    """Of partitions that a prepared statement does not scan this time, no index is locked."""
    _make(connection, _LEFT_OUT)
    connection.execute(
        f"SET plan_cache_mode = force_generic_plan; SET enable_bitmapscan = {bitmap}; "
        f"SET enable_indexscan = {'off' if bitmap == 'on' else 'on'}; SET enable_seqscan = off; "
        "SET pg_lookahead.test_start_after = 0"
    )
    connection.execute(
        "PREPARE q (int) AS SELECT o.g, i.g FROM left_out o JOIN third i ON i.k = o.g "
        "WHERE o.k < $1 AND o.g >= 0"
    )
    with server.connect() as other:
        for _ in range(3):
            assert len(connection.execute("EXECUTE q (10)").fetchall()) == 10
            other.execute("BEGIN; REINDEX INDEX left_out_high_g_idx")
            assert len(connection.execute("EXECUTE q (10)").fetchall()) == 10
            other.execute("ROLLBACK")


def test_a_partition_dropped_by_the_statement(connection: Connection) -> None:
    """One that it does not scan is gone before anybody looks at the functions of its index."""
    _make(connection, f"{_LEFT_OUT}; {_DROPS}")
    connection.execute(
        "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; "
        "SET pg_lookahead.test_start_after = 5"
    )
    connection.execute(
        "PREPARE q (int) AS SELECT drop_left_out(o.g), i.g FROM left_out o "
        "JOIN third i ON i.k = o.g WHERE o.k < $1 AND o.g >= 0"
    )
    assert len(connection.execute("EXECUTE q (30)").fetchall()) == 30
    assert scalar(connection, "SELECT to_regclass('left_out_high')") is None


@pytest.mark.parametrize("name", list(_SEEN))
def test_nothing_is_seen_to_happen_early(connection: Connection, name: str) -> None:
    _make(
        connection,
        "DROP DOMAIN IF EXISTS noted_int; DROP TABLE IF EXISTS collated; "
        "DROP OPERATOR FAMILY IF EXISTS noted USING hash CASCADE; "
        f"DROP OPERATOR FAMILY IF EXISTS noted_order USING btree CASCADE; {_NOTES}",
    )
    hashes = "on" if "hash" in name else "off"
    connection.execute(f"SET enable_hashjoin = {hashes}; SET join_collapse_limit = 1")
    anew = "TRUNCATE changed; INSERT INTO changed SELECT id, ref FROM outer_rows"
    _check_same(connection, _SEEN[name], before=f"SELECT setval('s3', 1); {anew}")


def test_the_visibility_map_is_not_counted(server: WatchedServer, connection: Connection) -> None:
    connection.execute("VACUUM inner_rows")
    connection.execute("SET enable_indexonlyscan = on")
    query = f"SELECT o.id, i.k FROM outer_rows o {_INNER}"
    connection.execute(query)
    hits = []
    for start_after in ("-1", "0"):
        connection.execute(f"SET pg_lookahead.test_start_after = {start_after}")
        hits.append(explain(connection, query)["Shared Hit Blocks"])
    assert hits[0] == hits[1]
    assert hits[0] > OUTER_ROWS
