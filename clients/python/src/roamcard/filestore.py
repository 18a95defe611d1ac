"""The journal in a folder that the programs of all languages on this machine may share."""

from __future__ import annotations

import errno
import os
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from .errors import JournalError, JournalReason
from .journal import Book, decode_book, default_journal, encode_book

T = TypeVar("T")

_LOCK_TIMEOUT = 30.0
"""How long a holder may hold the lock before it is taken for dead: what is done under it takes milliseconds."""
_RETRY = 0.005


class FileStore:
    """Keeps the journal in a folder that only its owner can read, or in the file that a path ending in .json names.

    Without a path it is the folder that the clients of all languages share: see default_journal. Processes may share
    it; machines may not.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        named = Path(default_journal() if path is None else path)
        self._file = named if named.suffix == ".json" else named / "journal.json"
        self._folder = self._file.parent

    def read(self) -> Book:
        """The book as it was last kept."""
        try:
            text = self._file.read_text("utf-8")
        except FileNotFoundError:
            return Book()
        except UnicodeDecodeError as error:
            raise JournalError(str(self._file), "damaged", str(error)) from error
        except OSError as error:
            raise JournalError(str(self._file), "unreadable", str(error)) from error
        return decode_book(text, str(self._file))

    def update(self, change: Callable[[Book], T]) -> T:
        """Changes the book, alone among all who share the folder."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._folder) as is_held:
                book = self.read()
                result = change(book)
                if not is_held():
                    raise JournalError(str(self._file), "failed", "another program has taken the lock meanwhile")
                self._write(encode_book(book))
                return result
        except OSError as error:
            raise JournalError(str(self._file), _reason(error), str(error)) from error

    def _write(self, text: str) -> None:
        # Whoever reads sees the old book or the new one, also after a power cut.
        draft = self._file.with_suffix(".draft")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._file)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _reason(error: OSError) -> JournalReason:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "full"
    return "read_only" if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else "failed"


@contextmanager
def _locked(folder: Path) -> Iterator[Callable[[], bool]]:
    """Holds the folder among the programs of all languages, and says whether it is still held.

    Holders are numbered files: the process that makes the next number has the lock once the holder before has released
    it or died. A number is made by link(2), which one program wins, with its content in place; the highest one is never
    removed.
    """
    while (number := _try_lock(folder)) is None:
        time.sleep(_RETRY * (1 + random.random()))
    try:
        yield lambda: max(_numbers(folder)) == number
    finally:
        # A holder with pid 0 is none. A lock that cannot be let go is taken when its holder's time is over.
        with suppress(OSError):
            _make(folder / f"lock-{number}", "0")


def _try_lock(folder: Path) -> int | None:
    numbers = _numbers(folder)
    highest = max(numbers, default=0)
    if highest and not _is_free(folder / f"lock-{highest}"):
        return None
    number, draft = highest + 1, folder / f"draft-{os.getpid()}-{uuid.uuid4()}"
    _make(draft, str(os.getpid()))
    try:
        os.link(draft, folder / f"lock-{number}")
    except FileExistsError:
        return None
    finally:
        draft.unlink(missing_ok=True)
    if max(_numbers(folder)) != number:
        (folder / f"lock-{number}").unlink(missing_ok=True)
        return None
    for n in numbers:
        (folder / f"lock-{n}").unlink(missing_ok=True)
    return number


def _numbers(folder: Path) -> list[int]:
    return [int(name[5:]) for name in os.listdir(folder) if re.fullmatch(r"lock-[1-9][0-9]*", name)]


def _is_free(path: Path) -> bool:
    try:
        pid, changed = path.read_text("ascii").strip(), path.stat().st_mtime
    except OSError:
        return False  # a higher one has taken its place
    return not pid.isdigit() or not _is_alive(int(pid)) or time.time() - changed > _LOCK_TIMEOUT


def _is_alive(pid: int) -> bool:
    if pid == 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # of another user
    return True


def _make(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(text)
