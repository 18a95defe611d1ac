"""Paid requests of httpx to the documented REST routes: what both clients share."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from .answers import object_of, reply_to, rest_error
from .core import Core
from .errors import RoamcardError, TermsMismatchError
from .network import RefusedAnswerError, check_answer
from .payer import CARD_PATH, ESIM_PATH, ESIM_TOPUP_PATH, PAY_PATH, TOPUP_PATH, Purchase, named
from .programs import Done, Exchange, Program, Refused, Unclear, serving
from .signers import OutsideWallet
from .x402 import FORMER_SIGNATURE_HEADER, SIGNATURE_HEADER

_BOUGHT = (CARD_PATH, TOPUP_PATH, ESIM_PATH)
_TOPUP = re.compile(r"/api/esim/orders/([^/?#]+)/topup")
_DECODED = ("content-encoding", "content-length", "transfer-encoding")
"""What an answer that was read has no more."""


@dataclass(frozen=True)
class PaidAnswer:
    """An answer to a paid request that was read whole."""

    status: int
    headers: httpx.Headers
    body: bytes

    def response(self, request: httpx.Request) -> httpx.Response:
        """The same as an answer of httpx."""
        kept = [(name, value) for name, value in self.headers.multi_items() if name not in _DECODED]
        return httpx.Response(self.status, headers=kept, content=self.body, request=request)


def purchase_of(core: Core, request: httpx.Request) -> Purchase | None:
    """What a request buys; None when it buys nothing, or the service has to say what is wrong with it."""
    url = str(request.url.copy_with(fragment=None))
    path = url.removeprefix(core.base_url) if url.startswith(f"{core.base_url}/") else ""
    folder, _, order_id = path.rpartition("/")
    if (
        request.method in ("GET", "POST")
        and folder in (PAY_PATH, f"/api/x402{PAY_PATH}")
        and re.fullmatch(r"\w+", order_id)
    ):
        return Purchase(PAY_PATH, order_id, {"orderId": order_id}, f"{core.origin}/")
    of = _TOPUP.fullmatch(path)
    body = object_of(request.content) if request.method == "POST" and (of or path in _BOUGHT) else None
    key = (body or {}).get("idempotencyKey")
    if not isinstance(key, str):
        return None
    if of:
        return Purchase(ESIM_TOPUP_PATH, key, {**(body or {}), "orderId": of[1]}, core.origin + path)
    return Purchase(path, key, body or {}, core.origin + path)


def hold_payment(core: Core, request: httpx.Request) -> bool:
    """Whether an answer to what buys nothing may ask for no payment: a client above signs by itself, and nothing would
    hold what it signs to the policy. Raises when the request has a payment already."""
    ours = httpx.URL(core.base_url)
    same = (request.url.scheme, request.url.host, request.url.port) == (ours.scheme, ours.host, ours.port)
    if not same or not isinstance(core.signer, OutsideWallet):
        return False
    if SIGNATURE_HEADER in request.headers or FORMER_SIGNATURE_HEADER in request.headers:
        raise TermsMismatchError(f"{_named(request)} buys nothing; the payment with it was not sent")
    return True


def asked_for_nothing(request: httpx.Request) -> TermsMismatchError:
    """The error when a payment is asked for what buys nothing."""
    return TermsMismatchError(f"{_named(request)} buys nothing, and a payment is asked for; none was signed")


def _named(request: httpx.Request) -> str:
    return f"{request.method} {request.url.path}"


def answering(
    core: Core,
    purchase: Purchase,
    request: httpx.Request,
    timeout: float,
    exchange: Callable[[httpx.Request], PaidAnswer | Awaitable[PaidAnswer]],
) -> Program[PaidAnswer]:
    """The answer to a paid request."""
    signed = request.headers.get(SIGNATURE_HEADER)

    def send(payment: str | None) -> Program[Any]:
        try:
            answer = yield Exchange(lambda: exchange(_with(request, payment, timeout)))
        except httpx.TransportError as error:
            return Unclear(error)
        return _reply_of(answer)

    def program() -> Program[PaidAnswer]:
        if signed is None and not isinstance(core.signer, OutsideWallet):
            paid: PaidAnswer = yield from core.payer.pay(purchase)
            return paid
        reply: Done[Any] | Refused | Unclear
        if signed is not None:
            reply = yield from core.payer.send_signed(purchase, signed)
        else:
            reply = (yield from core.payer.resume(purchase)) or (yield from core.payer.ask(purchase))
        if not isinstance(reply, Done) and reply.answer is None:
            raise reply.error
        answer: PaidAnswer = reply.value if isinstance(reply, Done) else reply.answer
        return answer

    return serving(program(), send)


def shared_by(core: Core, request: httpx.Request) -> str:
    """Which requests share a run: one that only asks for somebody else's terms pays for nobody."""
    return "asking" if isinstance(core.signer, OutsideWallet) and SIGNATURE_HEADER not in request.headers else "rest"


def names_no_plan(purchase: Purchase) -> bool:
    """Whether a request buys any eSIM: it becomes one of a plan, which has a price to be held to."""
    return purchase.operation == ESIM_PATH and purchase.request.get("planId") in (None, "")


def with_plan(purchase: Purchase, request: httpx.Request, plan_id: str) -> tuple[Purchase, httpx.Request]:
    """The purchase and its request with a plan named in both."""
    purchase = named(purchase, plan_id)
    headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
    return purchase, httpx.Request(
        request.method, request.url, headers=headers, json=dict(purchase.request), extensions=request.extensions
    )


@contextmanager
def refusing(response: httpx.Response) -> Iterator[None]:
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
    return httpx.Request(
        request.method,
        request.url,
        headers=headers,
        content=request.content,
        extensions={**request.extensions, "timeout": limits},
    )


def _reply_of(answer: PaidAnswer) -> Done[PaidAnswer] | Refused | Unclear:
    """What an answer says about the payment. One that is no JSON says nothing."""
    if 200 <= answer.status < 300:
        order = object_of(answer.body) if answer.status == 200 else None
        return Unclear(RoamcardError("the answer is no order"), answer=answer) if order is None else Done(answer, order)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return reply_to(rest_error(answer.status, headers, answer.body), headers, answer)
