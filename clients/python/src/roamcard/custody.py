"""Keeps what belongs to a wallet from the other users of its machine, and from the programs that its own user starts.

The clients of all languages check alike, and say it in the same words. Windows has no such modes, and a user's folders
are the user's there: nothing is checked.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress

NO_WRITERS = 0o022
"""What others must not be allowed by the mode of a file that decides what is paid."""
GROUP_READERS = 0o027
"""The same of a secret that may be mounted: a volume of Kubernetes gives its files to a group."""
_HAS_MODES = hasattr(os, "geteuid")
_MAX_LINKS = 40


class ExposedError(Exception):
    """A file or a folder that other users can change, or read where it holds a secret."""


def check_folder(path: str | os.PathLike[str]) -> None:
    """Refuses a folder that others may write, or put another one in the place of."""
    if _HAS_MODES:
        real = _resolved(path)
        _refuse_folder(real, os.lstat(real), passed=False)


def make_folder(path: str | os.PathLike[str]) -> None:
    """Makes a folder, and those above it that are missing, for this user alone.

    One that is there is checked as by check_folder; below one that others may write none is made.
    """
    missing = folder = _resolved(path)
    made = []
    while not os.path.exists(missing):
        made.append(missing)
        missing = os.path.dirname(missing)
    for one in reversed(made):
        with suppress(FileExistsError):  # made by another program meanwhile
            os.mkdir(one, 0o700)
    check_folder(folder)


def read_own(path: str | os.PathLike[str], denied: int) -> str:
    """Reads a file, unless its mode allows others what they are denied, or others may put another one in its place.

    Owner and mode are those of what was opened, not of a path that may change meanwhile.
    """
    return read_in(_resolved(path), denied)


def read_in(path: str | os.PathLike[str], denied: int) -> str:
    """Reads a file of a folder that was checked. A link is not followed."""
    with os.fdopen(open_in(path, denied), encoding="utf-8") as file:
        return file.read()


def open_in(path: str | os.PathLike[str], denied: int) -> int:
    """Opens a file of a folder that was checked. A link is not followed, nor is the other end of a pipe waited for."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        if not os.path.islink(path):
            raise
        raise ExposedError(f"the file {path} is a link; name the file that it leads to") from None
    try:
        if _HAS_MODES:
            _refuse_file(path, os.fstat(file), denied)
    except BaseException:
        os.close(file)
        raise
    return file


def _resolved(path: str | os.PathLike[str]) -> str:
    """A path without links.

    Every folder on the way is this user's or root's, and others cannot write it, or its sticky bit keeps them from what
    is not theirs; every link is this user's or root's. The way begins at the user's home where it leads through it, for
    what is above that is the system's. What is missing is not checked.
    """
    path = os.path.abspath(path)
    if not _HAS_MODES:
        return path
    at, left = _begin(path)
    links = 0
    while left:
        name, left = left[0], left[1:]
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        _refuse_folder(at, os.lstat(at), passed=True)
        following = os.path.join(at, name)
        try:
            info = os.lstat(following)
        except FileNotFoundError:
            return os.path.normpath(os.path.join(following, *left))
        if not stat.S_ISLNK(info.st_mode):
            at = following
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        _refuse_owner("link", following, info)
        target = os.readlink(following)
        more = target.split(os.sep)
        if os.path.isabs(target):
            at, more = _begin(target)
        left = more + left
    return at


def _begin(path: str) -> tuple[str, list[str]]:
    """Where the way of an absolute path begins, and the names on it."""
    home = os.environ.get("HOME", "")
    if os.path.isabs(home) and (path + os.sep).startswith(os.path.normpath(home) + os.sep) and os.path.isdir(home):
        return os.path.realpath(home), path[len(os.path.normpath(home)) :].split(os.sep)
    return os.sep, path.split(os.sep)


def _refuse_folder(path: str, info: os.stat_result, *, passed: bool) -> None:
    """A folder that is only passed may be written by others where its sticky bit keeps them from what is not theirs."""
    if not stat.S_ISDIR(info.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    _refuse_owner("folder", path, info)
    if info.st_mode & NO_WRITERS and not (passed and info.st_mode & stat.S_ISVTX):
        told = f"others may write the folder {path}, whose mode is {_octal(info)}; "
        raise ExposedError(told + f"`chmod go-w {path}`, or name another one")


def _refuse_file(path: str | os.PathLike[str], info: os.stat_result, denied: int) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "it is no file", os.fspath(path))
    _refuse_owner("file", path, info)
    if info.st_mode & denied:
        may, change = ("use", "600") if denied & ~NO_WRITERS else ("write", "go-w")
        told = f"others may {may} the file {path}, whose mode is {_octal(info)}; `chmod {change} {path}`, "
        raise ExposedError(told + "and look whether it still says what you wrote")


def _refuse_owner(kind: str, path: str | os.PathLike[str], info: os.stat_result) -> None:
    """Root can do everything anyway."""
    user = os.geteuid()
    if info.st_uid not in (0, user):
        told = f"the {kind} {path} is that of user {info.st_uid}, and this is user {user}; "
        raise ExposedError(told + "name one of your own")


def _octal(info: os.stat_result) -> str:
    return f"{stat.S_IMODE(info.st_mode):04o}"


# What a program needs: to find its files and other programs, to speak the user's language and to show a window.
_USUAL = frozenset((
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "TZ", "LANG", "LANGUAGE", "DISPLAY", "WAYLAND_DISPLAY",
    "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "BROWSER", "DESKTOP_SESSION", "KDE_FULL_SESSION", "KDE_SESSION_VERSION",
    "WSL_DISTRO_NAME", "WSL_INTEROP",
    # Windows
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA",
    "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "USERPROFILE", "USERNAME", "USERDOMAIN",
    "HOMEDRIVE", "HOMEPATH",
))  # fmt: skip


def program_environment(named: Sequence[str] = ()) -> dict[str, str]:
    """What a program gets of this one's environment: what programs need, and what is named in addition."""

    def is_given(variable: str) -> bool:
        name = variable.upper() if sys.platform == "win32" else variable  # names have no case there
        return name in _USUAL or name in named or name.startswith(("LC_", "XDG_"))

    return {name: value for name, value in os.environ.items() if is_given(name)}
