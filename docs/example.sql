-- The query on top of README.md, without and with look-ahead, each time cold. As a superuser:
--
--   psql -X -f docs/example.sql
--
-- Makes a table of 0.9 GB in a schema of its own, which it drops, and the extension where it is missing.
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset tuples_only on
-- 20 orders of each: fewer customers for a smaller table.
\if :{?customers}
\else
\set customers 100000
\endif
CREATE EXTENSION IF NOT EXISTS pg_lookahead;
LOAD 'pg_lookahead';
CREATE SCHEMA lookahead_example;
SET search_path = lookahead_example, public;

CREATE TABLE orders AS
    SELECT id, id % :customers AS customer, repeat(md5(id::text), 13) AS note
    FROM generate_series(1, 20 * :customers) AS id
    ORDER BY hashint4(id);
CREATE INDEX orders_customer ON orders (customer);
VACUUM (ANALYZE) orders;

\echo With pg_lookahead.enabled = off:
SET pg_lookahead.enabled = off;
SELECT FROM pg_lookahead_evict('orders');
SELECT FROM pg_lookahead_evict('orders_customer');
EXPLAIN (ANALYZE, LOOKAHEAD) SELECT * FROM orders WHERE customer BETWEEN 100 AND 999 ORDER BY customer LIMIT 5000;

\echo With pg_lookahead.enabled = on:
SET pg_lookahead.enabled = on;
SELECT FROM pg_lookahead_evict('orders');
SELECT FROM pg_lookahead_evict('orders_customer');
EXPLAIN (ANALYZE, LOOKAHEAD) SELECT * FROM orders WHERE customer BETWEEN 100 AND 999 ORDER BY customer LIMIT 5000;

DROP SCHEMA lookahead_example CASCADE;
