"""What another client signs goes out as published, bounded in time, and kept."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from conftest import CountingSigner
from eth_account import Account
from x402 import x402Client
from x402.http.clients.httpx import PaymentError, x402AsyncTransport
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.mechanisms.evm.signers import EthAccountSigner

from roamcard import (
    AmbiguousPaymentError,
    AsyncRoamcard,
    MemoryStore,
    OutsideWallet,
    Policy,
    Roamcard,
    TermsMismatchError,
)
from roamcard.testing import FakeService
from roamcard.testing.faults import Answered, Faults, Incoming
from roamcard.testing.serving import httpx_transport
from roamcard.x402 import authorization_typed_data, decode_terms, encode_payment

POLICY = Policy("autonomous", max_per_payment_usd="250", max_per_day_usd="1000")
ESIMS = "/api/esim/purchase"
CARDS = "/api/card/purchase"


class Outside:
    """A fake of the service, what was sent to it, and the transports for a client that signs by itself."""

    def __init__(self, changed: Callable[[Answered], Answered] = lambda answered: answered) -> None:
        self.service, self.store, self.account = FakeService(), MemoryStore(), Account.create()
        self.sent: list[Incoming] = []
        self._changed = changed

    def _serve(self, incoming: Incoming) -> Answered:
        self.sent.append(incoming)
        return self._changed(self.service.serve(incoming))

    def payments(self) -> list[str]:
        return [i.headers["payment-signature"] for i in self.sent if "payment-signature" in i.headers]

    def http(self) -> httpx.Client:
        """A client that pays for nothing by itself."""
        client = Roamcard(
            self.service.url,
            OutsideWallet(self.account.address),
            POLICY,
            store=self.store,
            http_transport=self.service.transport(),
        )
        return httpx.Client(
            transport=client.transport(httpx_transport(Faults(), self._serve)), base_url=self.service.url
        )

    def official(self, path: str, *bodies: dict[str, Any]) -> list[httpx.Response]:
        """What the official client gets, one request after the other."""

        async def post() -> list[httpx.Response]:
            official = register_exact_evm_client(x402Client(), EthAccountSigner(self.account))
            official.set_spend_controls({"max_amount_per_payment": "$250"})
            wallet = OutsideWallet(self.account.address)
            below = AsyncRoamcard(
                self.service.url, wallet, POLICY, store=self.store, http_transport=self.service.async_transport()
            )
            paying = x402AsyncTransport(official, below.transport(Awaited(httpx_transport(Faults(), self._serve))))
            async with httpx.AsyncClient(transport=paying, base_url=self.service.url) as http:
                return [await http.post(path, json=body) for body in bodies]

        return asyncio.run(post())


class Awaited(httpx.AsyncBaseTransport):
    """A transport that blocks, as one that is awaited."""

    def __init__(self, below: httpx.BaseTransport) -> None:
        self._below = below

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = self._below.handle_request(request)
        return httpx.Response(response.status_code, headers=response.headers, content=response.read())


def costlier(answered: Answered) -> Answered:
    if answered.status != 402:
        return answered
    terms = json.loads(base64.b64decode(answered.headers["payment-required"]))
    terms["accepts"][0]["amount"] = "4900000"
    header = base64.b64encode(json.dumps(terms).encode()).decode()
    return Answered(402, {**answered.headers, "payment-required": header}, answered.body)


def signed_by(account: Any, terms: str, **changes: str) -> str:
    """A payment for the terms, whose authorization is changed after it was signed."""
    challenge, now = decode_terms(terms), int(time.time())
    offer = challenge.accepts[0]
    authorization = {
        "from": account.address, "to": offer["payTo"], "value": offer["amount"],
        "validAfter": str(now - 600), "validBefore": str(now + 60), "nonce": "0x" + "ab" * 32,
    }  # fmt: skip
    signature = CountingSigner(account).sign_typed_data(authorization_typed_data(offer, authorization))
    return encode_payment(challenge, offer, {**authorization, **changes}, signature)


def test_under_an_official_client_any_esim_is_the_cheapest_plan_at_its_price() -> None:
    outside = Outside()
    first, again = outside.official(ESIMS, {"idempotencyKey": "k"}, {"idempotencyKey": "k"})
    plans = [json.loads(i.body).get("planId") for i in outside.sent if i.path == ESIMS]
    assert len(plans) == 3 and plans[0] and set(plans) == {plans[0]}
    assert (again.json()["orderId"], again.json()["replayed"]) == (first.json()["orderId"], True)
    assert (len(set(outside.payments())), len(outside.service.token.transfers)) == (1, 1)
    assert [e.request["planId"] for e in outside.store.read().purchases.values()] == [plans[0]]


@pytest.mark.parametrize("request_", [{"idempotencyKey": "k"}, {"idempotencyKey": "k", "planId": None}])
def test_under_an_official_client_a_dearer_plan_than_the_published_one_is_not_signed(request_: dict[str, Any]) -> None:
    outside = Outside(costlier)
    with pytest.raises((TermsMismatchError, PaymentError)):
        outside.official(ESIMS, request_)
    assert outside.payments() == []
    with pytest.raises(TermsMismatchError):
        outside.http().post(ESIMS, json=request_)


@pytest.mark.parametrize("path", ["/api/esim/plans", "/api/card/%70urchase", "/evil"])
def test_what_buys_nothing_is_not_paid_for(path: str) -> None:
    body = {"idempotencyKey": "k"}
    terms = FakeService().serve(Incoming("POST", CARDS, {}, json.dumps(body).encode()))
    outside = Outside(lambda answered: terms)
    with pytest.raises((TermsMismatchError, PaymentError)):
        outside.official(path, body)
    with pytest.raises(TermsMismatchError):
        outside.http().post(path, json=body)
    payment = signed_by(outside.account, terms.headers["payment-required"])
    for name in ("payment-signature", "x-payment"):
        with pytest.raises(TermsMismatchError):
            outside.http().post(path, json=body, headers={name: payment})
    assert outside.payments() == []


def test_a_payment_of_another_way_of_transfer_is_not_signed() -> None:
    def permit(answered: Answered) -> Answered:
        if answered.status != 402:
            return answered
        terms = json.loads(base64.b64decode(answered.headers["payment-required"]))
        terms["accepts"][0]["extra"]["assetTransferMethod"] = "permit2"
        header = base64.b64encode(json.dumps(terms).encode()).decode()
        return Answered(402, {**answered.headers, "payment-required": header}, answered.body)

    outside = Outside(permit)
    with pytest.raises((TermsMismatchError, PaymentError)):
        outside.official(CARDS, {"idempotencyKey": "k"})
    assert outside.payments() == []


def test_what_was_signed_for_a_dearer_plan_is_not_sent() -> None:
    outside = Outside()
    body = {"idempotencyKey": "k"}
    challenge = outside.service.serve(Incoming("POST", ESIMS, {}, json.dumps(body).encode()))
    payment = signed_by(outside.account, costlier(challenge).headers["payment-required"])
    with pytest.raises(TermsMismatchError):
        outside.http().post(ESIMS, json=body, headers={"payment-signature": payment})
    assert outside.payments() == []


@pytest.mark.parametrize(
    "changes", [{"validBefore": str(int(time.time()) + 86_400)}, {"validBefore": str(2**256 - 1)}, {"nonce": "0x12"}]
)
def test_a_payment_that_is_good_for_longer_than_its_terms_allow_is_not_kept_or_sent(changes: dict[str, str]) -> None:
    outside = Outside()
    http, body = outside.http(), {"idempotencyKey": "k"}
    payment = signed_by(outside.account, http.post(CARDS, json=body).headers["payment-required"], **changes)
    with pytest.raises(TermsMismatchError):
        http.post(CARDS, json=body, headers={"payment-signature": payment})
    assert (outside.payments(), outside.store.read().purchases) == ([], {})


def test_an_answer_that_is_no_challenge_reaches_the_client_on_top_as_it_is() -> None:
    outside = Outside(lambda answered: Answered(204, {}, b""))
    assert outside.http().post(CARDS, json={"idempotencyKey": "k"}).status_code == 204


def test_an_unpaid_answer_is_read_up_to_its_bound() -> None:
    outside = Outside(lambda answered: Answered(402, answered.headers, b" " * (2 << 20)))
    with pytest.raises(httpx.ReadError):
        outside.http().post(CARDS, json={"idempotencyKey": "k"})


def test_a_top_up_of_no_named_amount_is_resumed_as_it_was_asked_for() -> None:
    service, signer, store = FakeService(), CountingSigner(Account.create()), MemoryStore()
    client = Roamcard(service.url, signer, POLICY, store=store, http_transport=service.transport(), max_replays=0)
    client.cards.purchase()
    http = httpx.Client(transport=client.transport(service.httpx_transport()), base_url=service.url)
    service.faults.lose_answer("paid")
    with pytest.raises(Exception, match="not known yet"):
        http.post("/api/card/topup", json={"idempotencyKey": "k"})
    [resumed] = client.resume_all()
    assert resumed.order is not None, resumed.error
    assert len(service.token.transfers) == 2


@pytest.mark.parametrize("payment", ["paid", {}, 7])
def test_over_rest_an_order_whose_payment_cannot_be_read_is_no_success(payment: Any) -> None:
    service, signer = FakeService(), CountingSigner(Account.create())

    def serve(incoming: Incoming) -> Answered:
        answered = service.serve(incoming)
        if "payment-signature" not in incoming.headers:
            return answered
        return Answered(200, answered.headers, json.dumps({**json.loads(answered.body), "payment": payment}).encode())

    client = Roamcard(service.url, signer, POLICY, http_transport=service.transport(), max_replays=0)
    http = httpx.Client(transport=client.transport(httpx_transport(Faults(), serve)), base_url=service.url)
    with pytest.raises(AmbiguousPaymentError):
        http.post(CARDS, json={"idempotencyKey": "k"})
