"""Tables of one row a page, parts of which are in shared buffers and the rest on the device."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from segments import segments_of
from server_log import WatchedServer

from extension.probes import Connection, need_extension, scalar
from lookahead.cold import forget

# Names that stat(1) gives to file systems whose reads the kernel counts for the reading process.
_COUNTED = {"ext2/ext3", "xfs", "btrfs", "f2fs"}
# A prime that divides none of the sizes used, so that k is a permutation.
_STRIDE = 7919


def make_pages(
    connection: Connection, name: str, pages: int, *, using: str = "btree", persistence: str = ""
) -> None:
    """One row a page, no two neighbours by k = 0, 1, ... adjacent in the table, nothing vacuumed.

    `g` says the same as k, for a filter that no index helps with; `place` is a point of k.
    """
    assert pages % _STRIDE
    for extension in ("pg_lookahead", "pg_prewarm"):
        need_extension(connection, extension)
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"CREATE {persistence} TABLE {name} (k int, g int, place point, pad text)")
    connection.execute(f"ALTER TABLE {name} ALTER pad SET STORAGE PLAIN")
    connection.execute(
        f"INSERT INTO {name} SELECT k, k, point(k, k), repeat('x', 5000) FROM (SELECT "
        f"(i::bigint * {_STRIDE} % {pages})::int AS k FROM generate_series(0, {pages - 1}) i)"
    )
    column = {"gist": "place", "spgist": "place"}.get(using, "k")
    connection.execute(f"CREATE INDEX {name}_k ON {name} USING {using} ({column})")
    connection.execute(f"ANALYZE {name}")
    assert scalar(connection, f"SELECT pg_relation_size('{name}')") == pages * 8192


def warm_only(
    server: WatchedServer, connection: Connection, name: str, hot: Iterable[int], pages: int
) -> None:
    """Of a table of make_pages(), only the pages of these k are in shared buffers, and its index.

    The others are in no memory at all: where only files are told to be forgotten, the device's
    reads are counted as they are in a cold start.
    """
    inverse = pow(_STRIDE, -1, pages)
    blocks = sorted(k * inverse % pages for k in hot)
    connection.execute("CHECKPOINT")
    skipped = scalar(connection, f"SELECT buffers_skipped FROM pg_lookahead_evict('{name}')")
    assert skipped == 0
    connection.execute(f"SELECT pg_prewarm('{name}_k')")
    connection.execute(
        f"SELECT sum(pg_prewarm('{name}', 'buffer', 'main', b, b)) FROM unnest(%s::bigint[]) b",
        [blocks],
    )
    for path in segments_of(server, connection, name):
        forget(path)


def need_counted_reads(path: Path) -> None:
    """Skip the test where nobody knows which pages of this file come from a device."""
    done = subprocess.run(
        ["stat", "-f", "-c", "%T", str(path)], check=True, text=True, capture_output=True
    )
    if done.stdout.strip() not in _COUNTED:
        pytest.skip(f"reads are not counted on {done.stdout.strip()}")


def cached_but(
    server: WatchedServer, connection: Connection, name: str, cold: Iterable[int], pages: int
) -> None:
    """A table of make_pages() is in the system's cache, but for the pages of these k.

    In shared buffers is its index alone.
    """
    warm_only(server, connection, name, (), pages)
    inverse = pow(_STRIDE, -1, pages)
    left_out = {k * inverse % pages for k in cold}
    (path,) = segments_of(server, connection, name)
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # the kernel reads none beside them
    for block in set(range(pages)) - left_out:
        os.pread(file, 8192, block * 8192)
    os.close(file)
