"""The page: complete, well-formed, without network, safe against what the data contains."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from lab.made_results import make_scans
from lookahead.decoding import decode
from lookahead.device.io_sampler import Timeline
from lookahead.measurements import Measurements
from lookahead.render import number_text
from lookahead.report.page import render_page
from lookahead.report.svg import Canvas, Scale, nice_ceiling, time_text
from lookahead.report.timeline_plots import median_sample, slices_of
from lookahead.results import ResultDocument

_VOID = {"meta"}


class _Checker(HTMLParser):
    """Collects attributes and sees that elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _svgs(page: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", page, re.DOTALL)


def _without_data(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


@pytest.fixture
def page(document: ResultDocument) -> str:
    return render_page([("made.json", document)])


def test_well_formed(page: str) -> None:
    checker = _Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    for svg in _svgs(page):
        ElementTree.fromstring(svg)
    assert page.startswith("<!doctype html>")


def test_no_network(page: str, recorded: ResultDocument) -> None:
    for text in (page, render_page([("recorded.json", recorded)])):
        checker = _Checker()
        checker.feed(text)
        names = {name for name, _ in checker.attributes}
        assert not names & {"href", "src", "srcset", "xlink:href", "action"}
        # A scheme, a protocol-relative address or a style sheet's ways to load something.
        shown = _without_data(text)
        assert not re.search(r"https?:|[\"'(]//|url\(|@import|@font-face", shown)


def test_golden_parts(page: str) -> None:
    for part in (
        "<h2>Index scans, cold</h2>",
        "<td>10,000 pages, worker, 128 kB</td>",
        '<td class="number">425 ms</td>',
        '<td class="number">4.00 [4.00, 4.00]</td>',
        '<td class="number">faster</td>',
        '<td class="number">no difference</td>',
        "I/O method worker, read-ahead 128 kB</h4>",
        "<title>stock, round 1: 400 ms</title>",
        "pg_lookahead, 105 ms</text>",
        "read requests / s</text>",
        "mean queue depth</text>",
        "processors, %</text>",
        "10,000 of each: equal.",
        "<td>PostgreSQL 18.6 (system)</td>",
        "<td>shared_buffers</td>",
        "prefers-color-scheme: dark",
        "@media print",
        "the machine is &lt;busy&gt;. Wait &amp; repeat.",
        "Example &lt;Disk&gt;",
    ):
        assert part in page
    assert "incomplete" not in page


def test_every_raw_sample_is_a_dot(page: str, document: ResultDocument) -> None:
    tips = re.findall(r"<title>\w+, round \d", page)
    assert len(tips) == len(document.measurements.samples)


def test_the_data_is_contained(page: str, document: ResultDocument) -> None:
    match = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert match is not None
    assert not re.search(r"[<>&]", match[1])
    assert decode(ResultDocument, json.loads(match[1])) == document


def test_incomplete_result(document: ResultDocument) -> None:
    for count in (1, 5):
        samples = document.measurements.samples[:count]
        partial = replace(
            document,
            status="incomplete",
            ending="interrupted",
            measurements=replace(document.measurements, samples=samples),
            finished_at=None,
        )
        text = render_page([("partial.json", partial)])
        assert "This result is incomplete (interrupted)" in text
        assert "not finished" in text
        for svg in _svgs(text):
            ElementTree.fromstring(svg)


def test_nothing_measured_yet(document: ResultDocument) -> None:
    nothing = replace(document, measurements=Measurements(), status="incomplete")
    assert "This result is incomplete" in render_page([("nothing.json", nothing)])


def test_controls_page(controls_document: ResultDocument) -> None:
    text = render_page([("controls.json", controls_document)])
    assert "limit-1: not loaded</text>" in text
    assert '<td class="number">0.99 [0.99, 0.99]</td>' in text
    assert "Over time" not in text
    assert "<td>Limit, Index Scan</td>" in text


def test_facts_of_the_place_are_shown(document: ResultDocument) -> None:
    facts = {"added latency": "1000 us on each read"}
    text = render_page([("x.json", replace(document, experiment="latency", facts=facts))])
    assert "<h2>Index scans, cold, on a device with added latency</h2>" in text
    assert "1000 us on each read" in text


def test_an_experiment_of_another_version(document: ResultDocument) -> None:
    text = render_page([("x.json", replace(document, experiment="join<s>"))])
    assert "<h2>join&lt;s&gt;</h2>" in text


def test_several_results(document: ResultDocument, controls_document: ResultDocument) -> None:
    text = render_page([("a.json", document), ("b.json", controls_document)])
    assert text.count("<section>") == 2
    assert text.count('<script type="application/json"') == 2


def test_recorded_result(recorded: ResultDocument) -> None:
    text = render_page([("recorded.json", recorded)])
    for svg in _svgs(text):
        ElementTree.fromstring(svg)
    assert "prefetch" in text


def test_what_nobody_looked_at_is_a_dash(document: ResultDocument) -> None:
    data = document.measurements
    samples = tuple(replace(sample, use=None, timeline=None) for sample in data.samples)
    blind = replace(document, measurements=replace(data, samples=samples))
    text = render_page([("blind.json", blind)])
    assert '<td class="number">-</td>' in text
    assert "Over time" not in text


def test_slices_cover_the_whole_time_once() -> None:
    for count in (2, 3, 7, 500):
        timeline = Timeline(
            device=None,
            at_ms=tuple(25.0 * number for number in range(count)),
            disk={},
            cpu={
                name: tuple(range(count)) for name in ("user", "system", "idle", "iowait", "steal")
            },
        )
        slices = slices_of(timeline)
        assert slices[0].start_ms == 0
        assert slices[-1].end_ms == timeline.at_ms[-1]
        assert all(one.end_ms == other.start_ms for one, other in pairwise(slices))
        assert len(slices) <= 60


def test_median_sample_is_a_real_one() -> None:
    stock = [sample for sample in make_scans().samples if sample.arm == "stock"][::2]
    assert median_sample(stock).time_ms in (420.0, 430.0)


def test_scales() -> None:
    linear = Scale(0, 10, 100, 200)
    assert (linear(0), linear(5), linear(10)) == (100, 150, 200)
    assert linear.ticks() == [0, 2, 4, 6, 8, 10]
    logarithmic = Scale(1, 100, 0, 200, logarithmic=True)
    assert (logarithmic(1), logarithmic(10), logarithmic(100)) == (0, 100, 200)
    assert logarithmic.ticks() == [1, 2, 5, 10, 20, 50, 100]
    assert Scale(1, 1e5, 0, 1, logarithmic=True).ticks() == [1, 10, 100, 1e3, 1e4, 1e5]


def test_labels() -> None:
    assert [number_text(value) for value in (0, 0.5, 250, 12_500)] == [
        "0",
        "0.5",
        "250",
        "12.5k",
    ]
    assert [time_text(value) for value in (0, 50, 1500)] == ["0", "50 ms", "1.5 s"]
    assert [nice_ceiling(value) for value in (0, 0.9, 1, 1.2, 7, 95)] == [
        1,
        1,
        1,
        1.5,
        8,
        100,
    ]


def test_canvas_escapes() -> None:
    canvas = Canvas(10, 10, '"><script>')
    canvas.text((0, 0), "<b>")
    svg = str(canvas.render())
    assert "<script>" not in svg
    assert "&lt;b&gt;" in svg
    assert ElementTree.fromstring(svg).attrib["aria-label"] == '"><script>'


def test_embedded_data_cannot_end_its_element(document: ResultDocument) -> None:
    hostile = replace(document, settings={"application_name": "</script><script>alert(1)"})
    text = render_page([("x.json", hostile)])
    assert "<script>alert" not in text
    assert asdict(hostile)["settings"]["application_name"].startswith("</script>")
