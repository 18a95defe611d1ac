"""Both clients buy eSIMs; their secrets reach a person, and no log."""

from __future__ import annotations

import json
import pickle
import re
import urllib.request
import uuid
from dataclasses import asdict
from typing import Any

import pytest
from conftest import AUTONOMOUS, CountingSigner, Dev, Proxy

from roamcard import KeyConflictError, MemoryStore, NotFoundError, PagePresenter, Policy, PolicyDeniedError, Secret, TermsMismatchError


def test_an_esim_is_bought_by_its_plan_and_shown_to_a_person_only(dev: Dev, proxy: Proxy, make: Any) -> None:
    account, store = dev.wallet(), MemoryStore()
    signer = CountingSigner(account)
    client = make(signer, store=store)
    plans = client.plans(country_code="JP", type="country")
    assert all(list(p.country_codes) == ["JP"] for p in plans)
    plan = plans[0]
    quote = client.quote_esim(plan.plan_id)
    assert (quote.operation, quote.amount) == ("/api/esim/purchase", int(plan.amount))

    bought = client.buy_esim(plan.plan_id)
    order_id = bought.order.order_id
    assert bought.order.delivery.plan_id == plan.plan_id
    assert dev.transfers(account) == [int(plan.amount)]
    assert (len(signer.signed), len(proxy.payments())) == (1, 1)
    assert list(client.watch_order(order_id, interval=0.1))[-1].delivery.status == "fulfilled"

    token = bought.delivery_token
    for options in ({"delivery_token": token}, {}):
        assert client.esim_status(order_id, **options).status == "fulfilled"
        seen: list[str] = []
        looked = client.install_esim(order_id, PagePresenter(lambda url: seen.append(urllib.request.urlopen(url, timeout=10).read().decode())), **options)
        assert looked.presented
        assert re.search(r'<img src="data:image/png;base64,[^"]+" alt="LPA:1\$', seen[0])

    # The secrets show nowhere but where they are asked for.
    esim = bought.credentials.reveal()
    book = json.dumps([asdict(e) for e in store.read().entries.values()])
    written = f"{bought!r} {bought} {token} {bought.credentials!r} {book}"
    assert not any(secret in written for secret in (esim.lpa, esim.iccid, token.reveal()))
    assert "[redacted]" in written
    with pytest.raises(TypeError):
        pickle.dumps(token)

    with pytest.raises(NotFoundError):
        make(CountingSigner(dev.wallet())).esim_status(order_id)
    with pytest.raises(Exception, match="session_invalid|order_not_found"):
        client.esim_status(order_id, delivery_token=Secret("wrong"))


def test_the_cheapest_esim_is_bought_within_the_caps_and_once(dev: Dev, proxy: Proxy, make: Any) -> None:
    account, key = dev.wallet(), f"py-{uuid.uuid4()}"
    signer = CountingSigner(account)
    client = make(signer)
    cheapest = client.plans()[0]
    proxy.inject({"on": "paid", "cut": 0}, {"on": "paid", "status": 503}, {"on": "paid", "cut": -5})
    first = client.buy_esim(idempotency_key=key)
    assert first.credentials.reveal().lpa.startswith("LPA:1$")
    assert (len(signer.signed), len(proxy.payments()), len(set(proxy.payments()))) == (1, 4, 1)
    again = make(signer, store=MemoryStore()).buy_esim(idempotency_key=key)
    assert (again.order.order_id, again.replayed) == (first.order.order_id, True)
    assert dev.transfers(account) == [int(cheapest.amount)]
    with pytest.raises(KeyConflictError):
        client.buy_esim(cheapest.plan_id, idempotency_key=key)


def test_another_price_than_published_is_refused_before_anything_is_signed(dev: Dev, proxy: Proxy, make: Any) -> None:
    signer = CountingSigner(dev.wallet())
    client = make(signer)
    cheapest = client.plans()[0]
    proxy.inject({"on": "unpaid", "terms": {"amount": str(int(cheapest.amount) + 10_000)}})
    with pytest.raises(TermsMismatchError):
        client.buy_esim(cheapest.plan_id)
    proxy.inject({"on": "unpaid", "terms": {"amount": "260000000"}})
    for policy in (AUTONOMOUS, Policy("autonomous", "0.001", "1"), Policy("autonomous", "25", "25", operations=["/api/card/purchase"])):
        with pytest.raises(PolicyDeniedError):
            make(signer, policy=policy).buy_esim()
    assert (signer.signed, proxy.payments()) == ([], [])
