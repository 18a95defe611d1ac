"""What a client does, as programs without input or output.

A program is a generator that yields what it needs done and is given the outcome. The clients, one that blocks and one that
awaits, carry the same programs out; so the payment algorithm exists once.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from .errors import (
    AmbiguousPaymentError,
    ApiError,
    ApprovalDeniedError,
    InsufficientFundsError,
    PaymentError,
    PolicyDeniedError,
    RoamcardError,
    TermsMismatchError,
)
from .journal import Entry, Journal
from .money import dollars_of, units_of_cents
from .policy import Expected, Policy, Quote, check_terms
from .signers import Signer
from .x402 import Terms, authorization_typed_data, decode_terms, encode_payment, nonce_of

T = TypeVar("T")

_BACKDATE = 600
_FIRST_PAUSE = 0.25
_LAST_PAUSE = 4.0
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True)
class Done(Generic[T]):
    """The request succeeded."""

    value: T


@dataclass(frozen=True)
class Refused:
    """A final answer that is no success; with the PAYMENT-REQUIRED header when it is a 402."""

    error: ApiError
    terms: str | None = None
    dead: bool = False
    """Whether PAYMENT-RESPONSE proves a payment dead that was taken up before."""


@dataclass(frozen=True)
class Unclear:
    """No answer, or one that says nothing about the money."""

    error: Exception
    answered: bool = False
    order_id: str | None = None
    wait: float | None = None


# What a program asks for.


@dataclass(frozen=True)
class Send:
    """Send the purchase, with a PAYMENT-SIGNATURE header when there is one. Gives a Done, Refused or Unclear."""

    payment: str | None


@dataclass(frozen=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Do:
    """Call something that may block, or give an awaitable, and give its result."""

    act: Callable[[], Any]


@dataclass(frozen=True)
class Read:
    """Read what the service publishes about payments. Gives a Published."""


@dataclass(frozen=True)
class ReadPlan:
    """Read what a plan of the catalogue costs now. Gives USDC's smallest units."""

    plan_id: str


Program: TypeAlias = Generator[Any, Any, T]


@dataclass(frozen=True)
class Published:
    """What the service publishes about payments."""

    pay_to: str
    domain: tuple[str, str]
    """The name and version of the asset's EIP-712 domain."""
    card_cents: int
    default_topup_cents: int


@dataclass(frozen=True)
class Purchase:
    """What is bought."""

    operation: str
    """The documented path; it names the purchase whatever the protocol."""
    key: str
    request: Mapping[str, Any]
    resource: str
    """The URL that the challenge has to name."""

    @property
    def fingerprint(self) -> str:
        """A digest of the request in one spelling; a key belongs to it for good."""
        return hashlib.sha256(json.dumps(self.request, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def price(self, published: Published) -> Program[int | None]:
        """What the service has to ask for, in USDC's smallest unit; None when only the caps decide."""
        if self.operation == "/api/card/purchase":
            return units_of_cents(published.card_cents)
        if self.operation == "/api/esim/purchase":
            plan: str | None = self.request.get("planId")
            return None if plan is None else (yield ReadPlan(plan))
        return units_of_cents(int(self.request.get("amountUsdCents", published.default_topup_cents)))


@dataclass(frozen=True)
class Events:
    """What happens during a payment, for logs and progress."""

    on_quote: Callable[[Quote], None] | None = None
    on_signed: Callable[[Quote], None] | None = None
    on_replay: Callable[[str, int, Exception], None] | None = None
    """The idempotency key, the number of the repeat from 1, and why."""
    on_settled: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Payer:
    """Pays for purchases, each at most once."""

    origin: str
    """The service's public origin: what its terms and messages name."""
    signer: Signer
    policy: Policy
    journal: Journal
    events: Events
    max_replays: int

    def pay(self, purchase: Purchase) -> Program[Any]:
        """Makes a purchase and returns its answer. After AmbiguousPaymentError do it again with the same key."""
        id, fingerprint = self.identity(purchase), purchase.fingerprint
        known: Entry | None = yield Do(lambda: self.journal.find(id, purchase.key, fingerprint))
        terms: Terms | None = None
        if known is not None:
            reply = yield from self._present(purchase, id, known)
            if isinstance(reply, Done):
                return reply.value
            # Only an authorization that is dead, and that the service says bought nothing, is replaced. Unless the service
            # proved it dead, its successor has the same nonce, so that even a service in error could take but one of them.
            if reply.terms is None or not (reply.dead or (known.valid_before or 0) < time.time()):
                raise _failure_of(reply)
            terms = decode_terms(reply.terms)
        terms = terms or (yield from self._ask(purchase))
        entry = yield from self._sign(purchase, id, terms)
        reply = yield from self._present(purchase, id, entry)
        if isinstance(reply, Done):
            return reply.value
        raise _failure_of(reply)

    def quote(self, purchase: Purchase) -> Program[Quote]:
        """Asks for the price, checks it, and signs nothing."""
        terms = yield from self._ask(purchase)
        quote, _ = yield from self._check(purchase, terms)
        return quote

    def identity(self, purchase: Purchase) -> str:
        """The purchase's id, which is its payment's nonce."""
        return nonce_of(self.origin, purchase.operation, self.signer.address, purchase.key)

    def _ask(self, purchase: Purchase) -> Program[Terms]:
        """Gets the terms. Losing an answer here costs nothing, so it asks again."""
        for replay in range(self.max_replays + 1):
            reply = yield Send(None)
            if isinstance(reply, Done):
                raise TermsMismatchError("the service gave the purchase away unpaid")
            if isinstance(reply, Refused) and reply.terms is not None:
                return decode_terms(reply.terms)
            if isinstance(reply, Refused) or reply.answered or replay == self.max_replays:
                raise reply.error
            yield Pause(min(_FIRST_PAUSE * 2**replay, _LAST_PAUSE))
        raise AssertionError("unreachable")

    def _check(self, purchase: Purchase, terms: Terms) -> Program[tuple[Quote, dict[str, Any]]]:
        published: Published = yield Read()
        pay_to = self.policy.pay_to or published.pay_to
        price = yield from purchase.price(published)
        offer = check_terms(self.policy, terms, Expected(purchase.resource, pay_to, published.domain, price))
        if self.policy.pay_to is None:
            yield Do(lambda: self.journal.pin_payee(self.origin, offer["payTo"]))
        amount = int(offer["amount"])
        quote = Quote(
            purchase.operation, purchase.key, amount, dollars_of(amount), offer["payTo"], offer["asset"], offer["network"], purchase.resource
        )
        if self.events.on_quote:
            self.events.on_quote(quote)
        return quote, offer

    def _sign(self, purchase: Purchase, id: str, terms: Terms) -> Program[Entry]:
        """Takes the budget, asks, signs and keeps the payment. Whatever fails before it is kept gives the budget back."""
        quote, offer = yield from self._check(purchase, terms)
        self.policy.cap(quote.operation, quote.amount)
        wanted = Entry(purchase.key, purchase.operation, self.signer.address, purchase.fingerprint, str(quote.amount))
        attempt: int = yield Do(lambda: self.journal.reserve(id, wanted, self.policy.per_day))
        try:
            yield from self._approve(quote)
            now = int(time.time())
            nonce = nonce_of(self.origin, purchase.operation, self.signer.address, purchase.key, attempt)
            authorization = {
                "from": self.signer.address, "to": offer["payTo"], "value": offer["amount"],
                "validAfter": str(now - _BACKDATE), "validBefore": str(now + offer["maxTimeoutSeconds"]), "nonce": nonce,
            }  # fmt: skip
            data = authorization_typed_data(offer, authorization)
            signature = yield Do(lambda: _signature_of(self.signer, data))
            header = encode_payment(terms, offer, authorization, signature)
            entry: Entry = yield Do(lambda: self.journal.sign(id, header, now + offer["maxTimeoutSeconds"]))
        except BaseException:
            # Also when the caller gave up meanwhile: it is not kept, so it was not sent. This is quick and does not wait.
            self.journal.release(id)
            raise
        if self.events.on_signed:
            self.events.on_signed(quote)
        return entry

    def _approve(self, quote: Quote) -> Program[None]:
        approve = self.policy.approve
        if not self.policy.asks(quote.amount):
            return
        if approve is None:
            raise PolicyDeniedError(f"{self.policy.mode} needs an approve function for a payment of {quote.amount_usd} US dollars")
        if (yield Do(lambda: approve(quote))) is not True:
            raise ApprovalDeniedError(f"the payment of {quote.amount_usd} US dollars was not approved")

    def _present(self, purchase: Purchase, id: str, entry: Entry) -> Program[Done[Any] | Refused]:
        """Sends a kept payment until the answer is clear, the same bytes every time, and keeps what came of it."""
        header = entry.header or ""
        order_id: str | None = None
        for replay in range(self.max_replays + 1):
            reply: Done[Any] | Refused | Unclear = yield Send(header)
            if isinstance(reply, Done):
                yield Do(lambda: self.journal.settle(id))
                if self.events.on_settled:
                    self.events.on_settled(purchase.key)
                return reply
            if isinstance(reply, Refused):
                safe, dead = reply.error.safe_to_pay_again, reply.dead
                yield Do(lambda: self.journal.refuse(id, header, safe=safe, dead=dead))
                return reply
            order_id = order_id or reply.order_id
            if replay == self.max_replays:
                raise AmbiguousPaymentError(purchase.key, order_id) from reply.error
            if self.events.on_replay:
                self.events.on_replay(purchase.key, replay + 1, reply.error)
            pause = min(_FIRST_PAUSE * 2**replay, _LAST_PAUSE) if reply.wait is None else reply.wait
            yield Pause(min(pause, _LONGEST_PAUSE))
        raise AssertionError("unreachable")


def _signature_of(signer: Signer, data: dict[str, Any]) -> str:
    try:
        signature = signer.sign_typed_data(data)
    except RoamcardError:
        raise
    except Exception as error:
        raise PaymentError("the wallet did not sign; nothing was sent") from error
    if not re.fullmatch("0x[0-9a-fA-F]{130}", signature):
        raise PaymentError("the wallet returned no signature of 65 bytes; nothing was sent")
    return signature


def _failure_of(reply: Refused) -> Exception:
    """Gives the one refusal that people can mend by themselves a type of its own."""
    if reply.terms is not None and re.search("insufficient_(balance|funds)", decode_terms(reply.terms).error):
        failure = InsufficientFundsError("the wallet holds less USDC than the price; no money moved")
        failure.__cause__ = reply.error
        return failure
    return reply.error


def is_unclear(status: int, retryable: bool) -> bool:
    """Whether an answer of this status says nothing final about a payment."""
    return retryable or status >= 500 or status in (408, 425, 429)
