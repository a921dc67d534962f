--
-- The same rows in the same order as core's index scan
--
CREATE TABLE rows_a (id int, k int, t text, n numeric);
INSERT INTO rows_a
    SELECT i, CASE WHEN i % 13 = 0 THEN NULL ELSE i * 7919 % 401 END,
           md5(i::text), i * 1.5
    FROM generate_series(1, 6000) i;
DELETE FROM rows_a WHERE id % 17 = 0;
UPDATE rows_a SET n = n + 1 WHERE id % 5 = 0;
CREATE INDEX rows_a_k ON rows_a (k);
CREATE INDEX rows_a_kt ON rows_a (k DESC NULLS LAST, t);
CREATE INDEX rows_a_part ON rows_a (t) WHERE k < 100;
CREATE INDEX rows_a_expr ON rows_a ((n + k));
ANALYZE rows_a;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_indexonlyscan = off;
SET max_parallel_workers_per_gather = 0;

-- look ahead in memory, too
SET pg_lookahead.test_start_after = 4;

-- runs a query with look-ahead and without: the digests must be equal
CREATE FUNCTION same(query text, OUT rows bigint, OUT same boolean)
LANGUAGE plpgsql AS $$
DECLARE
    digests text[] := '{}';
    digest text;
BEGIN
    FOR i IN 0..1 LOOP
        PERFORM set_config('pg_lookahead.enabled', CASE i WHEN 0 THEN 'on' ELSE 'off' END, true);
        EXECUTE 'SELECT count(*), md5(string_agg(q::text, '';'')) FROM (' || query || ') q'
            INTO rows, digest;
        digests := digests || digest;
    END LOOP;
    same := digests[1] IS NOT DISTINCT FROM digests[2];
END $$;

SELECT * FROM same('SELECT * FROM rows_a WHERE k BETWEEN 50 AND 150 ORDER BY k');
SELECT * FROM same('SELECT * FROM rows_a ORDER BY k DESC');
SELECT * FROM same('SELECT * FROM rows_a WHERE k IS NULL');
SELECT * FROM same('SELECT * FROM rows_a WHERE k IN (1, 400, 7, 23, 23) ORDER BY k');
SELECT * FROM same('SELECT * FROM rows_a WHERE (k, t) < (200, ''8'') ORDER BY k DESC NULLS LAST, t');
SELECT * FROM same('SELECT * FROM rows_a WHERE t > ''b'' AND k < 100 ORDER BY t');
SELECT * FROM same('SELECT * FROM rows_a WHERE n + k > 4000 ORDER BY n + k');
SELECT * FROM same('SELECT * FROM rows_a ORDER BY k OFFSET 100 LIMIT 1000');
SELECT * FROM same('SELECT * FROM rows_a ORDER BY k FETCH FIRST 30 ROWS WITH TIES');
SELECT * FROM same('SELECT * FROM (VALUES (1), (399), (NULL), (25)) v (x), LATERAL (SELECT * FROM rows_a WHERE k = v.x ORDER BY k LIMIT 12) l');
SELECT * FROM same('SELECT * FROM rows_a a JOIN rows_a b ON b.k = a.k AND b.id < a.id WHERE a.k < 20');
SELECT * FROM same('SELECT ctid, xmin, tableoid, id FROM rows_a WHERE k > 300 ORDER BY k');

-- the inner side is marked and restored
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT a.id, b.id FROM rows_a a JOIN rows_a b USING (k) WHERE a.k < 50;
SELECT * FROM same('SELECT a.id, b.id FROM rows_a a JOIN rows_a b USING (k) WHERE a.k < 50');

DROP FUNCTION same;
DROP TABLE rows_a;
