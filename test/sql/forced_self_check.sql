--
-- A failed check of private structures leaves the session's scans to core
--
CREATE TABLE checked (k int);
INSERT INTO checked SELECT i FROM generate_series(1, 100) i;
CREATE INDEX ON checked (k);
ANALYZE checked;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_indexonlyscan = off;

EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT * FROM checked WHERE k > 0;
SET pg_lookahead.test_start_after = 4;
SET pg_lookahead.test_fail_self_check = on;
SELECT count(*), sum(k) FROM checked WHERE k > 0;
-- once distrusted, always distrusted
RESET pg_lookahead.test_fail_self_check;
SELECT count(*), sum(k) FROM checked WHERE k > 0;
EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT * FROM checked WHERE k > 0;

\c -
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF, LOOKAHEAD) SELECT * FROM checked WHERE k > 0;
DROP TABLE checked;
