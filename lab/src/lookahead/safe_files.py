"""Files in places that other accounts can change: by descriptor, never by a path.

As root a path is a promise that every folder on it belongs to us. In a folder that another account
can write, a name may be a link to anywhere when we look at it, and another one a moment later. So
a folder is opened component by component, a link is followed only where nobody else could have put
it, and all work within it goes by the folder's descriptor: files are made with O_EXCL under names
that cannot be foreseen, and renamed; what is read is a regular file and no link.

An ordinary user has nothing to lose to itself, and follows links as every program does.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lookahead.errors import UnavailableError

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
# Of links one after another; the kernel's own limit.
_MAX_LINKS = 40
_PLANTED = "a link on the way lies in a folder that others may write to"
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_ours(status: os.stat_result) -> bool:
    """Whether only root and this process can change a file, or the entries of a folder."""
    if status.st_uid not in (0, os.geteuid()):
        return False
    group_is_root = status.st_gid == 0 and not status.st_mode & stat.S_IWOTH
    return group_is_root or not status.st_mode & _OTHERS_MAY_WRITE


def keeps_entries(status: os.stat_result) -> bool:
    """Whether others cannot move or replace an entry of ours in a folder: sticky, as /tmp is."""
    is_sticky = bool(status.st_mode & stat.S_ISVTX)
    return is_ours(status) or (is_sticky and status.st_uid in (0, os.geteuid()))


def own_place(path: Path) -> Path:
    """The place without links; as root, LabError when others can replace what we make there.

    For folders that are used by their names all the time, as a server's.
    """
    place = path.resolve()
    if os.geteuid() != 0:
        return place
    for folder in reversed(place.parents):
        if folder.exists() and not keeps_entries(folder.lstat()):
            raise UnavailableError(
                f'another user can replace what root makes in "{folder}"',
                "Choose a place below folders that are root's own (TMPDIR for temporary folders), "
                "or run the command as that user.",
            )
    return place


@contextmanager
def opened_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder, for the `dir_fd` of other calls; with `make` it is made.

    Raises OSError, which as root includes a link that another account can have planted.
    """
    descriptor = _open_folder(path, make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_file(folder: int, name: str) -> None:
    """An empty file in an opened folder; FileExistsError when anything has the name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
    os.close(os.open(name, flags, 0o666, dir_fd=folder))


def make_nameless(folder: Path) -> int:
    """A descriptor of a new file that has no name, and is gone with its last descriptor."""
    flags = os.O_RDWR | os.O_CLOEXEC
    with opened_folder(folder) as opened:
        try:
            return os.open(".", flags | os.O_TMPFILE, 0o600, dir_fd=opened)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
                raise
        # PostgreSQL's prefix of temporary files: base backups leave such a file out.
        name = f"pgsql_tmp_lookahead_probe.{secrets.token_hex(8)}"
        flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(name, flags, 0o600, dir_fd=opened)
        os.unlink(name, dir_fd=opened)
        return descriptor


def replace_file(folder: int, name: str, content: bytes, *, mode: int | None = None) -> None:
    """Write a file in an opened folder as a whole: readers see the old or the new one.

    `mode` is that of the file whatever the umask; None leaves it to that. A link of the name is
    replaced, not followed. Raises OSError, and leaves no temporary file.
    """
    temporary = f".lookahead.{secrets.token_hex(8)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def read_file(folder: int, name: str) -> bytes:
    """The content of a regular file in an opened folder; OSError when it is anything else."""
    # A pipe without a writer would have us wait.
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", name)
        return file.read()


def open_for_append(folder: int, name: str, mode: int) -> int:
    """A descriptor that appends to a file of ours in an opened folder, which is made if need be."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | _NO_LINK
    descriptor = os.open(name, flags, mode, dir_fd=folder)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or not is_ours(status):
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it is no regular file of ours", name)
    os.set_blocking(descriptor, True)
    os.fchmod(descriptor, mode)
    return descriptor


def make_folder_for(folder: int, name: str, uid: int, gid: int) -> None:
    """A folder of another account, closed to all but that; nothing happens when it has one.

    `folder` must be ours, so that the name cannot be another one's meanwhile. PermissionError when
    a third account has it.
    """
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=folder)
    try:
        owner = os.fstat(descriptor).st_uid
        if owner not in (uid, os.geteuid()):
            raise PermissionError(errno.EPERM, "it belongs to another user", name)
        if owner != uid:
            os.fchown(descriptor, uid, gid)
    finally:
        os.close(descriptor)


def _open_folder(path: Path, make: bool) -> int:
    waiting = list(reversed((Path.cwd() / path).parts[1:]))
    current = os.open("/", _FOLDER)
    links = 0
    try:
        while waiting:
            entry = _open_entry(current, waiting.pop(), make)
            try:
                kind = os.fstat(entry).st_mode
                if stat.S_ISLNK(kind):
                    links += 1
                    target = _trusted_target(current, entry, links)
                    waiting += reversed(target.relative_to(target.anchor).parts)
                    following = os.open(target.anchor or ".", _FOLDER, dir_fd=current)
                elif stat.S_ISDIR(kind):
                    following = os.dup(entry)
                else:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            finally:
                os.close(entry)
            os.close(current)
            current = following
    except BaseException:
        os.close(current)
        raise
    return current


def _open_entry(folder: int, name: str, make: bool) -> int:
    """A descriptor of whatever has the name, a link included."""
    try:
        return os.open(name, os.O_PATH | _NO_LINK, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        # Root's own folders are never open to others, whatever the umask.
        os.mkdir(name, 0o755 if os.geteuid() == 0 else 0o777, dir_fd=folder)
    return os.open(name, os.O_PATH | _NO_LINK, dir_fd=folder)


def _trusted_target(folder: int, link: int, links: int) -> Path:
    """Where a link leads that nobody but us can have put into the folder; OSError for others."""
    if links > _MAX_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if os.geteuid() == 0:
        status = os.fstat(folder)
        is_own_link = keeps_entries(status) and os.fstat(link).st_uid == 0
        if not (is_ours(status) or is_own_link):
            raise PermissionError(errno.EPERM, _PLANTED)
    return Path(os.readlink("", dir_fd=link))
