--
-- pg_stat_lookahead counts what this backend did
--
CREATE EXTENSION pg_lookahead;
\d pg_stat_lookahead
CREATE TABLE counted (k int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO counted SELECT i, repeat('x', 1900) FROM generate_series(1, 400) i;
CREATE INDEX ON counted (k);
ANALYZE counted;
SET enable_seqscan = off;
SET enable_bitmapscan = off;

\c -
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT * FROM pg_stat_lookahead WHERE feature = 'index_scan';
-- four rows a page: 4 entries by core, 396 entries on 99 pages by us
SELECT count(pad) FROM counted WHERE k > 0;
SELECT count(*) FROM counted WHERE k > 0;
SELECT * FROM pg_stat_lookahead WHERE feature = 'index_scan';
-- a statement that fails is counted too
SELECT sum(1 / (k - 300)) FROM counted WHERE k > 0 AND pad > '';
SELECT scans FROM pg_stat_lookahead WHERE feature = 'index_scan';
-- switched off, nothing is counted
SET pg_lookahead.enabled = off;
SELECT count(pad) FROM counted WHERE k > 0;
SELECT nodes, scans FROM pg_stat_lookahead WHERE feature = 'index_scan';

DROP TABLE counted;
DROP EXTENSION pg_lookahead;
