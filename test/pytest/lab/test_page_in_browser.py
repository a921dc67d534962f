"""The page as a browser shows it: nothing is cut, nothing fails, all numbers are the result's."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lab import browser as chromium
from lab.browser import Browser, Page
from lab.made_trials import FAST, OURS, STOCK, make_trials
from lookahead.comparisons import compare
from lookahead.device.probe.probe_data import ProbeDocument
from lookahead.formats import milliseconds
from lookahead.report.bars import bar_pair
from lookahead.report.page import write_demo_page, write_page
from lookahead.report.probe_page import render_probe_page
from lookahead.results import ResultDocument, encode

pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason="chromium is missing")

_LONG = "SELECT sum(v) FROM lookahead_pages WHERE c1 = 42 AND " + "x" * 200
_PAPER = 1047  # pixels of A4, landscape, between margins of 10 mm
# But plots, on a telephone.
_SCROLLING = """[...document.querySelectorAll('*')].filter(one =>
    one.scrollWidth > one.clientWidth && !(one.matches('figure') && innerWidth <= 720)
      && ['auto', 'scroll'].includes(getComputedStyle(one).overflowX)
  ).map(one => one.outerHTML.slice(0, 80))"""
_BEYOND = """[...document.querySelectorAll('body *')].filter(one =>
    !(one.closest('svg') && innerWidth <= 720)
      && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
  ).map(one => one.outerHTML.slice(0, 80))"""
# Labels that a plot cuts off at its edges.
_CUT_LABELS = """[...document.querySelectorAll('svg')].filter(
    svg => svg.clientWidth
  ).flatMap(svg => {
    const edge = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].filter(text => {
      const box = text.getBoundingClientRect();
      return box.left < edge.left - 1 || box.right > edge.right + 1
        || box.top < edge.top - 1 || box.bottom > edge.bottom + 1;
    }).map(text => text.textContent);
  })"""
# That were shrunk with their plot beyond reading.
_SMALL_LABELS = """[...document.querySelectorAll('svg')].filter(
    svg => svg.getBoundingClientRect().width < 0.8 * svg.viewBox.baseVal.width
  ).map(svg => svg.outerHTML.slice(0, 80))"""
_BROKEN_NAMES = """[...document.querySelectorAll('td:first-child')].filter(one => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return new Set([...range.getClientRects()].map(rect => rect.top)).size > 1;
  }).map(one => one.textContent)"""
_TABLES = """[...document.querySelectorAll('table')].map(table => [...table.rows].map(
    row => [...row.cells].map(cell => cell.textContent)))"""
_CONTRAST = """(() => {
    const light = colour => {
      const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255).map(
        part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
      return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const paper = light(getComputedStyle(document.body).backgroundColor);
    return Math.min(...[...document.querySelectorAll('p, li, dt, dd, th, td, caption, button')].map(
      one => {
        const ink = light(getComputedStyle(one).color);
        return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
      }));
  })()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def made(document: ResultDocument) -> ResultDocument:
    """Everything that a page can show, with names as long as they come."""
    data = make_trials()
    samples = tuple(
        replace(
            one,
            counts={"index_bytes": 1e9, "scanning_table_ms": one.time_ms, "loading_ms": 10.0},
        )
        for one in data.samples
    )
    statements = {one.scenario.label: _LONG for one in samples}
    whole = replace(data, samples=samples, statements=statements)
    answered = replace(whole, comparisons=compare(whole, seed=7))
    settings = {**document.settings, "pg_lookahead.device_profile": "y" * 150}
    return replace(document, experiment="bitmap-scan", measurements=answered, settings=settings)


@pytest.fixture
def path(made: ResultDocument, tmp_path: Path) -> Path:
    return write_page([("made.json", made), ("again.json", made)], tmp_path / "made.html")


def _assert_nothing_is_cut(page: Page) -> None:
    assert page.complaints() == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for found in (_SCROLLING, _BEYOND, _CUT_LABELS, _SMALL_LABELS):
        assert page.evaluate(found) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_nothing_is_cut_on_a_screen(browser: Browser, path: Path, width: int, dark: bool) -> None:
    page = browser.open(path, width, dark=dark)
    _assert_nothing_is_cut(page)
    assert page.evaluate(_CONTRAST) >= 4.5
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(18, 21, 27)" if dark else "rgb(255, 255, 255)"
    )


@pytest.mark.parametrize("width", [1200, 400])
def test_nothing_is_cut_of_the_bars(
    browser: Browser, made: ResultDocument, tmp_path: Path, width: int
) -> None:
    answers = made.measurements.comparisons
    pairs = [bar_pair("CREATE INDEX on random numbers", one) for one in answers]
    page = write_demo_page([("made.json", made)], tmp_path / "demo.html", pairs, "Next: that.")
    _assert_nothing_is_cut(browser.open(page, width))


def test_nothing_is_cut_on_paper(browser: Browser, path: Path) -> None:
    _assert_nothing_is_cut(browser.open(path, _PAPER, dark=True, media="print"))


def test_foreign_code_is_not_executed(browser: Browser, path: Path) -> None:
    code = "<script>window.was_executed = true</script>"
    path.write_text(path.read_text().replace("<main>", f"<main>{code}"))
    page = browser.open(path, 1200)
    assert page.evaluate("window.was_executed") is None
    assert "Content Security Policy" in str(page.complaints())


def test_scenario_names_stand_on_one_line(browser: Browser, path: Path) -> None:
    assert browser.open(path, 1200).evaluate(_BROKEN_NAMES) == []


def test_numbers_are_those_of_the_json(browser: Browser, path: Path) -> None:
    page = browser.open(path, 1200)
    result = json.loads(page.evaluate("document.querySelector('script.result').textContent"))
    times: dict[tuple[str, str], list[float]] = {}
    for sample in result["measurements"]["samples"]:
        share = sample["scenario"]["factors"][0]["value"]
        times.setdefault((share, sample["arm"]), []).append(sample["time_ms"])
    comparisons = page.evaluate(_TABLES)[0]
    for row in comparisons[1:]:
        share = row[0].removeprefix("pages ")
        theirs = median(times[share, FAST if FAST in row[1] else STOCK])
        ours = median(times[share, OURS])
        assert row[2:5] == [milliseconds(theirs), milliseconds(ours), f"{theirs / ours:.2f}"]


def test_button_hands_out_the_raw_data(
    browser: Browser, path: Path, made: ResultDocument, tmp_path: Path
) -> None:
    folder = tmp_path / "downloads"
    behaviour: dict[str, Any] = {
        "behavior": "allow",
        "downloadPath": str(folder),
        "eventsEnabled": True,
    }
    browser.call("Browser.setDownloadBehavior", behaviour)
    page = browser.open(path, 1200)
    page.evaluate("document.querySelector('button.download').click()")
    browser.wait("Browser.downloadProgress", state="completed")
    (downloaded,) = folder.iterdir()
    assert downloaded.name == "made.json"
    assert json.loads(downloaded.read_text()) == json.loads(encode(made))


@pytest.mark.parametrize("width", [1200, 400])
def test_page_of_a_probe(
    browser: Browser, probe: ProbeDocument, tmp_path: Path, width: int
) -> None:
    written = tmp_path / "probe.html"
    written.write_text(render_probe_page([("probe.json", probe)]))
    _assert_nothing_is_cut(browser.open(written, width))
