"""The client that awaits."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from connectrpc.client import ResponseMetadata
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext
from pyqwest import Transport

from ..answers import RawResponses, recording, reply_of
from ..core import PAID_METHODS, Core
from ..env import settings
from ..errors import RoamcardError
from ..journal import Store
from ..options import Options
from ..payer import ESIM_PATH, Events
from ..policy import Policy
from ..programs import Done, Exchange, Program, Refused, Unclear, serving
from ..results import PaidOrder, Pending, Resumed
from ..secret import Secret
from ..signers import Signer
from ..x402 import SIGNATURE_HEADER
from .admin import AsyncAdmin
from .concurrency import raise_if_cancelled
from .engine import AsyncEngine
from .groups import AsyncAuth, AsyncCards, AsyncDiscovery, AsyncEsim, AsyncOrders, AsyncPlans, AsyncQuotes

if TYPE_CHECKING:
    import httpx


class AsyncRoamcard:
    """A client of one service for one wallet, for one event loop.

    base_url: where the service is, such as http://127.0.0.1:8402.
    signer: the wallet that pays and owns; None for a client that only reads what is published.
    policy: what may be paid.
    store: keeps what was signed; memory when None. Use a FileStore to survive a restart.
    origin: the service's public origin, when base_url is a gateway before it: what its terms and messages name.
    timeout: how many seconds one request may take, longer than the service waits for anything.
    headers: sent with every request in addition to those of the client.
    read_retries: how often a read is sent again after a broken connection, 429 or 502 to 504. Payments are not reads:
        see max_replays.
    max_replays: how often the same signed bytes go out again after an unclear answer.
    events: told what happens during a payment.
    http_transport: makes the requests, with proxies or certificates of its own: one of httpx, such as
        httpx.AsyncHTTPTransport(proxy=…), or one of pyqwest, which must not follow redirects. Its maker closes it.
    rpc_url: a node of the chain that the caller trusts. With it, a payment that the chain shows to be void gives its
        budget back at once; without it, time alone does.
    operator_token: for admin.
    logger: told of every answer, at DEBUG; the logger named roamcard when None.
    """

    def __init__(
        self,
        base_url: str,
        signer: Signer | None,
        policy: Policy,
        *,
        store: Store | None = None,
        origin: str | None = None,
        timeout: float = 30,
        headers: Mapping[str, str] | None = None,
        read_retries: int = 2,
        max_replays: int = 4,
        events: Events | None = None,
        http_transport: Transport | httpx.AsyncBaseTransport | None = None,
        rpc_url: str | None = None,
        operator_token: Secret[str] | str | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        core = Core(
            base_url, signer, policy, store, origin, max_replays, events, operator_token, logger, rpc_url, timeout
        )
        self._use(AsyncEngine(core, Options(timeout, read_retries, headers or {}), http_transport))

    def _use(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self.discovery = AsyncDiscovery(self._engine)
        self.quote = AsyncQuotes(self._engine)
        self.plans = AsyncPlans(self._engine)
        self.cards = AsyncCards(self._engine)
        self.esim = AsyncEsim(self._engine)
        self.orders = AsyncOrders(self._engine)
        self.auth = AsyncAuth(self._engine)
        self.admin = AsyncAdmin(self._engine)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **given: Any) -> AsyncRoamcard:
        """A client as the environment says, and as is given: any argument of the client, and `approve` of its policy.

        It reads ROAMCARD_URL, ROAMCARD_MODE, ROAMCARD_MAX_PER_PAYMENT_USD, ROAMCARD_MAX_PER_DAY_USD,
        ROAMCARD_APPROVE_ABOVE_USD, ROAMCARD_JOURNAL, ROAMCARD_RPC_URL, ROAMCARD_SIGNER, ROAMCARD_SIGNER_ADDRESS and
        ROAMCARD_SIGNER_ENV, or ROAMCARD_WALLET_KEY or ROAMCARD_WALLET_KEY_FILE, and ROAMCARD_OPERATOR_TOKEN or
        ROAMCARD_OPERATOR_TOKEN_FILE. The README tells what they mean. Raises a ConfigError that names all that are
        wrong.
        """
        found = settings(given, environ)
        return cls(found.base_url, found.signer, found.policy, **found.options)

    def with_options(
        self, *, timeout: float | None = None, headers: Mapping[str, str] | None = None, read_retries: int | None = None
    ) -> AsyncRoamcard:
        """This client with other options for the calls made by it.

        Journal, session and connections are shared: close one of the two.
        """
        twin = copy.copy(self)
        twin._use(self._engine.with_options(self._engine.options.but(timeout, headers, read_retries)))
        return twin

    async def __aenter__(self) -> AsyncRoamcard:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits for the purchases whose callers gave up, and ends the use of the client's connections."""
        await self._engine.close()

    @property
    def address(self) -> str:
        """The wallet that pays and owns."""
        return self._engine.core.signer.address

    def pending(self) -> list[Pending]:
        """Purchases of this wallet in the store whose outcome is not known, oldest first: see resume."""
        return self._engine.core.pending()

    async def resume(self, idempotency_key: str) -> PaidOrder:
        """Takes up a purchase with the request that the store has and the same signed bytes.

        It is one whose outcome is not known, or that was paid and whose caller may not have heard of it: its order
        comes again.
        """
        return await self._resume(self._engine.core.resumable(idempotency_key))

    async def resume_all(self) -> list[Resumed]:
        """Takes up all purchases whose outcome is not known, one after the other."""
        resumed = []
        for pending in self.pending():
            try:
                resumed.append(Resumed(pending, await self._resume(pending), None))
            except RoamcardError as error:
                resumed.append(Resumed(pending, None, error))
        return resumed

    async def _resume(self, pending: Pending) -> PaidOrder:
        purchase, program = self._engine.core.again(pending)
        return await self._engine.once(purchase, program)

    def with_raw_response(self) -> AbstractContextManager[RawResponses]:
        """Keeps the status and headers of every answer to the calls made inside."""
        return recording()

    def interceptor(self) -> AsyncPayingInterceptor:
        """Pays for the paid methods of a generated client that awaits, by this client's rules."""
        return AsyncPayingInterceptor(self._engine)

    def transport(self, below: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncBaseTransport:
        """Pays for the paid routes that an httpx.AsyncClient calls, by this client's rules. Needs the extra `httpx`."""
        from .rest import AsyncPayingTransport

        return AsyncPayingTransport(self._engine, below)


class AsyncPayingInterceptor:
    """Pays for the paid methods of every service. Everything else passes through."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def intercept_unary(
        self, call_next: Callable[[Any, RequestContext[Any, Any]], Any], request: Any, ctx: RequestContext[Any, Any]
    ) -> Any:
        """Implements UnaryInterceptor."""
        core, name = self._engine.core, f"{ctx.method.service_name}/{ctx.method.name}"
        if name not in PAID_METHODS or SIGNATURE_HEADER in ctx.request_headers:
            return await call_next(request, ctx)
        purchase = core.purchase_by(name, request)
        if purchase.operation == ESIM_PATH and not request.plan_id:
            request.plan_id = await self._engine.run(core.payer.plan_for(purchase.key))
            purchase = core.purchase_by(name, request)

        async def exchange() -> Done[Any] | Refused | Unclear:
            with ResponseMetadata() as metadata:
                try:
                    answer = await call_next(request, ctx)
                    return Done(answer, answer)
                except ConnectError as error:
                    raise_if_cancelled(error)
                    return reply_of(error, metadata.headers)

        def send(payment: str | None) -> Program[Any]:
            if payment:
                ctx.request_headers[SIGNATURE_HEADER] = payment
            return (yield Exchange(exchange))

        return await self._engine.once(purchase, serving(core.payer.pay(purchase), send), "connect")
