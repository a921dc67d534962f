"""The page: complete, well-formed, without network, safe against what the data contains."""

import json
import re
import xml.etree.ElementTree as ElementTree
from base64 import b64encode
from dataclasses import asdict, replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from lab.made_results import make_use
from lab.made_trials import FAST, OURS, STOCK, make_trial_scenario, make_trials
from lookahead.comparisons import compare, panels_of, scenarios_of
from lookahead.decoding import decode
from lookahead.measurements import Measurements
from lookahead.report.page import render_page
from lookahead.report.result_plots import ratio_plot, sample_plot
from lookahead.report.svg import Canvas, Scale, label_step, nice_ceiling, text_width, time_text
from lookahead.results import ResultDocument
from lookahead.stats import ratio_of_medians

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
def made(document: ResultDocument) -> ResultDocument:
    """Trials of one statement."""
    data = make_trials()
    statements = {one.scenario.label: "SELECT '<1>'" for one in data.samples}
    return _measured(document, replace(data, statements=statements))


def _measured(document: ResultDocument, data: Measurements) -> ResultDocument:
    """A result with these samples and the answers that follow from them."""
    answered = replace(data, comparisons=compare(data, seed=7))
    return replace(document, experiment="bitmap-scan", measurements=answered)


@pytest.fixture
def page(made: ResultDocument) -> str:
    return render_page([("made.json", made)])


def test_well_formed(page: str) -> None:
    checker = _Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    for svg in _svgs(page):
        ElementTree.fromstring(svg)
    assert page.startswith("<!doctype html>")


def test_no_network(page: str) -> None:
    checker = _Checker()
    checker.feed(page)
    names = {name for name, _ in checker.attributes}
    assert not names & {"href", "src", "srcset", "xlink:href", "action"}
    # A scheme, a protocol-relative address or a style sheet's ways to load something.
    assert not re.search(r"https?:|[\"'(]//|url\(|@import|@font-face", _without_data(page))


def test_policy_allows_what_the_page_brings_only(page: str) -> None:
    checker = _Checker()
    checker.feed(page)
    (policy,) = (
        value for name, value in checker.attributes if name == "content" and "-src" in str(value)
    )
    for kind in ("style", "script"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"; {kind}-src 'sha256-{digest}';" in str(policy)
    assert str(policy).startswith("default-src 'none';")
    # Which no policy of hashes allows.
    assert "style" not in {name for name, _ in checker.attributes}


def test_golden_parts(page: str) -> None:
    for part in (
        "<h2>Bitmap scan</h2>",
        "<li>bitmap scan, pages 10 %, against stock&#39;s default: 2.0 times faster (2.0 to 2.0)",
        "<dd>2026-01-01, PostgreSQL 18.6</dd>",
        "<dd>2 x Example CPU, 8 GiB, Example &lt;Disk&gt; (not rotating), Debian GNU/Linux 12",
        "<dd><code>SELECT &#39;&lt;1&gt;&#39;</code></dd>",
        '<td data-head="scenario">pages 10 %</td>',
        '<td data-head="baseline time" class="number">425 ms</td>',
        '<td data-head="interval" class="number">2.00 to 2.00</td>',
        'class="number verdict faster">faster</td>',
        'class="number verdict no-difference">no difference</td>',
        "<title>bitmap, default, round 1: 400 ms</title>",
        '<td data-head="setting">shared_buffers</td>',
        "in an order that changes from round to round",
        "prefers-color-scheme: dark",
        "@media print",
        "the machine is &lt;busy&gt;. Wait &amp; repeat.",
        "Download the raw data",
    ):
        assert part in page, part
    assert "incomplete" not in page
    assert not re.search(r"\baim|\bmet\?", _without_data(page))


def test_every_raw_sample_is_a_dot(page: str, made: ResultDocument) -> None:
    assert page.count(", round ") == len(made.measurements.samples)
    assert len(_svgs(page)) == 2  # ratios, samples


def test_labels_of_arms_do_not_cover_each_other(made: ResultDocument) -> None:
    data = made.measurements
    (panel,) = panels_of(scenarios_of(data.samples))
    svg = ElementTree.fromstring(str(sample_plot(data, panel)))
    tips = [one.text or "" for one in svg.iter("title") if ", round " in (one.text or "")]
    assert len(tips) == len(data.samples)
    labels = [one for one in svg.iter("text") if "arm-label" in one.get("class", "")]
    assert {one.text for one in labels} == {STOCK, FAST, OURS}
    heights = sorted(float(one.get("y", "0")) for one in labels)
    assert all(after - before >= 13 for before, after in pairwise(heights))


def test_scenarios_without_order_have_a_row_each(made: ResultDocument) -> None:
    named = {"10 %": "uuid", "42 %": "text"}
    samples = tuple(
        replace(one, scenario=make_trial_scenario(named[one.scenario.factors[0].value]))
        for one in made.measurements.samples
    )
    data = replace(made.measurements, samples=samples)
    (panel,) = panels_of(scenarios_of(samples))
    svg = str(sample_plot(data, panel))
    assert svg.count('class="median') == 6  # an arm of a scenario each
    assert re.findall(r'class="label">(\w+)<', svg) == ["uuid", "text"]


def test_a_statement_stands_once_with_its_scenarios(made: ResultDocument) -> None:
    labels = list(dict.fromkeys(one.scenario.label for one in made.measurements.samples))
    different = {label: f"SELECT {number}" for number, label in enumerate(labels)}
    different_ones = _measured(made, replace(made.measurements, statements=different))
    text = " ".join(render_page([("x.json", different_ones)]).split())
    for number, share in enumerate(("10 %", "42 %")):
        assert f"<dd>pages {share}: <code>SELECT {number}</code></dd>" in text


def test_many_statements_stand_behind_the_comparisons(made: ResultDocument) -> None:
    scenarios = [make_trial_scenario(f"{number} %") for number in range(6)]
    samples = tuple(replace(made.measurements.samples[0], scenario=one) for one in scenarios)
    statements = {one.label: f"SELECT {number}" for number, one in enumerate(scenarios)}
    data = replace(made.measurements, samples=samples, statements=statements)
    text = render_page([("x.json", _measured(made, data))])
    assert [text.count(f"<code>SELECT {number}</code>") for number in range(6)] == [1] * 6
    assert text.index("<h3>The statements</h3>") < text.index("<code>SELECT 0</code>")


def test_the_data_is_contained(page: str, made: ResultDocument) -> None:
    match = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert match is not None
    assert not re.search(r"[<>&]", match[1])
    assert decode(ResultDocument, json.loads(match[1])) == made


def test_incomplete_result(made: ResultDocument) -> None:
    for count in (1, 2, 5):
        data = replace(made.measurements, samples=made.measurements.samples[:count])
        partial = replace(
            _measured(made, data), status="incomplete", ending="interrupted", finished_at=None
        )
        text = render_page([("partial.json", partial)])
        assert "This result is incomplete (interrupted)" in text
        assert "not finished" in text
        for svg in _svgs(text):
            ElementTree.fromstring(svg)


def test_one_pair_has_no_interval(made: ResultDocument) -> None:
    samples = tuple(one for one in made.measurements.samples if one.round == 0)
    one = _measured(made, replace(made.measurements, samples=samples))
    text = _without_data(render_page([("one.json", one)]))
    assert "2.0 times as fast in one pair, too few to tell" in text
    assert ">too few pairs</td>" in text
    assert not re.search(r"\d to \d", text.partition("<h3>Evidence</h3>")[0])


def test_nothing_measured_yet(made: ResultDocument) -> None:
    nothing = replace(made, measurements=Measurements(), status="incomplete")
    assert "This result is incomplete" in render_page([("nothing.json", nothing)])


def test_several_results(made: ResultDocument) -> None:
    text = render_page([("a.json", made), ("b.json", replace(made, experiment="seq-scan"))])
    assert text.count("<section>") == 2
    assert text.count('<script type="application/json"') == 2


def test_without_a_device_the_page_has_no_requests(made: ResultDocument) -> None:
    samples = tuple(replace(one, use=make_use(0, one.time_ms)) for one in made.measurements.samples)
    blind = _measured(made, replace(made.measurements, samples=samples))
    text = render_page([("blind.json", blind)])
    assert 'data-head="requests"' not in text


def test_scales() -> None:
    linear = Scale(0, 10, 100, 200)
    assert (linear(0), linear(5), linear(10)) == (100, 150, 200)
    assert linear.ticks() == [0, 2, 4, 6, 8, 10]
    logarithmic = Scale(1, 100, 0, 200, logarithmic=True)
    assert (logarithmic(1), logarithmic(10), logarithmic(100)) == (0, 100, 200)
    assert logarithmic.ticks() == [1, 2, 5, 10, 20, 50, 100]
    assert Scale(1, 1e5, 0, 1, logarithmic=True).ticks() == [1, 10, 100, 1e3, 1e4, 1e5]


def test_ticks() -> None:
    assert [time_text(value) for value in (0, 50, 1500)] == ["0", "50 ms", "1.5 s"]
    assert [nice_ceiling(value) for value in (0, 0.9, 1, 1.2, 7, 95)] == [
        1,
        1,
        1,
        1.5,
        8,
        100,
    ]


def test_labels_have_room() -> None:
    assert label_step(["1 %", "42 %"], 100) == 1
    assert label_step(["100,000"] * 9, 20) == 3


@pytest.mark.parametrize("label", ["key uuid", "word " * 60, "x" * 300])
def test_labels_of_rows_have_room(label: str) -> None:
    estimate = ratio_of_medians([4.0] * 12, [1.0] * 12, seed=1)
    svg = ElementTree.fromstring(str(ratio_plot([(label.strip(), estimate)] * 2, "times faster")))
    lines = [one for one in svg.iter("text") if one.get("text-anchor") == "end"]
    assert all(float(one.attrib["x"]) >= text_width(one.text or "") for one in lines)
    heights = [float(one.attrib["y"]) for one in lines]
    assert all(low + 15 <= high for low, high in pairwise(heights))
    assert 0 < heights[0] < heights[-1] < float(svg.attrib["height"]) - 40
    assert "".join(one.text or "" for one in lines).replace(" ", "") == 2 * label.replace(" ", "")
    starts = [float(one.attrib["x1"]) for one in svg.iter("line")]
    assert min(starts) >= float(lines[0].attrib["x"])


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
