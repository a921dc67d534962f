"""What proves a build beside its time: whose code it was, and the pages it made.

Two builds of the same index differ legitimately in LSN and checksum, the first fields of
`PageHeaderData` (storage/bufpage.h): where in the WAL a page was logged differs from build to
build. All other bytes are determined by the table.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from lookahead.errors import LabError
from lookahead.experiments.conditions import BLOCK_BYTES, segments_of
from lookahead.experiments.index_build_keys import BuildKey
from lookahead.measurements import Arm
from lookahead.server import Session

_MASKED_BYTES = 10
_READ_BYTES = 128 * BLOCK_BYTES
_BUILT = "SELECT scans, fallbacks FROM pg_stat_lookahead WHERE feature = 'index_build'"


def builds_so_far(connection: Session) -> int:
    """How many indexes the session's pg_lookahead has built."""
    (built, _) = _built(connection)
    return built


def check_builder(connection: Session, key: BuildKey, arm: Arm, built: int) -> None:
    """LabError unless the arm's own code has built the session's last index.

    `built` is how many indexes pg_lookahead has built meanwhile.
    """
    if arm.library == "on" and built == 0:
        _, fallbacks = _built(connection)
        reasons = ", ".join(fallbacks) or "it was not asked"
        raise LabError(
            f"our path did not run: the index on {key.name} was left to stock ({reasons})",
            "docs/limitations.md says which indexes are; leave the key out.",
        )
    if arm.library == "off" and built:
        raise LabError(
            "pg_lookahead built the index of the stock arm although it is switched off",
            "This is a bug of pg_lookahead, report it.",
        )


def _built(connection: Session) -> tuple[int, dict[str, int]]:
    """Indexes that the session's pg_lookahead has built, and those it left to stock by reason."""
    row = connection.execute(_BUILT).fetchone()
    return (int(row[0]), row[1]) if row else (0, {})


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
    for segment in segments_of(file):
        with segment.open("rb", buffering=0) as opened:
            while piece := opened.read(_READ_BYTES):
                yield blanked(piece)


def pages_sha256(file: Path) -> str:
    """SHA-256 of a relation's pages without LSN and checksum."""
    digest = hashlib.sha256()
    for piece in read_blanked(file):
        digest.update(piece)
    return digest.hexdigest()
