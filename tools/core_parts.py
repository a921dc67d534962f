"""The list of what pg_lookahead takes from PostgreSQL's private parts, and its checksums.

    core_parts.py write              write docs/core-private-parts.md anew (make core-parts)
    core_parts.py accept [NAME...]   record that parts of the source tree have been read (without
                                     names: all that are new or differ), and write the page

The list is made of the comments in src/ (core_citations.py). tools/core-parts.json keeps, for each
part, a checksum of its text in every minor release in which that differs from the one before.
`make lint` compares both with the sources; the tree is found as core_source.py says.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import core_page
from core_citations import READS, Citation, OurFile
from core_source import SOURCE_VARIABLE, CoreSource, checksum, find_source

MAJOR = 18
TOP = Path(__file__).resolve().parents[1]
PAGE = Path("docs/core-private-parts.md")
RECORDS = Path("tools/core-parts.json")
# Structures that extensions read in general: a field that one of them has, too, tells nothing.
_OPEN_STRUCTURES = ("execnodes.h PlanState", "execnodes.h EState", "rel.h RelationData")


@dataclass
class Record:
    """What is known about a function or structure: checksums by minor release, and its fields."""

    checksums: dict[str, str] = field(default_factory=dict)
    fields: list[str] = field(default_factory=list)

    def checksum_for(self, version: str) -> str:
        """That of this release, or of the newest one before it; "" when there is none."""
        known = [name for name in self.checksums if _minor(name) <= _minor(version)]
        return self.checksums[max(known, key=_minor)] if known else ""


@dataclass
class Records:
    """tools/core-parts.json."""

    versions: list[str]
    parts: dict[str, Record]
    inline: dict[str, Record]

    @classmethod
    def read(cls, top: Path) -> "Records":
        """Those of a checkout."""
        data = json.loads((top / RECORDS).read_text(encoding="utf-8"))
        return cls(
            data["versions"],
            {name: Record(**entry) for name, entry in data["parts"].items()},
            {name: Record(**entry) for name, entry in data["inline"].items()},
        )

    def write(self, top: Path) -> None:
        """Into a checkout."""
        data = {
            "versions": self.versions,
            "parts": {name: _entry(record) for name, record in sorted(self.parts.items())},
            "inline": {name: _entry(record) for name, record in sorted(self.inline.items())},
        }
        (top / RECORDS).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def our_files(top: Path) -> list[OurFile]:
    """The sources of the extension."""
    paths = sorted((top / "src").rglob("*.[ch]"))
    return [
        OurFile(path.relative_to(top), path.read_text(encoding="utf-8", errors="replace"))
        for path in paths
    ]


def part_name(citation: Citation) -> str:
    """The name under which a cited part is recorded."""
    return f"{citation.file} {citation.name}"


def find_part(source: CoreSource, name: str) -> str | None:
    """The text of a recorded part in a tree."""
    file, _, part = name.partition(" ")
    return source.function(part, file) or source.structure(part, file)


def used_inline(source: CoreSource, files: Iterable[OurFile]) -> set[str]:
    """The static inline functions of core's headers that our code calls."""
    return {
        f"{header} {name}"
        for name, header in source.inline_functions.items()
        if any(file.calls(name) for file in files)
    }


def differences(records: Records, source: CoreSource, files: list[OurFile]) -> Iterator[str]:
    """What somebody has to read again, a line each."""
    for name, record in sorted((records.parts | records.inline).items()):
        text = find_part(source, name)
        if text is None:
            yield f"{name}: not in PostgreSQL {source.version}: find what has taken its place"
        elif checksum(text) != record.checksum_for(source.version):
            yield (
                f"{name}: differs in PostgreSQL {source.version}: read it again, "
                f"then make core-parts READ={name.partition(' ')[2]}"
            )
    for name in sorted(used_inline(source, files) - records.inline.keys()):
        function = name.partition(" ")[2]
        yield f"{name}: an inline function that is not recorded: make core-parts READ={function}"


def forget_unused(records: Records, files: list[OurFile]) -> None:
    """Drop what is cited, or called, no more."""
    cited = {part_name(citation) for file in files for citation in file.citations()}
    records.parts = {name: record for name, record in records.parts.items() if name in cited}
    records.inline = {
        name: record
        for name, record in records.inline.items()
        if any(file.calls(name.partition(" ")[2]) for file in files)
    }


def accept(records: Records, source: CoreSource, files: list[OurFile], names: list[str]) -> None:
    """Take the tree's text of parts (all, without names) for read."""
    cited = {part_name(citation) for file in files for citation in file.citations()}
    structures = {
        part_name(citation)
        for file in files
        for citation in file.citations()
        if citation.kind == READS
    }
    records.parts = {name: records.parts.get(name, Record()) for name in cited}
    inline = used_inline(source, files)
    records.inline = {name: records.inline.get(name, Record()) for name in inline}
    missing = []
    texts = (find_part(source, name) for name in _OPEN_STRUCTURES)
    open_fields = {name for text in texts if text for name in source.fields(text)}
    for name, record in (records.parts | records.inline).items():
        if names and name.partition(" ")[2] not in names:
            continue
        text = find_part(source, name)
        if text is None:
            missing.append(name)
            continue
        if checksum(text) != record.checksum_for(source.version):
            record.checksums[source.version] = checksum(text)
        if name in structures:
            record.fields = sorted(set(source.fields(text)) - open_fields)
    if missing:
        raise SystemExit(f"error: not in {source.top}: {', '.join(sorted(missing))}")
    if not names:
        records.versions = sorted({*records.versions, source.version}, key=_minor)


def page(records: Records, files: list[OurFile]) -> str:
    """The text of the page."""
    fields = {name: set(record.fields) for name, record in records.parts.items()}
    return core_page.render(records.versions, files, fields, sorted(records.inline))


def main() -> int:
    """The commands that the head of this file describes."""
    parser = argparse.ArgumentParser(description="What is taken from PostgreSQL's private parts.")
    parser.add_argument("command", choices=["write", "accept"])
    parser.add_argument("names", nargs="*", help="functions and structures that have been read")
    options = parser.parse_args()
    records = Records.read(TOP)
    files = our_files(TOP)
    forget_unused(records, files)
    if options.command == "accept":
        source = find_source(MAJOR)
        if source is None:
            raise SystemExit(f"error: no source tree (hint: set {SOURCE_VARIABLE} to one)")
        accept(records, source, files, options.names)
    records.write(TOP)
    (TOP / PAGE).write_text(page(records, files), encoding="utf-8")
    return 0


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _entry(record: Record) -> dict[str, Any]:
    entry: dict[str, Any] = {"checksums": record.checksums}
    return entry | ({"fields": record.fields} if record.fields else {})


if __name__ == "__main__":
    sys.exit(main())
