"""The methods of the client that awaits, by what they are about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from .._gen.models import (
    Card,
    CardDetails,
    CardLimits,
    CardTransaction,
    EsimCancellation,
    EsimPlan,
    EsimProfile,
    GetCardBalanceResponse,
    GetCardDiscoveryResponse,
    GetConfigResponse,
    GetEsimDiscoveryResponse,
    GetSessionResponse,
    GetStatusResponse,
    GetTopupDiscoveryResponse,
    Order,
    OrderKind,
)
from .._gen.roamcard.v1.card_pb import GetCardDiscoveryRequest, GetTopupDiscoveryRequest
from .._gen.roamcard.v1.esim_pb import GetEsimDiscoveryRequest
from .._gen.roamcard.v1.service_pb import GetStatusRequest
from ..calls import called
from ..core import Core
from ..model import read
from ..policy import Quoted
from ..presenters import EsimPresenter, Presented, Presenter, Where, presenter_of
from ..results import DeliveryToken, EsimOrder, PaidOrder, id_of, no_card, unfulfilled
from ..secret import Secret
from .engine import AsyncEngine
from .paging import AsyncListing


@dataclass(frozen=True)
class AsyncCardOrder(PaidOrder):
    """A paid card."""

    _cards: AsyncCards = field(repr=False, compare=False)

    async def wait_until_active(
        self, *, timeout: float = 120, interval: float = 2, on_update: Callable[[Order], None] | None = None
    ) -> Card:
        """Waits until the card is ACTIVE, see cards.wait_until_active."""
        return await self._cards.wait_until_active(self, timeout=timeout, interval=interval, on_update=on_update)


class Group:
    """Methods about one thing, and the engine that runs them."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @property
    def _core(self) -> Core:
        return self._engine.core

    def __deepcopy__(self, _memo: dict[int, object]) -> Group:
        # A copy of a result that knows its client is of the same client.
        return self


class AsyncDiscovery(Group):
    """What the service publishes about itself."""

    async def agent(self) -> dict[str, Any]:
        """Reads the contract for agents."""
        return await self._engine.run(self._core.document("/api/agent"))

    async def config(self) -> GetConfigResponse:
        """Reads the public settings: network, asset, payee, fees and limits."""
        return await self._engine.run(self._core.config())

    async def status(self) -> GetStatusResponse:
        """Reads how each product stands, since when, and how long recent deliveries took."""
        answer = await self._engine.run(called("runtime", "get_status", GetStatusRequest()))
        return read(GetStatusResponse, answer.message)

    async def card(self) -> GetCardDiscoveryResponse:
        """Reads how a card is bought, owned and issued."""
        answer = await self._engine.run(called("cards", "get_card_discovery", GetCardDiscoveryRequest()))
        return read(GetCardDiscoveryResponse, answer.message)

    async def topup(self) -> GetTopupDiscoveryResponse:
        """Reads what a top-up may be, what it costs and how the credit arrives."""
        answer = await self._engine.run(called("cards", "get_topup_discovery", GetTopupDiscoveryRequest()))
        return read(GetTopupDiscoveryResponse, answer.message)

    async def esim(self) -> GetEsimDiscoveryResponse:
        """Reads how an eSIM is paid for, owned and delivered."""
        answer = await self._engine.run(called("esims", "get_esim_discovery", GetEsimDiscoveryRequest()))
        return read(GetEsimDiscoveryResponse, answer.message)


class AsyncQuotes(Group):
    """What things cost now, and what the policy says of it. Nothing is signed."""

    async def card(self) -> Quoted:
        """Asks what a card costs, and checks the terms."""
        return await self._engine.run(self._core.quote_card())

    async def topup(self, amount_usd_cents: int) -> Quoted:
        """Asks what a top-up costs, and checks the terms."""
        return await self._engine.run(self._core.quote_top_up(amount_usd_cents))

    async def esim(self, plan_id: str | None = None) -> Quoted:
        """Asks what an eSIM costs, and checks the terms."""
        return await self._engine.run(self._core.quote_esim(plan_id))

    async def esim_top_up(self, order: Order | PaidOrder | str, plan_id: str | None = None) -> Quoted:
        """Asks what more data for an eSIM costs, and checks the terms."""
        return await self._engine.run(self._core.quote_esim_top_up(order, plan_id))


class AsyncPlans(Group):
    """The eSIM plans."""

    def list(
        self, *, country_code: str | None = None, type: Literal["country", "region"] | None = None
    ) -> AsyncListing[EsimPlan]:
        """Lists the plans that are sold, the cheapest first. Prices and ids change: list again before each purchase."""
        return AsyncListing(self._engine, self._core.plans(country_code, type))


class AsyncCards(Group):
    """The wallet's card."""

    async def purchase(self, *, idempotency_key: str | None = None) -> AsyncCardOrder:
        """Buys a card for 25.00. It is issued meanwhile: see wait_until_active.

        Without a key one is made; keep the one that comes back. After an AmbiguousPaymentError call again with the same
        key.
        """
        paid = await self._engine.once(*self._core.buy_card(idempotency_key))
        return AsyncCardOrder(**vars(paid), _cards=self)

    async def top_up(self, amount_usd_cents: int, *, idempotency_key: str | None = None) -> PaidOrder:
        """Tops the wallet's card up by 25.00 to 250.00, of which a fee of 2 % is kept. Otherwise like purchase."""
        return await self._engine.once(*self._core.top_up(amount_usd_cents, idempotency_key))

    async def wait_until_active(
        self,
        order: Order | PaidOrder | str,
        *,
        timeout: float = 120,
        interval: float = 2,
        on_update: Callable[[Order], None] | None = None,
    ) -> Card:
        """Waits until the card of an order is ACTIVE, and returns it.

        It raises when no card comes of the order by itself, or not in time; the order goes on all the same.
        """
        async for update in self._engine.each(self._core.watch(order, interval, timeout)):
            if on_update:
                on_update(update)
            if (card := await self._engine.run(self._core.active_card(update))) is not None:
                return card
        raise no_card(id_of(order))

    async def balance(self, card_id: str) -> GetCardBalanceResponse:
        """Reads what is on a card, from its issuer."""
        return await self._engine.run(self._core.balance(card_id))

    async def freeze(self, card_id: str) -> Card:
        """Freezes a card until it is unfrozen: purchases are declined, and it cannot be topped up.

        A card that is frozen stays as it is.
        """
        return await self._engine.run(self._core.freeze(card_id))

    async def unfreeze(self, card_id: str) -> Card:
        """Lets a card that its owner has frozen be used again. What the issuer has locked stays locked."""
        return await self._engine.run(self._core.unfreeze(card_id))

    async def limits(self, card_id: str) -> CardLimits:
        """Reads the limits of a card, from its issuer."""
        return await self._engine.run(self._core.limits(card_id))

    async def set_limits(
        self,
        card_id: str,
        *,
        per_transaction_usd_cents: int | None = None,
        per_month_usd_cents: int | None = None,
        allowed_categories: Sequence[str] = (),
        blocked_categories: Sequence[str] = (),
    ) -> CardLimits:
        """Replaces the limits of a card, and returns those that it has then: what is not given is not limited.

        The categories are merchant category codes, four digits (ISO 18245): those that alone may be used, or those that
        may not be. The discovery's controls say which limits the issuer has; another is `card_control_missing`.
        """
        return await self._engine.run(
            self._core.set_limits(
                card_id, per_transaction_usd_cents, per_month_usd_cents, allowed_categories, blocked_categories
            )
        )

    async def details(self, card_id: str) -> CardDetails:
        """Reads the billing address of a card and how its 3-D Secure challenges are answered."""
        return await self._engine.run(self._core.details(card_id))

    def transactions(self, card_id: str) -> AsyncListing[CardTransaction]:
        """Reads what a card was used for, newest first, page by page as they are taken.

        The merchants' names are text of strangers.
        """
        return AsyncListing(self._engine, self._core.transactions(card_id))

    async def reveal(self, card_id: str, present: Presenter | Where = "browser") -> Presented:
        """Shows a card's number and code to a person.

        The service seals them to a key that the presenter makes for this once; the caller learns whether they were
        seen, and nothing else.
        """
        return await self._engine.run(self._core.reveal(card_id, presenter_of(present)))

    async def list(self) -> Sequence[Card]:
        """Lists the wallet's cards."""
        return await self._engine.run(self._core.cards())


class AsyncEsim(Group):
    """Travel eSIMs."""

    async def purchase(self, plan_id: str | None = None, *, idempotency_key: str | None = None) -> EsimOrder:
        """Buys an eSIM: a plan at its published price, or the cheapest that can be had, at any price within the caps.

        It is often there with the answer; otherwise see orders.wait_until_fulfilled. Otherwise like cards.purchase.
        """
        return cast(EsimOrder, await self._engine.once(*self._core.buy_esim(plan_id, idempotency_key)))

    async def status(self, order: Order | PaidOrder | str, *, delivery_token: Secret[str] | None = None) -> Order:
        """Reads an eSIM order, without its secrets, by the delivery token or the wallet's session."""
        return await self._engine.run(self._core.esim_status(order, delivery_token))

    async def profile(
        self, order: Order | PaidOrder | str, *, delivery_token: Secret[str] | None = None
    ) -> EsimProfile:
        """Reads how a fulfilled eSIM stands at its supplier: installed or not, the data that is used, when it expires.

        The service asks the supplier once a minute at most; `read_at` says when it did.
        """
        return await self._engine.run(self._core.esim_profile(order, delivery_token))

    async def rotate_token(self, order: Order | PaidOrder | str) -> DeliveryToken:
        """Makes a new delivery token for an eSIM that the wallet owns; earlier ones become invalid.

        It needs the wallet's session.
        """
        return await self._engine.run(self._core.rotate_esim_token(order))

    async def cancel(self, order: Order | PaidOrder | str) -> EsimCancellation:
        """Gives an eSIM that was never installed back, for the refund that its supplier grants.

        The refund goes on chain to who paid, once the supplier has taken the eSIM back. It needs the wallet's session;
        `profile` tells how far it is. Asked again it answers with how far it is, and nothing is refunded twice.
        """
        return await self._engine.run(self._core.cancel_esim(order))

    def top_ups(
        self, order: Order | PaidOrder | str, *, delivery_token: Secret[str] | None = None
    ) -> AsyncListing[EsimPlan]:
        """Lists the plans that can be added to the eSIM of a fulfilled order, the cheapest first."""
        return AsyncListing(self._engine, self._core.esim_top_ups(order, delivery_token))

    async def top_up(
        self, order: Order | PaidOrder | str, plan_id: str | None = None, *, idempotency_key: str | None = None
    ) -> PaidOrder:
        """Buys more data for an eSIM that the wallet owns: a plan of top_ups, or the cheapest, within the caps.

        `profile` shows the data once the order is fulfilled. Otherwise like cards.purchase.
        """
        return await self._engine.once(*self._core.top_up_esim(order, plan_id, idempotency_key))

    async def install(
        self,
        order: Order | PaidOrder | str,
        present: EsimPresenter | Where = "browser",
        *,
        delivery_token: Secret[str] | None = None,
    ) -> Presented:
        """Shows the eSIM of a fulfilled order to a person. The caller learns whether it was seen, and nothing else."""
        return await self._engine.run(self._core.install_esim(order, presenter_of(present), delivery_token))


class AsyncOrders(Group):
    """The wallet's orders."""

    async def create_card(self, *, idempotency_key: str | None = None) -> Order:
        """Creates an order for a card that is paid later, see pay. Without a key the wallet's open order comes back."""
        return await self._engine.run(self._core.create_card_order(idempotency_key))

    async def create_top_up(
        self, amount_usd_cents: int | None = None, *, resource: str | None = None, idempotency_key: str | None = None
    ) -> Order:
        """Creates an order that funds the wallet's card, paid later, see pay; of 25.00 when no amount is named."""
        return await self._engine.run(self._core.create_order(amount_usd_cents, resource, idempotency_key))

    async def create_esim(self, plan_id: str | None = None, *, idempotency_key: str | None = None) -> Order:
        """Creates an order for an eSIM that is paid later, see pay. Its price stays."""
        return await self._engine.run(self._core.create_esim_order(plan_id, idempotency_key))

    async def pay(self, order: Order | str) -> PaidOrder:
        """Pays an order that was made first, named by itself, its id or its payable_url. It is safe to repeat."""
        return await self._engine.once(*self._core.pay_order(order))

    async def get(self, order_id: str) -> Order:
        """Reads one order of this wallet."""
        return await self._engine.run(self._core.order(order_id))

    def watch(
        self, order: Order | PaidOrder | str, *, interval: float = 2, timeout: float | None = None
    ) -> AsyncIterator[Order]:
        """Yields an order now and whenever it changed, until it moves no more by itself or the time is over.

        It follows the service's stream, and asks again every `interval` seconds where streams do not get through; while
        asking fails by something that may pass, less and less often.
        """
        return self._engine.each(self._core.watch(order, interval, timeout))

    async def wait_until_fulfilled(
        self,
        order: Order | PaidOrder | str,
        *,
        timeout: float = 300,
        interval: float = 2,
        on_update: Callable[[Order], None] | None = None,
    ) -> Order:
        """Waits until what was ordered is there, and returns the order.

        It raises when it does not come by itself, or not in time; the order goes on all the same.
        """
        async for update in self._engine.each(self._core.watch(order, interval, timeout)):
            if on_update:
                on_update(update)
            if update.status == "fulfilled":
                return cast(Order, update)
        raise unfulfilled(id_of(order))

    def watch_all(
        self, orders: Iterable[Order | PaidOrder | str], *, interval: float = 2, timeout: float | None = None
    ) -> AsyncIterator[Order]:
        """Yields each of several orders, 50 at most, as watch does one of them, over one stream for all.

        It ends when none of them moves any more by itself, or the time is over.
        """
        return self._engine.each(self._core.watch_all(orders, interval, timeout))

    def list(self, *, active: bool = False, kind: OrderKind | None = None) -> AsyncListing[Order]:
        """Reads the wallet's orders, or those of one kind, newest first, page by page as they are taken."""
        return AsyncListing(self._engine, self._core.orders(active, kind))


class AsyncAuth(Group):
    """The wallet's session. It is made by itself when something needs it."""

    async def sign_in(self) -> GetSessionResponse:
        """Signs in, unless there is a session, and says whose it is, what it may do and until when."""
        return await self._engine.run(self._core.session())

    async def sign_out(self) -> None:
        """Ends the session at the service."""
        await self._engine.run(self._core.sign_out())
