"""Cold restarts of an experiment's server, and their evidence as results keep it."""

from collections.abc import Mapping

from lookahead.experiments.runner import Run
from lookahead.measurements import ColdRecord


def restart_cold(run: Run, settings: Mapping[str, str]) -> ColdRecord:
    """Stop, empty the cache, start with `settings`; what was resident."""
    evidence = run.server.cold_restart(settings)
    return ColdRecord(
        method=evidence.method,
        resident_bytes_before=evidence.resident_bytes_before,
        resident_bytes_after=evidence.resident_bytes_after,
        files=evidence.files,
        total_bytes=evidence.total_bytes,
        is_cold=evidence.is_cold,
    )
