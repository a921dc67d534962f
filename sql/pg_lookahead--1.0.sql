/* sql/pg_lookahead--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_lookahead" to load this file. \quit

-- What the columns mean: docs/statistics.md.
CREATE FUNCTION pg_lookahead_stats(
    OUT feature text,
    OUT scope text,
    OUT nodes bigint,
    OUT scans bigint,
    OUT prefetched_blocks bigint,
    OUT requests bigint,
    OUT advised_blocks bigint,
    OUT bridged_blocks bigint,
    OUT pauses bigint,
    OUT direct_blocks bigint,
    OUT repeated_blocks bigint,
    OUT killed_items bigint,
    OUT restarts bigint,
    OUT fallbacks text,
    OUT stats_reset timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_lookahead_stats'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pg_stat_lookahead AS
    SELECT feature, scope, nodes, scans, prefetched_blocks, requests,
           advised_blocks, bridged_blocks, pauses, direct_blocks, repeated_blocks, killed_items, restarts,
           fallbacks::pg_catalog.jsonb AS fallbacks, stats_reset
    FROM pg_lookahead_stats();

-- For everybody, as PostgreSQL's own pg_stat_* views; monitoring keeps its right
-- where an administrator takes that of PUBLIC away.
GRANT SELECT ON pg_stat_lookahead TO PUBLIC;
GRANT SELECT ON pg_stat_lookahead TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_lookahead_stats() TO pg_monitor;

CREATE FUNCTION pg_lookahead_stats_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'pg_lookahead_stats_reset'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

-- As PostgreSQL's own pg_stat_reset_*(): whom the administrator grants it.
REVOKE ALL ON FUNCTION pg_lookahead_stats_reset() FROM PUBLIC;

-- For experiments with cold data: takes a relation out of shared buffers and out
-- of the operating system's cache.  docs/cold-tests.md.
CREATE FUNCTION pg_lookahead_evict(
    relation regclass,
    OUT relations bigint,
    OUT buffers_evicted bigint,
    OUT buffers_flushed bigint,
    OUT buffers_skipped bigint,
    OUT bytes bigint,
    OUT bytes_cached bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'pg_lookahead_evict'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

REVOKE ALL ON FUNCTION pg_lookahead_evict(regclass) FROM PUBLIC;
