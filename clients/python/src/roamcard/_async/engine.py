"""Runs programs and awaits meanwhile."""

from __future__ import annotations

import copy
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from connectrpc.client import ResponseMetadata
from connectrpc.errors import ConnectError
from pyqwest import Client, ReadError, RemoteProtocolError, WriteError

from .._gen.roamcard.v1.activity_connect import ActivityServiceClient
from .._gen.roamcard.v1.auth_connect import AuthServiceClient
from .._gen.roamcard.v1.card_connect import CardServiceClient
from .._gen.roamcard.v1.esim_connect import EsimServiceClient
from .._gen.roamcard.v1.operator_connect import OperatorServiceClient
from .._gen.roamcard.v1.order_connect import OrderServiceClient
from .._gen.roamcard.v1.order_pb import WatchOrderResponse, WatchOrdersRequest, WatchOrdersResponse
from .._gen.roamcard.v1.service_connect import RuntimeServiceClient
from ..answers import RawResponse, api_error_of, note
from ..core import Core, now
from ..errors import ApiError
from ..network import UNPACKED, RefusedAnswerError, asking
from ..options import Options
from ..payer import Purchase
from ..programs import (
    Answer,
    Authorize,
    Call,
    CallFailed,
    ClearSession,
    Do,
    Emit,
    Exchange,
    Fetch,
    Follow,
    Next,
    Pause,
    Program,
    ReadRetries,
)
from .concurrency import Lock, Runs, call, get, raise_if_cancelled, sleep
from .network import BoundedTransport

if TYPE_CHECKING:
    from .network import AnyTransport

T = TypeVar("T")
Watched: TypeAlias = WatchOrderResponse | WatchOrdersResponse


class AsyncEngine:
    """Runs the programs of a core, for one event loop."""

    def __init__(self, core: Core, options: Options, transport: AnyTransport | None) -> None:
        self.core = core
        self.options = options
        url = core.base_url
        self._http = http = Client(BoundedTransport(transport))
        self._clients: dict[str, Any] = {
            "activity": ActivityServiceClient(url, http_client=http, **UNPACKED),
            "auth": AuthServiceClient(url, http_client=http, **UNPACKED),
            "cards": CardServiceClient(url, http_client=http, **UNPACKED),
            "esims": EsimServiceClient(url, http_client=http, **UNPACKED),
            "operator": OperatorServiceClient(url, http_client=http, **UNPACKED),
            "orders": OrderServiceClient(url, http_client=http, **UNPACKED),
            "runtime": RuntimeServiceClient(url, http_client=http, **UNPACKED),
        }
        self._signing_in = Lock()
        self._runs = Runs(core.logger)

    def with_options(self, options: Options) -> AsyncEngine:
        """The same with other options: connections, session and running purchases are shared."""
        twin = copy.copy(self)
        twin.options = options
        return twin

    async def close(self) -> None:
        """Waits for the purchases whose callers gave up, and ends the use of the connections."""
        await self._runs.drain()
        for client in self._clients.values():
            await client.close()

    async def run(self, program: Program[T]) -> T:
        """Runs a program and returns what it comes to."""
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

    async def each(self, program: Program[None]) -> AsyncIterator[Any]:
        """Runs a program and yields what it emits, as it is asked for."""
        stream: AsyncIterator[Watched] | None = None
        try:
            effect = next(program)
            while True:
                outcome: Any = None
                try:
                    match effect:
                        case Emit(item):
                            yield item
                        case Follow():
                            await _end(stream)
                            stream = await self._follow(effect)
                        case Next():
                            outcome = await _next(stream)
                        case _:
                            outcome = await self._perform(effect)
                except BaseException as error:
                    effect = program.throw(error)
                else:
                    effect = program.send(outcome)
        except StopIteration:
            return
        finally:
            await _end(stream)

    async def once(self, purchase: Purchase, program: Program[T], via: str = "client") -> T:
        """Lets calls of one purchase at the same time share one run; `via` names the interface that they came by."""
        name = (via, self.core.payer.identity(purchase), purchase.fingerprint)
        return await self._runs.share(name, purchase.key, lambda: self.run(program))

    async def _perform(self, effect: Any) -> Any:
        match effect:
            case Call():
                return await self._call(effect)
            case Do(act):
                return await call(act)
            case Exchange(act):
                return await act()
            case Pause(seconds):
                return await sleep(seconds)
            case Authorize(stale):
                return await self._authorize(stale)
            case ClearSession():
                self.core.signed_in = None
                return None
            case ReadRetries():
                return self.options.read_retries
            case Fetch(path):
                return await self._fetch(path)
        raise AssertionError(effect)

    async def _call(self, what: Call) -> Answer:
        began, method = time.monotonic(), f"{what.service}.{what.method}"
        timeout, headers = self.options.timeout, self.options.sent(what.headers)
        with asking(timeout) as asked, ResponseMetadata() as metadata:
            try:
                act = getattr(self._clients[what.service], what.method)
                message = await act(what.request, headers=headers, timeout_ms=max(1, int(timeout * 1000)))
            except ConnectError as error:
                raise_if_cancelled(error)
                note(self.core.logger, RawResponse(method, asked.status, asked.headers), time.monotonic() - began)
                raise CallFailed(error, asked.status, asked.headers) from error
        kept = None if what.service == "auth" else message
        note(self.core.logger, RawResponse(method, asked.status, metadata.headers, kept), time.monotonic() - began)
        return Answer(message, metadata.headers)

    async def _fetch(self, path: str) -> tuple[int, dict[str, str], bytes]:
        began = time.monotonic()
        with asking(self.options.timeout) as asked:
            try:
                url, timeout = self.core.base_url + path, self.options.timeout
                answer = await get(self._http, url, self.options.sent({}), timeout)
            except (OSError, ReadError, RemoteProtocolError, WriteError, RefusedAnswerError) as error:
                note(
                    self.core.logger, RawResponse(f"GET {path}", asked.status, asked.headers), time.monotonic() - began
                )
                raise ApiError(
                    asked.status, "unreachable", str(error), retryable=not isinstance(error, RefusedAnswerError)
                ) from error
        headers = {name: value for name, value in answer.headers.items()}
        note(self.core.logger, RawResponse(f"GET {path}", answer.status, headers), time.monotonic() - began)
        return answer.status, headers, answer.content

    async def _follow(self, follow: Follow) -> AsyncIterator[Watched]:
        headers = self.options.sent({"authorization": await self._authorize(None)})
        orders, several = self._clients["orders"], isinstance(follow.request, WatchOrdersRequest)
        watch = orders.watch_orders if several else orders.watch_order
        answers: AsyncIterator[Watched] = watch(follow.request, headers=headers, timeout_ms=follow.limit_ms)
        return answers

    async def _authorize(self, stale: str | None) -> str:
        async with self._signing_in:
            session = self.core.signed_in
            if session is None or session.header == stale or session.until < now():
                self.core.signed_in = session = await self.run(self.core.sign_in())
            return session.header


async def _next(stream: AsyncIterator[Watched] | None) -> Watched | None:
    try:
        return await anext(stream, None) if stream is not None else None
    except ConnectError as error:
        raise_if_cancelled(error)
        raise api_error_of(error) from error


async def _end(stream: Any) -> None:
    if hasattr(stream, "aclose"):
        await stream.aclose()
