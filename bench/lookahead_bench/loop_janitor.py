"""Cleans up after the bench, however that ends: see the lab's janitor.

A loop disk is taken apart. A read-ahead is put back; a value that is not the one its maker had set
is somebody else's, and stays.

A server on the disk has a janitor of its own, which may still be ending it: unmounting is tried
again until then. The file is also run as a program, by a bare interpreter: it may import the
standard library only.

    loop_janitor.py loop-disk FOLDER
    loop_janitor.py read-ahead SETTING CHANGED ORIGINAL JOURNAL
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# The names within a loop disk's folder.
SERVED_FILE, DISK = "served", "disk"
_POLL_SECONDS = 0.02
# A server that must be ended by force takes 20; three times that is arbitrary.
_PATIENCE_SECONDS = 60.0


def take_apart(path: str) -> bool:
    """Unmount the file system, release the loop device, end the file; whether nothing is left."""
    folder, deadline = Path(path), time.monotonic() + _PATIENCE_SECONDS
    unmounted = _unmount(folder / DISK, deadline)
    if not unmounted:
        # Whatever still works there sees the file system to its end, but no new one finds it.
        _run("umount", "-l", str(folder / DISK))
    for device in loop_devices_of(folder / SERVED_FILE):
        _run("losetup", "-d", device)
    unmounted = _unmount(folder / SERVED_FILE, deadline + 1.0) and unmounted
    shutil.rmtree(folder, ignore_errors=True)
    return unmounted and not folder.exists()


def loop_devices_of(file: Path) -> list[str]:
    """The loop devices that a file is attached to."""
    listed = _run("losetup", "--noheadings", "--output", "NAME", "--associated", str(file))
    return listed.stdout.split()


def is_mounted(place: Path) -> bool:
    """Whether something is mounted on `place`."""
    # The kernel writes these four as octal numbers.
    name = str(place)
    for character in "\\ \t\n":
        name = name.replace(character, f"\\{ord(character):03o}")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == name for line in mounts)


def _unmount(place: Path, deadline: float) -> bool:
    while is_mounted(place):
        if _run("umount", str(place)).returncode != 0:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
    return True


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def put_back(setting: str, changed_kb: str, original_kb: str, journal: str) -> bool:
    """Set the original size where the changed one is in effect; then the journal is void."""
    try:
        if int(Path(setting).read_text()) == int(changed_kb):
            Path(setting).write_text(f"{original_kb}\n")
        Path(journal).unlink(missing_ok=True)
    except OSError:
        return False
    return True


_TASKS: dict[str, Callable[..., bool]] = {"loop-disk": take_apart, "read-ahead": put_back}


def main(task: str, *arguments: str) -> int:
    """Wait for the end of standard input, then clean up."""
    sys.stdin.buffer.read()
    return 0 if _TASKS[task](*arguments) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
