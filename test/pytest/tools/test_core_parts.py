"""tools/core_parts.py: what it reads in comments, which changes of PostgreSQL's source it sees."""

from pathlib import Path

import core_parts
import core_source
import pytest
from core_citations import MIRRORS, READS, RELIES, Citation, OurFile, find_malformed, find_uncited
from core_parts import Record, Records
from core_source import CoreSource

_HEAP = """
/*
 * the next page
 */
static BlockNumber
heap_next(HeapScanDesc scan)
{
	/* after this one */
	return scan->rs_block + 1;
}

static inline bool
heap_done(HeapScanDesc scan)
{
	return scan->rs_block == 0;
}
"""
_HEADER = """
typedef struct HeapScanDescData
{
	BlockNumber rs_block;		/* current page */
	int			rs_pages[10], rs_count;
	void		(*rs_free) (void *scan);
}			HeapScanDescData;

static inline int
heap_count(int a)
{
	return a;
}
"""
_OURS = Path("src/la_x.c")
_GOOD = """/*
 * Mirrors the first half of heap_next()
 * in heapam.c; reads HeapScanDescData of heapam.h.
 */
static void
next(HeapScanDesc scan)
{
	scan->rs_block++;
	heap_count(1);
}
"""


def _tree(folder: Path, version: str, heap: str = _HEAP, header: str = _HEADER) -> CoreSource:
    backend = folder / "src/backend/access/heap"
    include = folder / "src/include/access"
    backend.mkdir(parents=True, exist_ok=True)
    include.mkdir(parents=True, exist_ok=True)
    (folder / "configure").write_text(f"PACKAGE_VERSION='{version}'\n")
    (backend / "heapam.c").write_text(heap)
    (include / "heapam.h").write_text(header)
    return CoreSource(folder)


@pytest.fixture
def files() -> list[OurFile]:
    return [OurFile(_OURS, _GOOD)]


@pytest.fixture
def records(tmp_path: Path, files: list[OurFile]) -> Records:
    """All that `files` cites, read against 18.6."""
    made = Records([], {}, {})
    core_parts.accept(made, _tree(tmp_path / "read", "18.6"), files, [])
    return made


def test_citations_are_read_over_line_ends_and_in_lists() -> None:
    text = (
        "/* Mirrors a() and b() in x.c, c() in y.c.  Relies\n * on d(), e() and f() in z.h.\n"
        " * Reads AData and b_struct of x.h, and CData of\n * y.h, which changes. */"
    )
    assert list(OurFile(_OURS, text).citations()) == [
        Citation(MIRRORS, "a", "x.c", _OURS),
        Citation(MIRRORS, "b", "x.c", _OURS),
        Citation(MIRRORS, "c", "y.c", _OURS),
        *(Citation(RELIES, name, "z.h", _OURS) for name in "def"),
        Citation(READS, "AData", "x.h", _OURS),
        Citation(READS, "b_struct", "x.h", _OURS),
        Citation(READS, "CData", "y.h", _OURS),
    ]


@pytest.mark.parametrize(
    ("comment", "complaint"),
    [
        ("Mirrors heap_next().", "does not say what it mirrors in which file"),
        ("As in heap_next() (access/heap/heapam.c).", "heapam.c is named outside of"),
        ("See nodeLimit.c.", "nodeLimit.c is named outside of"),
    ],
)
def test_other_forms_are_refused(comment: str, complaint: str) -> None:
    (finding,) = find_malformed(OurFile(_OURS, f"/* {comment} */"))
    assert complaint in finding


def test_files_of_ours_and_good_forms_are_accepted() -> None:
    text = "/* See la_advice.c and prefetch/la_wake.h. */" + _GOOD
    assert list(find_malformed(OurFile(_OURS, text))) == []


def test_a_function_of_core_that_is_only_named_is_found() -> None:
    file = OurFile(_OURS, "/* As heap_next() does it; we_call() too. */ we_call();")
    (finding,) = find_uncited(file, file.words())
    assert "heap_next() is named without" in finding


def test_fields_and_parts_are_found(records: Records) -> None:
    assert records.versions == ["18.6"]
    assert records.parts.keys() == {"heapam.c heap_next", "heapam.h HeapScanDescData"}
    assert records.inline.keys() == {"heapam.h heap_count"}
    fields = records.parts["heapam.h HeapScanDescData"].fields
    assert {"rs_block", "rs_pages", "rs_count", "rs_free"} <= set(fields)


@pytest.mark.parametrize(
    ("heap", "header"),
    [
        (_HEAP, _HEADER),
        (_HEAP.replace("after this one", "behind it"), _HEADER),
        (
            _HEAP.replace("\treturn scan->rs_block + 1;", "\treturn\n\t\tscan->rs_block + 1;"),
            _HEADER,
        ),
        (_HEAP.replace("rs_block == 0", "rs_block > 0"), _HEADER),
        (_HEAP, _HEADER.replace("current page", "page")),
    ],
    ids=["same", "comment", "blanks", "other function", "comment in structure"],
)
def test_what_means_the_same_differs_not(
    records: Records, files: list[OurFile], tmp_path: Path, heap: str, header: str
) -> None:
    newer = _tree(tmp_path / "newer", "18.7", heap, header)
    assert list(core_parts.differences(records, newer, files)) == []


@pytest.mark.parametrize(
    ("heap", "header", "part", "complaint"),
    [
        (_HEAP.replace("+ 1", "+ 2"), _HEADER, "heapam.c heap_next", "differs in PostgreSQL 18.7"),
        (_HEAP.replace("heap_next", "heap_go"), _HEADER, "heapam.c heap_next", "not in PostgreSQL"),
        (_HEAP, _HEADER.replace("10", "20"), "heapam.h HeapScanDescData", "differs in PostgreSQL"),
        (_HEAP, _HEADER.replace("return a", "return 2"), "heapam.h heap_count", "differs in"),
    ],
    ids=["body", "renamed", "structure", "inline"],
)
def test_a_change_is_named(
    records: Records,
    files: list[OurFile],
    tmp_path: Path,
    heap: str,
    header: str,
    part: str,
    complaint: str,
) -> None:
    newer = _tree(tmp_path / "newer", "18.7", heap, header)
    (finding,) = core_parts.differences(records, newer, files)
    assert finding.startswith(f"{part}: {complaint}")


def test_an_inline_function_that_is_called_anew_is_named(records: Records, tmp_path: Path) -> None:
    header = _HEADER + _HEADER[_HEADER.index("static") :].replace("heap_count", "heap_new")
    newer = _tree(tmp_path / "newer", "18.6", header=header)
    files = [OurFile(_OURS, _GOOD + "void f(void) { heap_new(2); }")]
    (finding,) = core_parts.differences(records, newer, files)
    assert finding.startswith("heapam.h heap_new: an inline function that is not recorded")


def test_what_was_read_again_is_recorded_for_its_release(
    records: Records, files: list[OurFile], tmp_path: Path
) -> None:
    read = core_source.checksum(
        CoreSource(tmp_path / "read").function("heap_next", "heapam.c") or ""
    )
    newer = _tree(tmp_path / "newer", "18.10", _HEAP.replace("+ 1", "+ 2"))
    core_parts.accept(records, newer, files, ["heap_next"])
    assert records.versions == ["18.6"], "not all of it has been read"
    assert list(core_parts.differences(records, newer, files)) == []
    record = records.parts["heapam.c heap_next"]
    assert list(record.checksums) == ["18.6", "18.10"]
    assert record.checksum_for("18.9") == read != record.checksum_for("18.11")
    assert list(records.parts["heapam.h HeapScanDescData"].checksums) == ["18.6"]


def test_what_is_gone_cannot_be_recorded(
    records: Records, files: list[OurFile], tmp_path: Path
) -> None:
    newer = _tree(tmp_path / "newer", "18.7", "")
    with pytest.raises(SystemExit, match=r"heapam\.c heap_next"):
        core_parts.accept(records, newer, files, [])


def test_records_and_page_survive_a_round_trip(
    records: Records, files: list[OurFile], tmp_path: Path
) -> None:
    (tmp_path / "tools").mkdir()
    records.write(tmp_path)
    again = Records.read(tmp_path)
    assert again == records
    page = core_parts.page(again, files)
    assert "| `heap_next()` | `heapam.c` | `la_x.c` |" in page
    assert "| `HeapScanDescData` | `heapam.h` | `la_x.c` | `rs_block` |" in page
    assert "| `heapam.h` | `heap_count` |" in page


def test_the_newest_tree_is_found_and_a_named_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(core_source.SOURCE_VARIABLE, raising=False)
    monkeypatch.setenv("PG_LOOKAHEAD_SERVERS", str(tmp_path))
    assert core_source.find_source(18) is None
    for version in ("18.6", "18.10", "19.1"):
        _tree(tmp_path / f"postgresql-{version}", version)
    found = core_source.find_source(18)
    assert found is not None
    assert found.version == "18.10"
    monkeypatch.setenv(core_source.SOURCE_VARIABLE, str(tmp_path / "postgresql-18.6"))
    named = core_source.find_source(18)
    assert named is not None
    assert named.version == "18.6"


def test_a_release_before_all_that_were_read_has_no_checksum() -> None:
    assert Record({"18.6": "a"}).checksum_for("18.5") == ""
