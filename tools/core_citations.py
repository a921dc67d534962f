"""What the comments of src/ say about parts of core that are not its interface.

There is one form for each kind, and it may stand anywhere in a comment, in any lines:

    Mirrors heapgettup_advance_block() in heapam.c     our code does again what that function does
    Relies on btgettuple() and _bt_next() in nbtree.c  our code is right only as long as they
                                                       work as they do
    Reads BTScanOpaqueData of nbtree.h                 a structure that core may change

Between "Mirrors" and the name there may be words, such as "the first half of"; several names, and
names in several files, are joined by commas and "and".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from core_source import without_comments

MIRRORS, RELIES, READS = "mirrors", "relies on", "reads"

_COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
_MORE = r"(?:, | and |, and )"
_FUNCTION = r"\w+\(\)"
_STRUCTURE = r"\w+(?!\S*\()"


def _clause(one: str, preposition: str) -> str:
    return rf"{one}(?:{_MORE}{one})* {preposition} \w+\.[ch]\b"


def _form(verb: str, clause: str) -> re.Pattern[str]:
    return re.compile(rf"\b{verb} ({clause}(?:{_MORE}{clause})*)")


_FORMS = (
    (MIRRORS, _form("[Mm]irrors(?: [a-z]+)*?", _clause(_FUNCTION, "in"))),
    (RELIES, _form("[Rr]elies on", _clause(_FUNCTION, "in"))),
    (READS, _form("[Rr]eads(?:, and)?", _clause(_STRUCTURE, "of"))),
)
_CLAUSE = re.compile(r"(.+?) (?:in|of) (\w+\.[ch])(?:, and |, | and |$)")
_FILE_OF_CORE = re.compile(r"(?<![\w/])(?:[\w/]*/)?(?!la_)(\w+\.c)\b")
# Files that are not core's.
_OTHER_FILES = {"readahead.c"}
# Functions that may be named without a file: of the C library and the kernel, of SQL, and those
# that PostgreSQL offers to extensions.
_OPEN_FUNCTIONS = {
    *("strcoll", "strtod", "strxfrm", "try_context_readahead"),
    *("pg_stat_reset_shared", "set_config"),
    *("ExecInitNode", "ExecutorFinish", "ExecutorRun", "index_form_tuple", "pg_fsync"),
}


@dataclass(frozen=True, order=True)
class Citation:
    """One function or structure of core, and the file of ours that names it."""

    kind: str
    name: str
    file: str
    ours: Path

    def __str__(self) -> str:
        name = self.name if self.kind == READS else f"{self.name}()"
        return f"{self.ours}: {self.kind} {name} of {self.file}"


@dataclass(frozen=True)
class OurFile:
    """A source file of ours, its comments and its code apart."""

    path: Path
    text: str

    @cached_property
    def code(self) -> str:
        """The file without its comments."""
        return without_comments(self.text)

    def comments(self) -> Iterator[str]:
        """Each comment as one line of words."""
        for match in _COMMENT.finditer(self.text):
            yield " ".join(re.sub(r"^[ \t]*\*", "", match[1], flags=re.MULTILINE).split())

    def citations(self) -> Iterator[Citation]:
        """All citations, in the order of the file."""
        for comment in self.comments():
            yield from cited(comment, self.path)

    def words(self) -> set[str]:
        """All identifiers of the code."""
        return set(re.findall(r"\b[A-Za-z_]\w*", self.code))

    def calls(self, name: str) -> bool:
        """Does the code call a function of this name?"""
        return re.search(rf"\b{name}\s*\(", self.code) is not None

    def names_structure(self, name: str) -> bool:
        """Does the code name a structure, or the type of a pointer to it, which lacks "Data"?"""
        code = re.sub(r"\bIsA\([^)]*\)", " ", self.code)
        return re.search(rf"\b{name.removesuffix('Data')}(?:Data)?\b", code) is not None

    def members(self) -> set[str]:
        """Names that stand behind -> or a dot, as fields of structures do."""
        return set(re.findall(r"(?:->|\.)\s*(\w+)", self.code))


def cited(comment: str, ours: Path) -> Iterator[Citation]:
    """The citations of one comment."""
    for kind, form in _FORMS:
        for match in form.finditer(comment):
            for names, file in _CLAUSE.findall(match[1]):
                for name in re.split(_MORE, names):
                    yield Citation(kind, name.removesuffix("()"), file, ours)


def find_uncited(file: OurFile, our_words: set[str]) -> Iterator[str]:
    """Functions that the comments of a file name, that are not ours, not called, and not cited."""
    cited_here = {citation.name for citation in file.citations()}
    named = {name for comment in file.comments() for name in re.findall(r"\b(\w+)\(\)", comment)}
    for name in sorted(named - our_words - cited_here - _OPEN_FUNCTIONS):
        yield f'{file.path}: {name}() is named without "Mirrors" or "Relies on {name}() in ..."'


def find_malformed(file: OurFile) -> Iterator[str]:
    """Comments that speak of a part of core in another form than those above."""
    for comment in file.comments():
        found = list(cited(comment, file.path))
        named = {citation.file for citation in found}
        for name in sorted(set(_FILE_OF_CORE.findall(comment)) - named - _OTHER_FILES):
            yield f'{file.path}: {name} is named outside of "Mirrors f() in {name}" and the like'
        mirrors = len(re.findall(r"\bmirrors?\b", comment, re.IGNORECASE))
        if mirrors and not any(citation.kind == MIRRORS for citation in found):
            yield f'{file.path}: "{comment[:60]}" does not say what it mirrors in which file'
