"""Bitmap heap and sequential scans: core's blocks in core's order, asked for ahead."""
