"""Index builds by pg_lookahead, held against those of stock PostgreSQL."""
