"""What counts as a success: an order that fits what was signed. Anything else with 200 says nothing of the payment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import RoamcardError
from .journal import Entry
from .x402 import same_address

_KINDS = {
    "/api/card/purchase": "card_issue", "/api/card/topup": "card_topup", "/api/esim/purchase": "esim",
    "/api/esim/orders/{orderId}/topup": "esim_topup",
}  # fmt: skip
_UNITS_PER_CENT = 10_000


class AnotherOrderError(RoamcardError):
    """A purchase that has an order was answered with another one: to repeat it would not help."""


@dataclass(frozen=True)
class AnsweredOrder:
    """What is read of an order."""

    order_id: Any
    kind: Any
    amount_usd_cents: Any
    replayed: Any
    payer: Any
    """None when the answer names no payment."""


def order_in(value: Any) -> AnsweredOrder | None:
    """The order of the documented JSON, or of a generated answer."""
    if isinstance(value, dict):
        payment = value.get("payment")
        payer = None if payment is None else payment.get("payer", "") if isinstance(payment, dict) else ""
        return AnsweredOrder(
            value.get("orderId"), value.get("kind"), value.get("amountUsdCents"), value.get("replayed"), payer
        )
    order = getattr(value, "order", None)
    if order is None:
        return None
    return AnsweredOrder(
        order.order_id,
        order.kind,
        order.amount_usd_cents,
        order.replayed,
        order.payment.payer if order.payment else None,
    )


def fault_of(order: AnsweredOrder | None, entry: Entry) -> RoamcardError | None:
    """Why an order is not what a payment bought; None when it is."""
    if order is None or not isinstance(order.order_id, str) or not order.order_id:
        return RoamcardError("the service answered without an order")
    expected = _KINDS.get(entry.operation)
    if expected is not None and order.kind != expected:
        return RoamcardError(f"the service answered with an order of another kind, {order.kind}")
    if expected is None and order.order_id != entry.key:
        return RoamcardError(f"the service answered with order {order.order_id}")
    if type(order.amount_usd_cents) is not int or order.amount_usd_cents * _UNITS_PER_CENT != int(entry.amount):
        return RoamcardError(f"the service answered with an order of {order.amount_usd_cents} cents")
    if order.payer is not None and not same_address(order.payer, entry.payer):
        return RoamcardError("the service answered with an order that another wallet has paid")
    if entry.order_id is not None and order.order_id != entry.order_id:
        return AnotherOrderError(f"the service answered with order {order.order_id}, and before with {entry.order_id}")
    if entry.state == "settled" and order.replayed is not True:
        return AnotherOrderError("the service answered a repeat as if it were new")
    return None
