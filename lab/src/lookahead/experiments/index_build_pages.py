"""Files of btree indexes without what legitimately differs between two builds of the same index.

LSN and checksum are the first fields of `PageHeaderData` (storage/bufpage.h): where in the WAL a
page was logged differs from build to build. All other bytes are determined by the table.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from lookahead.errors import LabError
from lookahead.experiments.scan_table import BLOCK_BYTES

_MASKED_BYTES = 10
_READ_BYTES = 128 * BLOCK_BYTES


def blanked(pages: bytes) -> bytes:
    """The pages with LSN and checksum set to zero; LabError when the last page is torn."""
    if len(pages) % BLOCK_BYTES:
        raise LabError(f"{len(pages)} bytes are no whole pages")
    image = bytearray(pages)
    for start in range(0, len(image), BLOCK_BYTES):
        image[start : start + _MASKED_BYTES] = bytes(_MASKED_BYTES)
    return bytes(image)


def read_blanked(file: Path) -> Iterator[bytes]:
    """The pages of a relation's main fork, all segments of it, in pieces.

    A build writes past the shared buffers: the file holds all pages as soon as the statement ends.
    """
    number, segment = 0, file
    while number == 0 or segment.exists():
        with segment.open("rb", buffering=0) as opened:
            while piece := opened.read(_READ_BYTES):
                yield blanked(piece)
        number += 1
        segment = file.with_name(f"{file.name}.{number}")


def pages_sha256(file: Path) -> str:
    """SHA-256 of a relation's pages without LSN and checksum."""
    digest = hashlib.sha256()
    for piece in read_blanked(file):
        digest.update(piece)
    return digest.hexdigest()
