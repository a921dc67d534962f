--
-- pg_lookahead_evict: what it takes, what it refuses, and from whom
--
CREATE EXTENSION pg_lookahead;
CREATE TABLE evicted (k int PRIMARY KEY, pad text) WITH (autovacuum_enabled = off);
INSERT INTO evicted SELECT i, repeat('x', 500) FROM generate_series(1, 1000) i;
CHECKPOINT;

-- main fork, and the TOAST table with its index: nobody uses them, all goes
SELECT relations, buffers_evicted > 60 AS evicted, buffers_skipped,
       bytes = pg_table_size('evicted') AS all_forks
FROM pg_lookahead_evict('evicted');
SELECT count(*) FROM evicted;
-- rows that are only in memory are written first
UPDATE evicted SET pad = 'changed';
SELECT buffers_flushed > 0 AS flushed FROM pg_lookahead_evict('evicted');
SELECT count(*) FROM evicted WHERE pad = 'changed';

-- an index goes by itself; so does a materialized view, a sequence, a TOAST table
SELECT relations, buffers_evicted > 0 AS evicted FROM pg_lookahead_evict('evicted_pkey');
CREATE MATERIALIZED VIEW evicted_view AS SELECT * FROM evicted;
SELECT relations FROM pg_lookahead_evict('evicted_view');
CREATE SEQUENCE evicted_sequence;
SELECT relations FROM pg_lookahead_evict('evicted_sequence');
SELECT relations FROM pg_class c, LATERAL pg_lookahead_evict(c.reltoastrelid)
WHERE c.oid = 'evicted'::regclass;
-- an open cursor keeps its page, and says so by the number of skipped buffers
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM evicted;
FETCH c;
SELECT buffers_skipped > 0 AS skipped FROM pg_lookahead_evict('evicted');
COMMIT;

-- partitions are evicted one by one
CREATE TABLE evicted_parts (k int PRIMARY KEY) PARTITION BY RANGE (k);
CREATE TABLE evicted_part_1 PARTITION OF evicted_parts FOR VALUES FROM (0) TO (10);
CREATE TABLE evicted_part_2 PARTITION OF evicted_parts FOR VALUES FROM (10) TO (20);
INSERT INTO evicted_parts SELECT generate_series(0, 19);
SELECT pg_lookahead_evict('evicted_parts');
SELECT pg_lookahead_evict('evicted_parts_pkey');
SELECT relid, (pg_lookahead_evict(relid)).relations
FROM pg_partition_tree('evicted_parts') WHERE isleaf ORDER BY 1;
SELECT relid, (pg_lookahead_evict(relid)).relations
FROM pg_partition_tree('evicted_parts_pkey') WHERE isleaf ORDER BY 1;

-- refused
CREATE VIEW evicted_no_files AS SELECT 1;
SELECT pg_lookahead_evict('evicted_no_files');
CREATE TEMP TABLE evicted_temp (k int);
SELECT pg_lookahead_evict('evicted_temp');
SELECT pg_lookahead_evict(0);
SELECT pg_lookahead_evict(NULL);

-- superusers only, whatever is granted
CREATE ROLE regress_lookahead_evictor;
SET ROLE regress_lookahead_evictor;
SELECT pg_lookahead_evict('evicted');
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_lookahead_evict(regclass) TO regress_lookahead_evictor;
SET ROLE regress_lookahead_evictor;
SELECT pg_lookahead_evict('evicted');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION pg_lookahead_evict(regclass) FROM regress_lookahead_evictor;
DROP ROLE regress_lookahead_evictor;

DROP TABLE evicted, evicted_parts CASCADE;
DROP VIEW evicted_no_files;
DROP SEQUENCE evicted_sequence;
DROP EXTENSION pg_lookahead;
