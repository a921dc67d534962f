"""Rules on the documents: links lead somewhere, users' pages are plain, reasons are explained."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from findings import Checkout, Outcome

# Pages that a user reads from top to bottom. The others are references, or the developers'.
_PLAIN = (
    "README.md",
    "docs/cold-tests.md",
    "docs/convert.md",
    "docs/device-profile.md",
    "docs/explain.md",
    "docs/faq.md",
    "docs/first-hour.md",
    "docs/install.md",
    "docs/intervals.md",
    "docs/limitations.md",
    "docs/partitions.md",
    "docs/scale-out.md",
    "docs/settings.md",
    "docs/statistics.md",
    "docs/troubleshooting.md",
)
_PLAIN_FOLDER = "docs/internals/"
_DOCUMENTS = "docs/"
_SENTENCE_WORDS = 30
_PARAGRAPH_WORDS = 90
_REMEDIES = Path("docs/troubleshooting.md")
_REASONS = Path("src/la_reason.c")

_FENCE = re.compile(r"^[ ]*```.*?^[ ]*```[ ]*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_OUTSIDE = re.compile(r"[a-z]+:")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+|#+\s")


def check_links(checkout: Checkout) -> Outcome:
    """Each link to a file of the checkout, or to a heading in one, leads there."""
    pages = {path.as_posix(): checkout.text(path) for path in checkout.sources(".md")}
    files = {path.as_posix() for path in checkout.files}
    folders = {parent.as_posix() for path in checkout.files for parent in path.parents}
    findings = []
    for page, text in pages.items():
        for target in _LINK.findall(_FENCE.sub("", text)):
            if _OUTSIDE.match(target):
                continue
            name, _, heading = target.partition("#")
            path = _resolve(page, name)
            if path not in files | folders:
                findings.append(f"{page}: {target} is no file")
            elif heading and heading not in _anchors(pages.get(path, "")):
                findings.append(f"{page}: {target} is no heading")
    return Outcome(tuple(sorted(findings)))


def _resolve(page: str, name: str) -> str:
    """The path in the checkout that a link on a page names; the page itself for none."""
    if not name:
        return page
    parts: list[str] = []
    for part in (PurePosixPath(page).parent / name).parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return PurePosixPath(*parts).as_posix()


def _anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page."""
    counts: Counter[str] = Counter()
    anchors = set()
    for heading in re.findall(r"^#+ (.*?)\s*$", _FENCE.sub("", text), re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        anchors.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return anchors


def check_plain_words(checkout: Checkout) -> Outcome:
    """No long paragraph in docs/ and README, and no long sentence where users read."""
    findings = []
    for path in checkout.sources(".md"):
        page = path.as_posix()
        is_plain = page in _PLAIN or page.startswith(_PLAIN_FOLDER)
        if not is_plain and not page.startswith(_DOCUMENTS):
            continue
        for number, paragraph in _paragraphs(checkout.text(path)):
            words = len(paragraph.split())
            if words > _PARAGRAPH_WORDS:
                findings.append(f"{page}:{number}: a paragraph of {words} words")
            if not is_plain:
                continue
            for sentence in re.split(r"(?<=[.!?:])\**\s+", paragraph):
                words = len(sentence.split())
                if words > _SENTENCE_WORDS:
                    findings.append(f"{page}:{number}: {words} words: {sentence[:60]} ...")
    return Outcome(tuple(findings))


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items and cells of tables, each with its first line; no code."""
    blanked = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    first, gathered = 0, list[str]()
    for number, line in enumerate([*blanked.splitlines(), ""], 1):
        is_row = line.startswith("|")
        if gathered and (is_row or not line.strip() or _ITEM.match(line)):
            yield first, _plain(" ".join(gathered))
            gathered = []
        if is_row:
            yield from ((number, _plain(cell.strip())) for cell in line.split("|"))
        elif line.strip():
            first = first if gathered else number
            gathered.append(_ITEM.sub("", line, count=1).strip())


def _plain(text: str) -> str:
    """The text as it is read: links are their texts, and code is one word."""
    return re.sub(r"`[^`]*`", "code", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text))


def check_remedies(checkout: Checkout) -> Outcome:
    """Each reason and each message of the log is on the page of troubles, which invents none."""
    if _REMEDIES not in checkout.files:
        return Outcome((f"{_REMEDIES} is missing",))
    said = set(_reasons(checkout)) | set(_messages(checkout))
    if not said:
        return Outcome(("the sources have neither reasons nor messages: nothing was checked",))
    _, _, tables = checkout.text(_REMEDIES).partition("\n## Reasons\n")
    explained = set(re.findall(r"^\| `([^`|]+)` \|", tables, re.MULTILINE))
    findings = [f"{_REMEDIES}: no row for `{text}`" for text in said - explained]
    findings += [f"{_REMEDIES}: nothing says `{text}`" for text in explained - said]
    return Outcome(tuple(sorted(findings)))


def _reasons(checkout: Checkout) -> list[str]:
    reasons = re.findall(r'\[LA_REASON_\w+\] = "([^"]+)"', checkout.text(_REASONS))
    return [reason for reason in reasons if reason != "none"]


def _messages(checkout: Checkout) -> Iterator[str]:
    """What the library says without being asked, and errors that name it; … for each value."""
    call = re.compile(r'ereport\((\w+),.*?errmsg\(((?:\s*"(?:[^"\\]|\\.)*")+)', re.DOTALL)
    for path in checkout.sources(".c", under="src/"):
        for level, literals in call.findall(checkout.text(path)):
            text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))
            message = re.sub(r"%[a-z]+(\.%[a-z]+)?", "…", text.replace('\\"', '"'))
            if ".test_" in message:  # the released library lacks these settings
                continue
            if level in ("LOG", "NOTICE", "WARNING") or "pg_lookahead" in message:
                yield message
