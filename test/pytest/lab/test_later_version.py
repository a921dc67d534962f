"""Result files of a version to come."""

import json
import re
from pathlib import Path

import pytest

from lab.outcome import run_command
from lookahead.errors import ExitStatus, LabError
from lookahead.results import SCHEMA_VERSION, ResultDocument, encode, parse_result, read_result


def test_later_file_is_read_as_far_as_it_is_known(document: ResultDocument, tmp_path: Path) -> None:
    value = json.loads(encode(document))
    value["schema_version"] = SCHEMA_VERSION + 1
    value["later"] = {"unknown": [1, 2]}
    value["measurements"]["samples"][0]["later"] = "x"
    path = tmp_path / "later.json"
    path.write_text(json.dumps(value))
    found = read_result(path)
    assert found.measurements == document.measurements
    said = f'"{path}" was written by a newer lookahead (schema version {SCHEMA_VERSION + 1}, '
    assert found.findings[-1].text.startswith(said)
    outcome = run_command("report", path)
    assert outcome.status is ExitStatus.SUCCESS
    assert f"warning: {said}" in outcome.stderr
    assert "was written by a newer lookahead" in path.with_suffix(".html").read_text()


def test_later_file_that_lacks_something(document: ResultDocument) -> None:
    value = json.loads(encode(document))
    value["schema_version"] = SCHEMA_VERSION + 1
    del value["measurements"]
    with pytest.raises(LabError, match="missing field 'measurements'") as caught:
        parse_result(json.dumps(value), "x")
    assert caught.value.message.startswith(_unreadable())
    assert caught.value.status is ExitStatus.BAD_FILE


def test_later_file_with_a_word_that_is_not_known(document: ResultDocument) -> None:
    value = json.loads(encode(document))
    value["schema_version"] = SCHEMA_VERSION + 1
    value["status"] = "paused"
    with pytest.raises(LabError, match="'paused' is none of") as caught:
        parse_result(json.dumps(value), "x")
    assert caught.value.message.startswith(_unreadable())
    assert caught.value.hint == "Read it with the lookahead that wrote it."


def _unreadable() -> str:
    return (
        f'"x" was written by a newer lookahead (schema version {SCHEMA_VERSION + 1}, this one '
        f"knows {SCHEMA_VERSION}) and cannot be read by this one: "
    )


@pytest.mark.parametrize("kind", ["later", "of this version"])
def test_page_hands_out_what_is_in_the_file(
    kind: str, document: ResultDocument, tmp_path: Path
) -> None:
    value = json.loads(encode(document))
    value["unknown"] = {"</script>": [1, 2.5, None]}
    if kind == "later":
        value["schema_version"] = SCHEMA_VERSION + 1
    path = tmp_path / "result.json"
    path.write_text(json.dumps(value))
    assert run_command("report", path).status is ExitStatus.SUCCESS
    page = path.with_suffix(".html").read_text()
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert json.loads(data) == value
