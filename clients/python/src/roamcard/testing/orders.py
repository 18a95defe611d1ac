"""The fake's orders and cards, and how they stand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ..x402 import NETWORK, same_address
from .token import Transfer

Members = dict[str, Any]
_OPEN = 30 * 60
_DELIVERY = 30 * 24 * 60 * 60
_UNSIGNED = "e30.e30."  # a receipt by nobody: what proves something is the service's


def stamp(seconds: float) -> str:
    """A time as the service writes it."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class FakeCard:
    """The card of a wallet."""

    id: str
    cents: int
    created: float
    status: str = "ACTIVE"
    limits: Members = field(default_factory=dict)
    """Those that its owner has set."""

    def show_details(self) -> Members:
        """What merchants ask for with it, as the service's sandbox has it."""
        billing: Members = {
            "name": "Sandbox Programme", "line1": "1 Example Street", "line2": "Suite 100", "city": "Dover",
            "region": "DE", "postalCode": "19901", "country": "US",
        }  # fmt: skip
        return {"cardId": self.id, "billingAddress": billing, "threeDSecure": {"method": "automatic"}}

    def show_limits(self) -> Members:
        """The limits as the owner sees them."""
        none: Members = {"allowedCategories": [], "blockedCategories": []}
        return {"cardId": self.id, "currency": "USD", **none, **self.limits}

    def show(self) -> Members:
        """The card as its owner sees it."""
        return {"id": self.id, "status": self.status, "last4": "4242", "createdAt": stamp(self.created)}


@dataclass
class FakeOrder:
    """An order; it is fulfilled once it was paid and looked at."""

    id: str
    operation_id: str
    kind: str
    plan_id: str | None
    cents: int
    owner: str
    created: float
    status: str = "payment_required"
    payment: Transfer | None = None
    card: FakeCard | None = None
    delivery: str | None = None
    """Opens the order without a session."""
    cancelled: bool = False
    """Whether its eSIM was given back."""
    of: FakeOrder | None = None
    """The eSIM that more data is for."""
    added_mb: int = 0
    """The data that was added to this eSIM, in mebibytes."""


@dataclass(frozen=True)
class Bought:
    """What is bought, as a request has it."""

    kind: str
    description: str
    key: str
    """The idempotency key; the id of an order that was made first."""
    cents: int
    plan_id: str | None = None
    open: FakeOrder | None = None
    of: FakeOrder | None = None
    """The eSIM that more data is for."""

    def same(self, order: FakeOrder) -> bool:
        """Whether two requests under one key are one."""
        alike = (self.kind, self.cents, self.plan_id) == (order.kind, order.cents, order.plan_id)
        return alike and self.of is order.of


class Orders:
    """The fake's orders and cards."""

    def __init__(self, said: Members, origin: str, now: Callable[[], float]) -> None:
        self.said = said
        self.origin = origin
        self.now = now
        self.all: list[FakeOrder] = []
        self.cards: dict[str, FakeCard] = {}
        self._counter = 0

    def id(self, what: str) -> str:
        """A name that no other one has."""
        self._counter += 1
        h = hashlib.sha256(f"{what}{self._counter}".encode()).hexdigest()
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-8{h[17:20]}-{h[20:32]}"

    def find(self, id: object) -> FakeOrder | None:
        """An order by its id."""
        return next((o for o in self.all if o.id == id), None)

    def of(self, wallet: str) -> list[FakeOrder]:
        """The orders of a wallet, newest first."""
        return [o for o in reversed(self.all) if same_address(o.owner, wallet)]

    def card(self, wallet: str) -> FakeCard | None:
        """The card of a wallet."""
        return self.cards.get(wallet.lower())

    def create(self, bought: Bought, owner: str) -> FakeOrder:
        """Makes an order."""
        id = "ord_" + self.id("order").replace("-", "")
        order = FakeOrder(id, self.id("operation"), bought.kind, bought.plan_id, bought.cents, owner, self.now())
        order.of = bought.of
        self.all.append(order)
        return order

    def pay(self, order: FakeOrder, payment: Transfer) -> None:
        """Gives what a payment bought: an eSIM at once, the rest by the next look."""
        terms = self.said["config"]["card"]
        order.payment, order.status = payment, "settled" if order.kind.startswith("card") else "fulfilled"
        if order.of is not None:
            order.of.added_mb += self._plan(order)["dataMb"]
        if order.kind == "card_issue":
            credit = terms["walletPaymentUsdCents"] - terms["cardIssueFeeUsdCents"]
            order.card = self.cards[order.owner.lower()] = FakeCard(self.id("card"), credit, self.now())
        card = self.card(order.owner)
        if order.kind == "card_topup" and card is not None:
            card.cents += order.cents - self._fee(order)

    def look(self, order: FakeOrder) -> Members:
        """Shows an order to who owns it; what was on its way has come."""
        if order.status == "settled":
            order.status = "fulfilled"
        return self.show(order)

    def show(self, order: FakeOrder) -> Members:
        """An order as it stands."""
        shown: Members = {
            "orderId": order.id, "operationId": order.operation_id, "kind": order.kind, "status": order.status,
            "amountUsdCents": order.cents, "createdAt": stamp(order.created),
            "updatedAt": stamp(order.payment.at if order.payment is not None else order.created),
        }  # fmt: skip
        if (paid := order.payment) is not None:
            shown["payment"] = {
                "payer": paid.payer, "network": NETWORK, "asset": self.said["config"]["network"]["asset"],
                "amount": str(paid.amount), "transaction": paid.transaction, "settledAt": stamp(paid.at),
            }  # fmt: skip
        else:
            shown.update(payable_url=f"{self.origin}/pay/{order.id}", expiresAt=stamp(order.created + _OPEN))
        if paid is not None and order.status == "fulfilled":
            shown["receipt"] = _UNSIGNED
        return {**shown, **self._goods(order)}

    def deliver(self, order: FakeOrder) -> Members:
        """A delivery that can be opened by a token of its own."""
        order.delivery = self.id("delivery")
        return {
            "status": "fulfilled",
            "planId": order.plan_id,
            "planName": self._plan(order)["name"],
            "token": order.delivery,
            "tokenExpiresAt": stamp(self.now() + _DELIVERY),
        }

    def _goods(self, order: FakeOrder) -> Members:
        def status(done: str) -> str:
            return {"payment_required": "unpaid", "settled": "queued"}.get(order.status, done)

        if order.kind == "esim":
            delivery = {"planId": order.plan_id, "planName": self._plan(order)["name"]}
            return {"delivery": {"status": status("fulfilled"), **delivery}}
        if order.of is not None:
            plan = self._plan(order)
            data = {"dataMb": plan["dataMb"], "unlimited": False, "validityDays": plan["validityDays"]}
            bought = {"planId": order.plan_id, "planName": plan["name"]}
            more = {"status": status("fulfilled"), "orderId": order.of.id, **bought, **data}
            return {"esimTopup": more}
        if order.kind == "card_topup":
            fee = self._fee(order)
            topup = {"grossUsdCents": order.cents, "loadFeeUsdCents": fee, "cardCreditUsdCents": order.cents - fee}
            return {"topup": {"status": status("credited"), **topup}}
        terms = self.said["config"]["card"]
        issuance = {
            "status": status("active"), "cardIssueFeeUsdCents": terms["cardIssueFeeUsdCents"],
            "expectedAvailableAfterIssueUsdCents": terms["walletPaymentUsdCents"] - terms["cardIssueFeeUsdCents"],
        }  # fmt: skip
        return {
            "issuance": {**issuance, "cardId": order.card.id}
            if order.card and order.status == "fulfilled"
            else issuance
        }

    def _plan(self, order: FakeOrder) -> Members:
        plan: Members = next(p for p in self.said["plans"] if p["planId"] == order.plan_id)
        return plan

    def _fee(self, order: FakeOrder) -> int:
        return order.cents * int(self.said["config"]["card"]["loadFeeBps"]) // 10_000
