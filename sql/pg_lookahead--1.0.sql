/* sql/pg_lookahead--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_lookahead" to load this file. \quit

-- Counters of this backend.  What they mean: docs/explain.md.
CREATE FUNCTION pg_lookahead_stats(
    OUT feature text,
    OUT nodes bigint,
    OUT scans bigint,
    OUT prefetched_blocks bigint,
    OUT advised_blocks bigint,
    OUT direct_blocks bigint,
    OUT repeated_blocks bigint,
    OUT killed_items bigint,
    OUT restarts bigint,
    OUT fallbacks text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_lookahead_stats'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pg_stat_lookahead AS
    SELECT feature, nodes, scans, prefetched_blocks, advised_blocks,
           direct_blocks, repeated_blocks, killed_items, restarts,
           fallbacks::pg_catalog.jsonb AS fallbacks
    FROM pg_lookahead_stats();

GRANT SELECT ON pg_stat_lookahead TO PUBLIC;
