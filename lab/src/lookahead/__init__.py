"""The measuring lab of pg_lookahead: private servers, cold experiments, results and reports."""

__version__ = "0.2.0"
