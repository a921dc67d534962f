"""Files of btree indexes as images, compared byte by byte outside of LSN and checksum.

The layouts read here to name a place are those of `PageHeaderData` and
`ItemIdData` (storage/bufpage.h, storage/itemid.h) and of `BTPageOpaqueData` (access/nbtree.h).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from lookahead.experiments.built_index import read_blanked
from lookahead.experiments.conditions import BLOCK_BYTES

_HEADER_BYTES = 24
# Each with the offset at which it ends.
_HEADER_FIELDS = (
    (8, "pd_lsn"),
    (10, "pd_checksum"),
    (12, "pd_flags"),
    (14, "pd_lower"),
    (16, "pd_upper"),
    (18, "pd_special"),
    (20, "pd_pagesize_version"),
    (24, "pd_prune_xid"),
)
_ITEM_ID_BYTES = 4
_SPECIAL_FIELDS = (
    (4, "btpo_prev"),
    (8, "btpo_next"),
    (12, "btpo_level"),
    (14, "btpo_flags"),
    (16, "btpo_cycleid"),
)
_BTP_LEAF, _BTP_ROOT, _BTP_META = 1, 2, 8


@dataclass(frozen=True)
class Difference:
    """The first byte in which two images differ; `block` is None when one only goes on longer."""

    block: int | None
    offset: int
    place: str
    stock: str
    ours: str

    def __str__(self) -> str:
        where = f"block {self.block}, byte {self.offset}" if self.block is not None else "length"
        return f"{where} ({self.place}): stock {self.stock}, ours {self.ours}"


def read_image(file: Path) -> bytes:
    """The content of a relation's main fork, all segments, with LSN and checksum blanked."""
    return b"".join(read_blanked(file))


def without_free_space(image: bytes) -> bytes:
    """The pages with zeros between items and line pointers, which full-page images leave out."""
    pages = bytearray(image)
    for start in range(0, len(pages), BLOCK_BYTES):
        lower, upper = struct.unpack_from("<HH", pages, start + 12)
        pages[start + lower : start + upper] = bytes(upper - lower)
    return bytes(pages)


def first_difference(stock: bytes, ours: bytes) -> Difference | None:
    """Where two images part, None when they are equal."""
    if stock == ours:
        return None
    for start in range(0, min(len(stock), len(ours)), BLOCK_BYTES):
        theirs, mine = stock[start : start + BLOCK_BYTES], ours[start : start + BLOCK_BYTES]
        if theirs != mine:
            offset = next(n for n in range(BLOCK_BYTES) if theirs[n] != mine[n])
            return Difference(
                start // BLOCK_BYTES,
                offset,
                f"{page_kind(theirs)}, {name_place(theirs, offset)}",
                theirs[offset : offset + 16].hex(" "),
                mine[offset : offset + 16].hex(" "),
            )
    counts = (str(len(image) // BLOCK_BYTES) for image in (stock, ours))
    return Difference(None, 0, "pages", *counts)


def page_kind(page: bytes) -> str:
    """Such as "leaf page", "internal page of level 1, root"."""
    special = struct.unpack_from("<H", page, 16)[0]
    if special > BLOCK_BYTES - 16:
        return "page without btree's special space"
    level, flags = struct.unpack_from("<IH", page, special + 8)
    if flags & _BTP_META:
        return "metapage"
    kind = "leaf page" if flags & _BTP_LEAF else f"internal page of level {level}"
    return f"{kind}, root" if flags & _BTP_ROOT else kind


def name_place(page: bytes, offset: int) -> str:
    """What a page keeps at `offset`."""
    if offset < _HEADER_BYTES:
        return next(name for end, name in _HEADER_FIELDS if offset < end)
    lower, upper, special = struct.unpack_from("<HHH", page, 12)
    if offset >= special:
        inside = offset - special
        return next((name for end, name in _SPECIAL_FIELDS if inside < end), "special space")
    if offset < lower:
        return f"line pointer {(offset - _HEADER_BYTES) // _ITEM_ID_BYTES + 1}"
    if offset < upper:
        return "free space"
    for number in range(1, (lower - _HEADER_BYTES) // _ITEM_ID_BYTES + 1):
        word = struct.unpack_from("<I", page, _HEADER_BYTES + (number - 1) * _ITEM_ID_BYTES)[0]
        start, length = word & 0x7FFF, word >> 17
        if start <= offset < start + length:
            return f"byte {offset - start} of item {number} ({length} bytes)"
    return "between items"
