--
-- functions of another version's extension script are refused, not filled in
--
\set VERBOSITY terse
CREATE FUNCTION old_stats(OUT feature text, OUT scope text) RETURNS SETOF record
AS 'pg_lookahead', 'pg_lookahead_stats' LANGUAGE C;
CREATE FUNCTION old_evict(regclass, OUT relations bigint, OUT evicted bigint) RETURNS record
AS 'pg_lookahead', 'pg_lookahead_evict' LANGUAGE C;
CREATE FUNCTION old_profile(oid, OUT device text, OUT reason text) RETURNS record
AS 'pg_lookahead', 'pg_lookahead_device_profile' LANGUAGE C;
SELECT * FROM old_stats();
SELECT old_evict('pg_class');
SELECT old_profile(0);
DROP FUNCTION old_stats, old_evict, old_profile;
