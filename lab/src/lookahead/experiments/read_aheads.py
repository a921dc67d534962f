"""Which read-ahead sizes of the disk an experiment measures under, and setting them for it."""

from contextlib import AbstractContextManager, nullcontext

from lookahead.device.read_ahead import ReadAhead
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.runner import Run

# What most distributions set; the other value worth knowing is the machine's own.
COMMON_READ_AHEAD_KB = 128


class ReadAheads:
    """The sizes in kB to measure under: those asked for, else the machine's own.

    With `common` also 128 kB where that may be set. None stands for a disk that is not visible.
    Raises LabError when a size that was asked for cannot be set.
    """

    def __init__(self, run: Run, asked: tuple[int, ...], *, common: bool) -> None:
        self._run = run
        self._read_ahead = ReadAhead.of(run.device) if run.device else None
        self.sizes_kb = self._wanted(asked, common)

    def with_size(self, size_kb: int | None) -> AbstractContextManager[None]:
        """A context with this read-ahead; does nothing where there is none to set."""
        if self._read_ahead is None or size_kb is None:
            return nullcontext()
        return self._read_ahead.changed_to(size_kb)

    def _wanted(self, asked: tuple[int, ...], common: bool) -> tuple[int | None, ...]:
        if self._read_ahead is None:
            if asked:
                raise LabError(
                    "the read-ahead cannot be set: no block device is visible",
                    "Leave --read-ahead out or name a folder on a local disk with --directory.",
                    status=ExitStatus.ENVIRONMENT,
                )
            return (None,)
        restored = self._read_ahead.restore_interrupted()
        if restored is not None:
            self._run.find("note", f"read-ahead of an interrupted run put back to {restored} kB")
        for size_kb in asked:
            self._read_ahead.check_permitted(size_kb)
        if asked:
            return asked
        own = self._read_ahead.read_kb()
        if not common or own == COMMON_READ_AHEAD_KB:
            return (own,)
        if not self._read_ahead.is_permitted():
            self._run.find(
                "note",
                f"measured at the machine's own read-ahead of {own} kB only",
                "As root it is also measured at 128 kB.",
            )
            return (own,)
        return (own, COMMON_READ_AHEAD_KB)
