"""What may be paid without asking, what after asking, and what never."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from .errors import PolicyDeniedError, TermsMismatchError
from .model import Model
from .money import Dollars, dollars_of, units_of_dollars
from .x402 import NETWORK, USDC, Terms, same_address

_MAX_WINDOW = 3600
"""The longest time, in seconds, that a signed payment may stay good."""


@dataclass(frozen=True)
class Quote(Model):
    """A price that has been checked, before anything is signed."""

    operation: str
    """The documented path of what is bought, such as /api/card/purchase; /pay for an order that was made first."""
    idempotency_key: str
    amount: int
    """In USDC's smallest unit."""
    amount_usd: str
    pay_to: str
    asset: str
    network: str
    resource: str


@dataclass(frozen=True)
class Quoted(Model):
    """A checked price and what the policy says of it now. Nothing is signed."""

    quote: Quote
    allowed: bool
    """Whether the caps let it be paid."""
    asks: bool
    """Whether `approve` is asked before."""
    reason: str | None = None
    """Why it is not allowed."""


@dataclass(frozen=True)
class Policy:
    """What a client may pay.

    autonomous pays within the caps and never asks; it is denied unless both caps are set. policy_gated asks above
    approve_above_usd (None: always). human_approval always asks. Where `approve` is needed and missing, the payment is
    denied; an async client may be given an async one.
    """

    mode: Literal["autonomous", "policy_gated", "human_approval"]
    max_per_payment_usd: Dollars | None = None
    max_per_day_usd: Dollars | None = None
    """Over the last 24 hours, held across every process that shares the store."""
    approve_above_usd: Dollars | None = None
    approve: Callable[[Quote], Any] | None = None
    pay_to: str | None = None
    """Pinned; when None, the first payee that the service publishes is kept in the store."""
    asset: str = USDC
    network: str = NETWORK
    operations: Collection[str] | None = None
    """Documented paths that may be paid, and "/pay" for orders that are paid later; all when None."""

    def __post_init__(self) -> None:
        for amount in (self.max_per_payment_usd, self.max_per_day_usd, self.approve_above_usd):
            if amount is not None:
                units_of_dollars(amount)

    @property
    def per_day(self) -> int | None:
        """The cap of a day in USDC's smallest unit."""
        return None if self.max_per_day_usd is None else units_of_dollars(self.max_per_day_usd)

    def asks(self, amount: int) -> bool:
        """Whether this payment has to be asked for."""
        if self.mode == "policy_gated":
            return self.approve_above_usd is None or amount > units_of_dollars(self.approve_above_usd)
        return self.mode != "autonomous"

    def cap(self, operation: str, amount: int) -> None:
        """Refuses what no approval could allow. The cap of the day is held by the journal."""
        if self.operations is not None and operation not in self.operations:
            raise PolicyDeniedError(f"the policy does not allow {operation}")
        if self.mode == "autonomous" and (self.max_per_payment_usd is None or self.max_per_day_usd is None):
            raise PolicyDeniedError(
                "autonomous payments need Policy.max_per_payment_usd and max_per_day_usd "
                "(ROAMCARD_MAX_PER_PAYMENT_USD and ROAMCARD_MAX_PER_DAY_USD)"
            )
        if self.max_per_payment_usd is not None and amount > units_of_dollars(self.max_per_payment_usd):
            raise PolicyDeniedError(
                f"{dollars_of(amount)} US dollars is more than "
                f"the {self.max_per_payment_usd} that Policy.max_per_payment_usd "
                "(ROAMCARD_MAX_PER_PAYMENT_USD) allows for a payment"
            )


@dataclass(frozen=True)
class Expected:
    """What a challenge has to ask for."""

    resource: str
    """A URL, or a prefix when it ends in a slash: a payable order names what it pays for, on the same origin."""
    pay_to: str
    domain: tuple[str, str]
    """The published name and version of the asset's EIP-712 domain."""
    amount: int | None
    """None when only the caps decide."""


def check_terms(policy: Policy, terms: Terms, expected: Expected) -> dict[str, Any]:
    """Takes a challenge's one offer if it asks for exactly what is expected."""
    offer = terms.accepts[0]
    extra = offer.get("extra") or {}
    asset, pay_to = offer.get("asset"), offer.get("payTo")
    resource, is_prefix = terms.resource["url"], expected.resource.endswith("/")
    facts = (
        ("x402 version", terms.version, 2, terms.version == 2),
        ("number of offers", len(terms.accepts), 1, len(terms.accepts) == 1),
        ("scheme", offer.get("scheme"), "exact", offer.get("scheme") == "exact"),
        ("network", offer.get("network"), policy.network, offer.get("network") == policy.network),
        ("asset", asset, policy.asset, same_address(asset, policy.asset)),
        ("payee", pay_to, expected.pay_to, same_address(pay_to, expected.pay_to)),
        (
            "resource",
            resource,
            expected.resource,
            resource == expected.resource or (is_prefix and _is_below(resource, expected)),
        ),
        ("signing domain", extra, expected.domain, (extra.get("name"), extra.get("version")) == expected.domain),
        ("way of transfer", extra, "eip3009", extra.get("assetTransferMethod", "eip3009") == "eip3009"),
        (
            "amount",
            offer["amount"],
            expected.amount or "a whole number of units",
            _is_amount(offer["amount"], expected.amount),
        ),
    )
    for what, got, want, fits in facts:
        if not fits:
            raise TermsMismatchError(f"the 402 names the {what} {got}, expected {want}; nothing was signed")
    seconds = offer.get("maxTimeoutSeconds")
    if type(seconds) is not int or not 0 < seconds <= _MAX_WINDOW:
        raise TermsMismatchError(f"the 402 names a payment window of {seconds} seconds; nothing was signed")
    return offer


def _is_below(resource: str, expected: Expected) -> bool:
    """Whether it is a plain URL of the origin: it is shown to whoever approves."""
    return (
        resource.startswith(expected.resource) and resource.isascii() and resource.isprintable() and " " not in resource
    )


def _is_amount(text: str, expected: int | None) -> bool:
    return re.fullmatch("[1-9][0-9]{0,17}", text) is not None and expected in (None, int(text))
