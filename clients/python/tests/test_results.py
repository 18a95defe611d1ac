"""Results are plain: json.dumps takes them, and they hold no secret."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, get_args

import pytest
from conftest import CountingSigner, Dev, Side

from roamcard import (
    ApiError,
    ConflictError,
    EthAccountSigner,
    MemoryStore,
    OrderKind,
    OrderStatus,
    RoamcardError,
    Secret,
)
from roamcard._gen.models import CardStatus, DeliveryStatus, IssuanceStatus, PlanType


def dumped(*results: Any) -> str:
    """Every result as JSON: as it is, without a function that helps out."""
    return json.dumps([result.to_dict() for result in results], allow_nan=False)


def test_every_result_survives_json_dumps_and_holds_no_secret(dev: Dev, side: Side) -> None:
    client = side.client(CountingSigner(dev.wallet()))
    quoted = client.quote.card()
    esim = client.esim.purchase()
    bought = client.cards.purchase()
    card = client.cards.wait_until_active(bought, interval=0.2)
    orders = list(client.orders.list())
    plan = next(iter(client.plans.list()))
    results = [quoted, esim, bought, card, *orders, client.cards.balance(card.id), plan, client.discovery.config()]
    results += [
        client.discovery.card(),
        client.discovery.topup(),
        client.discovery.esim(),
        client.auth.sign_in(),
        client.esim.status(esim),
    ]
    text = dumped(*results)
    assert esim.delivery_token is not None and esim.credentials is not None
    credentials = esim.credentials.reveal()
    for secret in (esim.delivery_token.reveal(), credentials.iccid, credentials.matching_id, credentials.lpa):
        assert secret not in text and secret not in repr(results)
    told = esim.to_dict()
    assert (told["delivery_token"], told["credentials"], told["order"]["order_id"]) == (
        "[redacted]",
        "[redacted]",
        esim.order_id,
    )
    assert (told["receipt"]["network"], quoted.to_dict()["quote"]["amount"]) == ("eip155:8453", 25_000_000)

    order = bought.to_dict()["order"]
    assert type(order["amount_usd_cents"]) is int and order["refund"] is None
    at = datetime.fromisoformat(order["created_at"].replace("Z", "+00:00"))
    assert at == bought.order.created_at and at.utcoffset() is not None
    for seen in orders:
        assert seen.kind in get_args(OrderKind) and seen.status in get_args(OrderStatus)
        assert seen.delivery is None or seen.delivery.status in get_args(DeliveryStatus)
        assert seen.issuance is None or seen.issuance.status in get_args(IssuanceStatus)
    assert card.status in get_args(CardStatus) and plan.type in get_args(PlanType)


def test_what_operators_read_survives_json_dumps(dev: Dev, side: Side) -> None:
    client = side.client(EthAccountSigner(dev.operator_wallet), operator_token=Secret(dev.operator_token))
    order = client.orders.create_card()
    results = (
        [client.admin.reconcile(), *client.admin.fee_jobs().page(size=2).items]
        if side.kind == "sync"
        else [client.admin.reconcile()]
    )
    results += [
        client.admin.inspect_order(order.order_id),
        *client.admin.switches(),
        client.admin.challenge_retention(),
    ]
    results += [client.admin.activity(days=1), *client.admin.findings(), *client.admin.transfers()]
    told = json.loads(dumped(*results))
    assert told[0]["at"].endswith("Z") and isinstance(told[0]["balances"], list)
    assert {"from", "to"} <= set(client.admin.activity(days=1).to_dict())


def test_errors_and_what_is_pending_survive_json_dumps(dev: Dev, side: Side) -> None:
    client = side.client(CountingSigner(dev.wallet()), store=MemoryStore())
    client.cards.purchase()
    with pytest.raises(ConflictError) as failure:
        client.cards.purchase()
    told = json.loads(json.dumps(failure.value.to_dict()))
    assert (told["type"], told["status"], told["code"]) == ("ConflictError", 409, "card_already_exists")
    assert told["request_id"] == failure.value.request_id and told["message"] == str(failure.value)
    assert json.dumps([pending.to_dict() for pending in client.pending()]) == "[]"
    assert RoamcardError("no").to_dict() == {"type": "RoamcardError", "message": "no"}
    assert "retry_after" not in ApiError(0, "x", "y").to_dict()
