"""What stands on the leaf pages of GiST and hash indexes, as their bytes say it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from extension.probes import Connection

Tid = tuple[int, int]

_PAGE_HEADER = 24
_LEAF_FLAGS = {"gist": 1, "hash": 3}  # F_LEAF; LH_OVERFLOW_PAGE | LH_BUCKET_PAGE
_LP_DEAD = 3


def dead_entries(connection: Connection, index: str, method: str) -> set[Tid]:
    """The rows to which the entries of an index that are marked LP_DEAD point."""
    pages = connection.execute(
        f"SELECT get_raw_page('{index}', b::int) "
        f"FROM generate_series(0, pg_relation_size('{index}') / 8192 - 1) b"
    ).fetchall()
    return {tid for (page,) in pages for tid in _dead_on(page, _LEAF_FLAGS[method])}


def _dead_on(page: bytes, leaf_flags: int) -> Iterator[Tid]:
    lower, _, special = struct.unpack_from("<HHH", page, 12)
    (flags,) = struct.unpack_from("<H", page, special + 12)
    if not flags & leaf_flags:
        return
    for position in range(_PAGE_HEADER, lower, 4):
        (pointer,) = struct.unpack_from("<I", page, position)
        if pointer >> 15 & 3 == _LP_DEAD:
            high, low, offset = struct.unpack_from("<HHH", page, pointer & 0x7FFF)
            yield (high << 16) + low, offset
