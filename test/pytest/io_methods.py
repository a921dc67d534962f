"""The values of io_method: core's part of each read takes another path."""

from lookahead.installation import Installation


def usable_io_methods(installation: Installation) -> list[str]:
    """Those that the server is built for."""
    return ["worker", "sync", *(["io_uring"] if installation.has_io_uring else [])]
