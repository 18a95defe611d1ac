"""What purchases come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ._gen.models import Order, OrderStatus
from ._gen.roamcard.v1.order_pb import EsimCredentials
from .errors import RoamcardError, WrongTypeError
from .model import Model
from .secret import Secret
from .x402 import Receipt


@dataclass(frozen=True)
class PaidOrder(Model):
    """A paid purchase. Keep the key: the same call with it returns the same order."""

    order: Order
    idempotency_key: str
    replayed: bool
    """Whether the order was paid by an earlier request."""
    receipt: Receipt | None
    request_id: str
    """What the service's operators ask for."""

    @property
    def order_id(self) -> str:
        """The order's id."""
        return self.order.order_id

    @property
    def operation_id(self) -> str:
        """The asynchronous operation behind the order, a uuid."""
        return self.order.operation_id

    @property
    def status(self) -> OrderStatus:
        """How far the order was when it was answered."""
        return self.order.status


@dataclass(frozen=True)
class EsimOrder(PaidOrder):
    """A paid eSIM. Its secrets are not in the order."""

    delivery_token: Secret[str] | None
    """Opens this one order for 30 days, for whoever holds it.

    A repeat may come without; the wallet's session does as well.
    """
    credentials: Secret[EsimCredentials] | None
    """The eSIM itself, when it was ready in time: otherwise see orders.wait_until_fulfilled and esim.install."""


@dataclass(frozen=True)
class DeliveryToken(Model):
    """What opens one eSIM order, for whoever holds it."""

    token: Secret[str]
    expires_at: datetime | None


@dataclass(frozen=True)
class Pending(Model):
    """A purchase whose outcome is not known: call again with its key."""

    operation: str
    idempotency_key: str
    """The id of the order, where an order was paid that was made first."""
    amount: int
    """In USDC's smallest unit."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What was asked for, in the documented JSON."""


@dataclass(frozen=True)
class Resumed(Model):
    """A purchase that was taken up again: its order, or why its outcome is still not known or that no money moved."""

    purchase: Pending
    order: PaidOrder | None
    error: RoamcardError | None


def id_of(order: Order | PaidOrder | str) -> str:
    """The id of an order."""
    if not isinstance(order, (str, Order, PaidOrder)):
        raise WrongTypeError(f"{order!r:.100} is no order and no id of one; nothing was signed or sent")
    return order if isinstance(order, str) else order.order_id


def no_card(order_id: str) -> RoamcardError:
    """The error of waiting for a card that does not come."""
    return RoamcardError(f"no card comes of order {order_id} by itself, or not in time; look at its status")


def unfulfilled(order_id: str) -> RoamcardError:
    """The error of waiting for what does not come."""
    return RoamcardError(f"order {order_id} is not fulfilled by itself, or not in time; look at its status")


def token_of(order: Order | PaidOrder | str) -> Secret[str] | None:
    """The delivery token that came with an order."""
    return order.delivery_token if isinstance(order, EsimOrder) else None


def paid_order(order: Order, message: Any, key: str, receipt: Receipt | None, request_id: str) -> PaidOrder:
    """What an order came to that was paid; the secrets of an eSIM are taken out of its message."""
    replayed = bool(order.replayed)
    if order.kind != "esim":
        return PaidOrder(order, key, replayed, receipt, request_id)
    token = message.delivery.token if message.delivery else None
    credentials: EsimCredentials | None = message.credentials
    return EsimOrder(
        order,
        key,
        replayed,
        receipt,
        request_id,
        Secret(token) if token else None,
        Secret(credentials) if credentials else None,
    )
