"""The client that blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Literal, TypeVar

from connectrpc.client import ResponseMetadata
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext
from protobuf import Message
from pyqwest import SyncClient

from ._gen.roamcard.v1.auth_connect import AuthServiceClientSync
from ._gen.roamcard.v1.card_connect import CardServiceClientSync
from ._gen.roamcard.v1.card_pb import Card, GetCardBalanceResponse
from ._gen.roamcard.v1.esim_connect import EsimServiceClientSync
from ._gen.roamcard.v1.esim_pb import EsimPlan
from ._gen.roamcard.v1.order_connect import OrderServiceClientSync
from ._gen.roamcard.v1.order_pb import Order, WatchOrderRequest, WatchOrderResponse
from ._gen.roamcard.v1.service_connect import RuntimeServiceClientSync
from ._gen.roamcard.v1.service_pb import GetConfigRequest
from .core import PAID_METHODS, Answer, Authorize, Bought, BoughtEsim, Call, CallFailed, Core, Pending, Session, api_error_of, json_of, no_card, now
from .core import published_of, reply_of, serving
from .journal import Store
from .policy import Policy, Quote
from .presenters import EsimPresenter, Presented, Presenter
from .programs import Do, Done, Events, Pause, Program, Published, Purchase, Read, ReadPlan
from .secret import Secret
from .signers import Signer
from .watching import Watch
from .x402 import SIGNATURE_HEADER

T = TypeVar("T")


class Roamcard:
    """A client of one service for one wallet. Threads may share it.

    base_url: where the service is, such as http://127.0.0.1:8402.
    signer: the wallet that pays and owns.
    policy: what may be paid.
    store: keeps what was signed; memory when None. Use a FileStore to survive a restart.
    origin: the service's public origin, when base_url is a gateway before it: what its terms and messages name.
    timeout: how many seconds one request may take, longer than the service waits for anything.
    max_replays: how often the same signed bytes go out again after an unclear answer.
    """

    def __init__(
        self,
        base_url: str,
        signer: Signer,
        policy: Policy,
        *,
        store: Store | None = None,
        origin: str | None = None,
        timeout: float = 30,
        max_replays: int = 4,
        events: Events | None = None,
        http_client: SyncClient | None = None,
    ) -> None:
        self._core = Core(base_url, signer, policy, store, origin, max_replays, events)
        url = self._core.base_url
        self._timeout_ms = int(timeout * 1000)
        self._clients: dict[str, Any] = {
            "auth": AuthServiceClientSync(url, http_client=http_client),
            "cards": CardServiceClientSync(url, http_client=http_client),
            "orders": OrderServiceClientSync(url, http_client=http_client),
            "esims": EsimServiceClientSync(url, http_client=http_client),
        }
        self._runtime = RuntimeServiceClientSync(url, http_client=http_client)
        self._published: Published | None = None
        self._session: Session | None = None
        self._signing_in = threading.Lock()
        self._running: dict[tuple[str, str, str], Future[Any]] = {}
        self._running_lock = threading.Lock()

    def __enter__(self) -> Roamcard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the use of the client's connections."""
        for client in (*self._clients.values(), self._runtime):
            client.close()

    @property
    def address(self) -> str:
        """The wallet that pays and owns."""
        return self._core.signer.address

    def buy_card(self, *, idempotency_key: str | None = None) -> Bought:
        """Buys a card for 25.00. It is issued meanwhile: see wait_until_active.

        Without a key one is made; keep the one that comes back. After an AmbiguousPaymentError call again with the same key.
        """
        return self._once(*self._core.buy_card(idempotency_key))

    def top_up(self, amount_usd_cents: int, *, idempotency_key: str | None = None) -> Bought:
        """Tops the wallet's card up by 25.00 to 250.00, of which a fee of 2 % is kept. Otherwise like buy_card."""
        return self._once(*self._core.top_up(amount_usd_cents, idempotency_key))

    def buy_esim(self, plan_id: str | None = None, *, idempotency_key: str | None = None) -> BoughtEsim:
        """Buys an eSIM: a plan at its published price, or the cheapest that can be had, at any price within the caps.

        It is often there with the answer; otherwise watch_order tells when install_esim can show it. Otherwise like buy_card.
        """
        return self._once(*self._core.buy_esim(plan_id, idempotency_key))

    def plans(self, *, country_code: str | None = None, type: Literal["country", "region"] | None = None) -> list[EsimPlan]:
        """Lists the eSIM plans that are sold, the cheapest first."""
        return self._run(self._core.plans(country_code, type))

    def esim_status(self, order_id: str, *, delivery_token: Secret[str] | None = None) -> Order:
        """Reads an eSIM order, without its secrets, by the delivery token or the wallet's session."""
        return self._run(self._core.esim_status(order_id, delivery_token))

    def install_esim(self, order_id: str, presenter: EsimPresenter, *, delivery_token: Secret[str] | None = None) -> Presented:
        """Shows the eSIM of a fulfilled order to a person. The caller learns whether it was seen, and nothing else."""
        return self._run(self._core.install_esim(order_id, presenter, delivery_token))

    def quote_card(self) -> Quote:
        """Asks what a card costs, checks the terms, and signs nothing."""
        return self._run(self._core.quote_card())

    def quote_top_up(self, amount_usd_cents: int) -> Quote:
        """Asks what a top-up costs, checks the terms, and signs nothing."""
        return self._run(self._core.quote_top_up(amount_usd_cents))

    def quote_esim(self, plan_id: str | None = None) -> Quote:
        """Asks what an eSIM costs, checks the terms, and signs nothing."""
        return self._run(self._core.quote_esim(plan_id))

    def pending(self) -> list[Pending]:
        """Purchases of this store whose outcome is not known: call again with their keys."""
        return self._core.pending()

    def order(self, order_id: str) -> Order:
        """Reads one order of this wallet."""
        return self._run(self._core.order(order_id))

    def orders(self, *, active: bool = False) -> Iterator[Order]:
        """Reads the wallet's orders, newest first, page by page as they are taken."""
        page, token = self._run(self._core.orders(active, None))
        yield from page
        while token:
            page, token = self._run(self._core.orders(active, token))
            yield from page

    def watch_order(self, order_id: str, *, interval: float = 2, timeout: float | None = None) -> Iterator[Order]:
        """Yields an order now and whenever its status changes, until it moves no more by itself or the time is over.

        It follows the service's stream, and asks again every `interval` seconds where streams do not get through.
        """
        watch = Watch(order_id, timeout)
        while True:
            if (stream := watch.open()) is not None:
                well = True
                try:
                    for answer in self._stream(*stream):
                        if (order := watch.received(answer)) is not None:
                            yield order
                        if watch.is_over:
                            return
                except ConnectError:
                    well = False
                if watch.ended(well):
                    continue
            if (order := watch.looked(self.order(order_id))) is not None:
                yield order
            if watch.is_over:
                return
            time.sleep(interval)

    def wait_until_active(
        self, order: Order | str, *, timeout: float = 120, interval: float = 2, on_update: Callable[[Order], None] | None = None
    ) -> Card:
        """Waits until the card of an order is ACTIVE, and returns it.

        It raises when no card comes of the order by itself, or not in time; the order goes on all the same.
        """
        order_id = order if isinstance(order, str) else order.order_id
        for update in self.watch_order(order_id, interval=interval, timeout=timeout):
            if on_update:
                on_update(update)
            if (card := self._run(self._core.active_card(update))) is not None:
                return card
        raise no_card(order_id)

    def cards(self) -> list[Card]:
        """Lists the wallet's cards."""
        return self._run(self._core.cards())

    def balance(self, card_id: str) -> GetCardBalanceResponse:
        """Reads what is on a card, from its issuer."""
        return self._run(self._core.balance(card_id))

    def reveal(self, card_id: str, presenter: Presenter) -> Presented:
        """Shows a card's number and code to a person.

        The service seals them to a key that the presenter makes for this once; the caller learns whether they were seen, and
        nothing else.
        """
        return self._run(self._core.reveal(card_id, presenter))

    def interceptor(self) -> PayingInterceptor:
        """Pays for the paid methods of a generated client that blocks, by this client's rules."""
        return PayingInterceptor(self)

    def _once(self, purchase: Purchase, program: Program[T], face: str = "client") -> T:
        """Lets calls of one purchase at the same time share one run."""
        name = (face, self._core.payer.identity(purchase), purchase.fingerprint)
        with self._running_lock:
            running = self._running.get(name)
            if running is None:
                mine: Future[Any] = Future()
                self._running[name] = mine
        if running is not None:
            shared: T = running.result()
            return shared
        try:
            result = self._run(program)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(result)
            return result
        finally:
            with self._running_lock:
                del self._running[name]

    def _run(self, program: Program[T]) -> T:
        try:
            effect = next(program)
            while True:
                try:
                    outcome = self._perform(effect)
                except BaseException as error:
                    effect = program.throw(error)
                else:
                    effect = program.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result

    def _perform(self, effect: Any) -> Any:
        match effect:
            case Call():
                return self._call(effect)
            case Do(act):
                return act()
            case Pause(seconds):
                return time.sleep(seconds)
            case Read():
                return self._read()
            case ReadPlan(plan_id):
                return self._run(self._core.plan_units(plan_id))
            case Authorize(stale):
                return self._authorize(stale)
        raise AssertionError(effect)

    def _call(self, call: Call) -> Answer:
        with ResponseMetadata() as metadata:
            try:
                act = getattr(self._clients[call.service], call.method)
                message = act(call.request, headers=dict(call.headers), timeout_ms=self._timeout_ms)
            except ConnectError as error:
                raise CallFailed(error, metadata.headers) from error
        return Answer(message, metadata.headers)

    def _stream(self, request: WatchOrderRequest, limit_ms: int) -> Iterator[WatchOrderResponse]:
        answers: Iterator[WatchOrderResponse] = self._clients["orders"].watch_order(
            request, headers={"authorization": self._authorize(None)}, timeout_ms=limit_ms
        )
        return answers

    def _read(self) -> Published:
        if self._published is None:
            try:
                self._published = published_of(self._runtime.get_config(GetConfigRequest(), timeout_ms=self._timeout_ms))
            except ConnectError as error:
                raise api_error_of(error) from error
        return self._published

    def _authorize(self, stale: str | None) -> str:
        with self._signing_in:
            session = self._session
            if session is None or session.header == stale or session.until < now():
                self._session = session = self._run(self._core.sign_in())
            return session.header


class PayingInterceptor:
    """Pays for the paid methods of every service. Everything else passes by."""

    def __init__(self, client: Roamcard) -> None:
        self._client = client

    def intercept_unary_sync(
        self, call_next: Callable[[Any, RequestContext[Any, Any]], Any], request: Message[Any], ctx: RequestContext[Any, Any]
    ) -> Any:
        """Implements UnaryInterceptorSync."""
        name = f"{ctx.method.service_name}/{ctx.method.name}"
        if name not in PAID_METHODS or SIGNATURE_HEADER in ctx.request_headers:
            return call_next(request, ctx)
        purchase = self._client._core.purchase(name, request.idempotency_key, json_of(request))  # type: ignore[attr-defined]

        def send(payment: str | None) -> Program[Any]:
            if payment:
                ctx.request_headers[SIGNATURE_HEADER] = payment
            with ResponseMetadata() as metadata:
                try:
                    return Done(call_next(request, ctx))
                except ConnectError as error:
                    return reply_of(error, metadata.headers)
            yield  # a program, though it asks for nothing

        return self._client._once(purchase, serving(self._client._core.payer.pay(purchase), send), "connect")

