"""The page of a probe, and which results go on one page."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.outcome import run_command
from lookahead.device.probe.probe_data import (
    ProbeDocument,
    probe_in,
)
from lookahead.errors import ExitStatus, LabError
from lookahead.report.probe_page import render_probe_page
from lookahead.results import ResultDocument, encode


def _plots(page: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", page, re.DOTALL)


def test_curves_knees_and_the_profile_are_shown(probe: ProbeDocument) -> None:
    page = render_probe_page([("made.json", probe)])
    assert probe.summary is not None
    plots = _plots(page)
    assert len(plots) == len(probe.summary.curves)
    for plot in plots:
        ElementTree.fromstring(plot)
    assert all(">knee</text>" in plot for plot in plots)
    assert '<td data-head="figure">knee of random reads</td>' in page
    assert 'class="number">depth 8</td>' in page
    assert 'class="number">1 blocks</td>' in page
    assert "Example &lt;Disk&gt;" in page
    assert "identity = fs=ab12;sectors=1000;serial=XYZ" in page
    assert not re.search("https?:", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))


def test_page_contains_the_probe_itself(probe: ProbeDocument) -> None:
    page = render_probe_page([("made.json", probe)])
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert probe_in(json.loads(data), "page") == probe
    assert "<" not in data


def test_incomplete_probe(probe: ProbeDocument) -> None:
    ended = replace(probe, status="incomplete", ending="interrupted", finished_at=None)
    page = render_probe_page(
        [("made.json", replace(ended, samples=(), summary=None, profile=None))]
    )
    assert "This probe is incomplete (interrupted): nothing was worked out." in page
    assert _plots(page) == []


def test_report_of_a_probe(probe: ProbeDocument, tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    path.write_text(encode(probe))
    outcome = run_command("report", path, path)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    assert path.with_suffix(".html").read_text().count("<section>") == 2


def test_page_hands_out_the_file_as_it_is(probe: ProbeDocument, tmp_path: Path) -> None:
    """Fields too that this lookahead does not know."""
    path = tmp_path / "probe.json"
    content = {**json.loads(encode(probe)), "room_temperature": 21.5}
    path.write_text(json.dumps(content))
    assert run_command("report", path).status is ExitStatus.SUCCESS
    page = path.with_suffix(".html").read_text()
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert json.loads(data) == content


def test_damaged_probe(probe: ProbeDocument, tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    for change, message in (
        ({"schema_version": 99}, "has schema version 99; this lookahead reads version"),
        ({"samples": 7}, "is damaged: samples: expected a list"),
    ):
        path.write_text(json.dumps({**json.loads(encode(probe)), **change}))
        outcome = run_command("report", path)
        assert outcome.status is ExitStatus.BAD_FILE
        assert f'error: "{path}" {message}' in outcome.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": []}, "it has no points"),
        ({"knee": {"value": -1.0, "low": 0.0, "high": 0.0}}, "its knee is none of its points"),
    ],
)
def test_damaged_curve(probe: ProbeDocument, change: dict[str, object], message: str) -> None:
    value = json.loads(encode(probe))
    value["summary"]["curves"][0].update(change)
    with pytest.raises(LabError, match=rf"damaged: summary.curves\[0\]: {message}") as caught:
        probe_in(value, "x")
    assert caught.value.status is ExitStatus.BAD_FILE


def test_runs_and_probes_have_pages_of_their_own(
    probe: ProbeDocument, document: ResultDocument, tmp_path: Path
) -> None:
    paths = [tmp_path / "probe.json", tmp_path / "run.json"]
    for path, text in zip(paths, (encode(probe), encode(document)), strict=True):
        path.write_text(text)
    outcome = run_command("report", *paths)
    assert outcome.status is ExitStatus.USAGE
    assert "error: results of `run` and of `probe` do not go on one page" in outcome.stderr
    assert sorted(tmp_path.iterdir()) == paths
