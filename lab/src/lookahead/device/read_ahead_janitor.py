"""Puts the read-ahead of a disk back when the process that changed it is gone.

As `lookahead.janitor` does for a server: it waits for the end of a pipe that only its maker holds
open. In the orderly case the maker closes it. A value that is not the one its maker had set is
somebody else's, and stays.

The file is also run as a program, by a bare interpreter: it may import the standard library only.

    read_ahead_janitor.py SETTING CHANGED ORIGINAL JOURNAL
"""

import sys
from pathlib import Path


def put_back(setting: Path, changed_kb: int, original_kb: int, journal: Path) -> None:
    """Set the original size where the changed one is in effect; then the journal is void."""
    if int(setting.read_text()) == changed_kb:
        setting.write_text(f"{original_kb}\n")
    journal.unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
    """Wait for the end of standard input, then put the size back."""
    sys.stdin.buffer.read()
    setting, changed_kb, original_kb, journal = arguments
    try:
        put_back(Path(setting), int(changed_kb), int(original_kb), Path(journal))
    except OSError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
