"""What both kinds of client share: the programs of every call, over the generated messages."""

from __future__ import annotations

import copy
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timezone
from typing import Any, TypeVar

from connectrpc.errors import ConnectError
from protobuf import Message

from ._gen.roamcard.v1.auth_pb import CreateChallengeRequest, VerifyChallengeRequest
from ._gen.roamcard.v1.card_pb import (
    Card,
    CreateRevealChallengeRequest,
    GetCardBalanceRequest,
    GetCardBalanceResponse,
    ListCardsRequest,
    PurchaseCardRequest,
    RevealCardRequest,
    TopUpCardRequest,
)
from ._gen.roamcard.v1.esim_pb import (
    EsimPlan,
    GetEsimCredentialsRequest,
    GetEsimOrderRequest,
    ListEsimPlansRequest,
    PurchaseEsimRequest,
)
from ._gen.roamcard.v1.order_pb import EsimCredentials, GetOrderRequest, ListOrdersRequest, ListOrdersResponse, Order
from ._gen.roamcard.v1.problem_pb import Problem
from ._gen.roamcard.v1.service_pb import GetConfigResponse
from .errors import ApiError, RevealError, RoamcardError, TermsMismatchError, UnauthorizedError, WrongField, api_error_type
from .journal import Journal, MemoryStore, Store
from .messages import Purpose, scheme_of, sign_challenge
from .policy import Policy, Quote
from .presenters import EsimPresenter, Presented, Presenter
from .programs import Do, Done, Events, Payer, Program, Published, Purchase, Refused, Send, Unclear, is_unclear
from .secret import Secret
from .signers import Signer
from .x402 import REQUIRED_HEADER, RESPONSE_HEADER, SIGNATURE_HEADER, Receipt, decode_receipt, proves_dead

T = TypeVar("T")

CARD_PATH = "/api/card/purchase"
TOPUP_PATH = "/api/card/topup"
ESIM_PATH = "/api/esim/purchase"
PURCHASE_CARD = "roamcard.v1.CardService/PurchaseCard"
TOP_UP_CARD = "roamcard.v1.CardService/TopUpCard"
PURCHASE_ESIM = "roamcard.v1.EsimService/PurchaseEsim"
PAID_METHODS: Mapping[str, str] = {PURCHASE_CARD: CARD_PATH, TOP_UP_CARD: TOPUP_PATH, PURCHASE_ESIM: ESIM_PATH}
"""The methods that cost something, and the documented path of each."""
_PAID_CALLS = {PURCHASE_CARD: ("cards", "purchase_card"), TOP_UP_CARD: ("cards", "top_up_card"), PURCHASE_ESIM: ("esims", "purchase_esim")}
"""How the generated clients name them."""
_DELIVERY_HEADER = "x-esim-delivery-token"
"""Stands for a session where an eSIM order is read."""

_SESSION_MARGIN = 60
"""How many seconds before its end a session is no longer used."""


@dataclass(frozen=True)
class Bought:
    """A paid purchase. Keep the key: the same call with it returns the same order."""

    order: Order
    idempotency_key: str
    replayed: bool
    """Whether the order was paid by an earlier request."""
    receipt: Receipt | None


@dataclass(frozen=True)
class BoughtEsim(Bought):
    """A paid eSIM. Its secrets are not in the order."""

    delivery_token: Secret[str] | None
    """Opens this one order for 30 days, for whoever holds it. A repeat may come without; the wallet's session does as well."""
    credentials: Secret[EsimCredentials] | None
    """The eSIM itself, when it was ready in time: otherwise see install_esim."""


@dataclass(frozen=True)
class Pending:
    """A purchase whose outcome is not known: call again with its key."""

    operation: str
    idempotency_key: str
    amount: int
    """In USDC's smallest unit."""


@dataclass(frozen=True)
class Call:
    """Call a method of the API. Gives an Answer, or raises a ConnectError or an ApiError."""

    service: str
    method: str
    request: Message[Any]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """What a method returned."""

    message: Any
    headers: Mapping[str, str]


class CallFailed(Exception):
    """A call that failed, with the headers of the answer."""

    def __init__(self, error: ConnectError, headers: Mapping[str, str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.headers = headers


@dataclass(frozen=True)
class Authorize:
    """Give the Authorization header of the session; not `stale`, which the service no longer takes. Signs in when needed."""

    stale: str | None = None


@dataclass
class Session:
    """A session of the wallet."""

    header: str
    until: float


class Core:
    """The programs of a client."""

    def __init__(
        self, base_url: str, signer: Signer, policy: Policy, store: Store | None, origin: str | None, max_replays: int, events: Events | None
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.origin = (origin or base_url).rstrip("/")
        self.signer = signer
        self.journal = Journal(store or MemoryStore())
        self.payer = Payer(self.origin, signer, policy, self.journal, events or Events(), max_replays)

    def buy_card(self, key: str | None) -> tuple[Purchase, Program[Bought]]:
        key = key or _new_key()
        return self._buy(PURCHASE_CARD, PurchaseCardRequest(idempotency_key=key), {"idempotencyKey": key})

    def top_up(self, cents: int, key: str | None) -> tuple[Purchase, Program[Bought]]:
        key = key or _new_key()
        request = {"amountUsdCents": cents, "idempotencyKey": key}
        return self._buy(TOP_UP_CARD, TopUpCardRequest(amount_usd_cents=cents, idempotency_key=key), request)

    def buy_esim(self, plan_id: str | None, key: str | None) -> tuple[Purchase, Program[BoughtEsim]]:
        key = key or _new_key()
        purchase, program = self._buy(PURCHASE_ESIM, PurchaseEsimRequest(plan_id=plan_id, idempotency_key=key), _esim_request(plan_id, key))

        def parted() -> Program[BoughtEsim]:
            bought = yield from program
            # What a call of the same purchase at the same time is given stays whole.
            order = copy.deepcopy(bought.order)
            credentials, token = order.credentials, order.delivery.token if order.delivery else None
            order.credentials = None
            if order.delivery:
                order.delivery.clear_field("token")
            return BoughtEsim(
                order, bought.idempotency_key, bought.replayed, bought.receipt, Secret(token) if token else None, Secret(credentials) if credentials else None
            )

        return purchase, parted()

    def quote_esim(self, plan_id: str | None) -> Program[Quote]:
        key = _new_key()
        return self._quote(PURCHASE_ESIM, PurchaseEsimRequest(plan_id=plan_id, idempotency_key=key), _esim_request(plan_id, key))

    def plans(self, country_code: str | None, type: str | None) -> Program[list[EsimPlan]]:
        answer = (yield from _call("esims", "list_esim_plans", ListEsimPlansRequest(country_code=country_code, type=type))).message
        return list(answer.plans)

    def plan_units(self, plan_id: str) -> Program[int]:
        """What a plan costs now, in USDC's smallest unit."""
        plans = yield from self.plans(None, None)
        for plan in plans:
            if plan.plan_id == plan_id:
                return int(plan.amount)
        raise TermsMismatchError(f"no plan {plan_id} is published; nothing was signed")

    def esim_status(self, order_id: str, token: Secret[str] | None) -> Program[Order]:
        answer = yield from _delivered("get_esim_order", GetEsimOrderRequest(order_id=order_id), token)
        order: Order = _present(answer.order)
        return order

    def install_esim(self, order_id: str, presenter: EsimPresenter, token: Secret[str] | None) -> Program[Presented]:
        answer = yield from _delivered("get_esim_credentials", GetEsimCredentialsRequest(order_id=order_id), token)
        credentials: Secret[EsimCredentials] = Secret(_present(answer.credentials))
        presented: Presented = yield Do(lambda: presenter.present_esim(credentials))
        return presented

    def quote_card(self) -> Program[Quote]:
        key = _new_key()
        return self._quote(PURCHASE_CARD, PurchaseCardRequest(idempotency_key=key), {"idempotencyKey": key})

    def quote_top_up(self, cents: int) -> Program[Quote]:
        key = _new_key()
        request = {"amountUsdCents": cents, "idempotencyKey": key}
        return self._quote(TOP_UP_CARD, TopUpCardRequest(amount_usd_cents=cents, idempotency_key=key), request)

    def purchase(self, name: str, key: str, request: Mapping[str, Any]) -> Purchase:
        """The purchase that a paid method makes."""
        return Purchase(PAID_METHODS[name], key, request, f"{self.origin}/{name}")

    def pending(self) -> list[Pending]:
        mine = self.signer.address.lower()
        return [Pending(e.operation, e.key, int(e.amount)) for e in self.journal.pending() if e.payer.lower() == mine]

    def order(self, order_id: str) -> Program[Order]:
        answer = yield from _owned("orders", "get_order", GetOrderRequest(order_id=order_id))
        order: Order = _present(answer.order)
        return order

    def orders(self, active: bool, page_token: str | None) -> Program[tuple[list[Order], str | None]]:
        """A page of orders, and the token of the next one."""
        request = ListOrdersRequest(status="active" if active else None, page_token=page_token)
        answer: ListOrdersResponse = yield from _owned("orders", "list_orders", request)
        return list(answer.orders), answer.next_page_token or None

    def cards(self) -> Program[list[Card]]:
        answer = yield from _owned("cards", "list_cards", ListCardsRequest())
        return list(answer.cards)

    def balance(self, card_id: str) -> Program[GetCardBalanceResponse]:
        balance: GetCardBalanceResponse = yield from _owned("cards", "get_card_balance", GetCardBalanceRequest(id=card_id))
        return balance

    def active_card(self, order: Order) -> Program[Card | None]:
        """The order's card, when it is ACTIVE."""
        if order.issuance is None or order.issuance.status != "active":
            return None
        card_id = order.issuance.card_id
        cards = yield from self.cards()
        return next((c for c in cards if c.id == card_id and c.status == "ACTIVE"), None)

    def reveal(self, card_id: str, presenter: Presenter) -> Program[Presented]:
        showing = presenter.prepare()
        key = showing.recipient_key
        request = CreateRevealChallengeRequest(id=card_id, preferred_message_schemes=[scheme_of(self.signer)], recipient_key=key)
        challenge = yield from _owned("cards", "create_reveal_challenge", request)
        bound = key.rstrip("=").replace("+", "-").replace("/", "_")
        purpose = Purpose(
            self.origin, "RevealCard", (f"urn:roamcard:card:{card_id}", f"urn:roamcard:recipient-key:{bound}"),
            {"cardId": card_id, "recipientKey": bound},
        )  # fmt: skip
        signature = yield Do(lambda: _sign(self.signer, challenge, purpose))
        answer = yield from _owned("cards", "reveal_card", RevealCardRequest(
            id=card_id, intent_id=challenge.intent_id, signature=signature, message_scheme=challenge.message_scheme, recipient_key=key,
        ))  # fmt: skip
        sealed = answer.sealed
        if sealed is None:
            raise RevealError("the card came unsealed; it was thrown away")
        presented: Presented = yield Do(lambda: showing.show(card_id, sealed.suite, sealed.enc, sealed.ciphertext))
        return presented

    def sign_in(self) -> Program[Session]:
        address, scheme = self.signer.address, scheme_of(self.signer)
        request = CreateChallengeRequest(address=address, preferred_message_schemes=[scheme])
        challenge = (yield from _call("auth", "create_challenge", request)).message
        signature = yield Do(lambda: _sign(self.signer, challenge, Purpose(self.origin, "SignIn")))
        verify = VerifyChallengeRequest(address=address, signature=signature, intent_id=challenge.intent_id, message_scheme=challenge.message_scheme)
        session = (yield from _call("auth", "verify_challenge", verify)).message
        until = session.expires_at.to_datetime().replace(tzinfo=timezone.utc).timestamp() if session.expires_at else 0
        return Session(f"Bearer {session.access_token}", until - _SESSION_MARGIN)

    def _quote(self, name: str, message: Message[Any], request: Mapping[str, Any]) -> Program[Quote]:
        purchase = self.purchase(name, str(request["idempotencyKey"]), request)
        return serving(self.payer.quote(purchase), _sending(name, message))

    def _buy(self, name: str, message: Message[Any], request: Mapping[str, Any]) -> tuple[Purchase, Program[Bought]]:
        purchase = self.purchase(name, str(request["idempotencyKey"]), request)

        def program() -> Program[Bought]:
            answer: Answer = yield from serving(self.payer.pay(purchase), _sending(name, message))
            order: Order = _present(answer.message.order)
            return Bought(order, purchase.key, bool(order.replayed), decode_receipt(answer.headers.get(RESPONSE_HEADER)))

        return purchase, program()


def serving(program: Program[T], send: Callable[[str | None], Program[Any]]) -> Program[T]:
    """Carries a program on, and its sending out by another one."""
    try:
        effect = next(program)
        while True:
            try:
                outcome = (yield from send(effect.payment)) if isinstance(effect, Send) else (yield effect)
            except BaseException as error:
                effect = program.throw(error)
            else:
                effect = program.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result


def reply_of(error: ConnectError, headers: Mapping[str, str]) -> Refused | Unclear:
    """What a failed call says about a payment. Without a problem of the service it is not even known who answered."""
    problem = problem_of(error)
    if problem is None:
        return Unclear(api_error_of(error))
    if problem.status == 402 and REQUIRED_HEADER in headers:
        return Refused(problem, headers[REQUIRED_HEADER], proves_dead(headers))
    if is_unclear(problem.status, problem.retryable):
        wait = headers.get("retry-after", "")
        return Unclear(problem, True, problem.order_id, float(wait) if wait.isdecimal() and len(wait) < 6 else None)
    return Refused(problem)


def api_error_of(error: ConnectError) -> ApiError:
    """The error of this package for a failed call."""
    failure = problem_of(error) or ApiError(0, f"connect_{error.code.value}", error.message, retryable=True)
    failure.__cause__ = error
    return failure


def problem_of(error: ConnectError) -> ApiError | None:
    """The failure that the service told."""
    for detail in error.details:
        problem = detail.value(Problem) if detail.type_name == "roamcard.v1.Problem" else None
        if problem is not None:
            return api_error_type(problem.status)(
                problem.status, problem.code, problem.detail, request_id=problem.request_id, retryable=problem.retryable,
                safe_to_pay_again=problem.safe_to_pay_again, next_action=problem.next_action, order_id=problem.order_id or None,
                fields=tuple(WrongField(f.path, f.rule, f.message) for f in problem.fields),
            )  # fmt: skip
    return None


def published_of(config: GetConfigResponse) -> Published:
    """What a configuration publishes about payments."""
    network, card = _present(config.network), _present(config.card)
    domain = (network.asset_name, network.asset_version)
    return Published(network.pay_to, domain, card.wallet_payment_usd_cents, card.default_order_usd_cents)


def no_card(order_id: str) -> RoamcardError:
    """The error of waiting for a card that does not come."""
    return RoamcardError(f"no card comes of order {order_id} by itself, or not in time; look at its status")


def _sending(name: str, message: Message[Any]) -> Callable[[str | None], Program[Any]]:
    service, method = _PAID_CALLS[name]

    def send(payment: str | None) -> Program[Done[Answer] | Refused | Unclear]:
        try:
            answer = yield Call(service, method, message, {SIGNATURE_HEADER: payment} if payment else {})
        except CallFailed as failed:
            return reply_of(failed.error, failed.headers)
        return Done(answer)

    return send


def _call(service: str, method: str, request: Message[Any], headers: Mapping[str, str] | None = None) -> Program[Answer]:
    try:
        answer: Answer = yield Call(service, method, request, headers or {})
    except CallFailed as failed:
        raise api_error_of(failed.error) from failed.error
    return answer


def _delivered(method: str, request: Message[Any], token: Secret[str] | None) -> Program[Any]:
    """Calls what belongs to an owner or to the holder of a delivery token."""
    if token is None:
        return (yield from _owned("esims", method, request))
    return (yield from _call("esims", method, request, {_DELIVERY_HEADER: token.reveal()})).message


def _esim_request(plan_id: str | None, key: str) -> dict[str, str]:
    return {"idempotencyKey": key, **({} if plan_id is None else {"planId": plan_id})}


def _owned(service: str, method: str, request: Message[Any]) -> Program[Any]:
    """Calls what belongs to an owner, and once more when the session was revoked meanwhile."""
    header = yield Authorize()
    try:
        return (yield from _call(service, method, request, {"authorization": header})).message
    except UnauthorizedError as error:
        if error.code != "session_invalid":
            raise
    header = yield Authorize(stale=header)
    return (yield from _call(service, method, request, {"authorization": header})).message


def _sign(signer: Signer, challenge: Any, purpose: Purpose) -> str:
    typed = challenge.typed_data.to_python() if challenge.typed_data is not None else None
    return sign_challenge(signer, challenge.message_scheme, challenge.message, typed, purpose)


def _present(value: T | None) -> T:
    if value is None:
        raise RoamcardError("the service answered without what was asked for")
    return value


def _new_key() -> str:
    return f"roamcard-{uuid.uuid4()}"


def json_of(message: Message[Any]) -> dict[str, Any]:
    """A message as the documented JSON."""
    body: dict[str, Any] = json.loads(message.to_json())
    return body


def now() -> float:
    """The time, in seconds since 1970."""
    return time.time()
