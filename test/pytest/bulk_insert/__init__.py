"""Inserts in batches, held against those of stock PostgreSQL."""
