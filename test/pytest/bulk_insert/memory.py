"""Memory of a session: the address space of its process."""

import re
from pathlib import Path

from extension.probes import Connection


def address_space(session: Connection, *, peak: bool = False) -> int:
    """Bytes of it now, or the most there ever were."""
    status = Path(f"/proc/{session.info.backend_pid}/status").read_text()
    found = re.search(rf"{'VmPeak' if peak else 'VmSize'}:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024
