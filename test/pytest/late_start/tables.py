"""Partitioned tables, and what there is to be seen of a statement on them."""

from __future__ import annotations

from typing import Any

import psycopg
from extension.probes import Connection, scalar

# p: 40 ranges of ten keys each, and a default. l: 30 lists, each split in two by hash. w: what is
# asked for. Columns are dropped and added so that partitions differ in shape.
TABLES = """
CREATE TABLE p (gone int, k int, v int, t text) PARTITION BY RANGE (k);
DO $$ BEGIN
  FOR i IN 0..39 LOOP
    EXECUTE format('CREATE TABLE p_%s PARTITION OF p FOR VALUES FROM (%s) TO (%s)',
                   i, i * 10, i * 10 + 10);
  END LOOP;
END $$;
ALTER TABLE p DROP COLUMN gone;
CREATE TABLE p_rest PARTITION OF p DEFAULT;
INSERT INTO p SELECT i, i % 7, 'p' || i FROM generate_series(0, 449) i;
CREATE INDEX ON p (k);
CREATE INDEX ON p (v, k);
CREATE TABLE l (a int, b int, t text) PARTITION BY LIST (a);
DO $$ BEGIN
  FOR i IN 0..29 LOOP
    EXECUTE format('CREATE TABLE l_%s PARTITION OF l FOR VALUES IN (%s)'
                   ' PARTITION BY HASH (b)', i, i);
    FOR j IN 0..1 LOOP
      EXECUTE format('CREATE TABLE l_%s_%s PARTITION OF l_%s'
                     ' FOR VALUES WITH (modulus 2, remainder %s)', i, j, i, j);
    END LOOP;
  END LOOP;
END $$;
INSERT INTO l SELECT i % 30, i, 'l' || i FROM generate_series(0, 899) i;
CREATE INDEX ON l (a, b);
CREATE TABLE w (id int, k int, a int);
INSERT INTO w SELECT i, i * 37 % 450, i * 11 % 30 FROM generate_series(0, 59) i;
INSERT INTO w VALUES (60, NULL, NULL), (61, 100000, 100000), (62, -5, -5);
ANALYZE;
"""

# The indexes of partitions that a transaction has locked. A plan that was kept locks those of the
# children that it starts.
_LOCKED = """
SELECT count(DISTINCT relation) FROM pg_locks JOIN pg_class c ON c.oid = relation
WHERE pid = pg_backend_pid() AND c.relkind = 'i' AND c.relispartition
"""


def execute_kept(session: Connection, query: str) -> list[Any]:
    """The rows of a statement whose plan is kept, in their order."""
    session.execute(f"PREPARE kept AS {query}")
    try:
        session.execute("EXECUTE kept")
        return session.execute("EXECUTE kept").fetchall()
    finally:
        session.execute("DEALLOCATE kept")


def count_started(session: Connection, query: str) -> int:
    """How many scans of partitions by an index a statement starts whose plan is kept."""
    session.execute(f"PREPARE kept AS {query}")
    try:
        session.execute("EXECUTE kept")
        with session.transaction(force_rollback=True):
            session.execute("EXECUTE kept")
            return int(scalar(session, _LOCKED))
    finally:
        session.execute("DEALLOCATE kept")


def late_starts(session: Connection) -> int:
    """How many nodes this session has started without their children."""
    counted = "SELECT scans FROM pg_stat_lookahead"
    return int(scalar(session, f"{counted} WHERE feature = 'late_start' AND scope = 'backend'"))


def outcome(session: Connection, script: str) -> Any:
    """The rows of the last statement of a script that is rolled back, or its error; and notices."""
    notices: list[str | None] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        notices.append(notice.message_primary)

    session.add_notice_handler(note)
    try:
        with session.transaction(force_rollback=True):
            cursor = session.execute(script)
            while cursor.nextset():
                pass
            return cursor.fetchall(), notices
    except psycopg.Error as error:
        return (error.sqlstate, error.diag.message_primary), notices
    finally:
        session.remove_notice_handler(note)
        session.execute("DEALLOCATE ALL")
