--
-- index builds: which are ours, and what they say when they fail
--
CREATE EXTENSION pg_lookahead;
-- its tables have indexes, too
DO $$ BEGIN PERFORM pg_lookahead_stats_reset(); END $$;
SET client_min_messages = warning;
SET pg_lookahead.enable_index_build = on;
CREATE FUNCTION built(OUT nodes bigint, OUT ours bigint, OUT left_to_core text) LANGUAGE sql AS
  $$SELECT nodes, scans, fallbacks FROM pg_stat_lookahead WHERE feature = 'index_build'$$;
CREATE TABLE item (id bigint, code text COLLATE "C", size numeric, kind int, path point)
  WITH (autovacuum_enabled = off);
INSERT INTO item
  SELECT i, 'code ' || i % 1000, i / 7.0, i % 3, point(i, i) FROM generate_series(1, 5000) i;

-- every command that builds an index
CREATE INDEX item_code ON item (code);
CREATE INDEX CONCURRENTLY item_size ON item (size DESC NULLS LAST) INCLUDE (kind);
ALTER TABLE item ADD PRIMARY KEY (id);
CREATE INDEX item_some ON item ((kind + 1), code) WHERE kind <> 2;
SELECT * FROM built();
REINDEX INDEX item_code;
REINDEX INDEX CONCURRENTLY item_pkey;
CLUSTER item USING item_pkey;
SELECT * FROM built();
VACUUM FULL item;
ALTER TABLE item ALTER kind TYPE bigint;
SELECT * FROM built();

-- but where no parallel workers are allowed
SET max_parallel_maintenance_workers = 0;
REINDEX TABLE item;
RESET max_parallel_maintenance_workers;
SELECT * FROM built();

-- rows deleted and updated in place
UPDATE item SET size = -size WHERE id % 10 = 0;
DELETE FROM item WHERE id % 11 = 0;
REINDEX TABLE item;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM item WHERE id > 0;
SELECT count(*), sum(id) FROM item WHERE code > '';
RESET enable_seqscan;

-- duplicates, NULLs
INSERT INTO item VALUES (10000, NULL), (10001, NULL);
CREATE UNIQUE INDEX item_unique ON item (code);
DELETE FROM item WHERE id BETWEEN 1000 AND 5000;
CREATE UNIQUE INDEX item_unique ON item (code);
CREATE UNIQUE INDEX item_nulls ON item (code) NULLS NOT DISTINCT;

-- too long a key
INSERT INTO item VALUES (10002, (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i));
REINDEX INDEX item_code;

-- what is left to PostgreSQL
CREATE INDEX item_array ON item ((ARRAY[kind]));
REINDEX TABLE pg_opclass;
SELECT * FROM built();
SET client_min_messages = debug1;
\set VERBOSITY terse
REINDEX INDEX item_array;
RESET client_min_messages;

-- switched off, nothing is counted
SET pg_lookahead.enable_index_build = off;
REINDEX INDEX item_unique;
SELECT ours FROM built();

DROP TABLE item;
DROP FUNCTION built();
DROP EXTENSION pg_lookahead;
