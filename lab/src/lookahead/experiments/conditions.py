"""The I/O methods and the read-aheads of the disk that an experiment measures under here."""

from contextlib import AbstractContextManager, nullcontext

from lookahead.device.read_ahead import ReadAhead
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.runner import Run


def available_methods(run: Run, methods: tuple[str, ...]) -> tuple[str, ...]:
    """`methods` without io_uring where the server cannot use it.

    Raises LabError when it cannot although the user named it.
    """
    obstacle = run.installation.io_uring_obstacle
    if "io_uring" not in methods or not obstacle:
        return methods
    if "io_method" in run.explicit:
        raise LabError(
            f"io_method io_uring cannot be used: {obstacle}",
            "Leave it out, or name a server that can use it with --pg-config.",
            status=ExitStatus.ENVIRONMENT,
        )
    run.find("note", f"io_method io_uring is left out: {obstacle}")
    return tuple(method for method in methods if method != "io_uring")


class ReadAheads:
    """The sizes in kB to measure under: those asked for, else the machine's own.

    None stands for a disk that is not visible. With `own_disk` the disk is one that we have made,
    which no other server can be on. Raises LabError when a size that was asked for cannot be set.
    """

    def __init__(self, run: Run, asked: tuple[int, ...], *, own_disk: bool = False) -> None:
        self._run = run
        self._own_disk = own_disk
        self._read_ahead = ReadAhead.of(run.device) if run.device else None
        self.sizes_kb = self._wanted(asked)

    def with_size(self, size_kb: int | None) -> AbstractContextManager[None]:
        """A context with this read-ahead; does nothing where there is none to set."""
        if self._read_ahead is None or size_kb is None:
            return nullcontext()
        self._check_undisturbed((size_kb,))
        return self._read_ahead.changed_to(size_kb)

    def _wanted(self, asked: tuple[int, ...]) -> tuple[int | None, ...]:
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
        objection = self._check_undisturbed(asked)
        if objection:
            self._run.find("warning", objection, "Its reads are changed, and it disturbs figures.")
        return asked or (self._read_ahead.read_kb(),)

    def _check_undisturbed(self, sizes_kb: tuple[int, ...]) -> str | None:
        """LabError when setting one of the sizes disturbs; what was said against it if forced."""
        if self._own_disk or self._read_ahead is None:
            return None
        return self._read_ahead.check_undisturbed(sizes_kb, forced=self._run.forced)
