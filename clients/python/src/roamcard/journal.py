"""What was signed, kept before it is sent: the reason that nothing is paid twice.

One schema for the clients of all languages.
"""

from __future__ import annotations

import copy
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Protocol, TypeVar

from .errors import JournalError, KeyConflictError, PolicyDeniedError, RoamcardError, TermsMismatchError
from .money import dollars_of
from .nesting import loads
from .x402 import nonce_of, same_address

T = TypeVar("T")

SCHEMA = "roamcard.journal"
VERSION = 2

_DAY = 24 * 60 * 60
_RESERVATION = 15 * 60
"""How long a budget stays taken by a process that died before it signed."""
_TURN = 10
"""How long a turn to sign lasts unless it is held."""
_HOLD_EVERY = 3.0
CLOCK_DIFFERENCE = 60
"""How many seconds the service's clock may differ from this one."""
_EXPIRY_MARGIN = CLOCK_DIFFERENCE
"""How many seconds after its valid_before an authorization counts as live.

It is as far as this clock may be ahead of the chain's without being refused.
"""

Void = Literal["expired", "cancelled", "used_elsewhere"]


@dataclass(frozen=True)
class SignedAuthorization:
    """An EIP-3009 authorization that was signed. Times are seconds since 1970."""

    nonce: str
    amount: str
    """In USDC's smallest unit."""
    signed_at: int
    valid_before: int
    void: Void | None = None
    """Why the chain can never take it, as this client read it there. The service's word does not set it."""

    def is_live(self, now: int) -> bool:
        """Whether the chain may still take it."""
        return self.void is None and now < self.valid_before + _EXPIRY_MARGIN


@dataclass(frozen=True)
class Entry:
    """One purchase and its payments. It never holds a card number or a token. Times are seconds since 1970."""

    key: str
    """The idempotency key; the id of the order for an order that was made first."""
    operation: str
    """The documented path of what is bought; /pay for an order that was made first."""
    origin: str
    path: str
    """The documented path that is called."""
    payer: str
    request: Mapping[str, Any]
    """The request; a key belongs to it for good."""
    amount: str
    """In USDC's smallest unit."""
    state: Literal["reserved", "signed", "settled", "refused"] = "reserved"
    """reserved: the budget is taken, nothing is signed. signed: the payment may be on its way. settled: the service
    answered with the order. refused: it answered that no money moved, which frees no budget."""
    at: int = 0
    """When the budget was taken, and then when it was last signed."""
    holder: str | None = None
    """Whose turn it is to sign, until held_until; while reserved."""
    held_until: int | None = None
    header: str | None = None
    """The last PAYMENT-SIGNATURE header; every request of this purchase sends these bytes."""
    order_id: str | None = None
    """The order, once an answer named it."""
    attempt: int = 0
    """How many authorizations the service accepted and later called dead; the next one has a nonce of its own."""
    authorizations: tuple[SignedAuthorization, ...] = ()
    """All that were ever signed, oldest first."""

    def live_until(self, now: int) -> int | None:
        """Until when the chain could take the last payment; None when it cannot."""
        last = self.authorizations[-1] if self.authorizations else None
        return last.valid_before + _EXPIRY_MARGIN if last is not None and last.is_live(now) else None

    def is_sendable(self, now: int) -> bool:
        """Whether there is a payment that may have been taken, or still could be: no other bytes may be sent."""
        if self.header is None:
            return False
        return self.state in ("signed", "settled") or (self.state == "refused" and self.live_until(now) is not None)


@dataclass
class Book:
    """What a store keeps."""

    payees: dict[str, str] = field(default_factory=dict)
    """The payee of each origin, as first seen."""
    purchases: dict[str, Entry] = field(default_factory=dict)
    """By the nonce of the first authorization, which is derived from origin, path, payer and key."""
    generation: int = 0
    """Counts the changes of a file, whose store keeps it: a change of an older one is not written."""


class Store(Protocol):
    """Keeps the book.

    `update` reads it, lets it be changed and keeps the change, alone among all who share the store; when it returns,
    the change survives a power cut. When the change raises, nothing is kept. Both block; what fails raises a
    JournalError.
    """

    def read(self) -> Book: ...

    def update(self, change: Callable[[Book], T]) -> T: ...


class MemoryStore:
    """A store that ends with the process.

    Enough for trials: the derived nonce still keeps a purchase from being paid twice.
    """

    def __init__(self) -> None:
        self._book = Book()
        self._lock = threading.Lock()

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


# The journal's text.

_NAMES = {"held_until": "heldUntil", "order_id": "orderId", "signed_at": "signedAt", "valid_before": "validBefore"}


def encode_book(book: Book) -> str:
    """A book as the text of its file."""
    purchases = {id: _encoded(asdict(entry)) for id, entry in book.purchases.items()}
    whole: dict[str, Any] = {"schema": SCHEMA, "version": VERSION, "payees": book.payees, "purchases": purchases}
    if book.generation:
        whole["generation"] = book.generation
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _encoded(members: Mapping[str, Any]) -> dict[str, Any]:
    named = {_NAMES.get(name, name): value for name, value in members.items() if value is not None}
    if "authorizations" in named:
        named["authorizations"] = [_encoded(a) for a in named["authorizations"]]
    return named


def decode_book(text: str, file: str) -> Book:
    """Reads the text of a file, or raises a JournalError: nothing is paid on the word of half a journal.

    One with members that this version does not have is foreign: to keep it would lose them.
    """
    try:
        value = loads(text)
    except ValueError as error:
        raise JournalError(file, "damaged", str(error)) from error
    if not isinstance(value, dict):
        raise JournalError(file, "damaged", "it is no JSON object")
    if value.get("schema") != SCHEMA or value.get("version") is not VERSION:
        raise JournalError(file, "foreign", f"it is not a journal of version {VERSION}")
    unknown = [name for name in value if name not in ("schema", "version", "payees", "purchases", "generation")]
    try:
        payees, purchases = value.get("payees", ""), value.get("purchases", "")
        _require(
            isinstance(payees, dict) and all(_is_text(p) for p in payees.values()) and isinstance(purchases, dict),
            "members",
        )
        generation = value.get("generation", 0)
        _require(_is_count(generation) and generation < 2**53, "generation")
        book = Book(payees, {id: _decoded_entry(entry, unknown) for id, entry in purchases.items()}, generation)
    except (ValueError, TypeError) as error:
        raise JournalError(file, "damaged", str(error)) from error
    if unknown:
        raise JournalError(file, "foreign", f"it has a member {unknown[0]}, which version {VERSION} does not have")
    return book


def _decoded_entry(value: Any, unknown: list[str]) -> Entry:
    members = _members(Entry, value, unknown)
    _require("state" in members, "state")
    members["authorizations"] = tuple(_decoded_authorization(a, unknown) for a in members.get("authorizations", ()))
    entry = Entry(**members)
    texts = (entry.key, entry.operation, entry.origin, entry.path, entry.payer)
    _require(all(map(_is_text, texts)) and isinstance(entry.request, dict) and _is_units(entry.amount), "purchase")
    _require(
        entry.state in ("reserved", "signed", "settled", "refused")
        and _is_count(entry.at)
        and _is_count(entry.attempt),
        "purchase",
    )
    _require(all(t is None or _is_text(t) for t in (entry.holder, entry.header, entry.order_id)), "purchase")
    _require(entry.held_until is None or _is_count(entry.held_until), "purchase")
    _require(
        entry.state != "signed" or (entry.header is not None and len(entry.authorizations) > 0),
        "payment of a signed purchase",
    )
    return entry


def _decoded_authorization(value: Any, unknown: list[str]) -> SignedAuthorization:
    a = SignedAuthorization(**_members(SignedAuthorization, value, unknown))
    _require(
        _is_text(a.nonce) and _is_units(a.amount) and _is_count(a.signed_at) and _is_count(a.valid_before),
        "authorization",
    )
    _require(a.void in (None, "expired", "cancelled", "used_elsewhere"), "authorization")
    return a


def _members(kind: type[Entry | SignedAuthorization], value: Any, unknown: list[str]) -> dict[str, Any]:
    """The members of an object by their names in Python; those that the kind does not have are noted."""
    _require(isinstance(value, dict), "purchase" if kind is Entry else "authorization")
    names = {_NAMES.get(f.name, f.name): f.name for f in fields(kind)}
    unknown += [name for name in value if name not in names]
    return {names[name]: member for name, member in value.items() if name in names}


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(f"its {what} cannot be read")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_units(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and value[0] != "0" and len(value) < 19


# The rules.


@dataclass(frozen=True)
class Turn:
    """What a purchase may do: sign, or send the payment that is signed; neither while another has the turn."""

    attempt: int | None = None
    payment: Entry | None = None


class Journal:
    """The rules of the book."""

    def __init__(self, store: Store, now: Callable[[], int] = lambda: int(time.time())) -> None:
        self.store = store
        self.now = now

    def find(self, id: str, key: str, request: Mapping[str, Any]) -> Entry | None:
        """What is known of a purchase that has a payment to send."""
        entry = self.entry(id)
        if entry is None or not entry.is_sendable(self.now()):
            return None
        _fit(entry, key, request)
        return entry

    def entry(self, id: str) -> Entry | None:
        """A purchase, whatever its state."""
        return self._read().purchases.get(id)

    def entries(self) -> dict[str, Entry]:
        """All purchases, by id."""
        return self._read().purchases

    def pending(self) -> list[Entry]:
        """Purchases whose outcome is not known, oldest first."""
        return sorted((e for e in self._read().purchases.values() if e.state == "signed"), key=lambda e: e.at)

    def spent(self) -> int:
        """What counts for the last 24 hours, in USDC's smallest unit."""
        return sum(_spent(e, self.now()) for e in self._read().purchases.values())

    def room(self, amount: int, per_day: int | None) -> None:
        """Checks the cap of the day as it stands, and takes nothing."""
        _cap(self.spent() + amount, per_day)

    def reserve(self, id: str, wanted: Entry, per_day: int | None) -> Turn:
        """Takes the turn to sign a purchase, and its budget; the caps are checked and taken in one step.

        Of all who share the store one has the turn at a time.
        """

        def change(book: Book) -> Turn:
            now, known = self.now(), book.purchases.get(id)
            if known is not None and known.is_sendable(now):
                _fit(known, wanted.key, wanted.request)
                return Turn(payment=known)
            if (
                known is not None
                and known.state == "reserved"
                and known.holder != wanted.holder
                and (known.held_until or 0) >= now
            ):
                return Turn()
            attempt = known.attempt if known else 0
            nonce = nonce_of(wanted.origin, wanted.path, wanted.payer, wanted.key, attempt)
            before = known.authorizations if known else ()
            others = sum(_spent(e, now) for other, e in book.purchases.items() if other != id)
            _cap(others + _taken(before, now, nonce, int(wanted.amount)), per_day)
            book.purchases[id] = replace(
                wanted, state="reserved", at=now, held_until=now + _TURN, attempt=attempt, authorizations=before,
                header=known.header if known else None, order_id=known.order_id if known else None,
            )  # fmt: skip
            return Turn(attempt=attempt)

        return self._update(change)

    @contextmanager
    def holding(self, id: str, holder: str) -> Iterator[None]:
        """Keeps a turn for as long as a person or a wallet takes. Whatever fails gives turn and budget back."""
        done = threading.Event()

        def hold() -> None:
            while not done.wait(_HOLD_EVERY):
                # A store that fails here fails again when the payment is kept.
                with suppress(RoamcardError):
                    self._change(id, lambda e: _held(e, holder, self.now()))

        thread = threading.Thread(target=hold, name="roamcard-turn", daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            with suppress(RoamcardError):
                self.release(id, holder)
            raise
        finally:
            done.set()

    def sign(self, id: str, holder: str, header: str, authorization: SignedAuthorization) -> Entry:
        """Keeps a signed payment. A turn that was lost meanwhile keeps it from being sent."""

        def change(book: Book) -> Entry:
            entry = book.purchases.get(id)
            if entry is None or entry.state != "reserved" or entry.holder != holder:
                raise RoamcardError("the journal was changed meanwhile; nothing was sent")
            signed = (*entry.authorizations, authorization)
            entry = replace(
                entry,
                state="signed",
                header=header,
                at=authorization.signed_at,
                holder=None,
                held_until=None,
                authorizations=signed,
            )
            book.purchases[id] = entry
            return entry

        return self._update(change)

    def release(self, id: str, holder: str) -> None:
        """Gives a budget back that was taken for nothing. What was signed before is kept."""

        def change(book: Book) -> None:
            entry = book.purchases.get(id)
            if entry is None or entry.state != "reserved" or entry.holder != holder:
                return
            if entry.authorizations:
                book.purchases[id] = replace(entry, state="refused", holder=None, held_until=None)
            else:
                del book.purchases[id]

        self._update(change)

    def settle(self, id: str, order_id: str) -> None:
        """The purchase is paid."""
        self._change(id, lambda e: replace(e, state="settled", order_id=order_id))

    def refuse(self, id: str, header: str, dead: bool) -> None:
        """The service said that no money moved.

        `dead` says that it had taken the payment up and calls it dead, now or to a repeat: the next one needs a nonce
        of its own, once the chain can no longer take this one. However often it is told, it counts once for a nonce.
        What is paid stays paid, whatever a repeat of it is told.
        """

        def changed(entry: Entry) -> Entry:
            if entry.state not in ("signed", "refused") or entry.header != header:
                return entry
            nonces = len({a.nonce for a in entry.authorizations})
            return replace(entry, state="refused", attempt=max(entry.attempt, nonces) if dead else entry.attempt)

        self._change(id, changed)

    def void(self, id: str, reasons: Mapping[int, Void]) -> None:
        """Keeps what the chain says of authorizations, by their places."""

        def changed(entry: Entry) -> Entry:
            return replace(
                entry,
                authorizations=tuple(
                    replace(a, void=reasons.get(i, a.void)) for i, a in enumerate(entry.authorizations)
                ),
            )

        self._change(id, changed)

    def pin_payee(self, origin: str, pay_to: str) -> None:
        """Keeps the payee of an origin when it is first seen, and refuses another one ever after."""
        known = self._read().payees.get(origin)
        pinned = known or self._update(lambda book: book.payees.setdefault(origin, pay_to))
        if not same_address(pinned, pay_to):
            raise TermsMismatchError(
                f"the payee of {origin} was {pinned} and now is {pay_to}; set Policy.pay_to to the right one"
            )

    def _change(self, id: str, change: Callable[[Entry], Entry]) -> None:
        def update(book: Book) -> None:
            if id in book.purchases:
                book.purchases[id] = change(book.purchases[id])

        self._update(update)

    def _read(self) -> Book:
        with _explained():
            return self.store.read()

    def _update(self, change: Callable[[Book], T]) -> T:
        with _explained():
            return self.store.update(change)


def new_holder() -> str:
    """A name for whoever takes a turn."""
    return str(uuid.uuid4())


def canonical(request: Mapping[str, Any]) -> str:
    """The spelling of JSON with sorted members, so that equal requests have equal texts."""
    return json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def default_journal(environ: Mapping[str, str] = os.environ) -> str:
    """The folder that the clients of all languages share.

    What ROAMCARD_JOURNAL names, or roamcard below XDG_STATE_HOME, which is ~/.local/state when it is not set.
    """
    if named := environ.get("ROAMCARD_JOURNAL", "").strip():
        return named
    state = environ.get("XDG_STATE_HOME", "")
    return os.path.join(state if os.path.isabs(state) else os.path.expanduser("~/.local/state"), "roamcard")


def _fit(entry: Entry, key: str, request: Mapping[str, Any]) -> None:
    if canonical(entry.request) != canonical(request):
        raise KeyConflictError(key)


def _held(entry: Entry, holder: str, now: int) -> Entry:
    return (
        replace(entry, at=now, held_until=now + _TURN) if (entry.state, entry.holder) == ("reserved", holder) else entry
    )


def _spent(entry: Entry, now: int) -> int:
    """What a purchase takes of the budget of the last day."""
    reserved = int(entry.amount) if entry.state == "reserved" and entry.at > now - _RESERVATION else 0
    return reserved + _taken(entry.authorizations, now)


def _taken(authorizations: tuple[SignedAuthorization, ...], now: int, nonce: str = "", amount: int = 0) -> int:
    """What authorizations could take, and one more.

    The token takes a nonce once, so of those that share one only the largest counts. Only the chain frees one: a
    service that says no money moved may have taken it all the same.
    """
    most = {nonce: amount}
    for a in authorizations:
        if a.is_live(now) or (a.void is None and a.signed_at > now - _DAY):
            most[a.nonce] = max(most.get(a.nonce, 0), int(a.amount))
    return sum(most.values())


def _cap(spent: int, per_day: int | None) -> None:
    if per_day is not None and spent > per_day:
        raise PolicyDeniedError(
            f"with it, {dollars_of(spent)} US dollars would be signed for in a day, "
            f"and {dollars_of(per_day)} are allowed by "
            "Policy.max_per_day_usd (ROAMCARD_MAX_PER_DAY_USD)"
        )


@contextmanager
def _explained() -> Iterator[None]:
    """Tells a store that fails from a service that does not answer."""
    try:
        yield
    except RoamcardError:
        raise
    except Exception as error:
        raise JournalError("of the store", "failed", str(error)) from error
