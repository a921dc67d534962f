"""The figures that README and docs/benchmarks.md show are those of their result files."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lookahead.errors import LabError
from lookahead_bench.figures import (
    DOCUMENTS,
    PICTURE,
    SUMMARY,
    TOP,
    read_catalogue,
    result_path,
    rewritten,
    shown_figures,
    summary_picture,
)

_SHOWN = sorted(shown_figures(TOP) - {SUMMARY})
_MOST_SUMMARY_ROWS = 10


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_shows_what_its_result_files_say(document: str) -> None:
    assert (TOP / document).read_text(encoding="utf-8") == rewritten(TOP, document), (
        "make figures rewrites it"
    )


def test_the_picture_shows_what_the_result_files_say() -> None:
    """Of each row a pair of bars, of which the longer one is as long as any."""
    drawn = (TOP / PICTURE).read_text(encoding="utf-8")
    assert drawn == summary_picture(TOP), "make figures draws it anew"
    picture = ElementTree.fromstring(drawn)
    bars = [bar for bar in picture.iter() if bar.tag.endswith("rect")]
    rows = read_catalogue(TOP).summary
    assert [bar.get("class") for bar in bars] == ["arm-7", "ours"] * len(rows)
    lengths = [float(str(bar.get("width"))) for bar in bars]
    texts = "".join(picture.itertext())
    for row, stock, ours in zip(rows, lengths[::2], lengths[1::2], strict=True):
        assert row.text in texts
        assert max(stock, ours) == max(lengths)


def test_each_figure_is_measured_and_shown_once() -> None:
    commands = read_catalogue(TOP).commands
    files = {path.stem for path in (TOP / "docs" / "results").glob("*.json")}
    assert set(commands) == files == set(_SHOWN)
    texts = "".join((TOP / document).read_text(encoding="utf-8") for document in DOCUMENTS)
    assert all(texts.count(f"<!-- figure: {name} -->") == 1 for name in commands)


@pytest.mark.parametrize("name", _SHOWN)
def test_a_result_comes_from_the_command_beside_it(name: str) -> None:
    asked = read_catalogue(TOP).commands[name]
    command = json.loads(result_path(TOP, name).read_text(encoding="utf-8"))["command"]
    assert command[1 : len(asked)] == list(asked[1:])


def test_the_table_of_readme_is_short_and_of_real_figures() -> None:
    catalogue = read_catalogue(TOP)
    assert 0 < len(catalogue.summary) <= _MOST_SUMMARY_ROWS
    assert {row.figure for row in catalogue.summary} <= set(catalogue.commands)


def _copy(folder: Path) -> Path:
    """What figures are made from, to be changed."""
    shutil.copytree(TOP / "docs" / "results", folder / "docs" / "results")
    for document in DOCUMENTS:
        shutil.copy(TOP / document, folder / document)
    return folder


def test_another_figure_in_the_file_changes_the_document(tmp_path: Path) -> None:
    top = _copy(tmp_path)
    path = result_path(top, _SHOWN[0])
    content = json.loads(path.read_text(encoding="utf-8"))
    for sample in content["measurements"]["samples"]:
        sample["time_ms"] *= 1 + sample["sequence"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert rewritten(top, "docs/benchmarks.md") != (TOP / "docs/benchmarks.md").read_text()


def test_too_few_pairs_are_refused(tmp_path: Path) -> None:
    top = _copy(tmp_path)
    path = result_path(top, _SHOWN[0])
    content = json.loads(path.read_text(encoding="utf-8"))
    samples = content["measurements"]["samples"]
    content["measurements"]["samples"] = [one for one in samples if one["round"] < 4]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(LabError, match=f"the result of {_SHOWN[0]} is complete and has 4 pairs"):
        rewritten(top, "docs/benchmarks.md")


def test_an_unknown_figure_is_refused(tmp_path: Path) -> None:
    top = _copy(tmp_path)
    (top / "README.md").write_text("<!-- figure: none -->\n<!-- end of figure -->\n")
    with pytest.raises(LabError, match='there is no figure "none"'):
        rewritten(top, "README.md")
