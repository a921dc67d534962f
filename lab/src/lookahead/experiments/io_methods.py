"""Which of PostgreSQL's I/O methods an experiment can measure here."""

from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.runner import Run


def available_methods(
    run: Run, methods: tuple[str, ...], *, explicit: bool | None = None
) -> tuple[str, ...]:
    """`methods` without io_uring where the server cannot use it.

    Raises LabError when it cannot although the user named it (`explicit`).
    """
    if explicit is None:
        explicit = "io_method" in run.explicit
    obstacle = run.installation.io_uring_obstacle
    if "io_uring" not in methods or not obstacle:
        return methods
    if explicit:
        raise LabError(
            f"io_method io_uring cannot be used: {obstacle}",
            "Leave it out, or name a server that can use it with --pg-config.",
            status=ExitStatus.ENVIRONMENT,
        )
    run.find("note", f"io_method io_uring is left out: {obstacle}")
    return tuple(method for method in methods if method != "io_uring")
