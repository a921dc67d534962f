"""Gives a private server the device profile that `lookahead probe` wrote."""

from pathlib import Path

from lookahead.device.profile import parse_profiles
from lookahead.errors import ExitStatus, LabError
from lookahead.server import PrivateServer


def copy_profile(server: PrivateServer, profile: Path) -> str:
    """Have the server use a copy from its next start on; returns what the profile says.

    The copy lies in the server's folder, where its account can read it. Raises LabError for a file
    that is no profile.
    """
    try:
        text = profile.read_text(encoding="ascii")
        found = parse_profiles(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LabError(
            f'"{profile}" is no device profile: {reason}',
            "Name a file that `lookahead probe --profile FILE` has written.",
            status=ExitStatus.ENVIRONMENT,
        ) from None
    copy = server.write_file("device.profile", text)
    server.configure({"pg_lookahead.device_profile": str(copy)})
    devices = "; ".join(
        f"{one.measured_at}, depth {one.depth}, {one.iops:,.0f} reads/s, "
        f"{one.bandwidth_mb:,.0f} MB/s"
        for one in found
    )
    return f"device profile in use: {devices or 'of no device'}"
