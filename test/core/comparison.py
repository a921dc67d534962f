"""Compares two runs of one suite byte by byte."""

import re
from collections.abc import Callable
from pathlib import Path

_HEAP_BLOCKS = re.compile(r"^ +(?:Worker \d+:  )?Heap Blocks: exact=(\d+)\n", re.MULTILINE)
_ROW_COUNT = re.compile(r"^\(\d+ rows?\)\n", re.MULTILINE)


def _with_summed_heap_blocks(text: str) -> str:
    """The text with the per-process lines of bitmap scans replaced by their sum.

    How a parallel bitmap scan divides its pages among the processes is up to the scheduler, and a
    worker without pages has no line. The test shows the division; only with enable_seqscan=off
    does it choose such a scan, so that the shipped expected file never shows it. The counts of
    printed rows go too, since they count those lines.
    """
    total = sum(int(number) for number in _HEAP_BLOCKS.findall(text))
    return f"{_ROW_COUNT.sub('', _HEAP_BLOCKS.sub('', text))}\nHeap Blocks: {total} in total\n"


# Tests whose results differ between two stock runs, with what of them is comparable.
_RACES: dict[str, Callable[[str], str]] = {"select_parallel": _with_summed_heap_blocks}


def differing_tests(stock: Path, ours: Path) -> dict[str, str]:
    """Tests whose result files differ, each with the reason; `stock` and `ours` are folders."""
    names = {path.name for path in (*stock.glob("*.out"), *ours.glob("*.out"))}
    differences = {}
    for name in sorted(names):
        reason = _difference(stock / name, ours / name)
        if reason:
            differences[name.removesuffix(".out")] = reason
    return differences


def _difference(stock: Path, ours: Path) -> str:
    if not stock.exists() or not ours.exists():
        return "only one of the two runs has this result"
    first, second = stock.read_bytes(), ours.read_bytes()
    if first == second:
        return ""
    comparable = _RACES.get(stock.stem)
    if comparable and comparable(_text(first)) == comparable(_text(second)):
        return ""
    return "differs from stock's result"


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")
