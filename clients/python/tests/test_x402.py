"""The official Python client of x402 signs, above a transport of this package that keeps it from paying twice."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import AUTONOMOUS, Dev, Proxy
from x402 import x402Client
from x402.http.clients.httpx import PaymentError, x402AsyncTransport
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.mechanisms.evm.signers import EthAccountSigner

from roamcard import AsyncRoamcard, FileStore, OutsideWallet, Policy

CARD = 25_000_000


def buyer(
    dev: Dev, proxy: Proxy, account: Any, store: FileStore, policy: Policy = AUTONOMOUS, **options: Any
) -> httpx.AsyncClient:
    official = register_exact_evm_client(x402Client(), EthAccountSigner(account))
    official.set_spend_controls({"max_amount_per_payment": "$250"})
    below = AsyncRoamcard(
        proxy.base_url, OutsideWallet(account.address), policy, origin=dev.base_url, store=store, **options
    )
    return httpx.AsyncClient(transport=x402AsyncTransport(official, below.transport()), base_url=proxy.base_url)


def test_the_official_client_pays_once_whatever_becomes_of_the_answers(dev: Dev, proxy: Proxy, tmp_path: Path) -> None:
    account, store = dev.wallet(), FileStore(tmp_path)
    key = {"idempotencyKey": f"py-{uuid.uuid4()}"}

    async def story() -> None:
        async with buyer(dev, proxy, account, store) as http:
            proxy.inject({"on": "paid", "cut": 0}, {"on": "paid", "status": 503}, {"on": "paid", "cut": -5})
            first = await http.post("/api/card/purchase", json=key)
            assert (first.status_code, len(proxy.payments()), len(set(proxy.payments()))) == (200, 4, 1)
            # Asked again, it does not come to sign: its payment is known.
            again = await http.post("/api/card/purchase", json=key)
            assert again.json()["orderId"] == first.json()["orderId"] and again.json()["replayed"]
            assert len(set(proxy.payments())) == 1

        plan = {"idempotencyKey": f"py-{uuid.uuid4()}"}
        async with buyer(dev, proxy, account, store, max_replays=0) as http:
            proxy.inject({"on": "paid", "cut": 0})
            with pytest.raises(PaymentError, match="not known yet"):
                await http.post("/api/esim/purchase", json=plan)
        # Another process with the same store.
        async with buyer(dev, proxy, account, store) as http:
            esim = await http.post("/api/esim/purchase", json=plan)
            assert esim.json()["replayed"]

    asyncio.run(story())
    assert len(dev.transfers(account)) == 2


def test_the_policy_holds_for_what_the_official_client_signed(dev: Dev, proxy: Proxy, tmp_path: Path) -> None:
    account = dev.wallet()

    async def story() -> None:
        for policy in (Policy("autonomous", "24", "100"), Policy("human_approval", approve=lambda quote: False)):
            async with buyer(dev, proxy, account, FileStore(tmp_path), policy) as http:
                with pytest.raises(PaymentError):
                    await http.post("/api/card/purchase", json={"idempotencyKey": f"py-{uuid.uuid4()}"})

    asyncio.run(story())
    assert (proxy.payments(), dev.transfers(account)) == ([], [])


def test_the_challenge_names_the_setting_without_which_the_official_client_does_not_pay(dev: Dev) -> None:
    account, key = dev.wallet(), {"idempotencyKey": f"py-{uuid.uuid4()}"}
    hint = httpx.post(f"{dev.base_url}/api/card/purchase", json=key).json()["detail"]
    named = re.search(r"client\.(\w+)\((\{.+?\})\)", hint)
    assert named, hint

    async def story() -> None:
        official = register_exact_evm_client(x402Client(), EthAccountSigner(account))
        async with httpx.AsyncClient(transport=x402AsyncTransport(official), base_url=dev.base_url, timeout=30) as http:
            with pytest.raises(PaymentError, match="max_amount_per_payment"):
                await http.post("/api/card/purchase", json=key)
            getattr(official, named[1])(json.loads(named[2]))
            assert (await http.post("/api/card/purchase", json=key)).status_code == 200

    asyncio.run(story())
    assert dev.transfers(account) == [CARD]
