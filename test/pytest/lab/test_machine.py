"""What is asked of the kernel about the machine."""

from pathlib import Path

from lookahead.machine import kernel_text


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """Such as that of a disk: its maker chose the bytes."""
    (tmp_path / "model").write_bytes(b" disk \xb5 7\n")
    assert kernel_text(tmp_path / "model") == "disk \ufffd 7"
    assert kernel_text(tmp_path / "none") is None
