"""What the fake sells, and what it shows to those who bought."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..money import dollars_of, units_of_cents
from ..x402 import NETWORK, REQUIRED_HEADER, RESPONSE_HEADER, SIGNATURE_HEADER, decode_payment, same_address
from .orders import Bought, FakeCard, FakeOrder, Members, Orders, stamp
from .said import problem_of
from .token import KEY_SIGNATURE, Token, signature_in

_MAX_TIMEOUT = 120
_READS = (
    "OrderService/GetOrder", "EsimService/GetEsimOrder", "EsimService/GetEsimCredentials", "EsimService/GetEsimProfile",
    "EsimService/ListEsimTopups",
)  # fmt: skip
_LIMITS = ("perTransactionUsdCents", "perMonthUsdCents", "allowedCategories", "blockedCategories")
_OF_A_CARD = (
    "CardService/GetCardBalance", "CardService/FreezeCard", "CardService/UnfreezeCard",
    "CardService/ListCardTransactions", "CardService/GetCardLimits", "CardService/SetCardLimits",
    "CardService/GetCardDetails",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A request as both protocols make it."""

    method: str
    """The procedure, as in CardService/PurchaseCard."""
    connect: bool
    resource: str
    """The address that was called."""
    headers: Mapping[str, str]
    request_id: str
    members: Members
    """Those of body, path and query."""

    def problem(self, code: str, detail: str, order_id: str | None = None) -> Told:
        """A failure of the service, about an order if it has an id."""
        body = problem_of(code, detail, self.request_id)
        if order_id is not None:
            body["orderId"] = order_id
        return Told(body["status"], body)


@dataclass(frozen=True)
class Told:
    """An answer in the form of REST."""

    status: int
    body: Members
    headers: dict[str, str] = field(default_factory=dict)


def ok(body: Members) -> Told:
    """What is said with 200."""
    return Told(200, body)


class Shop:
    """The fake's shop."""

    def __init__(self, said: Members, orders: Orders, token: Token) -> None:
        self._said = said
        self._orders = orders
        self._token = token
        self._bought: dict[tuple[str, str, str], FakeOrder] = {}
        self._paid_with: dict[tuple[str, str], FakeOrder] = {}

    def plans(self, asked: Asked) -> Told:
        """The plans of the catalogue."""
        country, kind = asked.members.get("countryCode"), asked.members.get("type")
        fits = [
            p
            for p in self._said["plans"]
            if (not country or country in p["countryCodes"]) and (not kind or kind == p["type"])
        ]
        return ok({"plans": fits})

    def sell(self, asked: Asked) -> Told:
        """Answers a paid call: the price, or what the payment buys."""
        bought = self._purchase(asked)
        if isinstance(bought, Told):
            return bought
        header = asked.headers.get(SIGNATURE_HEADER)
        if header is None:
            if bought.open is not None and bought.open.payment is not None:
                return asked.problem("order_not_payable", "The order is paid.")
            return self._ask(asked, bought, "payment_required", "Payment required")
        payment = decode_payment(header)
        if payment is None:
            return asked.problem("payment_malformed", "The PAYMENT-SIGNATURE header is no payment.")
        a = payment.authorization
        refused = self._known(asked, bought, a) or self._refused(asked, bought, a)
        if refused is not None:
            return refused
        taken = self._token.take(header)
        if taken == "invalid_exact_evm_nonce_already_used":
            return asked.problem("authorization_already_used", "The authorization was used.")
        if taken == "invalid_exact_evm_signature" and len(signature_in(header)) > KEY_SIGNATURE:
            return asked.problem("payer_kind_not_accepted", "Payments from smart accounts are not accepted.")
        if isinstance(taken, str):
            return self._ask(asked, bought, "payment_rejected", taken)
        order = bought.open or self._orders.create(bought, a["from"])
        payer = a["from"].lower()
        self._bought[bought.kind, payer, bought.key] = self._paid_with[payer, a["nonce"].lower()] = order
        self._orders.pay(order, taken)
        return self._sold(order, False)

    def delivered(self, asked: Asked) -> Told | None:
        """An eSIM order by its delivery token; None when it is not asked for so."""
        if asked.method not in _READS[1:]:
            return None
        order = self._orders.find(asked.members.get("orderId"))
        token = asked.headers.get("x-esim-delivery-token")
        return (
            self._read(asked, order)
            if order is not None and order.delivery is not None and order.delivery == token
            else None
        )

    def owned(self, asked: Asked, wallet: str) -> Told:
        """What belongs to a wallet."""
        card, members = self._orders.card(wallet), asked.members
        match asked.method:
            case "OrderService/ListOrders":
                orders = [
                    o for o in self._orders.of(wallet) if members.get("status") != "active" or o.status != "fulfilled"
                ]
                kind = members.get("kind")
                return ok({"orders": [self._orders.look(o) for o in orders if kind is None or kind == o.kind]})
            case method if method in (*_READS, "EsimService/CancelEsim", "EsimService/RotateEsimToken"):
                order = next((o for o in self._orders.of(wallet) if o.id == members.get("orderId")), None)
                return (
                    self._read(asked, order) if order else asked.problem("order_not_found", "There is no such order.")
                )
            case "CardService/ListCards":
                return ok({"cards": [] if card is None else [card.show()]})
            case method if method in _OF_A_CARD:
                if card is None or card.id != members.get("id"):
                    return asked.problem("card_not_found", "There is no such card.")
                return self._card(asked, card)
            case "CardService/CreateCardOrder" | "OrderService/CreateOrder" | "EsimService/CreateEsimOrder":
                return self._create_unpaid(asked, wallet)
        return asked.problem("route_not_found", "The fake does not serve it.")

    def _card(self, asked: Asked, card: FakeCard) -> Told:
        match asked.method:
            case "CardService/FreezeCard":
                card.status = "FROZEN"
                return ok({"card": card.show()})
            case "CardService/UnfreezeCard":
                card.status = "ACTIVE"
                return ok({"card": card.show()})
            case "CardService/ListCardTransactions":
                return ok({"cardId": card.id, "currency": "USD", "transactions": []})
            case "CardService/GetCardDetails":
                return ok({"details": card.show_details()})
            case "CardService/GetCardLimits":
                return ok({"limits": card.show_limits()})
            case "CardService/SetCardLimits":
                given = {name: asked.members[name] for name in _LIMITS if name in asked.members}
                if given.get("allowedCategories") and given.get("blockedCategories"):
                    return asked.problem(
                        "schema_invalid", "allowedCategories and blockedCategories cannot be given both."
                    )
                card.limits = given
                return ok({"limits": card.show_limits()})
        if card.status == "FROZEN":
            told = asked.problem("card_not_active", "The card is FROZEN. Unfreeze it first.")
            told.body.update(retryable=False, nextAction="fix_request")
            return told
        now = stamp(self._orders.now())
        return ok({"cardId": card.id, "availableUsdCents": card.cents, "currency": "USD", "asOf": now})

    def _read(self, asked: Asked, order: FakeOrder) -> Told:
        if asked.method in _READS[:2]:
            return ok({"order": self._orders.look(order)})
        if order.kind != "esim" or order.status != "fulfilled":
            return asked.problem("order_not_fulfilled", "The order has no eSIM.")
        if asked.method == "EsimService/GetEsimProfile":
            return ok({"profile": self._profile(order)})
        if asked.method == "EsimService/RotateEsimToken":
            return ok({"delivery": self._orders.deliver(order)})
        if asked.method == "EsimService/CancelEsim" and order.added_mb:
            return asked.problem("esim_topped_up", "More data was bought for the eSIM.", order.id)
        if asked.method == "EsimService/CancelEsim":
            shown = self._cancellation(order)
            order.cancelled = True
            return ok({"cancellation": shown})
        if order.cancelled:
            return asked.problem("esim_cancelled", "The eSIM was cancelled.")
        if asked.method == "EsimService/ListEsimTopups":
            return ok({"plans": self._taken()})
        return ok({"credentials": self._said["esim"]})

    def _profile(self, order: FakeOrder) -> Members:
        """The eSIM of an order, which nobody installs."""
        now = self._orders.now()
        if order.cancelled:
            shown = self._cancellation(order)
            return {"orderId": order.id, "status": "cancelled", "readAt": stamp(now), "cancellation": shown}
        total = str((500 + order.added_mb) << 20)
        usage = {"usedBytes": "0", "totalBytes": total, "measuredAt": stamp(now)}
        expires = stamp(now + 180 * 24 * 3600)
        return {
            "orderId": order.id, "status": "not_installed", "readAt": stamp(now), "expiresAt": expires, "usage": usage,
        }  # fmt: skip

    def _cancellation(self, order: FakeOrder) -> Members:
        """The cancellation of an order's eSIM is done by the second look. The supplier grants all that was paid."""
        shown: Members = {"orderId": order.id, "status": "cancelling", "since": stamp(self._orders.now())}
        if order.cancelled and order.payment is not None:
            shown |= {"status": "refunded", "refundAmount": str(order.payment.amount), "transaction": "0x" + "f" * 64}
        return shown

    def _create_unpaid(self, asked: Asked, wallet: str) -> Told:
        """Creates an order that is paid later; the same key gives the same one."""
        bought = self._priced(asked, "")
        if isinstance(bought, Told):
            return bought
        wrong = self._needs_card(asked, bought, wallet)
        if wrong is not None:
            return wrong
        name = ("open " + bought.kind, wallet.lower(), asked.headers.get("idempotency-key", ""))
        order = self._bought.get(name)
        if order is not None and not bought.same(order):
            return asked.problem("idempotency_key_reused", "The key belongs to another request.")
        if order is None:
            order = self._bought[name] = self._orders.create(bought, wallet)
        shown = self._orders.look(order)
        if bought.kind == "esim":
            terms = {name: value for name, value in self._offer(bought).items() if name != "extra"}
            shown["paymentRequirements"] = {
                "x402Version": 2,
                **terms,
                "resource": f"{self._orders.origin}/pay/{order.id}",
            }
        return ok({"order": shown})

    def _purchase(self, asked: Asked) -> Bought | Told:
        if asked.method == "OrderService/PayOrder":
            order = self._orders.find(asked.members.get("orderId"))
            if order is None:
                return asked.problem("order_not_found", "There is no such order.")
            return Bought(order.kind, "An order", order.id, order.cents, order.plan_id, order)
        key = asked.members.get("idempotencyKey")
        if isinstance(key, str) and 0 < len(key) <= 200 and "\0" not in key:
            return self._priced(asked, key)
        told = asked.problem("schema_invalid", "The request has members that are wrong, see fields.")
        told.body["fields"] = [{"path": "idempotencyKey", "rule": "string", "message": "must have 1 to 200 characters"}]
        return told

    def _priced(self, asked: Asked, key: str) -> Bought | Told:
        terms = self._said["config"]["card"]
        match asked.method.partition("/")[2]:
            case "PurchaseCard" | "CreateCardOrder":
                return Bought("card_issue", "Virtual card", key, terms["walletPaymentUsdCents"])
            case "TopUpCard" | "CreateOrder":
                cents = asked.members.get("amountUsdCents", terms["defaultOrderUsdCents"])
                if not isinstance(cents, int) or not terms["minOrderUsdCents"] <= cents <= terms["maxOrderUsdCents"]:
                    return asked.problem("schema_invalid", "The amount is not one that can be paid.")
                return Bought("card_topup", "Top-up of a card", key, cents)
            case "TopUpEsim":
                return self._more(asked, key)
        plans, plan_id = self._said["plans"], asked.members.get("planId")
        plan = min(plans, key=_price) if plan_id is None else next((p for p in plans if p["planId"] == plan_id), None)
        if plan is None:
            return asked.problem("schema_invalid", "There is no such plan.")
        return Bought("esim", f"Travel eSIM: {plan['name']}", key, plan["priceUsdCents"], plan["planId"])

    def _more(self, asked: Asked, key: str) -> Bought | Told:
        """Prices data for an eSIM."""
        of, plan_id = self._orders.find(asked.members.get("orderId")), asked.members.get("planId")
        if of is None or of.kind != "esim":
            return asked.problem("order_not_found", "The paying wallet has no eSIM order with this id.")
        if of.status != "fulfilled":
            return asked.problem("order_not_fulfilled", "The order has no eSIM.", of.id)
        if of.cancelled:
            return asked.problem("esim_cancelled", "The eSIM was cancelled.", of.id)
        plan = next((p for p in self._taken() if plan_id in (None, p["planId"])), None)
        if plan is None:
            return asked.problem("terms_changed", "The eSIM does not take this plan.")
        said = f"More data for a travel eSIM: {plan['name']}"
        return Bought("esim_topup", said, key, plan["priceUsdCents"], plan["planId"], of=of)

    def _taken(self) -> list[Members]:
        """The plans that an eSIM takes: those of the catalogue with a size, the cheapest first."""
        return sorted((p for p in self._said["plans"] if p.get("dataMb")), key=_price)

    def _offer(self, bought: Bought) -> Members:
        network = self._said["config"]["network"]
        # An order that was made first needs no quote.
        extra = {"name": "USD Coin", "version": "2", "paymentFlow": "upfront"}
        if not bought.open:
            extra["quoteId"] = "fake"
        return {
            "scheme": "exact", "network": NETWORK, "amount": str(units_of_cents(bought.cents)),
            "asset": network["asset"], "payTo": network["payTo"], "maxTimeoutSeconds": _MAX_TIMEOUT, "extra": extra,
        }  # fmt: skip

    def _ask(self, asked: Asked, bought: Bought, code: str, reason: str) -> Told:
        resource = {
            "url": asked.resource,
            "description": bought.description,
            "mimeType": "application/json",
            "serviceName": "roamcard",
        }
        required = {"x402Version": 2, "error": reason, "resource": resource, "accepts": [self._offer(bought)]}
        price = (
            f"Pay {dollars_of(units_of_cents(bought.cents))} USD in USDC and repeat the request with PAYMENT-SIGNATURE."
        )
        told = asked.problem(code, price if code == "payment_required" else reason)
        return Told(told.status, told.body, {REQUIRED_HEADER: _base64(required)})

    def _known(self, asked: Asked, bought: Bought, a: Mapping[str, str]) -> Told | None:
        """Answers a payment, or a key, that has bought already."""
        payer = a["from"].lower()
        by_nonce, by_key = (
            self._paid_with.get((payer, a["nonce"].lower())),
            self._bought.get((bought.kind, payer, bought.key)),
        )
        if by_nonce is not None and by_nonce is not by_key:
            return asked.problem("authorization_already_used", "The payment bought another order.")
        if by_key is None:
            return None
        return (
            self._sold(by_key, True)
            if bought.same(by_key)
            else asked.problem("idempotency_key_reused", "The key belongs to another request.")
        )

    def _refused(self, asked: Asked, bought: Bought, a: Mapping[str, str]) -> Told | None:
        if bought.open is not None and not same_address(bought.open.owner, a["from"]):
            return self._ask(asked, bought, "wrong_payer", "the order is another wallet's")
        if (wrong := self._needs_card(asked, bought, a["from"])) is not None:
            return wrong
        if not same_address(a["to"], self._said["config"]["network"]["payTo"]):
            return self._ask(asked, bought, "payment_rejected", "invalid_exact_evm_recipient_mismatch")
        if a["value"] != str(units_of_cents(bought.cents)):
            return self._ask(
                asked, bought, "payment_rejected", "invalid_exact_evm_payload_authorization_value_mismatch"
            )
        return None

    def _needs_card(self, asked: Asked, bought: Bought, wallet: str) -> Told | None:
        if bought.of is not None and not same_address(bought.of.owner, wallet):
            return asked.problem("order_not_found", "The paying wallet has no eSIM order with this id.")
        card = self._orders.card(wallet)
        if bought.kind == "card_issue" and card is not None:
            return asked.problem("card_already_exists", "The wallet already has a card.")
        if bought.kind == "card_topup" and (card is None or card.status != "ACTIVE"):
            return asked.problem("active_card_missing", "The wallet has no active card.")
        return None

    def _sold(self, order: FakeOrder, replayed: bool) -> Told:
        assert order.payment is not None
        paid, shown = order.payment, self._orders.show(order)
        receipt = {
            "success": True,
            "transaction": paid.transaction,
            "network": NETWORK,
            "payer": paid.payer,
            "amount": str(paid.amount),
        }
        if replayed:
            shown["replayed"] = True
        elif order.kind == "esim":
            shown.update(credentials=self._said["esim"], delivery=self._orders.deliver(order))
        return Told(200, {"order": shown}, {RESPONSE_HEADER: _base64(receipt)})


def _price(plan: Members) -> int:
    return int(plan["priceUsdCents"])


def _base64(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()
