"""Files that a build may leave behind."""

from pathlib import Path

from server_log import WatchedServer

_TEMPORARY = "pgsql_tmp"


def files_of(server: WatchedServer) -> set[Path]:
    """Files of relations and temporary files, without those that core makes when it likes."""
    base = server.data_directory / "base"
    return {
        path
        for path in base.rglob("*")
        if path.is_file() and (path.parent.name == _TEMPORARY or "_" not in path.name)
    }


def temporary(files: set[Path]) -> set[Path]:
    """Those of the files that are temporary ones."""
    return {path for path in files if path.parent.name == _TEMPORARY}
