"""What is asked of the kernel about the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lookahead.machine import busy_share, kernel_text


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """Such as that of a disk: its maker chose the bytes."""
    (tmp_path / "model").write_bytes(b" disk \xb5 7\n")
    assert kernel_text(tmp_path / "model") == "disk \ufffd 7"
    assert kernel_text(tmp_path / "none") is None


def test_processors_at_work() -> None:
    """Another process that does nothing but work takes one of them."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as worker:
        try:
            share = busy_share(1.0)
        finally:
            worker.kill()
    # Others may have the other half of a processor.
    assert 0.5 / (os.cpu_count() or 1) < share <= 1.0


@pytest.mark.parametrize("text", [None, "", "cpu 1 2 3", "cpu 9 9 9 9 9 9 9 9 9 9"])
def test_a_kernel_that_counts_nothing(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookahead.machine.kernel_text", lambda path: text)
    assert busy_share(0.0) == 0.0
