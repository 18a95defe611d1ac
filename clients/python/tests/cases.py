"""The cases of clients/testing/hostile.json: how the service lies, what the client does, and the most it may cost."""

from __future__ import annotations

import json
import resource
from typing import Any

import pytest
from conftest import ROOT, CountingSigner, Dev, Hostile, Side

from roamcard import AmbiguousPaymentError, ApiError, Policy, PolicyDeniedError, RoamcardError, TermsMismatchError

CASES: list[dict[str, Any]] = json.loads((ROOT / "clients/testing/hostile.json").read_text())


def play(
    case: dict[str, Any], dev: Dev, side: Side, hostile: Hostile, request: pytest.FixtureRequest, **options: Any
) -> None:
    """Buys as the steps of a case say, and counts on the chain what it cost."""
    account = dev.wallet()
    signer = CountingSigner(account)
    policy = Policy("autonomous", max_per_payment_usd="250", max_per_day_usd=case.get("caps", {}).get("day", "1000"))
    # What the real service sells in the end may take more than one repeat, and time between them. A lie takes none.
    repeats = {} if any(step["expect"] == "ok" for step in case["steps"]) else {"max_replays": 1}
    if repeats:
        request.getfixturevalue("pauses")
    client = side.client(signer, policy=policy, base_url=hostile.base_url, timeout=120, **repeats, **options)
    hostile.lie(case["lies"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    keys: dict[str, str] = {}
    for number, step in enumerate(case["steps"], 1):
        name = step["key"]
        if step["do"] == "pay" and name not in keys:
            keys[name] = client.orders.create_esim().order_id
        key = keys.get(name, name) or None
        order, error = outcome(client, step["do"], key)
        if key is None:
            key = keys["told"] = error.idempotency_key if error else order.idempotency_key
        assert (error is not None) if step["expect"] == "error" else kind_of(error) == step["expect"], (
            f"step {number}: {error!r}"
        )
        if error is not None and signer.signed and step["expect"] != "denied":
            assert error.idempotency_key == key != "", f"step {number}: the key in {error!r}"
    assert len(dev.transfers(account)) <= case["transfers"]
    assert len(signer.signed) <= case["signatures"]
    assert hostile.told()["elsewhere"] == 0
    # A bomb has 64 MiB in each answer.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 * 1024


def outcome(client: Any, what: str, key: str | None) -> tuple[Any, RoamcardError | None]:
    try:
        if what == "pay":
            return client.orders.pay(key), None
        if what == "topup":
            return client.cards.top_up(2500, idempotency_key=key), None
        return (client.cards if what == "card" else client.esim).purchase(idempotency_key=key), None
    except RoamcardError as error:
        return None, error


def kind_of(error: Exception | None) -> str:
    kinds = {
        AmbiguousPaymentError: "ambiguous",
        TermsMismatchError: "terms",
        PolicyDeniedError: "denied",
        ApiError: "refused",
    }
    if error is None:
        return "ok"
    return next((name for kind, name in kinds.items() if isinstance(error, kind)), "other")
