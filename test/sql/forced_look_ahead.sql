--
-- Look-ahead forced into states that small tables do not reach by themselves
--
SET pg_lookahead.test_start_after = 0;
SET pg_lookahead.test_depth = 400;

CREATE TABLE forced (id int PRIMARY KEY, k int) WITH (autovacuum_enabled = off);
INSERT INTO forced SELECT i, i * 7919 % 20011 FROM generate_series(1, 20000) i;
CREATE INDEX forced_k ON forced (k);
ANALYZE forced;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;

CREATE FUNCTION digest() RETURNS text LANGUAGE sql AS
    'SELECT md5(string_agg(id::text, '','')) FROM (SELECT id FROM forced ORDER BY k) q';

SET pg_lookahead.enabled = off;
SELECT digest() AS wanted \gset
RESET pg_lookahead.enabled;
SELECT digest() = :'wanted' AS deep;
SET pg_lookahead.test_ring_size = 2;
SELECT digest() = :'wanted' AS tiny_ring;
SET pg_lookahead.test_stop_seed = 42;
SELECT digest() = :'wanted' AS random_stops;
RESET pg_lookahead.test_ring_size;
SELECT digest() = :'wanted' AS random_stops_deep;
RESET pg_lookahead.test_stop_seed;

-- an unlogged table: look-ahead waits at the end of each leaf page
ALTER TABLE forced SET UNLOGGED;
SELECT digest() = :'wanted' AS unlogged;
DELETE FROM forced WHERE k % 10 <> 0;
SELECT count(*) FROM (SELECT id FROM forced ORDER BY k) q;
SELECT count(*) FROM (SELECT id FROM forced ORDER BY k DESC) q;

CREATE TEMP TABLE forced_temp AS TABLE forced;
CREATE INDEX ON forced_temp (k);
SELECT count(*), sum(id) FROM (SELECT id FROM forced_temp ORDER BY k) q;

-- a Limit that wants more rows than look-ahead was told, because many are dead
BEGIN;
DELETE FROM forced WHERE k < 5000;
SELECT id, k FROM forced ORDER BY k LIMIT 5;
ROLLBACK;

-- rescans
SELECT sum(l.id) FROM generate_series(0, 20000, 250) g,
    LATERAL (SELECT id FROM forced WHERE k >= g ORDER BY k LIMIT 7) l;

-- what is said of a scan that core begins: four rows a page, 4 entries by core, 396 on
-- 99 pages by us
RESET pg_lookahead.test_depth;
SET pg_lookahead.test_start_after = 4;
CREATE TABLE counted (k int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO counted SELECT i, repeat('x', 1900) FROM generate_series(1, 400) i;
CREATE INDEX ON counted (k);
ANALYZE counted;
CREATE FUNCTION explain_lines(query text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, LOOKAHEAD) ' || query LOOP
        RETURN NEXT regexp_replace(line, 'distance=[0-9.]+/[0-9]+', 'distance=N/N');
    END LOOP;
END $$;
SELECT explain_lines('SELECT count(pad) FROM counted WHERE k > 0');
SELECT explain_lines('SELECT pad FROM counted WHERE k > 0 ORDER BY k LIMIT 20');
SELECT explain_lines('SELECT pad FROM counted WHERE k = 42');
CREATE EXTENSION pg_lookahead;
SELECT scans AS before FROM pg_stat_lookahead WHERE feature = 'index_scan' \gset
SELECT count(pad) FROM counted WHERE k > 0;
-- a statement that fails is counted too
SELECT sum(1 / (k - 300)) FROM counted WHERE k > 0 AND pad > '';
SELECT scans - :before AS scans FROM pg_stat_lookahead WHERE feature = 'index_scan';
DROP EXTENSION pg_lookahead;
DROP FUNCTION explain_lines;
DROP TABLE counted;

-- test settings are for superusers
CREATE ROLE regress_lookahead_user;
SET ROLE regress_lookahead_user;
SET pg_lookahead.test_depth = 1;
RESET ROLE;
DROP ROLE regress_lookahead_user;
DROP FUNCTION digest;
DROP TABLE forced;
