"""What was signed, kept before it is sent: the reason that nothing is paid twice."""

from __future__ import annotations

import copy
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from .errors import KeyConflictError, PolicyDeniedError, RoamcardError, TermsMismatchError
from .money import dollars_of
from .x402 import same_address

T = TypeVar("T")

_DAY = 24 * 60 * 60
_RESERVATION = 15 * 60
"""How long a budget stays taken by a process that died before it signed."""


@dataclass(frozen=True)
class Entry:
    """One purchase. It never holds a card number or a token."""

    key: str
    operation: str
    """The documented path of what is bought; /pay for an order that was made first, whose id is the key."""
    payer: str
    fingerprint: str
    """A digest of the request; a key cannot be used for another one."""
    amount: str
    """In USDC's smallest unit."""
    at: int = 0
    """When the budget was taken, in seconds since 1970."""
    state: Literal["reserved", "signed", "settled", "refused"] = "reserved"
    """reserved: the budget is taken, nothing is signed. signed: the header may be on its way. settled: the service answered
    with the order. refused: it answered that no money moved."""
    header: str | None = None
    """The PAYMENT-SIGNATURE header; every request of this purchase sends these bytes."""
    valid_before: int | None = None
    """When the authorization dies, in seconds since 1970."""
    attempt: int = 0
    """How many authorizations the service proved dead; the next one has a nonce of its own."""

    @property
    def is_paid(self) -> bool:
        """Whether there is a payment that goes out again."""
        return self.state in ("signed", "settled")


@dataclass
class Book:
    """What a store keeps."""

    payees: dict[str, str] = field(default_factory=dict)
    """The payee of each origin, as first seen."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """By purchase id."""


class Store(Protocol):
    """Keeps the book.

    `update` reads it, lets it be changed and keeps the change, alone among all who share the store; when it returns, the
    change survives a power cut. When the change raises, nothing is kept. Both block.

    `claim` lets one of all who share the store sign a purchase: it gives what ends the claim, or None, without waiting, while
    somebody else has it. A claim ends with its process.
    """

    def read(self) -> Book: ...

    def update(self, change: Callable[[Book], T]) -> T: ...

    def claim(self, id: str) -> Callable[[], None] | None: ...


class MemoryStore:
    """A store that ends with the process.

    Enough for trials: the derived nonce still keeps a purchase from being paid twice.
    """

    def __init__(self) -> None:
        self._book = Book()
        self._lock = threading.Lock()
        self._claims: set[str] = set()

    def read(self) -> Book:
        """A copy of the book."""
        with self._lock:
            return copy.deepcopy(self._book)

    def update(self, change: Callable[[Book], T]) -> T:
        """Changes the book."""
        with self._lock:
            book = copy.deepcopy(self._book)
            result = change(book)
            self._book = book
            return result

    def claim(self, id: str) -> Callable[[], None] | None:
        """Claims a purchase among the clients of this process."""
        with self._lock:
            if id in self._claims:
                return None
            self._claims.add(id)
        return lambda: self._claims.discard(id)


class FileStore:
    """Keeps the journal in a folder that only its owner can read. Processes may share it; machines may not."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._file = self._folder / "journal.json"

    def read(self) -> Book:
        """The book as it was last kept."""
        try:
            data = json.loads(self._file.read_text("utf-8"))
        except FileNotFoundError:
            return Book()
        if data.get("version") != 1:
            raise RoamcardError(f"the journal {self._file} is of another version of this package")
        return Book(data["payees"], {id: Entry(**entry) for id, entry in data["entries"].items()})

    def update(self, change: Callable[[Book], T]) -> T:
        """Changes the book under a lock that dies with its process."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            book = self.read()
            result = change(book)
            entries = {id: asdict(entry) for id, entry in book.entries.items()}
            self._write(json.dumps({"version": 1, "payees": book.payees, "entries": entries}))
            return result

    def claim(self, id: str) -> Callable[[], None] | None:
        """Claims a purchase by a lock file that is there for so long."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{id}.lock"
        file = open(path, "a", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115 - it is open for as long as the claim lasts
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before may have taken the file away meanwhile: then the lock is of nothing.
            held = os.fstat(file.fileno()).st_ino == os.stat(path).st_ino
        except (BlockingIOError, FileNotFoundError):
            held = False
        if not held:
            file.close()
            return None

        def end() -> None:
            if not file.closed:
                path.unlink(missing_ok=True)
                file.close()

        return end

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # An open file of its own for each call: threads exclude each other as processes do.
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

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


class Journal:
    """The rules of the book."""

    def __init__(self, store: Store, now: Callable[[], int] = lambda: int(time.time())) -> None:
        self.store = store
        self.now = now

    def find(self, id: str, key: str, fingerprint: str) -> Entry | None:
        """What is known of a purchase that is under way or settled."""
        entry = self.store.read().entries.get(id)
        if entry is None or not entry.is_paid:
            return None
        if entry.fingerprint != fingerprint:
            raise KeyConflictError(key)
        return entry

    def pending(self) -> list[Entry]:
        """Purchases whose outcome is not known."""
        return [e for e in self.store.read().entries.values() if e.state == "signed"]

    def room(self, id: str, amount: int, per_day: int | None) -> None:
        """Judges the cap of the day as it stands, and takes nothing."""
        self._judge(self.store.read(), id, amount, per_day, self.now())

    def reserve(self, id: str, wanted: Entry, per_day: int | None) -> int:
        """Takes the budget of a purchase, unless it has one; the caps are judged and taken in one step. Gives the attempt it is."""

        def change(book: Book) -> int:
            known = book.entries.get(id)
            if known and known.state != "refused" and known.fingerprint != wanted.fingerprint:
                raise KeyConflictError(wanted.key)
            attempt = known.attempt if known else 0
            if known and known.is_paid:
                return attempt
            now = self.now()
            self._judge(book, id, int(wanted.amount), per_day, now)
            book.entries[id] = replace(wanted, at=now, state="reserved", attempt=attempt)
            return attempt

        return self.store.update(change)

    @staticmethod
    def _judge(book: Book, id: str, amount: int, per_day: int | None, now: int) -> None:
        spent = sum(int(e.amount) for other, e in book.entries.items() if other != id and _counts(e, now))
        if per_day is not None and spent + amount > per_day:
            raise PolicyDeniedError(
                f"{dollars_of(amount)} US dollars is more than what is left today: {dollars_of(per_day)} allowed, {dollars_of(spent)} spent"
            )

    def sign(self, id: str, header: str, valid_before: int) -> Entry:
        """Keeps a signed header. Of two for one purchase the first is kept; the entry that counts is returned."""

        def change(book: Book) -> Entry:
            entry = book.entries[id]
            if not entry.is_paid:
                entry = replace(entry, state="signed", header=header, valid_before=valid_before, at=self.now())
                book.entries[id] = entry
            return entry

        return self.store.update(change)

    def release(self, id: str) -> None:
        """Gives a budget back that was taken for nothing. How many authorizations died is kept."""

        def change(book: Book) -> None:
            entry = book.entries.get(id)
            if entry is not None and entry.state == "reserved":
                if entry.attempt:
                    book.entries[id] = replace(entry, state="refused")
                else:
                    del book.entries[id]

        self.store.update(change)

    def settle(self, id: str) -> None:
        """The purchase is paid."""

        def change(book: Book) -> None:
            if id in book.entries:
                book.entries[id] = replace(book.entries[id], state="settled")

        self.store.update(change)

    def refuse(self, id: str, header: str, *, safe: bool, dead: bool) -> None:
        """The service said that no money moved.

        Unless it also said that a new payment is safe, or proved this one dead, the budget stays taken until the authorization
        is dead.
        """

        def change(book: Book) -> None:
            entry = book.entries.get(id)
            # What is paid stays paid, whatever a repeat of it is told.
            if entry is not None and entry.state == "signed" and entry.header == header:
                valid_before = None if safe or dead else entry.valid_before
                book.entries[id] = replace(entry, state="refused", header=None, valid_before=valid_before, attempt=entry.attempt + dead)

        self.store.update(change)

    def pin_payee(self, origin: str, pay_to: str) -> None:
        """Keeps the payee of an origin when it is first seen, and refuses another one ever after."""
        known = self.store.read().payees.get(origin)
        pinned = known or self.store.update(lambda book: book.payees.setdefault(origin, pay_to))
        if not same_address(pinned, pay_to):
            raise TermsMismatchError(f"the payee of {origin} was {pinned} and now is {pay_to}; set Policy.pay_to to the right one")


def _counts(entry: Entry, now: int) -> bool:
    """Whether an entry takes part of the budget of the last 24 hours."""
    if entry.at <= now - _DAY:
        return False
    if entry.state == "reserved":
        return entry.at > now - _RESERVATION
    if entry.state == "refused":
        return entry.valid_before is not None and entry.valid_before > now
    return True
