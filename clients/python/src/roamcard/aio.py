"""The client that awaits: the same words, for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeVar

from connectrpc.client import ResponseMetadata
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext
from protobuf import Message
from pyqwest import Client

from ._gen.roamcard.v1.auth_connect import AuthServiceClient
from ._gen.roamcard.v1.card_connect import CardServiceClient
from ._gen.roamcard.v1.card_pb import Card, GetCardBalanceResponse
from ._gen.roamcard.v1.esim_connect import EsimServiceClient
from ._gen.roamcard.v1.esim_pb import EsimPlan
from ._gen.roamcard.v1.order_connect import OrderServiceClient
from ._gen.roamcard.v1.order_pb import Order, WatchOrderRequest, WatchOrderResponse
from ._gen.roamcard.v1.service_connect import RuntimeServiceClient
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


class AsyncRoamcard:
    """A client of one service for one wallet, for one event loop.

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
        http_client: Client | None = None,
    ) -> None:
        self._core = Core(base_url, signer, policy, store, origin, max_replays, events)
        url = self._core.base_url
        self._timeout_ms = int(timeout * 1000)
        self._clients: dict[str, Any] = {
            "auth": AuthServiceClient(url, http_client=http_client),
            "cards": CardServiceClient(url, http_client=http_client),
            "orders": OrderServiceClient(url, http_client=http_client),
            "esims": EsimServiceClient(url, http_client=http_client),
        }
        self._runtime = RuntimeServiceClient(url, http_client=http_client)
        self._published: Published | None = None
        self._session: Session | None = None
        self._signing_in = asyncio.Lock()
        self._running: dict[tuple[str, str, str], asyncio.Task[Any]] = {}

    async def __aenter__(self) -> AsyncRoamcard:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the use of the client's connections."""
        for client in (*self._clients.values(), self._runtime):
            await client.close()

    @property
    def address(self) -> str:
        """The wallet that pays and owns."""
        return self._core.signer.address

    async def buy_card(self, *, idempotency_key: str | None = None) -> Bought:
        """Buys a card for 25.00. It is issued meanwhile: see wait_until_active.

        Without a key one is made; keep the one that comes back. After an AmbiguousPaymentError call again with the same key.
        """
        return await self._once(*self._core.buy_card(idempotency_key))

    async def top_up(self, amount_usd_cents: int, *, idempotency_key: str | None = None) -> Bought:
        """Tops the wallet's card up by 25.00 to 250.00, of which a fee of 2 % is kept. Otherwise like buy_card."""
        return await self._once(*self._core.top_up(amount_usd_cents, idempotency_key))

    async def buy_esim(self, plan_id: str | None = None, *, idempotency_key: str | None = None) -> BoughtEsim:
        """Buys an eSIM: a plan at its published price, or the cheapest that can be had, at any price within the caps.

        It is often there with the answer; otherwise watch_order tells when install_esim can show it. Otherwise like buy_card.
        """
        return await self._once(*self._core.buy_esim(plan_id, idempotency_key))

    async def plans(self, *, country_code: str | None = None, type: Literal["country", "region"] | None = None) -> list[EsimPlan]:
        """Lists the eSIM plans that are sold, the cheapest first."""
        return await self._run(self._core.plans(country_code, type))

    async def esim_status(self, order_id: str, *, delivery_token: Secret[str] | None = None) -> Order:
        """Reads an eSIM order, without its secrets, by the delivery token or the wallet's session."""
        return await self._run(self._core.esim_status(order_id, delivery_token))

    async def install_esim(self, order_id: str, presenter: EsimPresenter, *, delivery_token: Secret[str] | None = None) -> Presented:
        """Shows the eSIM of a fulfilled order to a person. The caller learns whether it was seen, and nothing else."""
        return await self._run(self._core.install_esim(order_id, presenter, delivery_token))

    async def quote_card(self) -> Quote:
        """Asks what a card costs, checks the terms, and signs nothing."""
        return await self._run(self._core.quote_card())

    async def quote_top_up(self, amount_usd_cents: int) -> Quote:
        """Asks what a top-up costs, checks the terms, and signs nothing."""
        return await self._run(self._core.quote_top_up(amount_usd_cents))

    async def quote_esim(self, plan_id: str | None = None) -> Quote:
        """Asks what an eSIM costs, checks the terms, and signs nothing."""
        return await self._run(self._core.quote_esim(plan_id))

    def pending(self) -> list[Pending]:
        """Purchases of this store whose outcome is not known: call again with their keys."""
        return self._core.pending()

    async def order(self, order_id: str) -> Order:
        """Reads one order of this wallet."""
        return await self._run(self._core.order(order_id))

    async def orders(self, *, active: bool = False) -> AsyncIterator[Order]:
        """Reads the wallet's orders, newest first, page by page as they are taken."""
        page, token = await self._run(self._core.orders(active, None))
        for order in page:
            yield order
        while token:
            page, token = await self._run(self._core.orders(active, token))
            for order in page:
                yield order

    async def watch_order(self, order_id: str, *, interval: float = 2, timeout: float | None = None) -> AsyncIterator[Order]:
        """Yields an order now and whenever its status changes, until it moves no more by itself or the time is over.

        It follows the service's stream, and asks again every `interval` seconds where streams do not get through.
        """
        watch = Watch(order_id, timeout)
        while True:
            if (stream := watch.open()) is not None:
                well = True
                try:
                    async with aclosing(await self._stream(*stream)) as answers:
                        async for answer in answers:
                            if (order := watch.received(answer)) is not None:
                                yield order
                            if watch.is_over:
                                return
                except ConnectError:
                    well = False
                if watch.ended(well):
                    continue
            if (order := watch.looked(await self.order(order_id))) is not None:
                yield order
            if watch.is_over:
                return
            await asyncio.sleep(interval)

    async def wait_until_active(
        self, order: Order | str, *, timeout: float = 120, interval: float = 2, on_update: Callable[[Order], None] | None = None
    ) -> Card:
        """Waits until the card of an order is ACTIVE, and returns it.

        It raises when no card comes of the order by itself, or not in time; the order goes on all the same.
        """
        order_id = order if isinstance(order, str) else order.order_id
        async for update in self.watch_order(order_id, interval=interval, timeout=timeout):
            if on_update:
                on_update(update)
            if (card := await self._run(self._core.active_card(update))) is not None:
                return card
        raise no_card(order_id)

    async def cards(self) -> list[Card]:
        """Lists the wallet's cards."""
        return await self._run(self._core.cards())

    async def balance(self, card_id: str) -> GetCardBalanceResponse:
        """Reads what is on a card, from its issuer."""
        return await self._run(self._core.balance(card_id))

    async def reveal(self, card_id: str, presenter: Presenter) -> Presented:
        """Shows a card's number and code to a person.

        The service seals them to a key that the presenter makes for this once; the caller learns whether they were seen, and
        nothing else.
        """
        return await self._run(self._core.reveal(card_id, presenter))

    def interceptor(self) -> AsyncPayingInterceptor:
        """Pays for the paid methods of a generated client that awaits, by this client's rules."""
        return AsyncPayingInterceptor(self)

    async def _once(self, purchase: Purchase, program: Program[T], face: str = "client") -> T:
        """Lets calls of one purchase at the same time share one run.

        A call that is cancelled leaves the run to the others, and to its end: what was sent is not unsent by that.
        """
        name = (face, self._core.payer.identity(purchase), purchase.fingerprint)
        running = self._running.get(name)
        if running is None:
            self._running[name] = running = asyncio.create_task(self._run(program))
            running.add_done_callback(lambda _: self._running.pop(name))
        result: T = await asyncio.shield(running)
        return result

    async def _run(self, program: Program[T]) -> T:
        try:
            effect = next(program)
            while True:
                try:
                    outcome = await self._perform(effect)
                except BaseException as error:
                    effect = program.throw(error)
                else:
                    effect = program.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _perform(self, effect: Any) -> Any:
        match effect:
            case Call():
                return await self._call(effect)
            case Do(act):
                # Wallets, files and pages block; functions of the caller may be async.
                outcome = await asyncio.to_thread(act)
                return await outcome if inspect.isawaitable(outcome) else outcome
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Read():
                return await self._read()
            case ReadPlan(plan_id):
                return await self._run(self._core.plan_units(plan_id))
            case Authorize(stale):
                return await self._authorize(stale)
            case Invoke(call_next, request, ctx):
                return await _invoke(call_next, request, ctx)
        raise AssertionError(effect)

    async def _call(self, call: Call) -> Answer:
        with ResponseMetadata() as metadata:
            try:
                act = getattr(self._clients[call.service], call.method)
                message = await act(call.request, headers=dict(call.headers), timeout_ms=self._timeout_ms)
            except ConnectError as error:
                raise CallFailed(error, metadata.headers) from error
        return Answer(message, metadata.headers)

    async def _stream(self, request: WatchOrderRequest, limit_ms: int) -> AsyncGenerator[WatchOrderResponse, None]:
        answers: AsyncGenerator[WatchOrderResponse, None] = self._clients["orders"].watch_order(
            request, headers={"authorization": await self._authorize(None)}, timeout_ms=limit_ms
        )
        return answers

    async def _read(self) -> Published:
        if self._published is None:
            try:
                self._published = published_of(await self._runtime.get_config(GetConfigRequest(), timeout_ms=self._timeout_ms))
            except ConnectError as error:
                raise api_error_of(error) from error
        return self._published

    async def _authorize(self, stale: str | None) -> str:
        async with self._signing_in:
            session = self._session
            if session is None or session.header == stale or session.until < now():
                self._session = session = await self._run(self._core.sign_in())
            return session.header


@dataclass(frozen=True)
class Invoke:
    """Send a request that an interceptor holds."""

    call_next: Callable[[Any, RequestContext[Any, Any]], Awaitable[Any]]
    request: Message[Any]
    ctx: RequestContext[Any, Any]


async def _invoke(call_next: Callable[[Any, RequestContext[Any, Any]], Awaitable[Any]], request: Message[Any], ctx: RequestContext[Any, Any]) -> Any:
    with ResponseMetadata() as metadata:
        try:
            return Done(await call_next(request, ctx))
        except ConnectError as error:
            return reply_of(error, metadata.headers)


class AsyncPayingInterceptor:
    """Pays for the paid methods of every service. Everything else passes by."""

    def __init__(self, client: AsyncRoamcard) -> None:
        self._client = client

    async def intercept_unary(
        self, call_next: Callable[[Any, RequestContext[Any, Any]], Awaitable[Any]], request: Message[Any], ctx: RequestContext[Any, Any]
    ) -> Any:
        """Implements UnaryInterceptor."""
        core, name = self._client._core, f"{ctx.method.service_name}/{ctx.method.name}"
        if name not in PAID_METHODS or SIGNATURE_HEADER in ctx.request_headers:
            return await call_next(request, ctx)
        purchase = core.purchase(name, request.idempotency_key, json_of(request))  # type: ignore[attr-defined]

        def send(payment: str | None) -> Program[Any]:
            if payment:
                ctx.request_headers[SIGNATURE_HEADER] = payment
            return (yield Invoke(call_next, request, ctx))

        return await self._client._once(purchase, serving(core.payer.pay(purchase), send), "connect")
