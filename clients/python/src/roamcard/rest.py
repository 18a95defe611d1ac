"""Auto-pay over the documented REST routes: transports of httpx that answer 402. They work under the official x402 client too."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx

from .aio_engine import AsyncEngine
from .answers import object_of, reply_to, rest_error
from .core import Core
from .engine import Engine
from .errors import RoamcardError
from .network import MOST_BYTES, RefusedAnswerError, bounded, check_answer
from .payer import CARD_PATH, ESIM_PATH, PAY_PATH, TOPUP_PATH, Purchase, named
from .programs import Done, Exchange, Program, Refused, Unclear, serving
from .signers import OutsideWallet
from .x402 import SIGNATURE_HEADER

_BOUGHT = (CARD_PATH, TOPUP_PATH, ESIM_PATH)
_DECODED = ("content-encoding", "content-length", "transfer-encoding")
"""What an answer that was read has no more."""


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: httpx.Headers
    body: bytes

    def response(self, request: httpx.Request) -> httpx.Response:
        kept = [(name, value) for name, value in self.headers.multi_items() if name not in _DECODED]
        return httpx.Response(self.status, headers=kept, content=self.body, request=request)


class PayingTransport(httpx.BaseTransport):
    """Pays for the service's paid routes and passes everything else by.

    Under an official x402 client, whose wallet is the client's OutsideWallet, it lets no terms through that are not as
    published, keeps what was signed and sends it again until the answer is clear; when a purchase has a payment
    already, that one goes out at once, and the client on top sees 200 instead of 402.
    """

    def __init__(self, engine: Engine, below: httpx.BaseTransport | None = None) -> None:
        self._engine = engine
        self._below = below or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Implements httpx.BaseTransport."""
        request.read()
        purchase = _purchase_of(self._engine.core, request)
        if purchase is None:
            return self._below.handle_request(request)

        def exchange(paid: httpx.Request) -> _Answer:
            response = self._below.handle_request(paid)
            try:
                with _bounds(response):
                    return _Answer(response.status_code, response.headers, bounded(cast(httpx.SyncByteStream, response.stream)))
            finally:
                response.close()

        core = self._engine.core
        if _is_open(purchase):
            purchase, request = _with_plan(purchase, request, self._engine.run(core.payer.plan_for(purchase.key)))
        program = _answering(core, purchase, request, self._engine.options.timeout, exchange)
        return self._engine.once(purchase, program, _face_of(core, request)).response(request)

    def close(self) -> None:
        """Closes the transport below."""
        self._below.close()


class AsyncPayingTransport(httpx.AsyncBaseTransport):
    """The same for an httpx.AsyncClient."""

    def __init__(self, engine: AsyncEngine, below: httpx.AsyncBaseTransport | None = None) -> None:
        self._engine = engine
        self._below = below or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Implements httpx.AsyncBaseTransport."""
        await request.aread()
        purchase = _purchase_of(self._engine.core, request)
        if purchase is None:
            return await self._below.handle_async_request(request)

        async def exchange(paid: httpx.Request) -> _Answer:
            response = await self._below.handle_async_request(paid)
            try:
                with _bounds(response):
                    body, parts = bytearray(), cast(httpx.AsyncByteStream, response.stream)
                    async for part in parts:
                        body += part
                        if len(body) > MOST_BYTES:
                            raise RefusedAnswerError(f"the answer has more than {MOST_BYTES} bytes")
                    return _Answer(response.status_code, response.headers, bytes(body))
            finally:
                await response.aclose()

        core = self._engine.core
        if _is_open(purchase):
            purchase, request = _with_plan(purchase, request, await self._engine.run(core.payer.plan_for(purchase.key)))
        program = _answering(core, purchase, request, self._engine.options.timeout, exchange)
        return (await self._engine.once(purchase, program, _face_of(core, request))).response(request)

    async def aclose(self) -> None:
        """Closes the transport below."""
        await self._below.aclose()


def _purchase_of(core: Core, request: httpx.Request) -> Purchase | None:
    """What a request buys; None when it buys nothing, or the service has to say what is wrong with it."""
    url = str(request.url.copy_with(fragment=None))
    path = url.removeprefix(core.base_url) if url.startswith(f"{core.base_url}/") else ""
    folder, _, order_id = path.rpartition("/")
    if request.method in ("GET", "POST") and folder in (PAY_PATH, f"/api/x402{PAY_PATH}") and re.fullmatch(r"\w+", order_id):
        return Purchase(PAY_PATH, order_id, {"orderId": order_id}, f"{core.origin}/")
    body = object_of(request.content) if request.method == "POST" and path in _BOUGHT else None
    key = (body or {}).get("idempotencyKey")
    return Purchase(path, key, body or {}, core.origin + path) if isinstance(key, str) else None


def _answering(
    core: Core, purchase: Purchase, request: httpx.Request, timeout: float, exchange: Callable[[httpx.Request], _Answer | Awaitable[_Answer]]
) -> Program[_Answer]:
    """The answer to a paid request."""
    signed = request.headers.get(SIGNATURE_HEADER)

    def send(payment: str | None) -> Program[Any]:
        try:
            answer = yield Exchange(lambda: exchange(_with(request, payment, timeout)))
        except httpx.TransportError as error:
            return Unclear(error)
        return _reply_of(answer)

    def program() -> Program[_Answer]:
        if signed is None and not isinstance(core.signer, OutsideWallet):
            paid: _Answer = yield from core.payer.pay(purchase)
            return paid
        reply: Done[Any] | Refused | Unclear
        if signed is not None:
            reply = yield from core.payer.carry(purchase, signed)
        else:
            reply = (yield from core.payer.resume(purchase)) or (yield from core.payer.ask(purchase))
        if not isinstance(reply, Done) and reply.answer is None:
            raise reply.error
        answer: _Answer = reply.value if isinstance(reply, Done) else reply.answer
        return answer

    return serving(program(), send)


def _face_of(core: Core, request: httpx.Request) -> str:
    """Which requests share a run: one that only asks for somebody else's terms pays for nobody."""
    return "asking" if isinstance(core.signer, OutsideWallet) and SIGNATURE_HEADER not in request.headers else "rest"


def _is_open(purchase: Purchase) -> bool:
    """Whether a request buys any eSIM: it becomes one of a plan, which has a price to be held to."""
    return purchase.operation == ESIM_PATH and purchase.request.get("planId") in (None, "")


def _with_plan(purchase: Purchase, request: httpx.Request, plan_id: str) -> tuple[Purchase, httpx.Request]:
    purchase = named(purchase, plan_id)
    headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
    return purchase, httpx.Request(request.method, request.url, headers=headers, json=dict(purchase.request), extensions=request.extensions)


@contextmanager
def _bounds(response: httpx.Response) -> Iterator[None]:
    """Refuses redirects and what is encoded, and makes a transport's error of it."""
    try:
        check_answer(response.status_code, response.headers.get("content-encoding"))
        yield
    except RefusedAnswerError as error:
        raise httpx.ReadError(str(error)) from error


def _with(request: httpx.Request, payment: str | None, timeout: float) -> httpx.Request:
    headers = request.headers.copy()
    headers.pop(SIGNATURE_HEADER, None)
    headers["accept-encoding"] = "identity"
    if payment:
        headers[SIGNATURE_HEADER] = payment
    # A payment takes longer than what httpx waits for by itself.
    limits = httpx.Timeout(timeout).as_dict()
    return httpx.Request(request.method, request.url, headers=headers, content=request.content, extensions={**request.extensions, "timeout": limits})


def _reply_of(answer: _Answer) -> Done[_Answer] | Refused | Unclear:
    """What an answer says about the payment. One that is no JSON says nothing."""
    if 200 <= answer.status < 300:
        order = object_of(answer.body) if answer.status == 200 else None
        return Unclear(RoamcardError("the answer is no order"), answer=answer) if order is None else Done(answer, order)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return reply_to(rest_error(answer.status, headers, answer.body), headers, answer)
