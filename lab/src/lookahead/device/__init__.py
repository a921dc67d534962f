"""The block device below the data directory: which it is, its counters, its read-ahead."""
