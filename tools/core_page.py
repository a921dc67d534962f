"""docs/core-private-parts.md as text."""

from collections.abc import Callable, Iterator
from pathlib import Path

from core_citations import MIRRORS, READS, RELIES, Citation, OurFile

# Headers that PostgreSQL keeps for itself, or whose structures are mostly of that kind.
PRIVATE_HEADERS = (
    "access/heapam.h",
    "access/nbtree.h",
    "access/relscan.h",
    "executor/execParallel.h",
    "executor/execScan.h",
    "nodes/execnodes.h",
    "storage/buf_internals.h",
    "storage/dsm_impl.h",
    "storage/proc.h",
    "utils/guc_tables.h",
    "utils/pgstat_internal.h",
    "utils/tuplesort.h",
)

_HEAD = """# What is taken from PostgreSQL's private parts

Made by `make core-parts` of the comments in `src/`; `make lint` fails when it is stale.
Read against PostgreSQL {versions}. `tools/core-parts.json` has a checksum of the text of
each function and structure; where a source tree is at hand (`PG_LOOKAHEAD_SOURCE`, or that of
`tools/build-postgres`), `make lint` says which ones a newer minor release has changed. When they
have been read again, `make core-parts READ="name name"` (or `READ=all`) records it.

"""
_STRUCTURES = """## Structures

All belong to installed headers, and one major release is supported per build. Those that hold pins
and positions are compared, when a scan starts to read ahead, with what PostgreSQL has just
returned; on a mismatch the feature is off for the session.

The fields are the names that a file
uses and the structure has. Three pointers in `RelationData` are changed: `rd_tableam` in a relation
of our own, `rd_indam` in an index that is about to be built, `rd_partdesc` in the parent of a
partition that is about to be created.

| structure | header | read by | fields |
|---|---|---|---|
"""
_MIRRORED = """## Functions that our code mirrors

| function | file of PostgreSQL | ours |
|---|---|---|
"""
_RELIED = """## Functions whose working is relied on

| function | file of PostgreSQL | by |
|---|---|---|
"""
_INLINE = """## Inline functions of headers

They are compiled into the library, so a newer server does not change them there.

| header | functions |
|---|---|
"""
_HEADERS = """## Private headers

| header | included by |
|---|---|
"""

# Of a recorded part: the names of its fields.
Fields = dict[str, set[str]]


def render(versions: list[str], files: list[OurFile], fields: Fields, inline: list[str]) -> str:
    """The page."""
    sections = [
        _HEAD.format(versions=", ".join(versions)) + _STRUCTURES + _structures(files, fields),
        _MIRRORED + _functions(files, MIRRORS),
        _RELIED + _functions(files, RELIES),
        _INLINE + _inline(inline),
        _HEADERS + _headers(files),
    ]
    return "\n".join(sections)


def _structures(files: list[OurFile], fields: Fields) -> str:
    def rows(citation: Citation) -> tuple[str, ...]:
        (file,) = (file for file in files if file.path == citation.ours)
        read = sorted(file.members() & fields.get(f"{citation.file} {citation.name}", set()))
        return (
            f"`{citation.name}`",
            f"`{citation.file}`",
            f"`{citation.ours.name}`",
            ", ".join(f"`{name}`" for name in read),
        )

    return _table(files, READS, rows)


def _functions(files: list[OurFile], kind: str) -> str:
    def rows(citation: Citation) -> tuple[str, ...]:
        return f"`{citation.name}()`", f"`{citation.file}`", f"`{citation.ours.name}`"

    return _table(files, kind, rows)


def _table(files: list[OurFile], kind: str, row: Callable[[Citation], tuple[str, ...]]) -> str:
    found = {citation for file in files for citation in file.citations() if citation.kind == kind}
    in_order = sorted(found, key=lambda citation: (citation.file, citation.name, citation.ours))
    return "".join(_line(*row(citation)) for citation in in_order)


def _inline(names: list[str]) -> str:
    headers: dict[str, list[str]] = {}
    for name in names:
        header, _, function = name.partition(" ")
        headers.setdefault(header, []).append(f"`{function}`")
    return "".join(
        _line(f"`{header}`", ", ".join(functions)) for header, functions in sorted(headers.items())
    )


def _headers(files: list[OurFile]) -> str:
    return "".join(
        _line(f"`{header}`", ", ".join(f"`{path.name}`" for path in _including(files, header)))
        for header in PRIVATE_HEADERS
        if any(_including(files, header))
    )


def _including(files: list[OurFile], header: str) -> Iterator[Path]:
    return (file.path for file in files if f'#include "{header}"' in file.text)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"
