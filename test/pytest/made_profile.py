"""A device profile whose figures are known."""

from dataclasses import replace
from typing import Any

from lookahead.device.block_device import DeviceId, machine_name
from lookahead.device.profile import DepthRate, DeviceProfile


def made_profile(device: DeviceId, **changes: Any) -> DeviceProfile:
    """The profile of a device on this machine, with some things changed."""
    made = DeviceProfile(
        device=device,
        machine=machine_name(),
        measured_at="2026-01-31T23:59:59Z",
        bandwidth_mb=1500.0,
        depth=64,
        rates=(DepthRate(1, 10_000.0), DepthRate(64, 60_000.5)),
    )
    return replace(made, **changes)
