"""roamcard.testing: the fake answers as the service does, and every fault is survived."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from eth_account import Account

from roamcard import ApiError, AsyncRoamcard, EthAccountSigner, InsufficientFundsError, Policy, Roamcard
from roamcard.testing import FakeService, FaultProxy, Faults

KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
TESTING = Path(__file__).parent.parent.parent / "testing"
POLICY = Policy("autonomous", max_per_payment_usd="250", max_per_day_usd="1000")


def buyer(service: FakeService, **more: Any) -> Roamcard:
    given = {"http_transport": service.transport(), "timeout": 0.4, **more}
    return Roamcard(service.url, EthAccountSigner(Account.from_key(KEY)), POLICY, **given)


def test_the_fake_answers_as_the_service_does() -> None:
    with FakeService() as service:
        service.listen()
        walked = subprocess.run(
            ["node", TESTING / "journey.mjs", service.url, KEY], check=True, capture_output=True, text=True
        )
    assert json.loads(walked.stdout) == json.loads((TESTING / "shapes.json").read_text())


def test_a_client_buys_at_the_fake_as_at_the_service() -> None:
    service = FakeService()
    client = buyer(service, timeout=30)
    card = client.cards.purchase(idempotency_key="card").wait_until_active()
    client.cards.top_up(3000, idempotency_key="topup")
    assert client.cards.balance(card.id).available_usd_cents == 1500 + 2940
    later = client.orders.create_esim(idempotency_key="open")
    for _ in range(2):
        assert client.orders.pay(later).status == "fulfilled"
    esim = client.esim.purchase(idempotency_key="esim")
    again = client.esim.purchase(idempotency_key="esim")
    assert again.replayed and again.order_id == esim.order_id and esim.credentials is not None
    assert len(service.token.transfers) == 4
    with pytest.raises(ApiError, match="already has a card"):
        client.cards.purchase(idempotency_key="second")


def test_clients_of_every_kind_reach_the_fake() -> None:
    import asyncio

    service = FakeService()
    service.faults.lose_answer("paid")

    async def buy() -> bool:
        signer = EthAccountSigner(Account.from_key(KEY))
        async with AsyncRoamcard(service.url, signer, POLICY, http_transport=service.async_transport()) as client:
            return (await client.esim.purchase(idempotency_key="k")).replayed

    assert asyncio.run(buy())
    service.faults.lose_answer("paid")
    with httpx.Client(transport=buyer(service).transport(service.httpx_transport())) as http:
        answer = http.post(f"{service.url}/api/card/purchase", json={"idempotencyKey": "k"})
    assert answer.json()["replayed"] and len(service.token.transfers) == 2


def test_a_poor_wallet_and_a_signature_of_another_one_are_told() -> None:
    with pytest.raises(InsufficientFundsError):
        buyer(FakeService(balance=1)).esim.purchase(idempotency_key="k")

    class Forger(EthAccountSigner):
        @property
        def address(self) -> str:
            return str(Account.from_key("0x" + "01" * 32).address)

    client = Roamcard(
        "http://roamcard.test", Forger(Account.from_key(KEY)), POLICY, http_transport=FakeService().transport()
    )
    with pytest.raises(ApiError, match="invalid_exact_evm_signature"):
        client.esim.purchase(idempotency_key="k")


FAULTS: dict[str, Callable[[Faults], None]] = {
    "lose_answer": lambda f: f.lose_answer("paid"),
    "lose_answer, before": lambda f: f.lose_answer("paid", before=True),
    "lose_answer, thrice": lambda f: f.lose_answer("paid", times=3),
    "lose_answer, unpaid": lambda f: f.lose_answer("unpaid"),
    "cut_answer": lambda f: f.cut_answer(20, "paid"),
    "cut_answer, end": lambda f: f.cut_answer(-1, "paid"),
    "unavailable": lambda f: f.unavailable("paid"),
    "unavailable, before": lambda f: f.unavailable("paid", before=True),
    "page": lambda f: f.page("paid"),
    "repeat": lambda f: f.repeat("paid"),
    "delay": lambda f: f.delay(60, "paid"),
    "answer": lambda f: f.answer(502, "<html>", "paid", content_type="text/html"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_survived(name: str) -> None:
    service = FakeService()
    FAULTS[name](service.faults)
    buyer(service).esim.purchase(idempotency_key="k")
    assert len(service.token.transfers) == 1
    assert any(r.fault for r in service.faults.requests), "the fault hit nothing"


def test_a_proxy_puts_faults_before_a_real_service() -> None:
    with FakeService() as service:
        service.listen()
        with FaultProxy(service.url) as proxy:
            proxy.faults.cut_answer(10, "paid")
            proxy.faults.lose_answer("paid")
            signer = EthAccountSigner(Account.from_key(KEY))
            bought = Roamcard(proxy.url, signer, POLICY, origin=service.url).esim.purchase(idempotency_key="k")
            assert bought.replayed and len(service.token.transfers) == 1
            assert len([r for r in proxy.faults.requests if r.fault]) == 2


def test_the_readmes_test_runs() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    [snippet] = re.findall(r"```py\n(.*?)```", readme, re.S)
    exec(compile(snippet, "README.md", "exec"), {})
