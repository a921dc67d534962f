"""Functions and structures in a tree of PostgreSQL's source, and checksums of their text.

PostgreSQL's layout is what finds them: the name of a function stands at the beginning of a line,
its braces and those of a structure do too. A checksum is of the text without comments and with
single blanks, so that neither a reworded comment nor another indentation changes it.
"""

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SOURCE_VARIABLE = "PG_LOOKAHEAD_SOURCE"
_SERVERS_VARIABLE = "PG_LOOKAHEAD_SERVERS"
_ROOMS = ("src/backend", "src/common", "src/include", "src/port")
_DIGITS = 16  # of a checksum: enough to notice a change, short enough for a table

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_INLINE = re.compile(
    r"^static (?:inline|pg_attribute_always_inline)\b[^;{}()#=]*?\b(\w+)\(", re.MULTILINE
)


def without_comments(text: str) -> str:
    """C text in which each comment is one blank."""
    return _COMMENT.sub(" ", text)


def checksum(text: str) -> str:
    """Of C text, whatever its comments and blanks are."""
    normal = " ".join(without_comments(text).split())
    return hashlib.sha256(normal.encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True)
class CoreSource:
    """An unpacked source tree."""

    top: Path

    @cached_property
    def version(self) -> str:
        """Such as 18.6."""
        configure = (self.top / "configure").read_text(encoding="utf-8", errors="replace")
        found = re.search(r"^PACKAGE_VERSION='([^']+)'", configure, re.MULTILINE)
        return found[1] if found else "unknown"

    @cached_property
    def _paths(self) -> dict[str, list[Path]]:
        paths: dict[str, list[Path]] = {}
        for room in _ROOMS:
            for path in sorted((self.top / room).rglob("*.[ch]")):
                paths.setdefault(path.name, []).append(path)
        return paths

    def function(self, name: str, file: str) -> str | None:
        """The text of a function, its result type included; None if the file has none."""
        pattern = rf"^[\w \t*]+\n{name}\([^;{{}}]*?\)[\s\\]*\n\{{\s*\n.*?^\}}"
        return self._search(pattern, file)

    def structure(self, name: str, file: str) -> str | None:
        """The text of a structure."""
        pattern = rf"^(?:typedef )?struct {name}\s*\n\{{\s*\n.*?^\}}"
        return self._search(pattern, file)

    def fields(self, text: str) -> list[str]:
        """The names of a structure's fields, those of unions and structures in it included."""
        body = text.partition("{")[2]
        names = re.findall(r"(\w+)\s*(?:\[[^\]]*\])*\s*(?::\s*\d+\s*)?[;,]", body)
        names += re.findall(r"\(\s*\*\s*(\w+)\)\s*\(", body)
        return sorted(set(names))

    @cached_property
    def inline_functions(self) -> dict[str, str]:
        """Names of the static inline functions of all headers, with their headers."""
        found = {}
        for path in sorted((self.top / "src/include").rglob("*.h")):
            text = path.read_text(encoding="utf-8", errors="replace")
            for match in _INLINE.finditer(without_comments(text)):
                found[match[1]] = path.name
        return found

    def _search(self, pattern: str, file: str) -> str | None:
        for path in self._paths.get(file, []):
            text = without_comments(path.read_text(encoding="utf-8", errors="replace"))
            found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
            if found:
                return found[0]
        return None


def find_source(major: int) -> CoreSource | None:
    """The tree that the environment names, else the newest one that tools/build-postgres left."""
    named = os.environ.get(SOURCE_VARIABLE)
    if named:
        return CoreSource(Path(named))
    default = Path(tempfile.gettempdir()) / "pg-lookahead-servers"
    servers = Path(os.environ.get(_SERVERS_VARIABLE) or default)
    trees = [
        (int(path.name.rpartition(".")[2]), path)
        for path in servers.glob(f"postgresql-{major}.*")
        if path.name.rpartition(".")[2].isdigit() and (path / "configure").is_file()
    ]
    return CoreSource(max(trees)[1]) if trees else None
