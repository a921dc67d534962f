--
-- pg_stat_lookahead counts what this backend did
--
CREATE EXTENSION pg_lookahead;
\d pg_stat_lookahead
CREATE TABLE counted (k int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO counted SELECT i, repeat('x', 1900) FROM generate_series(1, 400) i;
CREATE INDEX ON counted (k);
CREATE INDEX ON counted USING gist (point(k, k));
ANALYZE counted;
SET enable_seqscan = off;
SET enable_bitmapscan = off;

\c -
SET enable_seqscan = off;
SET enable_bitmapscan = off;
\set counts 'feature, scope, nodes, scans, prefetched_blocks, requests, advised_blocks, bridged_blocks, pauses, direct_blocks, repeated_blocks, killed_items, restarts, fallbacks'
SELECT :counts FROM pg_stat_lookahead WHERE feature = 'index_scan';
-- the scan sleeps: its pages are in shared buffers (forced_look_ahead.sql has others)
SELECT count(pad) FROM counted WHERE k > 0;
SELECT k FROM counted ORDER BY point(k, k) <-> point(1, 1) LIMIT 1;
SELECT :counts FROM pg_stat_lookahead WHERE feature = 'index_scan';
-- a statement that fails is counted too
SELECT sum(1 / (k - 300)) FROM counted WHERE k > 0 AND pad > '';
SELECT scans FROM pg_stat_lookahead WHERE feature = 'index_scan';
-- switched off, nothing is counted
SET pg_lookahead.enabled = off;
SELECT count(pad) FROM counted WHERE k > 0;
SELECT nodes, scans FROM pg_stat_lookahead WHERE feature = 'index_scan';

-- counts go back to zero on request, for whom the administrator allows it
SELECT stats_reset = backend_start AS since_start
FROM pg_stat_lookahead, pg_stat_activity WHERE pid = pg_backend_pid() AND feature = 'index_scan';
SELECT pg_lookahead_stats_reset();
SELECT :counts FROM pg_stat_lookahead WHERE feature = 'index_scan';
SELECT stats_reset > backend_start AS since_reset
FROM pg_stat_lookahead, pg_stat_activity WHERE pid = pg_backend_pid() AND feature = 'index_scan';
CREATE ROLE regress_lookahead_reader;
SET ROLE regress_lookahead_reader;
SELECT count(*) FROM pg_stat_lookahead;
SELECT pg_lookahead_stats_reset();
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_lookahead_stats_reset() TO regress_lookahead_reader;
SET ROLE regress_lookahead_reader;
SELECT pg_lookahead_stats_reset();
RESET ROLE;

-- monitoring reads the counts even where the administrator restricts the view
REVOKE SELECT ON pg_stat_lookahead FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION pg_lookahead_stats() FROM PUBLIC;
SET ROLE regress_lookahead_reader;
SELECT count(*) FROM pg_stat_lookahead;
RESET ROLE;
GRANT pg_monitor TO regress_lookahead_reader;
SET ROLE regress_lookahead_reader;
SELECT count(*) FROM pg_stat_lookahead;
RESET ROLE;

REVOKE EXECUTE ON FUNCTION pg_lookahead_stats_reset() FROM regress_lookahead_reader;
DROP ROLE regress_lookahead_reader;
DROP TABLE counted;
DROP EXTENSION pg_lookahead;
