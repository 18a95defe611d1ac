"""The nonce of a purchase: the same in every language, and another one only for a payment that is proven dead."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from conftest import ROOT, CountingSigner, Dev, Proxy, Side, age

from roamcard import ApiError, ApprovalDeniedError, MemoryStore, Policy, nonce_of

CAPPED = Policy("autonomous", "25", "25")


def test_the_nonces_are_those_of_every_language() -> None:
    vectors = json.loads((ROOT / "clients/testing/nonces.json").read_text("utf-8"))
    assert vectors
    for v in vectors:
        assert nonce_of(v["origin"], v["path"], v["payer"], v["key"], v["attempt"]) == v["nonce"], v


def test_a_payment_that_is_called_dead_is_the_only_one_while_the_chain_can_take_it(
    dev: Dev, proxy: Proxy, side: Side
) -> None:
    account, key, store = dev.wallet(), f"py-{uuid.uuid4()}", MemoryStore()
    signer = CountingSigner(account)
    for _ in range(2):
        proxy.inject({"on": "paid", "dead": True})
        with pytest.raises(ApiError) as refused:
            side.client(signer, store=store, policy=CAPPED).cards.purchase(idempotency_key=key)
        assert refused.value.idempotency_key == key and refused.value.retryable
        assert (refused.value.retry_at or 0) > time.time()
    assert len(set(proxy.payments())) == 1
    # Two days later the chain cannot take it any more, and the next one has a nonce of its own.
    age(store, 172_800)
    with pytest.raises(ApprovalDeniedError):
        side.client(signer, store=store, policy=Policy("human_approval", approve=lambda quote: False)).cards.purchase(
            idempotency_key=key
        )
    assert not side.client(signer, store=store, policy=CAPPED).cards.purchase(idempotency_key=key).replayed
    # Over Connect the path is the documented one all the same.
    expected = [nonce_of(dev.base_url, "/api/card/purchase", account.address, key, attempt) for attempt in range(2)]
    assert [data["message"]["nonce"] for data in signer.signed] == expected
    assert dev.transfers(account) == [25_000_000]
