"""Result files: versioned JSON that holds everything a figure was made from.

Its name is claimed when the run begins (an existing one is never overwritten), by a hidden file
beside it: a run that is killed at once leaves no empty result. It is replaced as a whole, by
rename, after every sample: at any moment it is a valid result, marked "incomplete" until
the run has ended well. A complete file is never touched again.
"""

import dataclasses
import errno
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lookahead.comparisons import compare
from lookahead.decoding import DecodingError, decode
from lookahead.errors import BadFileError, LabError, UnavailableError
from lookahead.machine import MachineFacts, SourceFacts
from lookahead.measurements import Comparison, Measurements
from lookahead.safe_files import make_file, opened_folder, replace_file

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Scalar = str | int | float | bool | None
OptionValue = Scalar | tuple[Scalar, ...]
Content = dict[str, Any]
"""The parsed JSON of a file, as it is there; empty of what is no object."""
SCHEMA = "lookahead-result"
SCHEMA_VERSION = 5
# Two runs that begin within one second get "-2", "-3", ...; more than a few is a runaway script.
_MAX_SAME_SECOND = 100
# Some ten times what the longest run writes. A device such as /dev/zero has no end.
_MAX_BYTES = 256 << 20
COPY_AGAIN = "Copy the file again from where it was written, or repeat the run."
_NAME_A_RESULT = "Name a .json file that `lookahead run` or `lookahead probe` has written."
_WRITER_READS = "Read it with the lookahead that wrote it."
_OTHER_COMPARISONS = (
    "The file was changed, or written by a lookahead that worked them out in another way."
)


@dataclass(frozen=True)
class Finding:
    """Something about the machine or the run that a reader must know, and what to do about it."""

    level: Literal["note", "warning"]
    text: str
    advice: str


@dataclass(frozen=True)
class Software:
    """Versions; `server_source` is how the server was found.

    `library_sha256` identifies the very pg_lookahead.so that was loaded.
    """

    lab_version: str
    server_version: str
    server_source: str
    library_sha256: str
    source: SourceFacts


@dataclass(frozen=True)
class Parameters:
    """What was asked for; `repetitions` of each comparison.

    `seed` drives the choice of keys and the resampling of the interval. `values` are those of the
    experiment's own options by name, without the dashes before it.
    """

    size: str
    seed: int
    repetitions: int
    values: dict[str, OptionValue]


@dataclass(frozen=True)
class ResultDocument:
    """One result file. `settings` are the server's that differ from their defaults.

    `facts` are what is to be known of the place beside `machine`: what is shown, by its name.
    Times are UTC in ISO 8601; `finished_at` is None while incomplete and `ending` says why.
    """

    schema: str
    schema_version: int
    experiment: str
    status: Literal["incomplete", "complete"]
    ending: str
    started_at: str
    finished_at: str | None
    command: tuple[str, ...]
    software: Software
    machine: MachineFacts
    settings: dict[str, str]
    parameters: Parameters
    findings: tuple[Finding, ...]
    measurements: Measurements
    facts: dict[str, str] = field(default_factory=dict)


class ResultFile:
    """The file of one run, its name claimed on creation, and replaced by each `write`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def claim(cls, folder: Path, experiment: str, started: datetime) -> "ResultFile":
        """Make the folder and claim a new name in it; LabError when that is not possible."""
        stem = f"{experiment}-{started.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        try:
            with opened_folder(folder, make=True) as descriptor:
                for number in range(1, _MAX_SAME_SECOND):
                    name = f"{stem}.json" if number == 1 else f"{stem}-{number}.json"
                    if _is_claimed(descriptor, name):
                        return cls(folder / name)
        except OSError as error:
            raise UnavailableError(
                f'cannot write results to "{folder}": {error.strerror}',
                "Name a writable folder with --output.",
            ) from None
        raise LabError(f'too many results named "{stem}" in "{folder}"', "Try again.")

    def write(self, document: "DataclassInstance") -> None:
        """Replace the file's content; on failure it keeps what it had, and LabError is raised."""
        write_atomically(self.path, encode(document))
        with opened_folder(self.path.parent) as folder:
            _remove(folder, _claim_of(self.path.name))

    def discard(self) -> None:
        with opened_folder(self.path.parent) as folder:
            _remove(folder, self.path.name)
            _remove(folder, _claim_of(self.path.name))


def _claim_of(name: str) -> str:
    return f".{name}.claim"


def _is_claimed(folder: int, name: str) -> bool:
    """Claim a name for us, unless it is another run's, or was."""
    try:
        make_file(folder, _claim_of(name))
    except FileExistsError:
        return False
    # After the claim: whoever had it before has given it up for its file.
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return True
    _remove(folder, _claim_of(name))
    return False


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def encode(document: "DataclassInstance") -> str:
    """The document as JSON text; NaN and infinity are refused, as JSON has none."""
    return json.dumps(dataclasses.asdict(document), ensure_ascii=False, allow_nan=False) + "\n"


def write_atomically(path: Path, text: str, *, mode: int | None = None) -> None:
    """Write a file so that readers see the old or the new content, never a part.

    `mode` is for one that must have it whatever the umask. Raises LabError, and leaves no temporary
    file, when the disk is full or read-only.
    """
    try:
        with opened_folder(path.parent) as folder:
            # A path may hold bytes that are no text; JSON has the same escapes for them.
            content = text.encode(errors="backslashreplace")
            replace_file(folder, path.name, content, mode=mode)
    except OSError as error:
        raise LabError(
            f'cannot write "{path}": {error.strerror}',
            "Make room or name another folder with --output.",
        ) from None


def read_result(path: Path) -> ResultDocument:
    """Read a result file; BadFileError when it is not one of this version."""
    return parse_result(read_text(path), str(path))


def parse_result(text: str, name: str) -> ResultDocument:
    """The document in `text`; `name` is for the error message. See `result_in`."""
    return result_in(parse_content(text, name), name)[0]


def result_in(content: Content, name: str) -> tuple[ResultDocument, list[Finding]]:
    """The result that a file has, and what is to be said of its reading: its last findings, too.

    BadFileError when it is none. One of an earlier version is refused. One of a later version is
    read as far as it is known. Comparisons are always worked out from the samples: those in the
    file are believed by nobody.
    """
    require_schema(content, SCHEMA, name)
    found = content.get("schema_version")
    newer = f'"{name}" was written by a newer lookahead (schema version {found}, this one knows '
    is_newer = type(found) is int and found > SCHEMA_VERSION
    try:
        _check_version(content, name)
        document = decode(ResultDocument, content)
        answers = compare(document.measurements, document.parameters.seed)
    except (ValueError, ArithmeticError) as error:
        if is_newer and isinstance(error, DecodingError):
            message = f"{newer}{SCHEMA_VERSION}) and cannot be read by this one: {error}"
            raise BadFileError(message, _WRITER_READS) from None
        raise BadFileError(f'"{name}" is damaged: {error}', COPY_AGAIN) from None
    remarks = []
    if _figures(document.measurements.comparisons) not in ([], _figures(answers)):
        text = f'the comparisons in "{name}" are not those that follow from its samples, which'
        remarks.append(Finding("warning", f"{text} are shown", _OTHER_COMPARISONS))
    if is_newer:
        text = f"{newer}{SCHEMA_VERSION}): what is new in it is left out"
        remarks.append(Finding("warning", text, _WRITER_READS))
    document = replace(
        document,
        findings=(*document.findings, *remarks),
        measurements=replace(document.measurements, comparisons=answers),
    )
    return document, remarks


def _figures(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Without the verdicts: those follow from rules that may have become stricter."""
    return [
        replace(one, estimate=replace(one.estimate, verdict="too few pairs")) for one in comparisons
    ]


def read_text(path: Path) -> str:
    """The text of a file that a command has written; BadFileError."""
    try:
        # Nobody may ever write to a pipe, and one that waits is not waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                raise OSError(errno.ESPIPE, "it is a pipe, not a file")
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {_MAX_BYTES >> 20} MB")
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadFileError(f'cannot read "{path}": {reason}', _NAME_A_RESULT) from None


def parse_content(text: str, name: str) -> Content:
    """The object of which the text is the JSON; BadFileError when it is none."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        # Also numbers of thousands of digits, and objects within objects without end.
        problem = "no JSON of ours"
        if isinstance(error, json.JSONDecodeError):
            problem = f"no valid JSON at line {error.lineno}"
        raise BadFileError(f'"{name}" is empty or cut short: {problem}', COPY_AGAIN) from None
    return value if isinstance(value, dict) else {}


def require_schema(content: Content, schema: str, name: str) -> None:
    """BadFileError for a document of another kind, and of none."""
    if content.get("schema") != schema:
        command = "run" if schema == SCHEMA else "probe"
        hint = f"Name a .json file that `lookahead {command}` has written."
        raise BadFileError(f'"{name}" is not a result of lookahead {command}', hint)


def _check_version(content: Content, name: str) -> None:
    """BadFileError for a version before this one; DecodingError for what is none."""
    if "schema_version" not in content:
        raise DecodingError("missing field 'schema_version'")
    version = content["schema_version"]
    if type(version) is not int or version < 1:
        raise DecodingError(f"there is no schema version {version!r}")
    if version < SCHEMA_VERSION:
        raise BadFileError(
            f'"{name}" was written by an earlier lookahead (schema version {version}, this one '
            f"reads {SCHEMA_VERSION})",
            "Read it with the lookahead that wrote it, or repeat the run.",
        )


def _refuse_constant(name: str) -> None:
    """JSON has no NaN and no infinity; Python's reader takes them."""
    raise ValueError(name)


def now_text() -> str:
    """The time in UTC, to the second, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
