"""Every statement that builds indexes leaves those that stock leaves."""

import pytest
from extension.probes import Connection, need_extension, scalar
from server_log import WatchedServer

from index_build.stories import check_trees, compare
from index_build.twins import Twins, complaint

_TABLE = (
    "CREATE TABLE t (id int NOT NULL, k bigint, s text, few int) "
    "WITH (autovacuum_enabled = off, fillfactor = 80)",
    "INSERT INTO t SELECT i, hashint8(i), 'row ' || i % 900, i % 11 "
    "FROM generate_series(1, 3000) i",
    "DELETE FROM t WHERE id % 17 = 0",
    "UPDATE t SET few = few + 1 WHERE id % 5 = 0",
)
_INDEXES = (
    "ALTER TABLE t ADD PRIMARY KEY (id)",
    "CREATE INDEX t_k ON t (k)",
    'CREATE INDEX t_s ON t (s COLLATE "C" DESC, few)',
    "CREATE INDEX t_few ON t (few) WHERE few > 3",
)
_WHOLE = (*_TABLE, *_INDEXES)
_PARTITIONS = (
    "CREATE TABLE p (id int NOT NULL, k int, s text) PARTITION BY RANGE (id)",
    "CREATE TABLE p_a PARTITION OF p FOR VALUES FROM (0) TO (1000)",
    "CREATE TABLE p_b PARTITION OF p FOR VALUES FROM (1000) TO (3000) PARTITION BY LIST (id)",
    "CREATE TABLE p_b_rest PARTITION OF p_b DEFAULT",
    "INSERT INTO p SELECT i, i % 97, 's' || i FROM generate_series(0, 2500) i",
    "CREATE TABLE p_c (LIKE p)",
    "INSERT INTO p_c SELECT i, i % 97, 's' || i FROM generate_series(3000, 3900) i",
)

# Statements, and how many indexes our arm builds in them at least.
_STORIES: dict[str, tuple[tuple[str, ...], int]] = {
    "create": (_WHOLE, 4),
    "reindex_index": ((*_WHOLE, "REINDEX INDEX t_k", "REINDEX INDEX t_s"), 6),
    "reindex_table": ((*_WHOLE, "DELETE FROM t WHERE id < 500", "REINDEX TABLE t"), 8),
    "reindex_schema": ((*_WHOLE, "REINDEX SCHEMA twin"), 8),
    "reindex_concurrently": ((*_WHOLE, "REINDEX TABLE CONCURRENTLY t"), 8),
    "cluster": ((*_WHOLE, "CLUSTER t USING t_k"), 8),
    "vacuum_full": ((*_WHOLE, "VACUUM FULL t"), 8),
    "alter_type": ((*_WHOLE, "ALTER TABLE t ALTER k TYPE numeric, ALTER few TYPE bigint"), 8),
    "add_volatile_column": ((*_WHOLE, "ALTER TABLE t ADD r float8 DEFAULT random()"), 8),
    "unlogged_and_back": ((*_WHOLE, "ALTER TABLE t SET UNLOGGED", "ALTER TABLE t SET LOGGED"), 12),
    "truncate_and_fill": (
        (*_WHOLE, "TRUNCATE t", "INSERT INTO t SELECT i, i, 'x', 1 FROM generate_series(1, 50) i"),
        4,
    ),
    "materialized_view": (
        (
            *_TABLE,
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM t",
            "CREATE UNIQUE INDEX v_id ON v (id)",
            "INSERT INTO t VALUES (9000, 1, 'new', 2)",
            "REFRESH MATERIALIZED VIEW v",
            "REFRESH MATERIALIZED VIEW CONCURRENTLY v",
        ),
        2,
    ),
    "constraints": (
        (
            *_TABLE,
            "ALTER TABLE t ADD UNIQUE (id, few) INCLUDE (k)",
            "ALTER TABLE t ADD CONSTRAINT later UNIQUE (k) DEFERRABLE INITIALLY DEFERRED",
            "ALTER TABLE t ADD EXCLUDE USING btree (k WITH =)",
            "ALTER TABLE t ADD CONSTRAINT loose UNIQUE NULLS NOT DISTINCT (id)",
        ),
        3,
    ),
    "partitions": (
        (
            *_PARTITIONS,
            "CREATE INDEX p_k ON p (k)",
            "ALTER TABLE p ADD PRIMARY KEY (id)",
            "ALTER TABLE p ATTACH PARTITION p_c FOR VALUES FROM (3000) TO (4000)",
            "REINDEX TABLE p",
            "REINDEX INDEX CONCURRENTLY p_k",
        ),
        14,
    ),
    "one_transaction": (
        (
            *_TABLE,
            "BEGIN; CREATE INDEX t_k ON t (k); SAVEPOINT s; CREATE INDEX t_s ON t (s); "
            "INSERT INTO t VALUES (5000, 5, 'late', 5); ROLLBACK TO s; "
            "UPDATE t SET k = k + 1 WHERE id < 300; CREATE INDEX t_few ON t (few, k); COMMIT",
            "BEGIN; CREATE INDEX t_gone ON t (k); ROLLBACK",
        ),
        4,
    ),
    "create_table_as": (
        ("CREATE TABLE c AS SELECT i AS k FROM generate_series(1, 999) i", "CREATE INDEX ON c (k)"),
        1,
    ),
    "temporary": (
        (
            "CREATE TEMP TABLE x AS SELECT i AS k, i % 7 AS m FROM generate_series(1, 3000) i",
            "CREATE INDEX x_k ON x (k)",
            "CREATE INDEX x_m ON x (m)",
            "BEGIN; CREATE TEMP TABLE y (k int PRIMARY KEY) ON COMMIT DROP; "
            "INSERT INTO y VALUES (1); CREATE INDEX ON y (k); COMMIT",
            "REINDEX TABLE x",
        ),
        4,
    ),
    "tablespace": (
        (
            *_TABLE,
            "CREATE INDEX t_k ON t (k) TABLESPACE elsewhere",
            "REINDEX (TABLESPACE elsewhere) TABLE t",
            "ALTER INDEX t_k SET TABLESPACE pg_default",
        ),
        2,
    ),
    "types_of_users": (
        (
            "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
            "CREATE TABLE u AS SELECT i::positive AS d, "
            "(ARRAY['glad', 'sad', 'fair'])[1 + i % 3]::mood AS m, int4range(i, i + 5) AS r "
            "FROM generate_series(1, 900) i",
            "CREATE INDEX u_d ON u (d)",
            "CREATE INDEX u_m ON u (m, d)",
            "CREATE INDEX u_r ON u (r)",
            "CREATE INDEX u_pair ON u ((ROW(lower(r), d)::pair))",
        ),
        1,
    ),
    "no_rows": (
        ("CREATE TABLE e (k int UNIQUE, s text)", "CREATE INDEX e_s ON e (s)", "REINDEX TABLE e"),
        2,
    ),
}


@pytest.fixture(autouse=True)
def _made_once(connection: Connection) -> None:
    """What both tellings share: enums and rows of a type have OIDs in their values."""
    found = scalar(connection, "SELECT count(*) FROM pg_tablespace WHERE spcname = 'elsewhere'")
    if not found:
        connection.execute("CREATE TYPE public.mood AS ENUM ('sad', 'fair', 'glad')")
        connection.execute("CREATE TYPE public.pair AS (a int, b int)")
        connection.execute("SET allow_in_place_tablespaces = on")
        connection.execute("CREATE TABLESPACE elsewhere LOCATION ''")


@pytest.mark.parametrize("name", _STORIES)
def test_both_arms_leave_the_same_indexes(connection: Connection, twins: Twins, name: str) -> None:
    statements, built = _STORIES[name]
    need_extension(connection, "amcheck")
    check_trees(connection, compare(twins, statements, built=built))


def test_parallel_workers_leave_the_same_indexes(connection: Connection, twins: Twins) -> None:
    connection.execute(
        "SET max_parallel_maintenance_workers = 2; SET min_parallel_table_scan_size = 0; "
        "SET maintenance_work_mem = '128MB'"
    )
    compare(twins, (*_WHOLE, "REINDEX TABLE t", "VACUUM FULL t"), built=12)


def test_a_session_without_workers_has_its_indexes_built_by_core(
    connection: Connection, twins: Twins
) -> None:
    """PostgreSQL does not look at the table then, which is how we get to its indexes."""
    connection.execute("SET max_parallel_maintenance_workers = 0")
    assert compare(twins, (*_WHOLE, "REINDEX TABLE t"), built=0).built == 0


def test_catalogs_are_left_to_core(connection: Connection, twins: Twins) -> None:
    built = compare(twins, (*_WHOLE, "REINDEX TABLE pg_class"), built=4).built
    assert built == 4


def test_other_access_methods_are_left_alone(connection: Connection, twins: Twins) -> None:
    statements = (
        *_TABLE,
        "CREATE INDEX t_hash ON t USING hash (k)",
        "CREATE INDEX t_brin ON t USING brin (id)",
        "CREATE INDEX t_gin ON t USING gin ((ARRAY[id, few]))",
    )
    assert compare(twins, statements, built=0).built == 0


def test_event_triggers_may_build_indexes(connection: Connection, twins: Twins) -> None:
    """Builds inside of a build's statement, before and after it, and one that fails."""
    statements = (
        *_TABLE,
        "CREATE TABLE log (n serial, tag text)",
        "CREATE FUNCTION busy() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF tg_tag = 'CREATE INDEX' AND current_setting('twin.depth', true) IS DISTINCT FROM '1' "
        "THEN PERFORM set_config('twin.depth', '1', true); "
        "INSERT INTO twin.log (tag) SELECT tg_event FROM generate_series(1, 500); "
        "EXECUTE format('CREATE INDEX log_%s ON twin.log (n, tag)', "
        "(SELECT count(*) FROM twin.log)); "
        "BEGIN CREATE INDEX ON twin.t ((1 / (few - few))); EXCEPTION WHEN division_by_zero THEN "
        "NULL; END; PERFORM set_config('twin.depth', '0', true); END IF; END $$",
        "CREATE EVENT TRIGGER early ON ddl_command_start EXECUTE FUNCTION busy()",
        "CREATE EVENT TRIGGER late ON ddl_command_end EXECUTE FUNCTION busy()",
        "CREATE INDEX t_k ON t (k)",
        "CREATE INDEX t_s ON t (s)",
        "DROP EVENT TRIGGER early; DROP EVENT TRIGGER late",
    )
    found = compare(twins, statements, built=6)
    assert {"log_500", "log_1000", "t_k"} <= {name.rpartition(".")[2] for name in found.indexes}


def test_key_functions_see_what_they_see_under_stock(connection: Connection, twins: Twins) -> None:
    """User, search path and restrictions during a build are in the keys themselves."""
    connection.execute("DROP ROLE IF EXISTS tenant; CREATE ROLE tenant")
    statements = (
        "GRANT USAGE, CREATE ON SCHEMA twin TO tenant",
        *_TABLE,
        "CREATE FUNCTION seen(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS "
        "'BEGIN RETURN $1 || current_user || current_setting(''search_path''); END'",
        "ALTER TABLE t OWNER TO tenant",
        "CREATE INDEX t_seen ON t (seen(id))",
        "CREATE INDEX t_mixed ON t (few, seen(few), k)",
        "CREATE FUNCTION sneaky(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
        "'BEGIN PERFORM set_config(''role'', ''postgres'', false); RETURN $1; END'",
        "CREATE INDEX t_sneaky ON t (sneaky(id))",
    )
    compare(twins, statements, built=2, fails=["42501"])


def test_scan_of_another_session_under_way(
    server: WatchedServer, connection: Connection, twins: Twins
) -> None:
    """A synchronised scan may begin in the middle of the table: the order of rows is no order."""
    connection.execute(
        "DROP TABLE IF EXISTS y; CREATE TABLE y AS SELECT i % 9 AS few, repeat('x', 200) AS pad "
        "FROM generate_series(1, 20000) i"
    )
    with server.connect() as other:
        other.execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM y; FETCH 9000 FROM c")
        # Two names: the other session's lock lets no index be dropped.
        ours = twins.build("ours", "CREATE INDEX y_ours ON y (few)", "y_ours")
        stock = twins.build("stock", "CREATE INDEX y_stock ON y (few)", "y_stock")
    assert complaint(stock, ours) == ""
    assert twins.tally.built == 1
