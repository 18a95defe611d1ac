"""The journal in a folder that the programs of all languages on this machine may share."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .custody import NO_WRITERS, ExposedError, check_folder, make_folder, read_in
from .errors import JournalError, JournalReason
from .journal import Book, decode_book, default_journal, encode_book
from .lock import Lock, LockedError, LostError, locked

T = TypeVar("T")


class FileStore:
    """Keeps the journal in a folder that only its owner can read, or in the file that a path ending in .json names.

    Without a path it is the folder that the clients of all languages share: see default_journal. Processes may share
    it, also those of containers of this machine; machines may not. A journal that others may write is refused, and so
    is one in a folder that they may write, or put another one in the place of.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        # What is checked is what is used, also when the program changes its folder.
        named = Path(os.path.abspath(default_journal() if path is None else path))
        self._file = named if named.suffix == ".json" else named / "journal.json"
        self._folder = self._file.parent

    def read(self) -> Book:
        """The book as it was last kept."""
        text = self._text()
        return Book() if text is None else decode_book(text, str(self._file))

    def update(self, change: Callable[[Book], T]) -> T:
        """Changes the book, alone among all who share the folder."""
        try:
            make_folder(self._folder)
            with locked(self._folder) as lock:
                text = self._text()
                book = Book() if text is None else decode_book(text, str(self._file))
                generation = book.generation
                result = change(book)
                book.generation = generation + 1
                self._write(book, text, lock)
                return result
        except ExposedError as error:
            raise JournalError(str(self._file), "exposed", str(error)) from error
        except LockedError as error:
            raise JournalError(str(self._file), "locked", str(error)) from error
        except LostError as error:
            raise JournalError(str(self._file), "failed", str(error)) from error
        except OSError as error:
            raise JournalError(str(self._file), _reason(error), str(error)) from error

    def _text(self) -> str | None:
        """The file as it is; None when there is none."""
        try:
            check_folder(self._folder)
            return read_in(self._file, NO_WRITERS)
        except FileNotFoundError:
            return None
        except ExposedError as error:
            raise JournalError(str(self._file), "exposed", str(error)) from error
        except UnicodeDecodeError as error:
            raise JournalError(str(self._file), "damaged", str(error)) from error
        except OSError as error:
            raise JournalError(str(self._file), "unreadable", str(error)) from error

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
