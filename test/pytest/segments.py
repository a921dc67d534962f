"""The files of a relation, whatever the size of their segments is (1 GB, or a few pages)."""

from pathlib import Path

from extension.probes import Connection, scalar
from server_log import WatchedServer

_PAGE = 8192


def segments_of(server: WatchedServer, session: Connection, relation: str) -> list[Path]:
    """The files of its main fork, in order."""
    first = server.data_directory / scalar(session, f"SELECT pg_relation_filepath('{relation}')")
    others = first.parent.glob(f"{first.name}.*")
    return [first, *sorted(others, key=lambda path: int(path.suffix[1:]))]


def place_of_page(
    server: WatchedServer, session: Connection, relation: str, page: int
) -> tuple[Path, int]:
    """The file that a page lies in, and where its first byte is."""
    segment_bytes = scalar(session, "SELECT pg_size_bytes(current_setting('segment_size'))")
    segment, position = divmod(page * _PAGE, segment_bytes)
    return segments_of(server, session, relation)[segment], position
