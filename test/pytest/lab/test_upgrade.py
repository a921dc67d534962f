"""Result files of other versions: those that earlier ones have written, and of one to come.

data/earlier holds files that each version wrote itself, of tables of some megabytes.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lab.outcome import run_command
from lookahead.errors import ExitStatus, LabError
from lookahead.report.page import render_page
from lookahead.results import SCHEMA_VERSION, ResultDocument, encode, parse_result, read_result

_EARLIER = Path(__file__).parent / "data" / "earlier"
_FILES = sorted(path.name for path in _EARLIER.iterdir())


def _raw(name: str) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((_EARLIER / name).read_text())
    return raw


def _old_samples(raw: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("index_scan", "controls", "index_build", "trials")
    found: list[dict[str, Any]] = next(raw[name] for name in names if raw.get(name))["samples"]
    return found


def test_there_are_files_of_every_earlier_version() -> None:
    versions = {_raw(name)["schema_version"] for name in _FILES}
    assert versions == set(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize("name", _FILES)
def test_earlier_file(name: str) -> None:
    found, raw = read_result(_EARLIER / name), _raw(name)
    assert (found.schema_version, found.status) == (SCHEMA_VERSION, "complete")
    assert found.experiment == raw["experiment"]
    data = found.measurements
    assert len(data.samples) == len(_old_samples(raw))
    assert {one.arm for one in data.samples} <= {arm.name for arm in data.arms}
    asked = {question.scenario for question in data.questions}
    assert asked == {one.scenario for one in data.samples}
    assert data.comparisons
    assert parse_result(encode(found), name) == found
    assert data.comparisons[0].baseline in render_page([(name, found)])


@pytest.mark.parametrize("name", [name for name in _FILES if "index-scan" in name])
def test_scans_of_earlier_files(name: str) -> None:
    data = read_result(_EARLIER / name).measurements
    for one, old in zip(data.samples, _old_samples(_raw(name)), strict=True):
        assert one.time_ms == old["evidence"]["execution_ms"]
        assert one.arm == {"lookahead": "ours", "bitmap": "bitmap and sort"}.get(
            old["arm"], old["arm"]
        )
        assert one.counts["distinct_pages"] == old["distinct_pages"]
        assert one.evidence is not None and one.evidence.rows == old["evidence"]["rows"]
        assert one.use is not None and one.timeline is not None
    patterns = {one.scenario.value("scan") for one in data.samples}
    assert "300 pages" in patterns
    if "v1-" not in name:
        assert patterns == {"300 pages", "LIMIT 100", "25 % in heap order"}
    assert {one.scenario.value("I/O method") for one in data.samples} == {"worker"}
    assert all(one.scenario in {sample.scenario for sample in data.samples} for one in data.digests)


@pytest.mark.parametrize("name", [name for name in _FILES if "controls" in name])
def test_controls_of_earlier_files(name: str) -> None:
    data = read_result(_EARLIER / name).measurements
    for one, old in zip(data.samples, _old_samples(_raw(name)), strict=True):
        assert (one.arm, one.scenario.value("workload")) == (old["arm"], old["workload"])
        if "tps" in old:
            assert one.time_ms == pytest.approx(1000 / old["tps"])
            assert one.executions == old["transactions"]
        else:
            assert one.time_ms * one.executions == pytest.approx(old["elapsed_ms"])
    assert {one.challenger for one in data.comparisons} == {"on"}
    assert {one.baseline for one in data.comparisons} == {"not loaded", "off"}
    assert all("Index" in check.facts["plan"] for check in data.checks)


@pytest.mark.parametrize("name", [name for name in _FILES if "index-build" in name])
def test_builds_of_earlier_files(name: str) -> None:
    data = read_result(_EARLIER / name).measurements
    for one, old in zip(data.samples, _old_samples(_raw(name)), strict=True):
        assert one.time_ms == old["time_ms"]
        assert one.counts["wal_bytes"] == old["wal_bytes"]
        assert one.counts["built_by_us"] == old["built_by_us"]
        assert one.sha256 == old["pages_sha256"]
    assert data.samples[0].scenario.label == "not-vacuumed, 0, 64 MB, 4096 kB, 2,000"
    assert data.tables[0].pages * 8192 == data.tables[0].table_bytes


def test_delay_device_of_an_earlier_file() -> None:
    raw = _raw("v4-index-scan.json")
    raw["delay_device"] = {
        **{"latency_us": 1000, "size_bytes": 10**9, "engine": "fio", "depth": 64},
        **{"single_reads_per_s": 900.0, "deep_reads_per_s": 36_000.0},
    }
    for sample in raw["index_scan"]["samples"]:
        sample["scenario"]["added_latency_us"] = 1000
    found = parse_result(json.dumps(raw), "x")
    assert found.facts == {
        "added latency": "1000 us on each read, content in memory",
        "reads at once": "900 reads/s one at a time, 36,000 with 64 in flight (fio)",
    }
    latencies = {one.scenario.value("added latency") for one in found.measurements.samples}
    assert latencies == {"1,000 us"}


def test_options_of_an_earlier_file() -> None:
    raw = _raw("v4-index-scan.json")
    raw["parameters"]["read_aheads_kb"] = [128]
    assert parse_result(json.dumps(raw), "x").parameters.values == {
        "pages": (300,),
        "limit": (100,),
        "share": (25,),
        "io-method": ("worker",),
        "read-ahead": ("128kB",),
    }


_MISSING: list[tuple[str, tuple[str | int, ...]]] = [
    ("v1-index-scan.json", ("parameters",)),
    ("v1-controls.json", ("controls", "samples", 0, "tps")),
    ("v2-index-build.json", ("index_build", "samples", 0, "phases")),
    ("v3-bitmap-scan.json", ("trials", "samples", 0, "arm")),
    ("v4-index-scan.json", ("index_scan", "samples", 0, "timeline", "cpu")),
]


@pytest.mark.parametrize(("name", "place"), _MISSING)
@pytest.mark.parametrize("instead", [None, 7, "text", []])
def test_damaged_earlier_file(name: str, place: tuple[str | int, ...], instead: object) -> None:
    raw = _raw(name)
    at: Any = raw
    for step in place[:-1]:
        at = at[step]
    if instead is None:
        del at[place[-1]]
    else:
        at[place[-1]] = instead
    if (place[-1], instead) in (("tps", 7), ("phases", [])):  # as good as any
        assert parse_result(json.dumps(raw), "x")
        return
    if (place[-1], instead) == ("arm", "text"):  # an arm of which nothing was asked
        assert parse_result(json.dumps(raw), "x")
        return
    with pytest.raises(LabError, match='"x" is damaged: ') as caught:
        parse_result(json.dumps(raw), "x")
    assert caught.value.status is ExitStatus.BAD_FILE


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


@pytest.mark.parametrize("kind", ["earlier", "later", "of this version"])
def test_page_hands_out_what_is_in_the_file(
    kind: str, document: ResultDocument, tmp_path: Path
) -> None:
    value = _raw("v1-index-scan.json") if kind == "earlier" else json.loads(encode(document))
    value["unknown"] = {"</script>": [1, 2.5, None]}
    if kind == "later":
        value["schema_version"] = SCHEMA_VERSION + 1
    path = tmp_path / "result.json"
    path.write_text(json.dumps(value))
    assert run_command("report", path).status is ExitStatus.SUCCESS
    page = path.with_suffix(".html").read_text()
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert json.loads(data) == value
