--
-- EXPLAIN (LOOKAHEAD): what it says, and for which scans
--
CREATE TABLE explained (id int PRIMARY KEY, k int, p point, pad text);
INSERT INTO explained
    SELECT i, i * 7919 % 10007, point(i, i), repeat('x', 500)
    FROM generate_series(1, 3000) i;
CREATE INDEX explained_k ON explained (k);
CREATE INDEX explained_hash ON explained USING hash (pad);
CREATE INDEX explained_gist ON explained USING gist (p);
VACUUM ANALYZE explained;

-- distances depend on what is cached
CREATE FUNCTION explain_lines(query text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE query LOOP
        IF line !~ '^ *(Planning|Execution) Time' THEN
            RETURN NEXT regexp_replace(line, 'distance=[0-9.]+/[0-9]+', 'distance=N/N');
        END IF;
    END LOOP;
END $$;

SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET max_parallel_workers_per_gather = 0;

-- without ANALYZE
EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT * FROM explained WHERE k < 500;
-- the option can be switched off, and is off by default
EXPLAIN (COSTS OFF, LOOKAHEAD off) SELECT * FROM explained WHERE k < 500;
EXPLAIN (COSTS OFF, LOOKAHEAD perhaps) SELECT * FROM explained WHERE k < 500;

-- scans sleep: their pages are in shared buffers (forced_look_ahead.sql has others)
SELECT explain_lines('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, LOOKAHEAD)
    SELECT * FROM explained WHERE k < 500 ORDER BY k');
SELECT explain_lines('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, LOOKAHEAD)
    SELECT * FROM explained WHERE id = 42');
SELECT explain_lines('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, LOOKAHEAD)
    SELECT * FROM explained ORDER BY k LIMIT 20');
SELECT explain_lines('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, LOOKAHEAD)
    SELECT * FROM explained ORDER BY k LIMIT 5');

-- other access methods; scans that are executed by core, with advice from us
EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT * FROM explained WHERE pad = 'x';
EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT * FROM explained WHERE p <@ box '(1,1),(500,500)';
EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT k FROM explained WHERE k < 500;
EXPLAIN (COSTS OFF, LOOKAHEAD) DECLARE c SCROLL CURSOR FOR SELECT * FROM explained ORDER BY k;

-- never executed
SELECT explain_lines('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, LOOKAHEAD)
    SELECT * FROM explained WHERE false AND id = 1
    UNION ALL
    SELECT a.* FROM explained a, LATERAL
        (SELECT * FROM explained b WHERE b.k = a.k OFFSET 0) c
    WHERE a.id = -1');

-- left to core, and why
EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT * FROM explained ORDER BY p <-> point(1, 1);
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT * FROM explained a JOIN explained b USING (k);
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;
SET pg_lookahead.enabled = off;
EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT * FROM explained WHERE k < 500;
RESET pg_lookahead.enabled;

-- the other formats
SELECT explain_lines('EXPLAIN (COSTS OFF, LOOKAHEAD, FORMAT json) SELECT * FROM explained ORDER BY p <-> point(1, 1)');
SELECT regexp_replace(line, '(Distance[">: ]+)[0-9.]+', '\1N', 'g')
FROM explain_lines('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, LOOKAHEAD, FORMAT yaml)
    SELECT * FROM explained WHERE k < 500') line;
SELECT regexp_replace(line, '(Distance[">: ]+)[0-9.]+', '\1N', 'g')
FROM explain_lines('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, LOOKAHEAD, FORMAT json)
    SELECT * FROM explained WHERE k < 500') line;
SELECT regexp_replace(line, '(Distance[">: ]+)[0-9.]+', '\1N', 'g')
FROM explain_lines('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, LOOKAHEAD, FORMAT xml)
    SELECT * FROM explained WHERE k < 500') line;

DROP TABLE explained;
DROP FUNCTION explain_lines;
