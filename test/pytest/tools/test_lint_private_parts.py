"""`make lint` sees where the list of PostgreSQL's private parts is wrong, or why it cannot look."""

import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import core_parts
import pytest
from core_parts import Record, Records

_SOURCE = """/*
 * Mirrors heap_next() in heapam.c.  Reads HeapScanDescData of heapam.h.
 */
void next(HeapScanDesc scan) { scan->rs_block++; }
"""


@pytest.fixture
def checkout(lint: dict[str, ModuleType], tmp_path: Path) -> Any:
    """One whose list is right."""
    for folder in ("src", "tools", "docs"):
        (tmp_path / folder).mkdir()
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "src/la_x.c").write_text(_SOURCE)
    records = Records(
        ["18.6"],
        {
            "heapam.c heap_next": Record({"18.6": "1"}),
            "heapam.h HeapScanDescData": Record({"18.6": "2"}, ["rs_block", "rs_count"]),
        },
        {},
    )
    records.write(tmp_path)
    page = core_parts.page(records, core_parts.our_files(tmp_path))
    (tmp_path / core_parts.PAGE).write_text(page)
    return lint["findings"].Checkout(tmp_path, None)


def _findings(lint: dict[str, ModuleType], checkout: Any) -> str:
    return "\n".join(lint["private_parts"].check_private_parts(checkout).findings)


def test_a_right_list_is_clean(lint: dict[str, ModuleType], checkout: Any) -> None:
    assert _findings(lint, checkout) == ""


@pytest.mark.parametrize(
    ("path", "old", "new", "complaint"),
    [
        ("docs/core-private-parts.md", "heap_next", "heap_last", "is stale"),
        ("src/la_x.c", "Mirrors heap_next() in heapam.c.", "", "heap_next is cited nowhere"),
        ("src/la_x.c", "heap_next() in", "heap_go() in", "heap_go() of heapam.c: not recorded"),
        ("src/la_x.c", " in heapam.c", "", "does not say what it mirrors"),
        ("src/la_x.c", "Mirrors heap", "As heap", "heap_next() is named without"),
        ("src/la_x.c", "rs_block", "other", "reads no field of HeapScanDescData"),
    ],
)
def test_what_is_wrong_is_named(
    lint: dict[str, ModuleType], checkout: Any, path: str, old: str, new: str, complaint: str
) -> None:
    file = checkout.top / path
    file.write_text(file.read_text().replace(old, new))
    assert complaint in _findings(lint, checkout)


def test_a_second_reader_of_a_structure_has_to_say_so(
    lint: dict[str, ModuleType], checkout: Any
) -> None:
    second = checkout.top / "src/la_y.c"
    second.write_text("int n(HeapScanDesc scan) { return scan->rs_count; }\n")
    found = _findings(lint, checkout)
    assert 'src/la_y.c: no "Reads HeapScanDescData of ..." for rs_count' in found
    second.write_text("bool n(HeapScanDesc scan) { return other(scan); }\n")
    assert _findings(lint, checkout) == "", "it only passes the structure on"


def test_without_a_source_tree_the_check_is_skipped_by_name(
    lint: dict[str, ModuleType], checkout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PG_LOOKAHEAD_SOURCE", raising=False)
    monkeypatch.setenv("PG_LOOKAHEAD_SERVERS", str(checkout.top))
    outcome = lint["private_parts"].check_core_sources(checkout)
    assert outcome.skipped.startswith("no source tree of PostgreSQL 18")
    assert "PG_LOOKAHEAD_SOURCE" in outcome.skipped
