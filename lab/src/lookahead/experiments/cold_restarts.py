"""Cold restarts of an experiment's server, with one warning when the data does not get cold."""

from collections.abc import Mapping

from lookahead.experiments.runner import Run
from lookahead.measurements import ColdRecord


class ColdRestarts:
    """Restarts the server of a run with an empty cache."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._warned = False

    def restart(self, settings: Mapping[str, str]) -> ColdRecord:
        """Stop, empty the cache, start with `settings`; what was resident."""
        evidence = self._run.server.cold_restart(settings)
        record = ColdRecord(
            method=evidence.method,
            resident_bytes_before=evidence.resident_bytes_before,
            resident_bytes_after=evidence.resident_bytes_after,
            files=evidence.files,
            total_bytes=evidence.total_bytes,
            is_cold=evidence.is_cold,
        )
        if not record.is_cold and not self._warned:
            self._warned = True
            self._run.find(
                "warning",
                f"the data is not cold: {record.resident_bytes_after / 1e6:.0f} MB stay in memory",
                "Name a folder on a disk (not tmpfs) with --directory.",
            )
        return record
