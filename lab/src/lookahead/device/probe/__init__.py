"""The device probe: what the device below a folder can do, and the profile made of it."""
