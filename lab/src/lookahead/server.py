"""A PostgreSQL server of one's own: made, started, cooled, stopped and removed.

    with PrivateServer(find_installation(None)) as server:
        server.start()
        with server.connect() as connection:
            ...

The server listens on a Unix socket in a folder that only its account enters, and on no network
address. It ends with the process that made it, whichever way that ends (see janitor.py).
"""

import atexit
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import psycopg

from lookahead.account import acting_as_owner, find_account
from lookahead.cold import require_cold
from lookahead.errors import LabError, UnavailableError, last_lines
from lookahead.extension import Stage
from lookahead.installation import Installation
from lookahead.janitor import status_lines
from lookahead.measurements import ColdRecord
from lookahead.server_folder import (
    WITHOUT_PASSWORD,
    ServerFolder,
    neutral_environment,
    settings_text,
)

Session = psycopg.Connection[Any]
"""A connection to a private server."""
StopMode = Literal["smart", "fast", "immediate"]
_STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_SUPERUSER = "postgres"
_PORT = 5432  # the socket lies in a folder of its own, so that no two servers meet
_POLL_SECONDS = 0.02
_LOCALE_OPTIONS = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
_START_SECONDS, _CLOSE_SECONDS = 120.0, 30.0


class PrivateServer:
    """One private server and its folder; a context manager that stops and removes both.

    `directory` is the folder to make (default: a new one in the temporary directory); what its
    programs are to write goes to its `work_directory`. `stage` is the pg_lookahead that every
    session loads; without it the server is stock. `settings` apply to every start.
    Raises LabError when the folder or the account for the server is missing.
    """

    session_class: type[Session] = psycopg.Connection  # of what `connect` returns

    def __init__(
        self,
        installation: Installation,
        *,
        stage: Stage | None = None,
        settings: Mapping[str, str] | None = None,
        directory: Path | None = None,
        keep: bool = False,
        initdb_options: Sequence[str] = (),
        stop_timeout_seconds: float = 300.0,
    ) -> None:
        self.installation = installation
        self.account = find_account()
        self.stop_timeout_seconds = stop_timeout_seconds
        self._settings = dict(settings or {})
        self._run_settings: dict[str, str] = {}
        self._initdb_options = tuple(initdb_options)
        self._keep = keep
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ServerFolder(directory, self.account, installation.bindir, keep=keep)
        self.directory = self._folder.path
        self.data_directory = self._folder.data_directory
        self.socket_directory = self._folder.socket_directory
        self.work_directory = self._folder.work_directory
        self.log_path = self._folder.log_path
        self.port = _PORT  # in the socket's name; there is no network port
        self._closed = False
        atexit.register(self.close)
        try:
            self.bindir, self._variables = self._folder.reachable_programs(installation)
            self.stage = self._folder.reachable_stage(stage) if stage else None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        # After an error nobody looks at the data again, unless it is kept.
        self.close("immediate" if kind and not self._keep else "fast")

    @property
    def is_initialized(self) -> bool:
        return (self.data_directory / "PG_VERSION").exists()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The postmaster's process id; LabError when the server does not run."""
        return self._running().pid

    def initdb(self) -> None:
        """Make the data directory; LabError with initdb's own words when that fails."""
        chosen = ("--locale", "--builtin-locale", "--icu-", "--no-locale")
        own_locale = any(option.startswith(chosen) for option in self._initdb_options)
        options = ["-U", _SUPERUSER, "--auth=trust", "--no-sync", "--no-instructions"]
        options += ["--encoding=UTF8", *(() if own_locale else _LOCALE_OPTIONS)]
        options += self._initdb_options  # last, since of a repeated option the last one counts
        done = self.account.run(
            [self.bindir / "initdb", "-D", self.data_directory, *options],
            cwd=self.directory,
            env=self._environment(),
        )
        if done.returncode != 0:
            raise UnavailableError(
                f"initdb failed:\n{last_lines(done.stderr)}",
                "Is there room on the disk, and is the data directory new?",
            )
        # Relative, so that the file of a base backup names the settings of its own server.
        line = f"\ninclude '../{self._folder.settings_path.name}'\n"
        path = self.data_directory / "postgresql.conf"
        try:
            with acting_as_owner(self.data_directory), path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise LabError(f'cannot write "{path}": {error.strerror}') from None

    def configure(self, settings: Mapping[str, str]) -> None:
        """Change settings for all later starts.

        They are written at once: a running server takes those up that a reload can change when it
        is told to (`pg_reload_conf()`).
        """
        self._settings.update(settings)
        self._write_settings()

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the server (after initdb where there is no data yet) and wait until it answers.

        `settings` are added to the server's own for this run; without them those of the previous
        run apply again. Raises LabError with the last lines of the log when it does not start.
        """
        if self._closed or self.is_running:
            state = "removed" if self._closed else "running already"
            raise LabError(f"the private server is {state}")
        if not self.is_initialized:
            self.initdb()
        if settings is not None:
            self._run_settings = dict(settings)
        self._write_settings()
        log_size = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = self._spawn_postmaster()
        self._await_ready(self._process, log_size)

    def stop(self, mode: StopMode = "fast", timeout_seconds: float | None = None) -> None:
        """Stop the server if it runs, and wait for its end.

        Raises LabError when it has not ended in time, by default `stop_timeout_seconds`.
        """
        timeout = timeout_seconds or self.stop_timeout_seconds
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(_STOP_SIGNALS[mode])
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise LabError(
                    f"the server did not stop within {timeout:g} s:\n"
                    + last_lines(self.read_log()),
                    f"Its log is {self.log_path}.",
                ) from None
        self._process = None

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        self.stop()
        self.start(settings)

    def cold_restart(self, settings: Mapping[str, str] | None = None) -> ColdRecord:
        """Stop, empty the operating system's cache of the data, start; returns the evidence.

        Raises LabError when the data do not get cold; the server is stopped then.
        """
        self.stop()
        evidence = require_cold(self.data_directory)
        self.start(settings)
        return evidence

    def connect(self, dbname: str = "postgres", autocommit: bool = True, **options: Any) -> Session:
        """A new connection as superuser; `options` go to psycopg's connect()."""
        place = {"host": str(self.socket_directory), "port": self.port, "user": _SUPERUSER}
        arguments: dict[str, Any] = {**place, "dbname": dbname, **WITHOUT_PASSWORD, **options}
        return self.session_class.connect(autocommit=autocommit, **arguments)

    def environment(self) -> dict[str, str]:
        return {
            "PGHOST": str(self.socket_directory),
            "PGPORT": str(self.port),
            "PGUSER": _SUPERUSER,
            "PGDATABASE": "postgres",
            **self._variables,
        }

    def run_client(
        self,
        program: str,
        *arguments: str | Path,
        check: bool = True,
        input: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the installation (psql, pgbench, ...) under the server's account.

        With `check` a non-zero exit is a LabError with the program's last lines. `env` adds
        variables.
        """
        try:
            done = self.account.run(
                [self.bindir / program, *arguments],
                cwd=self.directory,
                env={**self._environment(), **(env or {})},
                input=input,
                timeout_seconds=timeout_seconds,
            )
        except OSError as error:
            raise LabError(f"cannot run {program}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise LabError(f"{program} did not end within {timeout_seconds:g} s") from None
        if check and done.returncode != 0:
            answer = last_lines(done.stdout + done.stderr)
            raise LabError(f"{program} exits with {done.returncode}:\n{answer}")
        return done

    def write_file(self, name: str, text: str) -> Path:
        """Put a file into the server's folder that its account can read; returns its path."""
        return self._folder.write(name, text)

    def read_log(self) -> str:
        """The whole log, of all runs; "" before the first."""
        return self._folder.read_log().decode("utf-8", "backslashreplace")

    def close(self, mode: StopMode = "fast") -> None:
        """Stop the server and remove its folder (unless it is kept); once, later calls do nothing.

        One that does not stop soon (it may be in crash recovery) is stopped without a checkpoint,
        at last by force: nothing of it is needed any more.
        """
        if self._closed:
            return
        try:
            try:
                self.stop(mode, _CLOSE_SECONDS)
            except LabError:
                self.stop("immediate")
        finally:
            self._process = None
            self._closed = True
            atexit.unregister(self.close)
            self._folder.close()

    def _spawn_postmaster(self) -> subprocess.Popen[bytes]:
        try:
            log = self._folder.open_log()
        except OSError as error:
            raise LabError(f'cannot open "{self.log_path}": {error.strerror}') from None
        try:
            return self.account.spawn(
                [self.bindir / "postgres", "-D", self.data_directory],
                cwd=self.directory,
                env=self._environment(),
                output=log,
            )
        finally:
            os.close(log)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise LabError("the private server is not running")
        return self._process

    def _environment(self) -> dict[str, str]:
        return {**neutral_environment(str(self.work_directory)), **self.environment()}

    def _effective_settings(self) -> dict[str, str]:
        place = {
            "listen_addresses": "",
            "port": str(self.port),
            "unix_socket_directories": str(self.socket_directory),
        }
        staged = self.stage.settings() if self.stage else {}
        return {**place, **staged, **self._settings, **self._run_settings}

    def _write_settings(self) -> None:
        self.write_file(self._folder.settings_path.name, settings_text(self._effective_settings()))

    def _await_ready(self, process: subprocess.Popen[bytes], log_size: int) -> None:
        """Wait until postmaster.pid is of this process and says "ready" in its eighth line."""
        polls = int(_START_SECONDS / _POLL_SECONDS)
        for _ in range(max(polls, 1)):
            lines = status_lines(self.data_directory)
            is_own = len(lines) >= 8 and lines[0] == str(process.pid)
            if is_own and lines[7].strip() == "ready":
                return
            try:
                process.wait(_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue
        ended = process.poll() is not None
        process.kill()
        process.wait()
        self._process = None
        what = "did not start" if ended else f"was not ready in {_START_SECONDS:g} s"
        log = self._folder.read_log()[log_size:].decode("utf-8", "backslashreplace")
        raise UnavailableError(
            f"PostgreSQL {self.installation.version} {what}; its log ends with:\n{last_lines(log)}",
            "The settings given to the server are the likeliest cause.",
        )
