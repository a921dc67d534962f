"""What no test may leave in a server's log, and servers that are watched for it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from crashing_server import CrashingServer
from sessions import EndedSession

from lookahead.server import PrivateServer, StopMode

# Each is a bug whatever the test asserts: a dead process, a failed assertion, a forgotten resource,
# a library that found itself wrong and switched itself off.
FORBIDDEN = (
    "was terminated by signal",
    "PANIC:",
    "TRAP:",
    "resource was not closed",
    "buffer refcount leak",
    "leaked AIO handle",
    "AIO handle was not submitted",
    "open AIO batch at end",
    "still-referenced relcache entry",
    "snapshots seem to remain after cleanup",
    "AddressSanitizer",
    "runtime error:",
    "leaves index scans of this session to core",
    "leaves table scans of this session to core",
)


def forbidden_lines(log: str, allowed: Iterable[str] = ()) -> list[str]:
    """The lines of a log that fail a test, except those that contain an allowed text."""
    permitted = tuple(allowed)
    return [
        line
        for line in log.splitlines()
        if any(text in line for text in FORBIDDEN) and not any(text in line for text in permitted)
    ]


@dataclass
class LogWatch:
    """The logs of all watched servers, each read once from where the last look ended."""

    read_until: dict["WatchedServer", int] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)

    def look(self, server: "WatchedServer") -> None:
        """Take up what a server wrote since the last look."""
        start = self.read_until.get(server, 0)
        new = b""
        if server.log_path.exists():
            with server.log_path.open("rb") as log:
                log.seek(start)
                new = log.read()
        whole = new[: new.rfind(b"\n") + 1]  # a line may be half written
        self.unseen += whole.decode("utf-8", "backslashreplace").splitlines()
        self.read_until[server] = start + len(whole)

    def forget(self, server: "WatchedServer") -> None:
        self.read_until.pop(server, None)

    def findings(self, allowed: Iterable[str] = ()) -> list[str]:
        """The forbidden lines since the last call, over all servers."""
        for server in list(self.read_until):
            self.look(server)
        lines, self.unseen = self.unseen, []
        return forbidden_lines("\n".join(lines), allowed)


def copy_data(template: PrivateServer, server: PrivateServer) -> bool:
    """Copy the data directory of a server that was initialised and never started.

    False where initdb makes another one of it: other programs, or other options.
    """
    if template.bindir != server.bindir or server._initdb_options:
        return False
    # The first WAL file is nearly all zeroes.
    done = server.account.run(
        ["cp", "-a", "--sparse=always", f"{template.data_directory}/.", server.data_directory]
    )
    assert done.returncode == 0, done.stderr
    return True


class WatchedServer(CrashingServer):
    """A private server whose log is looked through before it disappears with the folder.

    With a `template`, a server that was initialised and never started, its data directory is
    copied where the same programs would make the same one: that takes a fraction of initdb's time.
    """

    session_class = EndedSession

    def __init__(
        self,
        watch: LogWatch,
        *arguments: Any,
        template: PrivateServer | None = None,
        **options: Any,
    ) -> None:
        # Before the server itself, whose making may fail and close it.
        self._watch = watch
        self._template = template
        super().__init__(*arguments, **options)
        watch.look(self)

    def initdb(self) -> None:
        if self._template is None or not copy_data(self._template, self):
            super().initdb()

    def close(self, mode: StopMode = "fast") -> None:
        # The shutdown itself can fail an assertion or report a leak.
        if self in self._watch.read_until:
            try:
                self.stop(mode)
            finally:
                self._watch.look(self)
                self._watch.forget(self)
        super().close(mode)


ServerFactory = Callable[..., WatchedServer]
