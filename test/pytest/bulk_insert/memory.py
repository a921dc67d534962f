"""Memory of a session: the address space of its process, and a memory context."""

import re
from pathlib import Path

from extension.probes import Connection, scalar


def address_space(session: Connection, *, peak: bool = False) -> int:
    """Bytes of it now, or the most there ever were."""
    status = Path(f"/proc/{session.info.backend_pid}/status").read_text()
    found = re.search(rf"{'VmPeak' if peak else 'VmSize'}:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def context_bytes(session: Connection, name: str) -> int:
    """Bytes of the memory contexts of this name; 0 if there are none."""
    contexts = "SELECT coalesce(sum(total_bytes), 0) FROM pg_backend_memory_contexts"
    return int(scalar(session, f"{contexts} WHERE name = '{name}'"))
