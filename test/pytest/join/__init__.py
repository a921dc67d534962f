"""Nested loops that draw outer rows ahead, and ask for the pages of their inner side."""
