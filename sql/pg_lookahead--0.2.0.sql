/* sql/pg_lookahead--0.2.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_lookahead" to load this file. \quit

-- Operators are those of pg_catalog, which comes first in the search path, only where it has them
-- for exactly these types: cast where it has not.  Else those of the extension's schema are taken.

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
    OUT batched_rows bigint,
    OUT batches bigint,
    OUT extensions bigint,
    OUT extended_blocks bigint,
    OUT sorted_entries bigint,
    OUT drawn_rows bigint,
    OUT fallbacks text,
    OUT stats_reset timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_lookahead_stats'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pg_stat_lookahead AS
    SELECT feature, scope, nodes, scans, prefetched_blocks, requests,
           advised_blocks, bridged_blocks, pauses, direct_blocks, repeated_blocks, killed_items, restarts,
           batched_rows, batches, extensions, extended_blocks, sorted_entries, drawn_rows, fallbacks::pg_catalog.jsonb AS fallbacks, stats_reset
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

-- What is known of the device below a tablespace.  docs/device-profile.md.
CREATE FUNCTION pg_lookahead_device_profile(
    tablespace oid,
    OUT device text,
    OUT profile text,
    OUT measured_at text,
    OUT iops float8,
    OUT depth integer,
    OUT bandwidth_mb float8,
    OUT reason text)
RETURNS record
AS 'MODULE_PATHNAME', 'pg_lookahead_device_profile'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pg_lookahead_device AS
    SELECT t.spcname AS tablespace, d.device, d.profile, d.measured_at, d.iops, d.depth, d.bandwidth_mb, d.reason
    FROM pg_catalog.pg_tablespace t, LATERAL pg_lookahead_device_profile(t.oid) d;

GRANT SELECT ON pg_lookahead_device TO PUBLIC;
GRANT SELECT ON pg_lookahead_device TO pg_monitor;
GRANT EXECUTE ON FUNCTION pg_lookahead_device_profile(oid) TO pg_monitor;

-- Many partitions of a table at once.  docs/partitions.md.
CREATE FUNCTION pg_lookahead_create_range_partitions(
    parent regclass,
    start "any",
    step "any",
    count integer,
    names text DEFAULT NULL,
    tablespace name DEFAULT NULL,
    storage text DEFAULT NULL,
    subpartition_by text DEFAULT NULL,
    way text DEFAULT 'auto',
    OUT created integer,
    OUT present integer,
    OUT way_taken text,
    OUT reason text)
RETURNS record
AS 'MODULE_PATHNAME', 'pg_lookahead_create_range_partitions'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION pg_lookahead_create_list_partitions(
    parent regclass,
    bounds "any" DEFAULT NULL,
    modulus integer DEFAULT NULL,
    names text DEFAULT NULL,
    tablespace name DEFAULT NULL,
    storage text DEFAULT NULL,
    subpartition_by text DEFAULT NULL,
    way text DEFAULT 'auto',
    OUT created integer,
    OUT present integer,
    OUT way_taken text,
    OUT reason text)
RETURNS record
AS 'MODULE_PATHNAME', 'pg_lookahead_create_list_partitions'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- The same, committing in between.
CREATE PROCEDURE pg_lookahead_create_range_partitions_batched(
    parent regclass,
    start "any",
    step "any",
    count integer,
    batch_size integer DEFAULT 500,
    names text DEFAULT NULL,
    tablespace name DEFAULT NULL,
    storage text DEFAULT NULL,
    subpartition_by text DEFAULT NULL,
    way text DEFAULT 'auto',
    INOUT created integer DEFAULT NULL,
    INOUT present integer DEFAULT NULL,
    INOUT way_taken text DEFAULT NULL,
    INOUT reason text DEFAULT NULL)
AS 'MODULE_PATHNAME', 'pg_lookahead_create_range_partitions_batched'
LANGUAGE C;

CREATE PROCEDURE pg_lookahead_create_list_partitions_batched(
    parent regclass,
    bounds "any" DEFAULT NULL,
    modulus integer DEFAULT NULL,
    batch_size integer DEFAULT 500,
    names text DEFAULT NULL,
    tablespace name DEFAULT NULL,
    storage text DEFAULT NULL,
    subpartition_by text DEFAULT NULL,
    way text DEFAULT 'auto',
    INOUT created integer DEFAULT NULL,
    INOUT present integer DEFAULT NULL,
    INOUT way_taken text DEFAULT NULL,
    INOUT reason text DEFAULT NULL)
AS 'MODULE_PATHNAME', 'pg_lookahead_create_list_partitions_batched'
LANGUAGE C;

-- Partitions made by interval, ahead of time.  docs/intervals.md.  The row type tells a
-- table from another one that has got its OID.
CREATE TABLE pg_lookahead_interval_policy (
    parent regclass PRIMARY KEY,
    row_type regtype NOT NULL,
    step text NOT NULL,
    origin text NOT NULL,
    change_starts text[] NOT NULL DEFAULT '{}',
    change_steps text[] NOT NULL DEFAULT '{}',
    time_zone text,
    premake integer NOT NULL,
    retention text,
    retention_action text NOT NULL,
    names text,
    tablespace name,
    storage text,
    max_partitions integer NOT NULL,
    max_distance integer NOT NULL,
    analyze_every interval,
    -- Whoever owns the database may insert rows: what no reading of them could make sense of.
    CHECK (pg_catalog.array_position(change_starts, NULL) IS NULL),
    CHECK (pg_catalog.array_position(change_steps, NULL) IS NULL),
    CHECK (pg_catalog.cardinality(change_starts) = pg_catalog.cardinality(change_steps)),
    CHECK (premake BETWEEN 0 AND 10000),
    CHECK (retention_action IN ('detach', 'drop')),
    CHECK (max_partitions BETWEEN 0 AND 1000000),
    CHECK (max_distance BETWEEN 0 AND 1000000));

-- Tables that are no more have no policy in a dump.
SELECT pg_catalog.pg_extension_config_dump('pg_lookahead_interval_policy',
    'WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = parent::pg_catalog.oid AND c.reltype = row_type::pg_catalog.oid)');

CREATE FUNCTION pg_lookahead_interval_policy_check()
RETURNS trigger
AS 'MODULE_PATHNAME', 'pg_lookahead_interval_policy_check'
LANGUAGE C;

REVOKE ALL ON FUNCTION pg_lookahead_interval_policy_check() FROM PUBLIC;

-- Whoever restores a dump inserts rows; those of tables that are not theirs are left out.  So are
-- rows of another server, which come by logical replication.
CREATE TRIGGER owner BEFORE INSERT OR UPDATE OR DELETE ON pg_lookahead_interval_policy
    FOR EACH ROW EXECUTE FUNCTION pg_lookahead_interval_policy_check();
ALTER TABLE pg_lookahead_interval_policy ENABLE ALWAYS TRIGGER owner;

GRANT SELECT ON pg_lookahead_interval_policy TO PUBLIC;
GRANT INSERT ON pg_lookahead_interval_policy TO pg_database_owner;

-- What maintenance found, in this database and not in one that it is a copy of.  Not for everybody:
-- error messages can have values in them.
CREATE TABLE pg_lookahead_interval_state (
    parent oid PRIMARY KEY,
    row_type oid NOT NULL,
    database oid NOT NULL,
    last_run timestamptz,
    next_run timestamptz,
    attempts integer NOT NULL,
    last_analyze timestamptz,
    last_error text,
    last_sqlstate text,
    blocked text,
    detaching oid,
    mark xid);

CREATE TRIGGER own BEFORE INSERT OR UPDATE OR DELETE ON pg_lookahead_interval_state
    FOR EACH ROW EXECUTE FUNCTION pg_lookahead_interval_policy_check();
ALTER TABLE pg_lookahead_interval_state ENABLE ALWAYS TRIGGER own;

CREATE FUNCTION pg_lookahead_set_interval(
    parent regclass,
    step "any",
    origin "any" DEFAULT NULL,
    premake integer DEFAULT 4,
    retention "any" DEFAULT NULL,
    retention_action text DEFAULT 'detach',
    time_zone text DEFAULT NULL,
    names text DEFAULT NULL,
    tablespace name DEFAULT NULL,
    storage text DEFAULT NULL,
    max_partitions integer DEFAULT 100,
    max_distance integer DEFAULT 1000,
    analyze_every interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'pg_lookahead_set_interval'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION pg_lookahead_change_interval(
    parent regclass,
    step "any",
    starts "any" DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'pg_lookahead_change_interval'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION pg_lookahead_unset_interval(parent regclass)
RETURNS boolean
AS 'MODULE_PATHNAME', 'pg_lookahead_unset_interval'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

CREATE PROCEDURE pg_lookahead_maintain_partitions(parent regclass DEFAULT NULL)
AS 'MODULE_PATHNAME', 'pg_lookahead_maintain_partitions'
LANGUAGE C;

CREATE PROCEDURE pg_lookahead_move_default_rows(parent regclass, ranges integer DEFAULT NULL)
AS 'MODULE_PATHNAME', 'pg_lookahead_move_default_rows'
LANGUAGE C;

CREATE FUNCTION pg_lookahead_retirement(
    parent regclass,
    OUT partition regclass,
    OUT lower_bound text,
    OUT upper_bound text,
    OUT action text,
    OUT lock_because text,
    OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_lookahead_retirement'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION pg_lookahead_interval_status(
    parent regclass,
    OUT partitions integer,
    OUT oldest text,
    OUT newest text,
    OUT wanted text,
    OUT ahead integer,
    OUT default_partition regclass,
    OUT default_used boolean)
RETURNS record
AS 'MODULE_PATHNAME', 'pg_lookahead_interval_status'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

CREATE VIEW pg_lookahead_intervals AS
    SELECT p.parent, p.step, p.origin, p.change_starts, p.change_steps, p.time_zone, p.premake,
           p.retention, p.retention_action, p.max_partitions, p.max_distance, p.analyze_every,
           i.partitions, i.oldest, i.newest, i.wanted, i.ahead, i.ahead < p.premake AS behind,
           i.default_partition, i.default_used,
           -- Advisory locks of kind LA_LOCK_OF_MAINTENANCE: the launcher's, and that of who maintains the table.
           -- A policy without a state came with a dump, or a copy of a database.
           s.parent IS NOT NULL AND EXISTS (SELECT FROM pg_catalog.pg_locks l
                   WHERE l.locktype = 'advisory' AND l.database = 0::pg_catalog.oid AND l.objsubid = 8) AS automatic,
           p.parent::pg_catalog.oid IN (SELECT l.objid FROM pg_catalog.pg_locks l
                   WHERE l.locktype = 'advisory' AND l.database = d.oid AND l.classid = 0::pg_catalog.oid AND l.objsubid = 8) AS running,
           s.last_run, s.next_run, s.attempts, s.last_analyze, s.last_sqlstate,
           CASE WHEN r.readable THEN s.last_error END AS last_error,
           CASE WHEN r.readable THEN s.blocked END AS blocked
    FROM pg_lookahead_interval_policy p
    JOIN pg_catalog.pg_class c ON c.oid = p.parent::pg_catalog.oid AND c.reltype = p.row_type::pg_catalog.oid
    CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(c.relowner, 'USAGE')
        OR pg_catalog.pg_has_role('pg_monitor', 'USAGE') AS readable) r
    CROSS JOIN LATERAL pg_lookahead_interval_status(p.parent) i
    JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
    LEFT JOIN pg_lookahead_interval_state s ON s.parent = p.parent::pg_catalog.oid AND s.row_type = p.row_type::pg_catalog.oid
        AND s.database = d.oid;

GRANT SELECT ON pg_lookahead_intervals TO PUBLIC;
GRANT SELECT ON pg_lookahead_intervals TO pg_monitor;
