"""Auto-pay over the documented REST routes: a transport of httpx that answers 402."""

from __future__ import annotations

from typing import cast

import httpx

from ..rest import (
    PaidAnswer,
    answering,
    asked_for_nothing,
    hold_payment,
    names_no_plan,
    purchase_of,
    refusing,
    shared_by,
    with_plan,
)
from .engine import AsyncEngine
from .network import bounded


class AsyncPayingTransport(httpx.AsyncBaseTransport):
    """Pays for the service's paid routes and passes everything else through.

    Under an official x402 client, whose wallet is the client's OutsideWallet, it lets no terms through that are not as
    published, keeps what was signed and sends it again until the answer is clear; when a purchase has a payment
    already, that one goes out at once, and the client on top sees 200 instead of 402. What buys nothing at the service
    can then not be paid for: a 402 to it, or a payment with it, is a TermsMismatchError.
    """

    def __init__(self, engine: AsyncEngine, below: httpx.AsyncBaseTransport | None = None) -> None:
        self._engine = engine
        self._below = below or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Implements httpx.AsyncBaseTransport."""
        await request.aread()
        core = self._engine.core
        purchase = purchase_of(core, request)
        if purchase is None:
            held = hold_payment(core, request)
            response = await self._below.handle_async_request(request)
            if held and response.status_code == httpx.codes.PAYMENT_REQUIRED:
                await response.aclose()
                raise asked_for_nothing(request)
            return response

        async def exchange(paid: httpx.Request) -> PaidAnswer:
            response = await self._below.handle_async_request(paid)
            try:
                with refusing(response):
                    body = await bounded(cast(httpx.AsyncByteStream, response.stream))
                    return PaidAnswer(response.status_code, response.headers, body)
            finally:
                await response.aclose()

        if names_no_plan(purchase):
            plan_id = await self._engine.run(core.payer.plan_for(purchase.key))
            purchase, request = with_plan(purchase, request, plan_id)
        program = answering(core, purchase, request, self._engine.options.timeout, exchange)
        answer = await self._engine.once(purchase, program, shared_by(core, request))
        return answer.response(request)

    async def aclose(self) -> None:
        """Closes the transport below."""
        await self._below.aclose()
