"""Pays for purchases, each at most once: the payment algorithm."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from .errors import (
    AmbiguousPaymentError,
    ApprovalDeniedError,
    InsufficientFundsError,
    PaymentError,
    PolicyDeniedError,
    RoamcardError,
    TermsMismatchError,
)
from .journal import Entry, Journal
from .money import dollars_of, units_of_cents
from .policy import Expected, Policy, Quote, Quoted, check_terms
from .programs import Do, Done, Pause, Program, Refused, Send, Unclear
from .signers import Signer
from .x402 import Terms, authorization_typed_data, decode_payment, decode_terms, encode_payment, nonce_of, same_address

CARD_PATH = "/api/card/purchase"
TOPUP_PATH = "/api/card/topup"
ESIM_PATH = "/api/esim/purchase"
PAY_PATH = "/pay"
"""Where orders are paid that were made first; the id of the order comes after it."""

_BACKDATE = 600
_FIRST_PAUSE = 0.25
_LAST_PAUSE = 4.0
_LONGEST_PAUSE = 30.0
_CLAIM_PAUSE = 0.1


@dataclass(frozen=True)
class Published:
    """What the service publishes about payments."""

    pay_to: str
    domain: tuple[str, str]
    """The name and version of the asset's EIP-712 domain."""
    card_cents: int
    default_topup_cents: int


class Prices(Protocol):
    """Reads what things cost, in USDC's smallest unit."""

    def published(self) -> Program[Published]: ...

    def plan_units(self, plan_id: str) -> Program[int]: ...

    def order_units(self, order_id: str) -> Program[int | None]:
        """None for a wallet that cannot sign in."""


@dataclass(frozen=True)
class Purchase:
    """What is bought."""

    operation: str
    """The documented path; it names the purchase whatever the protocol."""
    key: str
    """The idempotency key; the id of an order that was made first."""
    request: Mapping[str, Any]
    resource: str
    """What the challenge has to name, see Expected."""

    @property
    def path(self) -> str:
        """What the nonce is derived from."""
        return f"{PAY_PATH}/{self.key}" if self.operation == PAY_PATH else self.operation

    @property
    def fingerprint(self) -> str:
        """A digest of the request in one spelling; a key belongs to it for good."""
        return hashlib.sha256(json.dumps(self.request, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def price(self, published: Published, prices: Prices) -> Program[int | None]:
        """What the service has to ask for, in USDC's smallest unit; None when only the caps decide."""
        if self.operation == CARD_PATH:
            return units_of_cents(published.card_cents)
        if self.operation == PAY_PATH:
            return (yield from prices.order_units(self.key))
        if self.operation == ESIM_PATH:
            plan: str | None = self.request.get("planId")
            return None if plan is None else (yield from prices.plan_units(plan))
        return units_of_cents(int(self.request.get("amountUsdCents", published.default_topup_cents)))


@dataclass(frozen=True)
class Events:
    """What happens during a payment, for logs and progress."""

    on_quote: Callable[[Quote], None] | None = None
    on_approval: Callable[[Quote], None] | None = None
    """The policy, and the person where it asks one, said yes."""
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
    prices: Prices

    def pay(self, purchase: Purchase) -> Program[Any]:
        """Makes a purchase and returns its answer. After AmbiguousPaymentError do it again with the same key."""
        id = self.identity(purchase)
        known = yield from self._find(purchase)
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
        entry = yield from self._alone(purchase, lambda: self._sign(purchase, id, terms))
        reply = yield from self._present(purchase, id, entry)
        if isinstance(reply, Done):
            return reply.value
        raise _failure_of(reply)

    def quote(self, purchase: Purchase) -> Program[Quoted]:
        """Asks for the price, checks it, and signs nothing."""
        terms = yield from self._ask(purchase)
        quote, _ = yield from self._check(purchase, terms)
        asks = self.policy.asks(quote.amount)
        try:
            self.policy.cap(quote.operation, quote.amount)
            yield Do(lambda: self.journal.room(self.identity(purchase), quote.amount, self.policy.per_day))
        except PolicyDeniedError as error:
            return Quoted(quote, False, asks, str(error))
        return Quoted(quote, True, asks)

    def carry(self, purchase: Purchase, header: str) -> Program[Done[Any] | Refused]:
        """Takes over a payment that somebody else signed, such as the official x402 client.

        It is held to the policy, kept, and sent until the answer is clear. When the purchase has a payment already, that one
        is sent instead.
        """
        id = self.identity(purchase)
        known = yield from self._find(purchase)
        entry = known or (yield from self._alone(purchase, lambda: self._adopt(purchase, id, header)))
        return (yield from self._present(purchase, id, entry))

    def resume(self, purchase: Purchase) -> Program[Done[Any] | Refused | None]:
        """Sends the payment that a purchase has already; None when it has none."""
        known = yield from self._find(purchase)
        return None if known is None else (yield from self._present(purchase, self.identity(purchase), known))

    def identity(self, purchase: Purchase) -> str:
        """The purchase's id, which is its payment's nonce."""
        return nonce_of(self.origin, purchase.path, self.signer.address, purchase.key)

    def _find(self, purchase: Purchase) -> Program[Entry | None]:
        id, fingerprint = self.identity(purchase), purchase.fingerprint
        known: Entry | None = yield Do(lambda: self.journal.find(id, purchase.key, fingerprint))
        return known

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
        published = yield from self.prices.published()
        pay_to = self.policy.pay_to or published.pay_to
        price = yield from purchase.price(published, self.prices)
        offer = check_terms(self.policy, terms, Expected(purchase.resource, pay_to, published.domain, price))
        if self.policy.pay_to is None:
            yield Do(lambda: self.journal.pin_payee(self.origin, offer["payTo"]))
        amount = int(offer["amount"])
        quote = Quote(
            purchase.operation, purchase.key, amount, dollars_of(amount), offer["payTo"], offer["asset"], offer["network"], terms.resource["url"]
        )
        if self.events.on_quote:
            self.events.on_quote(quote)
        return quote, offer

    def _alone(self, purchase: Purchase, sign: Callable[[], Program[Entry]]) -> Program[Entry]:
        """Lets one of all who share the store sign, and the others take what was signed."""
        id = self.identity(purchase)
        # Neither waits, so neither is left to another thread, where a caller who gives up would lose it.
        while (end := self.journal.store.claim(id)) is None:
            yield Pause(_CLAIM_PAUSE)
        try:
            return (yield from self._find(purchase)) or (yield from sign())
        finally:
            end()

    def _sign(self, purchase: Purchase, id: str, terms: Terms) -> Program[Entry]:
        """Takes the budget, asks, signs and keeps the payment. Whatever fails before it is kept gives the budget back."""
        quote, offer = yield from self._check(purchase, terms)
        attempt = yield from self._reserve(purchase, id, quote)
        try:
            yield from self._approve(quote)
            now = int(time.time())
            nonce = nonce_of(self.origin, purchase.path, self.signer.address, purchase.key, attempt)
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

    def _adopt(self, purchase: Purchase, id: str, header: str) -> Program[Entry]:
        """Holds a payment of another signer to the terms and the policy, and keeps it."""
        payment = decode_payment(header)
        if payment is None:
            raise TermsMismatchError("the PAYMENT-SIGNATURE header cannot be read; it was not sent")
        signed, accepted = payment.authorization, payment.accepted
        # What it pays for is what is called: the service holds it to that too.
        resource = purchase.resource + (purchase.key if purchase.resource.endswith("/") else "")
        quote, _ = yield from self._check(purchase, Terms(2, "", {"url": resource}, [accepted]))
        fits = same_address(signed["from"], self.signer.address) and same_address(signed["to"], accepted["payTo"])
        if not fits or signed["value"] != accepted["amount"]:
            raise TermsMismatchError("the authorization is not for the terms it accepts; it was not sent")
        yield from self._reserve(purchase, id, quote)
        try:
            yield from self._approve(quote)
            entry: Entry = yield Do(lambda: self.journal.sign(id, header, int(signed["validBefore"])))
        except BaseException:
            self.journal.release(id)
            raise
        return entry

    def _reserve(self, purchase: Purchase, id: str, quote: Quote) -> Program[int]:
        self.policy.cap(quote.operation, quote.amount)
        wanted = Entry(purchase.key, purchase.operation, self.signer.address, purchase.fingerprint, str(quote.amount))
        attempt: int = yield Do(lambda: self.journal.reserve(id, wanted, self.policy.per_day))
        return attempt

    def _approve(self, quote: Quote) -> Program[None]:
        approve = self.policy.approve
        if self.policy.asks(quote.amount):
            if approve is None:
                raise PolicyDeniedError(f"{self.policy.mode} needs an approve function for a payment of {quote.amount_usd} US dollars")
            if (yield Do(lambda: approve(quote))) is not True:
                raise ApprovalDeniedError(f"the payment of {quote.amount_usd} US dollars was not approved")
        if self.events.on_approval:
            self.events.on_approval(quote)

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
                safe = reply.error.safe_to_pay_again
                yield Do(partial(self.journal.refuse, id, header, safe=safe, dead=reply.dead))
                return reply
            order_id = order_id or reply.order_id
            if replay == self.max_replays:
                raise AmbiguousPaymentError(purchase.key, order_id, getattr(reply.error, "request_id", "")) from reply.error
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
        failure = InsufficientFundsError(reply.error.request_id)
        failure.__cause__ = reply.error
        return failure
    return reply.error
