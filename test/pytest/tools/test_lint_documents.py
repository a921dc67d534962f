"""The checks of documents: links, long sentences and paragraphs, reasons without an explanation."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

_Findings = Callable[..., tuple[str, ...]]
_REASON = '\t[LA_REASON_MEMORY] = "memory",\n'
_MESSAGE = (
    'ereport(LOG,\n(errmsg("profile \\"%s\\" of %d.%d "\n"is ignored", a, b, c)));\n'
    'ereport(ERROR, (errmsg("argument is null")));\n'
)


@pytest.fixture
def findings(lint: dict[str, ModuleType], tmp_path: Path) -> _Findings:
    """What a check finds in a checkout with these files: `findings("links", {path: text})`."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)

    def check(name: str, files: dict[str, str]) -> tuple[str, ...]:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        run = getattr(lint["documents"], f"check_{name}")
        return tuple(run(lint["findings"].Checkout(tmp_path, None)).findings)

    return check


def test_links_that_lead_somewhere(findings: _Findings) -> None:
    text = (
        "# A page\n## It's `pg.x`: [so](b.md)!\n[1](#a-page) [2](docs/b.md#two-1) [3](docs) "
        "[4](#its-pgx-so) [5](https://nowhere.example)\n```\n# no heading [6](nothing.md)\n```\n"
    )
    files = {"README.md": text, "b.md": "", "docs/b.md": "# Two\n## Two\n[back](../README.md)\n"}
    assert findings("links", files) == ()


@pytest.mark.parametrize(
    ("target", "finding"),
    [
        ("c.md", "README.md: c.md is no file"),
        ("docs/../c.md", "README.md: docs/../c.md is no file"),
        ("b.md#three", "README.md: b.md#three is no heading"),
        ("#no-heading", "README.md: #no-heading is no heading"),
    ],
)
def test_links_that_lead_nowhere(findings: _Findings, target: str, finding: str) -> None:
    files = {
        "README.md": f"# Two\n```\n# No heading\n```\n[x]({target})\n",
        "b.md": "# Two\n",
        "docs/b.md": "",
    }
    assert findings("links", files) == (finding,)


def test_sentences_and_paragraphs_at_the_limit(findings: _Findings) -> None:
    sentence = "word " * 29 + "end. "
    code = "```\n" + "word " * 100 + "\n```\n"
    table = f"| `{'x ' * 50}` | {sentence} |\n"
    assert findings("plain_words", {"README.md": sentence * 3 + f"\n\n{code}\n{table}"}) == ()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("word " * 30 + "end.", "31 words: word"),
        ("- one.\n- " + "word\n" * 31, "31 words: word"),
        ("| one | " + "word " * 31 + "|", "31 words: word"),
        ("word. " * 91, "a paragraph of 91 words"),
    ],
)
def test_what_is_too_long(findings: _Findings, text: str, finding: str) -> None:
    (found,) = findings("plain_words", {"docs/faq.md": f"# Title\n\n{text}\n"})
    assert finding in found


def test_sentences_of_other_pages_may_be_long(findings: _Findings) -> None:
    assert findings("plain_words", {"docs/benchmarks.md": "word " * 90}) == ()
    assert findings("plain_words", {"src/README.md": "word " * 91}) == ()
    (found,) = findings("plain_words", {"docs/benchmarks.md": "word " * 91})
    assert found == "docs/benchmarks.md:1: a paragraph of 91 words"


def test_each_reason_and_message_has_a_remedy(findings: _Findings) -> None:
    files = {"src/la_reason.c": _REASON, "src/la_other.c": _MESSAGE}
    rows = '| `memory` | why |\n| `profile "…" of … is ignored` | why |\n'
    page = f"| `rows=0` | of another table |\n\n## Reasons\n\n{rows}"
    assert findings("remedies", {**files, "docs/troubleshooting.md": page}) == ()
    missing = "docs/troubleshooting.md: no row for `memory`"
    invented = "docs/troubleshooting.md: nothing says `time`"
    page = page.replace("`memory`", "`time`")
    assert findings("remedies", {**files, "docs/troubleshooting.md": page}) == (missing, invented)
