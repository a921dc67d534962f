"""Bitmap heap, sequential and TID range scans: core's blocks in core's order, asked for ahead."""
