"""Puts a built library into the wheel, if there is one to be put: see `make wheel`."""

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_INSIDE = Path("lookahead/prebuilt")


class LibraryHook(BuildHookInterface):
    """Adds the folder PG_LOOKAHEAD_STAGE, and what the PG_CONFIG that it was built for says."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Such a wheel is for this platform, and for servers that were built just so."""
        stage = os.environ.get("PG_LOOKAHEAD_STAGE")
        if not stage or version == "editable":
            return
        asked = [os.environ["PG_CONFIG"], "--version", "--configure"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        server = Path(self.directory) / "server"
        server.parent.mkdir(parents=True, exist_ok=True)
        server.write_text(answer, encoding="utf-8")
        included = build_data["force_include"]
        included[str(server)] = str(_INSIDE / "server")
        for folder in ("lib", "share"):
            included[str(Path(stage) / folder)] = str(_INSIDE / folder)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
