"""What both kinds of client share: the programs of every call, over the generated messages."""

from __future__ import annotations

import copy
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timezone
from typing import Any, TypeVar
from urllib.parse import urlsplit

from protobuf import Message

from ._gen.models import (
    Card,
    CardConfig,
    CardDetails,
    CardLimits,
    CardTransaction,
    EsimCancellation,
    EsimDelivery,
    EsimPlan,
    EsimProfile,
    GetCardBalanceResponse,
    GetConfigResponse,
    GetSessionResponse,
    NetworkConfig,
    Order,
)
from ._gen.roamcard.v1.auth_pb import CreateChallengeRequest, GetSessionRequest, LogoutRequest, VerifyChallengeRequest
from ._gen.roamcard.v1.card_pb import (
    CreateCardOrderRequest,
    CreateRevealChallengeRequest,
    FreezeCardRequest,
    GetCardBalanceRequest,
    GetCardDetailsRequest,
    GetCardLimitsRequest,
    ListCardsRequest,
    ListCardTransactionsRequest,
    PurchaseCardRequest,
    RevealCardRequest,
    RevealCardResponse,
    SetCardLimitsRequest,
    TopUpCardRequest,
    UnfreezeCardRequest,
)
from ._gen.roamcard.v1.esim_pb import (
    CancelEsimRequest,
    CreateEsimOrderRequest,
    GetEsimCredentialsRequest,
    GetEsimOrderRequest,
    GetEsimProfileRequest,
    ListEsimPlansRequest,
    ListEsimTopupsRequest,
    PurchaseEsimRequest,
    RotateEsimTokenRequest,
    TopUpEsimRequest,
)
from ._gen.roamcard.v1.order_pb import (
    CreateOrderRequest,
    EsimCredentials,
    GetOrderRequest,
    ListOrdersRequest,
    PayOrderRequest,
)
from ._gen.roamcard.v1.service_pb import GetConfigRequest
from .answers import REQUEST_ID_HEADER, object_of, passes, reply_of, rest_error
from .calls import called, delivered, keyed, owned, pause_before, present, retried
from .chain import Chain
from .errors import ApiError, RevealError, RoamcardError, TermsMismatchError, WrongTypeError, naming, printable
from .given import check_given, not_empty
from .journal import Entry, Journal, MemoryStore, Store
from .messages import Purpose, scheme_of, sign_challenge
from .model import M, read
from .money import units_of_cents
from .paging import Slice, Source
from .payer import CARD_PATH, ESIM_PATH, ESIM_TOPUP_PATH, PAY_PATH, TOPUP_PATH, Events, Payer, Published, Purchase
from .policy import Policy, Quoted
from .presenters import BrowserPresenter, EsimPresenter, Presented, Presenter
from .programs import (
    Answer,
    Call,
    CallFailed,
    ClearSession,
    Do,
    Done,
    Fetch,
    Pause,
    Program,
    ReadRetries,
    Refused,
    Unclear,
    serving,
)
from .results import DeliveryToken, PaidOrder, Pending, id_of, paid_order, token_of
from .secret import Secret
from .signers import NoWallet, OutsideWallet, Signer
from .watching import following, following_all
from .x402 import RESPONSE_HEADER, SIGNATURE_HEADER, decode_receipt

T = TypeVar("T")

PURCHASE_CARD = "roamcard.v1.CardService/PurchaseCard"
TOP_UP_CARD = "roamcard.v1.CardService/TopUpCard"
PURCHASE_ESIM = "roamcard.v1.EsimService/PurchaseEsim"
TOP_UP_ESIM = "roamcard.v1.EsimService/TopUpEsim"
PAY_ORDER = "roamcard.v1.OrderService/PayOrder"
PAID_METHODS: Mapping[str, str] = {
    PURCHASE_CARD: CARD_PATH,
    TOP_UP_CARD: TOPUP_PATH,
    PURCHASE_ESIM: ESIM_PATH,
    TOP_UP_ESIM: ESIM_TOPUP_PATH,
    PAY_ORDER: PAY_PATH,
}
"""The methods that cost something, and the documented path of each."""
_PAID_CALLS = {
    PURCHASE_CARD: ("cards", "purchase_card"), TOP_UP_CARD: ("cards", "top_up_card"),
    PURCHASE_ESIM: ("esims", "purchase_esim"), TOP_UP_ESIM: ("esims", "top_up_esim"),
    PAY_ORDER: ("orders", "pay_order"),
}  # fmt: skip
"""How the generated clients name them."""

_SESSION_MARGIN = 60
"""How many seconds before its end a session is no longer used."""


@dataclass
class Session:
    """A session of the wallet."""

    header: str
    until: float


def trimmed(url: str) -> str:
    """An origin without the slash at its end; one with a user or a password is refused, and not shown."""
    if re.match(r"[a-z]+://[^/?#]*@", url, re.IGNORECASE):
        raise ValueError("the service's URL has a user or a password: no request can have them")
    return url.rstrip("/")


class Core:
    """The programs of a client."""

    def __init__(
        self,
        base_url: str,
        signer: Signer | None,
        policy: Policy,
        store: Store | None,
        origin: str | None,
        max_replays: int,
        events: Events | None,
        operator_token: Secret[str] | str | None,
        logger: logging.Logger | None,
        rpc_url: str | None,
        timeout: float,
    ) -> None:
        self.base_url = trimmed(base_url)
        self.origin = trimmed(origin or base_url)
        self.signer = signer or NoWallet()
        self.journal = Journal(store or MemoryStore())
        chain = Chain(rpc_url, policy.asset, timeout) if rpc_url else None
        self.operator_token = Secret(operator_token) if isinstance(operator_token, str) else operator_token
        self.logger = logger or logging.getLogger("roamcard")
        self.payer = Payer(
            self.origin, self.signer, policy, self.journal, events or Events(), max_replays, self, chain, self.logger
        )
        self.signed_in: Session | None = None
        """The session of the wallet, for all who share this core."""
        self._published: Published | None = None

    # What is bought.

    def buy_card(self, key: str | None) -> tuple[Purchase, Program[PaidOrder]]:
        key = key_of(key)
        return self._buy(PURCHASE_CARD, PurchaseCardRequest(idempotency_key=key), {"idempotencyKey": key})

    def top_up(self, cents: int | None, key: str | None) -> tuple[Purchase, Program[PaidOrder]]:
        """None leaves the amount to the service, which then asks for what it publishes."""
        key = key_of(key)
        request = {"idempotencyKey": key, **({} if cents is None else {"amountUsdCents": cents})}
        return self._buy(TOP_UP_CARD, TopUpCardRequest(amount_usd_cents=cents, idempotency_key=key), request)

    def buy_esim(self, plan_id: str | None, key: str | None) -> tuple[Purchase, Program[PaidOrder]]:
        key = key_of(key)

        if plan_id is not None:
            not_empty("plan_id", plan_id)

        def program() -> Program[PaidOrder]:
            named = plan_id if plan_id is not None else (yield from self.payer.plan_for(key))
            _, paying = self._buy(
                PURCHASE_ESIM, PurchaseEsimRequest(plan_id=named, idempotency_key=key), _esim_request(named, key)
            )
            return (yield from paying)

        return self.purchase(PURCHASE_ESIM, key, _esim_request(plan_id, key)), program()

    def top_up_esim(
        self, order: Order | PaidOrder | str, plan_id: str | None, key: str | None
    ) -> tuple[Purchase, Program[PaidOrder]]:
        key, of = key_of(key), id_of(order)
        message = TopUpEsimRequest(order_id=of, plan_id=plan_id, idempotency_key=key)
        return self._buy(TOP_UP_ESIM, message, {**_esim_request(plan_id, key), "orderId": of})

    def pay_order(self, order: Order | str) -> tuple[Purchase, Program[PaidOrder]]:
        order_id = self._order_id(order)
        return self._buy(PAY_ORDER, PayOrderRequest(order_id=order_id), {"orderId": order_id})

    def quote_card(self) -> Program[Quoted]:
        key = new_key()
        return self._quote(PURCHASE_CARD, PurchaseCardRequest(idempotency_key=key), {"idempotencyKey": key})

    def quote_top_up(self, cents: int) -> Program[Quoted]:
        key = new_key()
        request = {"amountUsdCents": cents, "idempotencyKey": key}
        return self._quote(TOP_UP_CARD, TopUpCardRequest(amount_usd_cents=cents, idempotency_key=key), request)

    def quote_esim(self, plan_id: str | None) -> Program[Quoted]:
        key = new_key()
        named = plan_id if plan_id is not None else (yield from self.cheapest_plan())
        return (
            yield from self._quote(
                PURCHASE_ESIM, PurchaseEsimRequest(plan_id=named, idempotency_key=key), _esim_request(named, key)
            )
        )

    def quote_esim_top_up(self, order: Order | PaidOrder | str, plan_id: str | None) -> Program[Quoted]:
        key, of = new_key(), id_of(order)
        message = TopUpEsimRequest(order_id=of, plan_id=plan_id, idempotency_key=key)
        return self._quote(TOP_UP_ESIM, message, {**_esim_request(plan_id, key), "orderId": of})

    def purchase(self, name: str, key: str, request: Mapping[str, Any]) -> Purchase:
        """The purchase that a paid method makes."""
        operation = PAID_METHODS[name]
        return Purchase(
            operation, key, request, f"{self.origin}/" if operation == PAY_PATH else f"{self.origin}/{name}"
        )

    def purchase_by(self, name: str, message: Message[Any]) -> Purchase:
        """The purchase that a message to a paid method makes."""
        request = json_of(message)
        return self.purchase(name, str(request.get("idempotencyKey") or request.get("orderId", "")), request)

    def pending(self) -> list[Pending]:
        return self._mine(self.journal.pending())

    def resumable(self, key: str) -> Pending:
        """A purchase that is pending, or settled after its caller had left: the same bytes get its order again."""
        settled = (e for e in self.journal.entries().values() if e.state == "settled" and e.header is not None)
        for pending in (*self.pending(), *self._mine(settled)):
            if pending.idempotency_key == key:
                return pending
        raise RoamcardError(f"the store has no payment under {key} that could be sent again")

    def _mine(self, entries: Iterable[Entry]) -> list[Pending]:
        mine = self.signer.address.lower()
        kept = (e for e in entries if e.payer.lower() == mine and e.origin == self.origin)
        return [Pending(e.operation, e.key, int(e.amount), e.request) for e in kept]

    def again(self, pending: Pending) -> tuple[Purchase, Program[PaidOrder]]:
        """The purchase that the journal has, once more."""
        key, request = pending.idempotency_key, pending.request
        if pending.operation == CARD_PATH:
            return self.buy_card(key)
        if pending.operation == TOPUP_PATH:
            return self.top_up(request.get("amountUsdCents"), key)
        if pending.operation == ESIM_PATH:
            return self.buy_esim(request.get("planId"), key)
        if pending.operation == ESIM_TOPUP_PATH:
            return self.top_up_esim(str(request.get("orderId", "")), request.get("planId"), key)
        return self.pay_order(key)

    # What things cost, for the payer.

    def config(self) -> Program[GetConfigResponse]:
        return read(GetConfigResponse, (yield from called("runtime", "get_config", GetConfigRequest())).message)

    def published(self) -> Program[Published]:
        """What the service publishes about payments. It is read once."""
        if self._published is None:
            config = yield from self.config()
            network, card = present(NetworkConfig, config.network), present(CardConfig, config.card)
            domain = (network.asset_name, network.asset_version)
            self._published = Published(
                network.pay_to, domain, card.wallet_payment_usd_cents, card.default_order_usd_cents
            )
        return self._published

    def plan_units(self, plan_id: str) -> Program[int]:
        plans = yield from self.listed_plans(None, None)
        for plan in plans:
            if plan.plan_id == plan_id:
                return int(plan.amount)
        raise TermsMismatchError(f"no plan {plan_id} is published; nothing was signed")

    def cheapest_plan(self) -> Program[str]:
        plans = yield from self.listed_plans(None, None)
        if not plans:
            raise TermsMismatchError("no plan is published; nothing was signed")
        return str(min(plans, key=lambda plan: (int(plan.amount), plan.plan_id)).plan_id)

    def order_units(self, order_id: str) -> Program[int | None]:
        if isinstance(self.signer, OutsideWallet):
            return None
        order = yield from self.order(order_id)
        return units_of_cents(order.amount_usd_cents)

    # Orders.

    def create_card_order(self, key: str | None) -> Program[Order]:
        answer = yield from owned("cards", "create_card_order", CreateCardOrderRequest(), keyed(key))
        return read(Order, answer.order)

    def create_esim_order(self, plan_id: str | None, key: str | None) -> Program[Order]:
        answer = yield from owned(
            "esims", "create_esim_order", CreateEsimOrderRequest(plan_id=plan_id), keyed(key_of(key))
        )
        return read(Order, answer.order)

    def create_order(self, cents: int | None, resource: str | None, key: str | None) -> Program[Order]:
        answer = yield from owned(
            "orders", "create_order", CreateOrderRequest(amount_usd_cents=cents, resource=resource), keyed(key)
        )
        return read(Order, answer.order)

    def order(self, order_id: str) -> Program[Order]:
        answer = yield from owned("orders", "get_order", GetOrderRequest(order_id=order_id))
        return read(Order, answer.order)

    def orders(self, active: bool, kind: str | None = None) -> Source[Order]:
        """The wallet's orders, or those of one kind, by pages."""

        def page(size: int | None, token: str | None) -> Program[Slice[Order]]:
            status = "active" if active else None
            request = ListOrdersRequest(status=status, kind=kind, page_size=size, page_token=token)
            answer = yield from owned("orders", "list_orders", request)
            return [read(Order, order) for order in answer.orders], answer.next_page_token or None

        return page

    def watch(self, order: Order | PaidOrder | str, interval: float, timeout: float | None) -> Program[None]:
        """Emits an order now and whenever it changed, until it moves no more by itself or the time is over."""
        return following(not_empty("order", id_of(order)), self.order, interval, timeout)

    def watch_all(
        self, orders: Iterable[Order | PaidOrder | str], interval: float, timeout: float | None
    ) -> Program[None]:
        """Emits each of several orders now and whenever it changed, until none moves any more or the time is over."""
        return following_all([not_empty("order", id_of(order)) for order in orders], self.order, interval, timeout)

    # Cards.

    def cards(self) -> Program[list[Card]]:
        answer = yield from owned("cards", "list_cards", ListCardsRequest())
        return [read(Card, card) for card in answer.cards]

    def balance(self, card_id: str) -> Program[GetCardBalanceResponse]:
        return read(
            GetCardBalanceResponse, (yield from owned("cards", "get_card_balance", GetCardBalanceRequest(id=card_id)))
        )

    def freeze(self, card_id: str) -> Program[Card]:
        return read(Card, (yield from owned("cards", "freeze_card", FreezeCardRequest(id=card_id))).card)

    def unfreeze(self, card_id: str) -> Program[Card]:
        return read(Card, (yield from owned("cards", "unfreeze_card", UnfreezeCardRequest(id=card_id))).card)

    def limits(self, card_id: str) -> Program[CardLimits]:
        return read(CardLimits, (yield from owned("cards", "get_card_limits", GetCardLimitsRequest(id=card_id))).limits)

    def set_limits(
        self,
        card_id: str,
        per_transaction_usd_cents: int | None,
        per_month_usd_cents: int | None,
        allowed_categories: Sequence[str],
        blocked_categories: Sequence[str],
    ) -> Program[CardLimits]:
        for name, codes in (("allowed_categories", allowed_categories), ("blocked_categories", blocked_categories)):
            if isinstance(codes, str):
                raise WrongTypeError(f"{name} is a text, not a list of texts; nothing was sent")
        request = SetCardLimitsRequest(
            id=card_id,
            per_transaction_usd_cents=per_transaction_usd_cents,
            per_month_usd_cents=per_month_usd_cents,
            allowed_categories=list(allowed_categories),
            blocked_categories=list(blocked_categories),
        )
        return read(CardLimits, (yield from owned("cards", "set_card_limits", request)).limits)

    def details(self, card_id: str) -> Program[CardDetails]:
        request = GetCardDetailsRequest(id=card_id)
        return read(CardDetails, (yield from owned("cards", "get_card_details", request)).details)

    def transactions(self, card_id: str) -> Source[CardTransaction]:
        """What a card was used for, by pages."""

        def page(size: int | None, token: str | None) -> Program[Slice[CardTransaction]]:
            request = ListCardTransactionsRequest(id=card_id, page_size=size, page_token=token)
            answer = yield from owned("cards", "list_card_transactions", request)
            return [read(CardTransaction, one) for one in answer.transactions], answer.next_page_token or None

        return page

    def active_card(self, order: Order) -> Program[Card | None]:
        """The order's card, when it is ACTIVE."""
        if order.issuance is None or order.issuance.status != "active":
            return None
        card_id = order.issuance.card_id
        cards = yield from retried(self.cards)
        return next((c for c in cards if c.id == card_id and c.status == "ACTIVE"), None)

    def reveal(self, card_id: str, presenter: Presenter) -> Program[Presented]:
        showing = presenter.prepare()
        key = showing.recipient_key
        bound = key.rstrip("=").replace("+", "-").replace("/", "_")
        purpose = Purpose(
            self.origin, "RevealCard", (f"urn:roamcard:card:{card_id}", f"urn:roamcard:recipient-key:{bound}"),
            {"cardId": card_id, "recipientKey": bound},
        )  # fmt: skip
        try:
            answer = yield from self._revealed(card_id, key, purpose)
        except ApiError as error:
            if error.code != "sealing_missing":
                raise
            return (yield from self._reveal_on_page(card_id, presenter))
        sealed = answer.sealed
        if sealed is None:
            raise RevealError("the card came unsealed; it was thrown away")
        presented: Presented = yield Do(lambda: showing.show(card_id, sealed.suite, sealed.enc, sealed.ciphertext))
        return presented

    def _reveal_on_page(self, card_id: str, presenter: Presenter) -> Program[Presented]:
        """Opens the service's page of a card.

        What is signed says that it is for a page: it is of no use to what lies between and only claims that the service
        does not seal.
        """
        if not isinstance(presenter, BrowserPresenter):
            raise RevealError("the issuer of this service's cards shows them in a browser only")
        purpose = Purpose(
            self.origin, "RevealCard", (f"urn:roamcard:card:{card_id}", "urn:roamcard:reveal:page"),
            {
                "cardId": card_id, "recipientKey": "",
                "statement": f"Reveal card {card_id} once, on a page of this service.",
            },
        )  # fmt: skip
        answer = yield from self._revealed(card_id, None, purpose)
        url = answer.embed.url if answer.embed else ""
        if not url.startswith(self.origin + "/"):
            # The address is a secret: nothing here quotes it.
            raise RevealError("the page of the card is not the service's; it was not opened")
        presented: Presented = yield Do(lambda: presenter.open_page(url))
        return presented

    def _revealed(self, card_id: str, key: str | None, purpose: Purpose) -> Program[RevealCardResponse]:
        request = CreateRevealChallengeRequest(
            id=card_id, preferred_message_schemes=[scheme_of(self.signer)], recipient_key=key
        )
        challenge = yield from owned("cards", "create_reveal_challenge", request)
        signature = yield Do(lambda: _sign(self.signer, challenge, purpose))
        answer: RevealCardResponse = yield from owned("cards", "reveal_card", RevealCardRequest(
            id=card_id, intent_id=challenge.intent_id, signature=signature, message_scheme=challenge.message_scheme,
            recipient_key=key,
        ))  # fmt: skip
        return answer

    # eSIMs.

    def listed_plans(self, country_code: str | None, type: str | None) -> Program[list[EsimPlan]]:
        answer = (
            yield from called("esims", "list_esim_plans", ListEsimPlansRequest(country_code=country_code, type=type))
        ).message
        return [read(EsimPlan, plan) for plan in answer.plans]

    def plans(self, country_code: str | None, type: str | None) -> Source[EsimPlan]:
        """The plans that are sold, the cheapest first: all on one page."""

        def page(_size: int | None, _token: str | None) -> Program[Slice[EsimPlan]]:
            return (yield from self.listed_plans(country_code, type)), None

        return page

    def esim_status(self, order: Order | PaidOrder | str, token: Secret[str] | None) -> Program[Order]:
        answer = yield from delivered(
            "get_esim_order", GetEsimOrderRequest(order_id=id_of(order)), token_of(order) if token is None else token
        )
        return read(Order, answer.order)

    def esim_profile(self, order: Order | PaidOrder | str, token: Secret[str] | None) -> Program[EsimProfile]:
        answer = yield from delivered(
            "get_esim_profile",
            GetEsimProfileRequest(order_id=id_of(order)),
            token_of(order) if token is None else token,
        )
        return read(EsimProfile, answer.profile)

    def esim_top_ups(self, order: Order | PaidOrder | str, token: Secret[str] | None) -> Source[EsimPlan]:
        def page(_size: int | None, _token: str | None) -> Program[Slice[EsimPlan]]:
            answer = yield from delivered(
                "list_esim_topups",
                ListEsimTopupsRequest(order_id=id_of(order)),
                token_of(order) if token is None else token,
            )
            return [read(EsimPlan, plan) for plan in answer.plans], None

        return page

    def rotate_esim_token(self, order: Order | PaidOrder | str) -> Program[DeliveryToken]:
        answer = yield from owned("esims", "rotate_esim_token", RotateEsimTokenRequest(order_id=id_of(order)))
        delivery = read(EsimDelivery, answer.delivery)
        return DeliveryToken(Secret(answer.delivery.token or ""), delivery.token_expires_at)

    def cancel_esim(self, order: Order | PaidOrder | str) -> Program[EsimCancellation]:
        answer = yield from owned("esims", "cancel_esim", CancelEsimRequest(order_id=id_of(order)))
        return read(EsimCancellation, answer.cancellation)

    def install_esim(
        self, order: Order | PaidOrder | str, presenter: EsimPresenter, token: Secret[str] | None
    ) -> Program[Presented]:
        answer = yield from delivered(
            "get_esim_credentials",
            GetEsimCredentialsRequest(order_id=id_of(order)),
            token_of(order) if token is None else token,
        )
        credentials: Secret[EsimCredentials] = Secret(present(EsimCredentials, answer.credentials))
        presented: Presented = yield Do(lambda: presenter.present_esim(credentials))
        return presented

    # Who is calling.

    def sign_in(self) -> Program[Session]:
        address, scheme = self.signer.address, scheme_of(self.signer)
        request = CreateChallengeRequest(address=address, preferred_message_schemes=[scheme])
        challenge = (yield from called("auth", "create_challenge", request)).message
        signature = yield Do(lambda: _sign(self.signer, challenge, Purpose(self.origin, "SignIn")))
        verify = VerifyChallengeRequest(
            address=address, signature=signature, intent_id=challenge.intent_id, message_scheme=challenge.message_scheme
        )
        session = (yield from called("auth", "verify_challenge", verify)).message
        until = session.expires_at.to_datetime().replace(tzinfo=timezone.utc).timestamp() if session.expires_at else 0
        return Session(f"Bearer {session.access_token}", until - _SESSION_MARGIN)

    def session(self) -> Program[GetSessionResponse]:
        return read(GetSessionResponse, (yield from owned("auth", "get_session", GetSessionRequest())))

    def sign_out(self) -> Program[None]:
        yield from owned("auth", "logout", LogoutRequest())
        yield ClearSession()

    # What is published, and what operators do.

    def document(self, path: str) -> Program[dict[str, Any]]:
        """A JSON document of the service."""
        retries = yield ReadRetries()
        for attempt in range(retries + 1):
            try:
                status, headers, body = yield Fetch(path)
                if status == 200 and (document := object_of(body)) is not None:
                    return document
                failure = rest_error(status, headers, body)
            except ApiError as error:
                failure, headers = error, {}
            again = attempt < retries and passes(failure.__cause__, failure.status)
            pause = pause_before(attempt, headers) if again else None
            if pause is None:
                raise failure
            yield Pause(pause)
        raise AssertionError("unreachable")

    def operated(self, method: str, request: Message[Any], key: str | None = None) -> Program[Any]:
        """Calls what belongs to operators."""
        if self.operator_token is None:
            raise RoamcardError("the client has no operator_token")
        headers = {"authorization": f"Bearer {self.operator_token.reveal()}", **keyed(key)}
        return (yield from called("operator", method, request, headers)).message

    def pages(self, kind: type[M], method: str, items: str, request: Any) -> Source[M]:
        """What a list of operators holds, by pages."""

        def page(size: int | None, token: str | None) -> Program[Slice[M]]:
            asked = copy.copy(request)
            for name, value in (("page_size", size), ("page_token", token)):
                if value is not None:
                    setattr(asked, name, value)
            answer = yield from self.operated(method, asked)
            return [read(kind, item) for item in getattr(answer, items)], answer.next_page_token or None

        return page

    def _quote(self, name: str, message: Message[Any], request: Mapping[str, Any]) -> Program[Quoted]:
        check_given(message)
        purchase = self.purchase(name, str(request["idempotencyKey"]), request)
        return serving(self.payer.quote(purchase), _sending(name, message))

    def _buy(self, name: str, message: Message[Any], request: Mapping[str, Any]) -> tuple[Purchase, Program[PaidOrder]]:
        check_given(message)
        purchase = self.purchase(name, str(request.get("idempotencyKey") or request["orderId"]), request)

        def program() -> Program[PaidOrder]:
            answer: Answer = yield from serving(self.payer.pay(purchase), _sending(name, message))
            with naming(purchase.key):
                order = read(Order, answer.message.order)
                receipt = decode_receipt(answer.headers.get(RESPONSE_HEADER))
                request_id = printable(answer.headers.get(REQUEST_ID_HEADER, ""))
                return paid_order(order, answer.message.order, purchase.key, receipt, request_id)

        return purchase, program()

    def _order_id(self, order: Order | str) -> str:
        """The id of an order that is named by itself, its id or its payable_url."""
        if not isinstance(order, str) or "/" not in order:
            return id_of(order)
        url = urlsplit(order)
        folder, _, order_id = url.path.rpartition("/")
        if (
            f"{url.scheme}://{url.netloc}" != self.origin
            or folder not in (PAY_PATH, f"/api/x402{PAY_PATH}")
            or not order_id
        ):
            raise TermsMismatchError(f"{order} is no payable_url of {self.origin}; nothing was signed")
        return order_id


def new_key() -> str:
    """A new idempotency key."""
    return f"roamcard-{uuid.uuid4()}"


def key_of(key: str | None) -> str:
    """The key of a call: a new one where it was left out, and never an empty one."""
    return new_key() if key is None else not_empty("idempotency_key", key)


def json_of(message: Message[Any]) -> dict[str, Any]:
    """A message as the documented JSON."""
    body: dict[str, Any] = json.loads(message.to_json())
    return body


def now() -> float:
    """The time, in seconds since 1970."""
    return time.time()


def _sending(name: str, message: Message[Any]) -> Callable[[str | None], Program[Any]]:
    service, method = _PAID_CALLS[name]

    def send(payment: str | None) -> Program[Done[Answer] | Refused | Unclear]:
        try:
            answer = yield Call(service, method, message, {SIGNATURE_HEADER: payment} if payment else {})
        except CallFailed as failed:
            return reply_of(failed.error, failed.headers, failed.status)
        return Done(answer, answer.message)

    return send


def _esim_request(plan_id: str | None, key: str) -> dict[str, str]:
    return {"idempotencyKey": key, **({} if plan_id is None else {"planId": plan_id})}


def _sign(signer: Signer, challenge: Any, purpose: Purpose) -> str:
    typed = challenge.typed_data.to_python() if challenge.typed_data is not None else None
    return sign_challenge(signer, challenge.message_scheme, challenge.message, typed, purpose)
