"""Result files: round trip, claims, and what is refused with which words."""

import dataclasses
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.outcome import run_command
from lab.result_schema import PUBLISHED, made_schema
from lookahead.decoding import DecodingError, decode
from lookahead.errors import ExitStatus, LabError
from lookahead.results import (
    OptionValue,
    ResultDocument,
    ResultFile,
    encode,
    parse_result,
    read_result,
    write_atomically,
)

_STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_round_trip(document: ResultDocument, controls_document: ResultDocument) -> None:
    for original in (document, controls_document):
        assert parse_result(encode(original), "x") == original


def test_recorded_result_round_trip(recorded: ResultDocument) -> None:
    assert parse_result(encode(recorded), "x") == recorded
    assert recorded.status == "complete"


def test_comparisons_in_a_file_are_not_believed(document: ResultDocument, tmp_path: Path) -> None:
    value = json.loads(encode(document))
    first, second = value["measurements"]["comparisons"]
    first["estimate"].update(ratio=99.9, low=90.0, high=110.0)
    second["baseline_median_ms"] *= 2
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(value))
    found = read_result(path)
    assert found.measurements == document.measurements
    said = f'the comparisons in "{path}" are not those that follow from its samples'
    assert [one.text.startswith(said) for one in found.findings[-1:]] == [True]
    outcome = run_command("report", path, "--csv")
    assert f"warning: {said}" in outcome.stderr
    assert "99.9" not in outcome.stdout


def test_comparisons_that_are_not_in_the_file(document: ResultDocument) -> None:
    value = json.loads(encode(document))
    value["measurements"]["comparisons"] = []
    assert parse_result(json.dumps(value), "x") == document


def test_claims_never_take_an_existing_file(tmp_path: Path) -> None:
    first = ResultFile.claim(tmp_path / "new" / "folder", "index-scan", _STARTED)
    first.path.write_text("kept")
    second = ResultFile.claim(tmp_path / "new" / "folder", "index-scan", _STARTED)
    assert first.path.name == "index-scan-20260102T030405Z.json"
    assert second.path.name == "index-scan-20260102T030405Z-2.json"
    assert first.path.read_text() == "kept"


def test_a_claim_is_no_result(tmp_path: Path, document: ResultDocument) -> None:
    """A run that is killed before it has measured anything leaves no file that looks like one."""
    file = ResultFile.claim(tmp_path, "index-scan", _STARTED)
    other = ResultFile.claim(tmp_path, "index-scan", _STARTED)
    assert file.path != other.path
    assert list(tmp_path.glob("*.json")) == []
    file.write(document)
    other.discard()
    assert [entry.name for entry in tmp_path.iterdir()] == [file.path.name]
    assert ResultFile.claim(tmp_path, "index-scan", _STARTED).path not in (file.path,)


def test_claim_in_a_place_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot write results to") as caught:
        ResultFile.claim(tmp_path / "file", "index-scan", _STARTED)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    assert caught.value.hint == "Name a writable folder with --output."


def test_a_full_disk_keeps_the_old_content(full_disk: Path, document: ResultDocument) -> None:
    path = full_disk / "result.json"
    path.touch()
    with pytest.raises(LabError, match="No space left on device") as caught:
        ResultFile(path).write(document)
    assert "Make room" in caught.value.hint
    assert {entry.name for entry in full_disk.iterdir()} == {"filler", "result.json"}
    assert path.read_text() == ""


def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, document: ResultDocument
) -> None:
    file = ResultFile(tmp_path / "result.json")
    file.write(document)
    before = file.path.read_bytes()
    machine = dataclasses.replace(document.machine, load_average=math.nan)
    with pytest.raises(ValueError, match="JSON"):
        file.write(dataclasses.replace(document, machine=machine))
    assert file.path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file.path]


def test_replacing_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]
    assert path.read_text() == "new"


Change = Callable[[dict[str, Any]], object]


def _sample(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = value["measurements"]["samples"][0]
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda value: value.update(schema_version=0), "damaged: there is no schema version 0"),
        (lambda value: value.update(schema_version="4"), "damaged: there is no schema version '4'"),
        (lambda value: value.update(schema_version=True), "there is no schema version True"),
        (lambda value: value.pop("schema_version"), "missing field 'schema_version'"),
        (
            lambda value: value.update(schema_version=4),
            "was written by an earlier lookahead",
        ),
        (lambda value: value.update(schema="other"), "is not a result of lookahead"),
        (
            lambda value: value.pop("machine"),
            "is damaged: document: missing field 'machine'",
        ),
        (
            lambda value: value.update(status="odd"),
            "is damaged: status: 'odd' is none of",
        ),
        (
            lambda value: value["measurements"]["samples"][1]["evidence"].update(rows="many"),
            r"damaged: measurements.samples\[1\].evidence.rows: expected int, found str",
        ),
        # Each field has its type, but they do not go together, or mean nothing.
        (
            lambda value: _sample(value)["scenario"].update(factors=[]),
            r"damaged: measurements.samples\[0\].scenario: it has no factors",
        ),
        (
            lambda value: _sample(value).update(time_ms=-1.0),
            r"damaged: measurements.samples\[0\]: -1 ms is no time",
        ),
        (lambda value: _sample(value).update(session_ms=[-1.0]), "it has a negative time"),
        (lambda value: _sample(value).update(round=10**40), "the number is too large"),
    ],
)
def test_refused(document: ResultDocument, change: Change, words: str) -> None:
    value = json.loads(encode(document))
    change(value)
    with pytest.raises(LabError, match=words) as caught:
        parse_result(json.dumps(value), "x.json")
    assert caught.value.status is ExitStatus.BAD_FILE
    assert caught.value.hint


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_cut_short(document: ResultDocument, share: float, tmp_path: Path) -> None:
    text = encode(document)
    path = tmp_path / "cut.json"
    path.write_text(text[: int(len(text) * share)])
    with pytest.raises(LabError, match="empty or cut short") as caught:
        read_result(path)
    assert caught.value.status is ExitStatus.BAD_FILE


@pytest.mark.parametrize("text", ["[]", "1", "{}", '"text"'])
def test_other_json(text: str) -> None:
    with pytest.raises(LabError, match="is not a result of lookahead"):
        parse_result(text, "x.json")


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="No such file"):
        read_result(tmp_path / "absent.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LabError, match="it is not text"):
        read_result(tmp_path / "binary.json")


def test_a_file_without_end() -> None:
    with pytest.raises(LabError, match='cannot read "/dev/zero": it is larger than') as caught:
        read_result(Path("/dev/zero"))
    assert caught.value.status is ExitStatus.BAD_FILE


def test_a_byte_order_mark_is_no_damage(document: ResultDocument, tmp_path: Path) -> None:
    path = tmp_path / "marked.json"
    path.write_text(encode(document), encoding="utf-8-sig")
    assert read_result(path) == document


def test_published_schema() -> None:
    assert PUBLISHED.read_text() == f"{made_schema()}\n", "write it again: lab/result_schema.py"


def test_schema_describes_what_is_written(
    recorded: ResultDocument, controls_document: ResultDocument
) -> None:
    schema = json.loads(made_schema())
    for document in (recorded, controls_document):
        value = json.loads(encode(document))
        _check(schema, schema, value)
        _check(schema, schema, {**value, "later": 1})
        for wrong in (
            {**value, "status": "odd"},
            {**value, "settings": {"jit": True}},
            {**value, "command": None},
            {name: value[name] for name in value if name != "machine"},
        ):
            with pytest.raises(AssertionError):
                _check(schema, schema, wrong)


_TYPES = {
    **{"object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,)},
    **{"integer": (int,), "number": (int, float), "null": (type(None),)},
}


def _check(whole: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    """What of JSON Schema ours has: the value is as it says."""
    if "$ref" in schema:
        _check(whole, whole["$defs"][schema["$ref"].rpartition("/")[2]], value)
    elif "anyOf" in schema:
        assert any(_fits(whole, member, value) for member in schema["anyOf"])
    elif "enum" in schema:
        assert value in schema["enum"]
    else:
        assert type(value) in _TYPES[schema["type"]]
        for item in value if "items" in schema else ():
            _check(whole, schema["items"], item)
        assert set(schema.get("required", ())) <= set(value if schema.get("required") else ())
        for name in value if schema["type"] == "object" else ():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if known is not None:
                _check(whole, known, value[name])


def _fits(whole: dict[str, Any], schema: dict[str, Any], value: Any) -> bool:
    try:
        _check(whole, schema, value)
    except AssertionError:
        return False
    return True


@dataclasses.dataclass(frozen=True)
class _Inner:
    share: float
    flag: bool | None


@dataclasses.dataclass(frozen=True)
class _Outer:
    items: tuple[_Inner, ...]
    counts: dict[str, int]
    name: str = "unnamed"
    chosen: OptionValue = None


def test_decoding_takes_what_is_known() -> None:
    value: dict[str, Any] = {"items": [{"share": 1, "flag": None}], "counts": {"a": 1}}
    known = _Outer((_Inner(1.0, None),), {"a": 1})
    assert decode(_Outer, value) == known
    assert decode(_Outer, {**value, "of a later version": [{}]}) == known
    assert decode(_Outer, {**value, "name": "x"}).name == "x"
    for chosen in (None, True, 1, 1.5, "a", [1, "b"]):
        found = decode(_Outer, {**value, "chosen": chosen}).chosen
        assert found == (tuple(chosen) if isinstance(chosen, list) else chosen)
        assert type(found) is (tuple if isinstance(chosen, list) else type(chosen))


def test_decoding_is_strict() -> None:
    for place, wrong in (
        (r"items\[0\]\.flag", {"items": [{"share": 1, "flag": 0}], "counts": {}}),
        (
            r"items\[0\]\.share",
            {"items": [{"share": True, "flag": None}], "counts": {}},
        ),
        (r"counts\.a", {"items": [], "counts": {"a": 1.5}}),
        ("items: expected a list", {"items": {}, "counts": {}}),
        ("missing field 'counts'", {"items": []}),
        ("chosen: dict was not expected", {"items": [], "counts": {}, "chosen": {}}),
        (r"chosen\[0\]: list was not", {"items": [], "counts": {}, "chosen": [[]]}),
        ("counts: expected an object", {"items": [], "counts": []}),
    ):
        with pytest.raises(DecodingError, match=place):
            decode(_Outer, wrong)


def test_a_path_that_is_no_text(tmp_path: Path, document: ResultDocument) -> None:
    """Bytes of a file name that are not UTF-8 go through the file and come back."""
    odd = dataclasses.replace(document, command=("lookahead", "probe", "/srv/\udcff"))
    file = ResultFile.claim(tmp_path, "probe", datetime.now(UTC))
    file.write(odd)
    assert read_result(file.path) == odd
