"""The journal in a folder that the programs of all languages on this machine may share."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .errors import JournalError, JournalReason
from .journal import Book, decode_book, default_journal, encode_book
from .lock import Lock, LockedError, LostError, locked

T = TypeVar("T")


class FileStore:
    """Keeps the journal in a folder that only its owner can read, or in the file that a path ending in .json names.

    Without a path it is the folder that the clients of all languages share: see default_journal. Processes may share
    it, also those of containers of this machine; machines may not. A folder that others may write is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        named = Path(default_journal() if path is None else path)
        self._file = named if named.suffix == ".json" else named / "journal.json"
        self._folder = self._file.parent

    def read(self) -> Book:
        """The book as it was last kept."""
        text = self._text()
        return Book() if text is None else decode_book(text, str(self._file))

    def update(self, change: Callable[[Book], T]) -> T:
        """Changes the book, alone among all who share the folder."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            with locked(self._folder) as lock:
                text = self._text()
                book = Book() if text is None else decode_book(text, str(self._file))
                generation = book.generation
                result = change(book)
                book.generation = generation + 1
                self._write(book, text, lock)
                return result
        except LockedError as error:
            raise JournalError(str(self._file), "locked", str(error)) from error
        except LostError as error:
            raise JournalError(str(self._file), "failed", str(error)) from error
        except OSError as error:
            raise JournalError(str(self._file), _reason(error), str(error)) from error

    def _text(self) -> str | None:
        """The file as it is; None when there is none."""
        try:
            self._check_folder()
            return self._file.read_text("utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise JournalError(str(self._file), "damaged", str(error)) from error
        except OSError as error:
            raise JournalError(str(self._file), "unreadable", str(error)) from error

    def _check_folder(self) -> None:
        """Refuses a folder that others may write: who writes the journal decides what is paid."""
        if not hasattr(os, "geteuid"):
            return  # modes say nothing here
        info = self._folder.stat()
        if info.st_uid != os.geteuid():
            told = f"the folder {self._folder} is that of user {info.st_uid}, and this is user {os.geteuid()}; "
            raise JournalError(str(self._file), "exposed", told + "name one of your own")
        if info.st_mode & 0o022:
            told = f"others may write the folder {self._folder}, whose mode is {info.st_mode & 0o7777:04o}; "
            raise JournalError(str(self._file), "exposed", told + f"`chmod go-w {self._folder}`, or name another one")

    def _write(self, book: Book, was: str | None, lock: Lock) -> None:
        # Whoever reads sees the old book or the new one, also after a power cut. The draft has the lock's number, and
        # the next holder removes it first: whoever was stopped here, and has lost the lock meanwhile, has nothing to
        # rename.
        draft = self._file.with_name(f"{self._file.name}.draft-{lock.number}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(encode_book(book))
                file.flush()
                os.fsync(file.fileno())
            self._unchanged(book, was)
            lock.check()
            os.replace(draft, self._file)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _unchanged(self, book: Book, was: str | None) -> None:
        """Compares the file's generation, and its text, with what the change was made of.

        They differ where something else than these clients writes, or a lock was given away.
        """
        now = self._text()
        generation = 0 if now is None else decode_book(now, str(self._file)).generation
        if generation != book.generation - 1 or now != was:
            told = "it was changed by another program meanwhile; nothing was changed"
            raise JournalError(str(self._file), "failed", told)


def _reason(error: OSError) -> JournalReason:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "full"
    return "read_only" if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else "failed"
