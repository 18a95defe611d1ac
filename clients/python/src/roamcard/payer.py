"""Pays for purchases, each at most once: the payment algorithm."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Protocol, TypeVar

from .answered import AnotherOrderError, fault_of, order_in
from .chain import Chain
from .errors import (
    AmbiguousPaymentError,
    ApprovalDeniedError,
    ClockError,
    InsufficientFundsError,
    NotDeployedError,
    PaymentError,
    PolicyDeniedError,
    RoamcardError,
    TermsMismatchError,
    naming,
    printable,
)
from .journal import CLOCK_DIFFERENCE, Entry, Journal, SignedAuthorization, Turn, canonical, new_holder
from .money import dollars_of, units_of_cents
from .policy import Expected, Policy, Quote, Quoted, check_terms
from .programs import Do, Done, Pause, Program, Refused, Send, Unclear
from .signers import Signer
from .smartaccount import SafeAccount, names_creation, of_account
from .x402 import Terms, authorization_typed_data, decode_payment, decode_terms, encode_payment, nonce_of, same_address

T = TypeVar("T")

CARD_PATH = "/api/card/purchase"
TOPUP_PATH = "/api/card/topup"
ESIM_PATH = "/api/esim/purchase"
ESIM_TOPUP_PATH = "/api/esim/orders/{orderId}/topup"
"""More data for an eSIM, whichever that is."""
PAY_PATH = "/pay"
"""Where orders are paid that were made first; the id of the order comes after it."""

_BACKDATE = 600
_FIRST_PAUSE = 0.25
_LAST_PAUSE = 4.0
_LONGEST_PAUSE = 30.0
_TURN_PAUSE = 0.25
_VALIDITY = 120
"""How many seconds a payment is signed for, unless the offer allows less."""


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

    def cheapest_plan(self) -> Program[str]: ...

    def order_units(self, order_id: str) -> Program[int | None]:
        """None for a wallet that cannot sign in."""
        ...


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
        """The request in one spelling."""
        return canonical(self.request)

    def price(self, published: Published, prices: Prices) -> Program[int | None]:
        """What the service has to ask for, in USDC's smallest unit; None when only the caps decide."""
        if self.operation == CARD_PATH:
            return units_of_cents(published.card_cents)
        if self.operation == PAY_PATH:
            return (yield from prices.order_units(self.key))
        if self.operation == ESIM_PATH:
            return (yield from prices.plan_units(str(self.request.get("planId", ""))))
        if self.operation == ESIM_TOPUP_PATH:
            return None  # the service tells the owner only
        cents = self.request.get("amountUsdCents")
        return units_of_cents(cents if type(cents) is int else published.default_topup_cents)


@dataclass(frozen=True)
class Events:
    """What happens during a payment, for logs and progress. What a handler raises is logged and changes nothing."""

    on_quote: Callable[[Quote], None] | None = None
    on_approval: Callable[[Quote], None] | None = None
    """The policy, and the person where it asks one, said yes."""
    on_signed: Callable[[Quote], None] | None = None
    on_replay: Callable[[str, int, Exception], None] | None = None
    """The idempotency key, the number of the repeat from 1, and why."""
    on_settled: Callable[[str], None] | None = None
    on_unkept: Callable[[str, Exception], None] | None = None
    """The answer stands, but could not be written down: the next call with the key sends the same bytes."""


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
    chain: Chain | None = None
    """A node that the caller trusts: what it shows to be void gives its budget back at once."""
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("roamcard"))

    def pay(self, purchase: Purchase) -> Program[Any]:
        """Makes a purchase and returns its answer. After AmbiguousPaymentError do it again with the same key."""
        return (yield from self._keyed(self.identity(purchase), purchase.key, self._paid(purchase)))

    def _paid(self, purchase: Purchase) -> Program[Any]:
        id = self.identity(purchase)
        known = yield from self._find(purchase)
        terms: Terms | None = None
        if known is not None:
            reply = yield from self._present(purchase, id, known)
            if isinstance(reply, Done):
                return reply.value
            # Until the chain can no longer take a payment, there is no other one of its purchase.
            if reply.terms is None or (yield from self._is_live(id)):
                raise (yield from self._failure(purchase, id, reply))
            terms = _terms_of(reply.terms, reply.date)
        terms = terms or (yield from self._ask(purchase))
        entry = yield from self._sign(purchase, id, terms)
        reply = yield from self._present(purchase, id, entry)
        if isinstance(reply, Done):
            return reply.value
        raise (yield from self._failure(purchase, id, reply))

    def plan_for(self, key: str) -> Program[str]:
        """The plan that a purchase of any eSIM is of: the one that the journal has for its key, or the cheapest."""
        id = nonce_of(self.origin, ESIM_PATH, self.signer.address, key)

        def plan() -> Program[str]:
            known: Entry | None = yield Do(lambda: self.journal.entry(id))
            plan = known.request.get("planId") if known is not None else None
            return plan if isinstance(plan, str) else (yield from self.prices.cheapest_plan())

        return (yield from self._keyed(id, key, plan()))

    def quote(self, purchase: Purchase) -> Program[Quoted]:
        """Asks for the price, checks it, and signs nothing."""
        terms = yield from self._ask(purchase)
        quote, _ = yield from self._check(purchase, terms)
        asks = self.policy.asks(quote.amount)
        try:
            self.policy.cap(quote.operation, quote.amount)
            yield Do(lambda: self.journal.room(quote.amount, self.policy.per_day))
        except PolicyDeniedError as error:
            return Quoted(quote, False, asks, str(error))
        return Quoted(quote, True, asks)

    def send_signed(self, purchase: Purchase, header: str) -> Program[Done[Any] | Refused]:
        """Takes over a payment that somebody else signed, such as the official x402 client.

        It is held to the policy, kept, and sent until the answer is clear. When the purchase has a payment already,
        that one is sent instead.
        """

        def sent() -> Program[Done[Any] | Refused]:
            id = self.identity(purchase)
            entry = (yield from self._find(purchase)) or (yield from self._adopt(purchase, id, header))
            return (yield from self._present(purchase, id, entry))

        return (yield from self._keyed(self.identity(purchase), purchase.key, sent()))

    def resume(self, purchase: Purchase) -> Program[Done[Any] | Refused | None]:
        """Sends the payment that a purchase has already; None when it has none."""

        def resumed() -> Program[Done[Any] | Refused | None]:
            known = yield from self._find(purchase)
            return None if known is None else (yield from self._present(purchase, self.identity(purchase), known))

        return (yield from self._keyed(self.identity(purchase), purchase.key, resumed()))

    def ask(self, purchase: Purchase) -> Program[Done[Any] | Refused | Unclear]:
        """Asks for the price once, for somebody else to sign: terms that are not as published are not passed on.

        Whether the policy lets them be paid is held when the payment comes.
        """

        def asked() -> Program[Done[Any] | Refused | Unclear]:
            reply: Done[Any] | Refused | Unclear = yield Send(None)
            if isinstance(reply, Done):
                raise _unpaid()
            if isinstance(reply, Refused) and reply.terms is not None:
                yield from self._checked(purchase, _terms_of(reply.terms, reply.date))
            return reply

        return (yield from self._keyed(self.identity(purchase), purchase.key, asked()))

    def identity(self, purchase: Purchase) -> str:
        """The purchase's id, which is its payment's nonce."""
        return nonce_of(self.origin, purchase.path, self.signer.address, purchase.key)

    def _keyed(self, id: str, key: str, program: Program[T]) -> Program[T]:
        """Lets what fails after a payment was signed, or where nobody knows, say what to call again with."""
        try:
            return (yield from program)
        except GeneratorExit:
            raise
        except BaseException as error:
            if isinstance(error, Exception) and not (yield from self._was_signed(id)):
                raise
            with naming(key):
                raise

    def _was_signed(self, id: str) -> Program[bool]:
        try:
            entry: Entry | None = yield Do(lambda: self.journal.entry(id))
        except RoamcardError:
            return True
        return entry is not None and len(entry.authorizations) > 0

    def _find(self, purchase: Purchase) -> Program[Entry | None]:
        id = self.identity(purchase)
        known: Entry | None = yield Do(lambda: self.journal.find(id, purchase.key, purchase.request))
        return known

    def _is_live(self, id: str) -> Program[bool]:
        """Whether the chain could still take the last payment of a purchase. It is asked if there is a node."""
        yield from self._prove(id)
        entry = yield from self._known(id)
        return entry is None or entry.state != "refused" or entry.live_until(self.journal.now()) is not None

    def _prove(self, id: str | None) -> Program[None]:
        """Keeps what the chain says of the payments of a purchase, or of all.

        What cannot be asked or kept stays as it is.
        """
        chain = self.chain
        if chain is None:
            return

        def prove() -> None:
            for at, entry in self.journal.entries().items():
                if (id is None or at == id) and entry.state in ("refused", "signed") and (voids := chain.voids(entry)):
                    self.journal.void(at, voids)

        try:
            yield Do(prove)
        except RoamcardError as error:
            self.logger.warning("the journal was not written: %s", error)

    def _known(self, id: str) -> Program[Entry | None]:
        """A purchase as the journal has it; None, too, when it cannot be read: the answer is returned all the same."""
        try:
            entry: Entry | None = yield Do(lambda: self.journal.entry(id))
        except RoamcardError:
            return None
        return entry

    def _failure(self, purchase: Purchase, id: str, reply: Refused) -> Program[Exception]:
        """A refusal as an error, with what to call again with and when."""
        entry = yield from self._known(id)
        reply.error.idempotency_key = purchase.key
        # Another signature of an account of a kind that is not accepted is none, too.
        if entry is not None and reply.error.code != "payer_kind_not_accepted":
            reply.error.retry_at = entry.live_until(self.journal.now())
        reply.error.retryable = reply.error.retryable or reply.error.retry_at is not None
        return _failure_of(reply)

    def _ask(self, purchase: Purchase) -> Program[Terms]:
        """Gets the terms. Losing an answer here costs nothing, so it asks again."""
        for replay in range(self.max_replays + 1):
            reply = yield Send(None)
            if isinstance(reply, Done):
                raise _unpaid()
            if isinstance(reply, Refused) and reply.terms is not None:
                return _terms_of(reply.terms, reply.date)
            if isinstance(reply, Refused) or reply.answered or replay == self.max_replays:
                raise reply.error
            yield Pause(min(_FIRST_PAUSE * 2**replay, _LAST_PAUSE))
        raise AssertionError("unreachable")

    def _check(self, purchase: Purchase, terms: Terms) -> Program[tuple[Quote, dict[str, Any]]]:
        quote, offer = yield from self._checked(purchase, terms)
        self._tell("on_quote", quote)
        return quote, offer

    def _checked(self, purchase: Purchase, terms: Terms) -> Program[tuple[Quote, dict[str, Any]]]:
        """Holds terms to what is published and pinned."""
        published = yield from self.prices.published()
        pay_to = self.policy.pay_to or published.pay_to
        price = yield from purchase.price(published, self.prices)
        offer = check_terms(self.policy, terms, Expected(purchase.resource, pay_to, published.domain, price))
        if self.policy.pay_to is None:
            yield Do(lambda: self.journal.pin_payee(self.origin, offer["payTo"]))
        amount = int(offer["amount"])
        quote = Quote(
            purchase.operation,
            purchase.key,
            amount,
            dollars_of(amount),
            offer["payTo"],
            offer["asset"],
            offer["network"],
            terms.resource["url"],
        )
        return quote, offer

    def _sign(self, purchase: Purchase, id: str, terms: Terms) -> Program[Entry]:
        """Takes turn and budget, asks, signs and keeps the payment.

        Whatever fails before it is kept gives both back.
        """
        quote, offer = yield from self._check(purchase, terms)
        holder, turn = yield from self._turn(purchase, id, quote)
        if turn.payment is not None:
            return turn.payment
        with self.journal.holding(id, holder):
            yield from self._approve(quote)
            now = int(time.time())
            valid_before = now + min(int(offer["maxTimeoutSeconds"]), _VALIDITY)
            nonce = nonce_of(self.origin, purchase.path, self.signer.address, purchase.key, turn.attempt or 0)
            authorization = {
                "from": self.signer.address, "to": offer["payTo"], "value": offer["amount"],
                "validAfter": str(now - _BACKDATE), "validBefore": str(valid_before), "nonce": nonce,
            }  # fmt: skip
            data = authorization_typed_data(offer, authorization)
            signature = yield Do(lambda: _signature_of(self.signer, data, self.chain))
            header = encode_payment(terms, offer, authorization, signature)
            entry = yield from self._keep(
                purchase, id, holder, header, SignedAuthorization(nonce, offer["amount"], now, valid_before)
            )
        with naming(purchase.key):
            self._tell("on_signed", quote)
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
        now, valid_before, nonce = int(time.time()), int(signed["validBefore"]), signed["nonce"].lower()
        if valid_before > now + accepted["maxTimeoutSeconds"] + CLOCK_DIFFERENCE:
            raise TermsMismatchError("the authorization is good for longer than the terms allow; it was not sent")
        if not re.fullmatch("0x[0-9a-f]{64}", nonce):
            raise TermsMismatchError("the authorization has no nonce of 32 bytes; it was not sent")
        holder, turn = yield from self._turn(purchase, id, quote)
        if turn.payment is not None:
            return turn.payment
        with self.journal.holding(id, holder):
            yield from self._approve(quote)
            authorization = SignedAuthorization(nonce, accepted["amount"], now, valid_before)
            return (yield from self._keep(purchase, id, holder, header, authorization))

    def _keep(
        self, purchase: Purchase, id: str, holder: str, header: str, authorization: SignedAuthorization
    ) -> Program[Entry]:
        """Keeps a signed payment. One that cannot be kept is not sent, and its error says what was signed."""
        with naming(purchase.key):
            entry: Entry = yield Do(lambda: self.journal.sign(id, holder, header, authorization))
        return entry

    def _turn(self, purchase: Purchase, id: str, quote: Quote) -> Program[tuple[str, Turn]]:
        """Takes the turn to sign and the budget, or what somebody else has signed meanwhile."""
        self.policy.cap(quote.operation, quote.amount)
        holder, per_day = new_holder(), self.policy.per_day
        wanted = Entry(
            purchase.key,
            purchase.operation,
            self.origin,
            purchase.path,
            self.signer.address.lower(),
            dict(purchase.request),
            str(quote.amount),
            holder=holder,
        )
        while True:
            try:
                turn: Turn = yield Do(lambda: self.journal.reserve(id, wanted, per_day))
            except PolicyDeniedError:
                if self.chain is None:
                    raise
                yield from self._prove(None)
                turn = yield Do(lambda: self.journal.reserve(id, wanted, per_day))
            if turn.payment is not None or turn.attempt is not None:
                return holder, turn
            yield Pause(_TURN_PAUSE)

    def _approve(self, quote: Quote) -> Program[None]:
        approve = self.policy.approve
        if self.policy.asks(quote.amount):
            if approve is None:
                raise PolicyDeniedError(
                    f"{self.policy.mode} needs Policy.approve, a function, "
                    f"for a payment of {quote.amount_usd} US dollars"
                )
            if (yield Do(lambda: approve(quote))) is not True:
                raise ApprovalDeniedError(f"the payment of {quote.amount_usd} US dollars was not approved")
        self._tell("on_approval", quote)

    def _present(self, purchase: Purchase, id: str, entry: Entry) -> Program[Done[Any] | Refused]:
        """Sends a kept payment until the answer is clear.

        Whatever is raised from then on says what to call again with.
        """
        with naming(purchase.key):
            return (yield from self._sent(purchase, id, entry))

    def _sent(self, purchase: Purchase, id: str, entry: Entry) -> Program[Done[Any] | Refused]:
        """Sends a kept payment, the same bytes every time, and keeps what came of it."""
        header = entry.header or ""
        order_id = entry.order_id
        for replay in range(self.max_replays + 1):
            reply: Done[Any] | Refused | Unclear = yield Send(header)
            if isinstance(reply, Done):
                order = order_in(reply.order)
                if (fault := fault_of(order, entry)) is None:
                    settled = str(order.order_id) if order else ""
                    yield from self._noted(purchase, partial(self.journal.settle, id, settled))
                    self._tell("on_settled", purchase.key)
                    return reply
                reply = Unclear(fault, True)
            if isinstance(reply, Refused):
                yield from self._noted(purchase, partial(self.journal.refuse, id, header, reply.dead))
                return reply
            order_id = order_id or reply.order_id
            if replay == self.max_replays or isinstance(reply.error, AnotherOrderError):
                raise AmbiguousPaymentError(
                    purchase.key, order_id, getattr(reply.error, "request_id", "")
                ) from reply.error
            self._tell("on_replay", purchase.key, replay + 1, reply.error)
            pause = min(_FIRST_PAUSE * 2**replay, _LAST_PAUSE) if reply.wait is None else reply.wait
            yield Pause(min(pause, _LONGEST_PAUSE))
        raise AssertionError("unreachable")

    def _noted(self, purchase: Purchase, write: Callable[[], None]) -> Program[None]:
        """Returns an answer even if it could not be stored: the next call with the key gets it again."""
        try:
            yield Do(write)
        except RoamcardError as error:
            self._tell("on_unkept", purchase.key, error)

    def _tell(self, event: str, *told: Any) -> None:
        """Reports an event.

        A handler in error must not keep a payment from being sent, nor make a sent one look unsent.
        """
        try:
            if handle := getattr(self.events, event):
                handle(*told)
        except Exception as error:
            self.logger.warning("the event handler %s failed: %s", event, printable(error))


def _unpaid() -> TermsMismatchError:
    return TermsMismatchError("the service gave the purchase away unpaid")


def _terms_of(header: str, date: str | None) -> Terms:
    """Reads a challenge that may be signed for."""
    _compare_clocks(date)
    return decode_terms(header)


def _compare_clocks(date: str | None) -> None:
    """Refuses to sign by a clock unlike the service's: the payment would be refused, or be valid for too long."""
    try:
        theirs = parsedate_to_datetime(date or "")
    except ValueError:
        return
    ours = datetime.now(timezone.utc)
    if (
        abs((ours - (theirs if theirs.tzinfo else theirs.replace(tzinfo=timezone.utc))).total_seconds())
        > CLOCK_DIFFERENCE
    ):
        raise ClockError(f"it is {ours:%Y-%m-%d %H:%M:%S} UTC here, and {date} at the service; nothing was signed")


def _signature_of(signer: Signer, data: dict[str, Any], chain: Chain | None) -> str:
    """Has the wallet sign a payment.

    A smart account is looked for on the chain when there is a node to ask, unless its signature says how it is made:
    without code, nobody could move its money by the signature.
    """
    try:
        signature = signer.sign_typed_data(data)
    except RoamcardError:
        raise
    except Exception as error:
        raise PaymentError("the wallet did not sign; nothing was sent") from error
    plain = re.fullmatch("0x[0-9a-fA-F]{130}", signature) and not isinstance(signer, SafeAccount)
    if plain or names_creation(signature):
        return signature
    if not of_account(signature) and not isinstance(signer, SafeAccount):
        raise PaymentError("the wallet returned no signature of 65 bytes, nor one of a smart account; nothing was sent")
    if chain is not None and chain.lacks_code(signer.address):
        raise NotDeployedError(f"the smart account {signer.address} has no code; deploy it first. Nothing was sent")
    return signature


def _failure_of(reply: Refused) -> Exception:
    """Gives the one refusal that people can fix by themselves a type of its own."""
    if reply.terms is None or not re.search("insufficient_(balance|funds)", _reason_in(reply.terms)):
        return reply.error
    failure = InsufficientFundsError(reply.error.request_id)
    failure.idempotency_key = reply.error.idempotency_key
    failure.__cause__ = reply.error
    return failure


def _reason_in(terms: str) -> str:
    try:
        return decode_terms(terms).error
    except TermsMismatchError:
        return ""


def named(purchase: Purchase, plan_id: str) -> Purchase:
    """A purchase of any eSIM as one of a plan."""
    return replace(purchase, request={**purchase.request, "planId": plan_id})
