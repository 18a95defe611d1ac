"""Everything that is neither bought nor paid, and that both clients have the same words."""

from __future__ import annotations

import inspect
import logging
import re
from typing import Any

import pytest
from conftest import CountingSigner, Dev, Side

import roamcard
from roamcard import EthAccountSigner, NotFoundError, RoamcardError, Secret, UnauthorizedError
from roamcard.aio import AsyncRoamcard
from roamcard.client import Roamcard

GROUPS = ("discovery", "quote", "plans", "cards", "esim", "orders", "auth", "admin")


def words_of(thing: Any) -> dict[str, tuple[str, str | None]]:
    """The public members with their parameters and documentation."""
    members = {name: m for name, m in inspect.getmembers(type(thing)) if not name.startswith("_") and callable(m)}
    return {name: (re.sub(r"\) -> .*", ")", str(inspect.signature(m))), m.__doc__) for name, m in members.items()}


def test_both_clients_have_the_same_words() -> None:
    signer = roamcard.OutsideWallet("0x" + "1" * 40)
    policy = roamcard.Policy("human_approval")
    one, other = Roamcard("http://127.0.0.1:9", signer, policy), AsyncRoamcard("http://127.0.0.1:9", signer, policy)
    for group in GROUPS:
        words = words_of(getattr(one, group))
        assert words == words_of(getattr(other, group)) and words
    assert set(words_of(one)) == set(words_of(other))
    blocking = (
        str(inspect.signature(Roamcard)).replace("SyncTransport", "Transport").replace("httpx.Base", "httpx.AsyncBase")
    )
    assert blocking == str(inspect.signature(AsyncRoamcard))
    assert set(roamcard.__all__) <= set(dir(roamcard))


def test_what_the_service_publishes_is_read(dev: Dev, side: Side) -> None:
    client = side.client(CountingSigner(dev.wallet()))
    assert client.discovery.agent()["contractVersion"] == 1
    assert client.discovery.config().network.pay_to == dev.pay_to
    status = client.discovery.status()
    assert [p.product for p in status.products] == ["card_issue", "card_topup", "esim", "esim_topup"]
    assert all(p.since <= status.as_of for p in status.products)
    assert [type(getattr(client.discovery, name)()).__name__ for name in ("card", "topup", "esim")] == [
        "GetCardDiscoveryResponse", "GetTopupDiscoveryResponse", "GetEsimDiscoveryResponse",
    ]  # fmt: skip
    prices = [int(plan.amount) for plan in client.plans.list(country_code="JP")]
    assert len(prices) > 1 and prices == sorted(prices)
    assert [q.quote.amount for q in (client.quote.card(), client.quote.topup(3000))] == [25_000_000, 30_000_000]
    assert client.quote.esim().quote.operation == "/api/esim/purchase"


def test_orders_that_are_paid_later_are_listed_page_by_page(dev: Dev, side: Side) -> None:
    client = side.client(CountingSigner(dev.wallet()))
    plans = list(client.plans.list())
    # One more than a page holds.
    opened = [client.orders.create_esim(plan.plan_id).order_id for plan in (plans * 51)[:51]]
    listed = [order.order_id for order in client.orders.list(active=True)]
    assert listed == opened[::-1]
    assert client.orders.get(opened[0]).amount_usd_cents == plans[0].price_usd_cents
    with pytest.raises(NotFoundError):
        client.orders.get("ord_none")


def test_the_raw_answers_and_the_log_name_the_request(dev: Dev, side: Side, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "roamcard.test")
    client = side.client(CountingSigner(dev.wallet()), logger=logging.getLogger("roamcard.test"))
    with client.with_raw_response() as raw:
        cards = client.cards.list()
    assert (cards, raw.last.method, raw.last.status) == ([], "cards.list_cards", 200)
    assert "no-store" in raw.last.headers["cache-control"]
    assert [r.method for r in raw] == ["auth.create_challenge", "auth.verify_challenge", "cards.list_cards"]
    assert len({r.request_id for r in raw}) == 3
    # The token of a session is in none of them.
    assert raw[1].message is None
    with client.with_raw_response() as raw, pytest.raises(NotFoundError) as failure:
        client.cards.balance("00000000-0000-4000-8000-000000000000")
    assert (raw.last.status, raw.last.request_id) == (404, failure.value.request_id)
    with client.with_raw_response() as raw:
        client.discovery.agent()
    assert (raw.last.method, raw.last.status) == ("GET /api/agent", 200)
    client.discovery.config()
    assert len(raw) == 1
    assert "cards.get_card_balance answered 404 in" in caplog.text and failure.value.request_id in caplog.text
    assert "Bearer" not in caplog.text


def test_operators_have_their_routes(dev: Dev, side: Side) -> None:
    buyer = side.client(CountingSigner(dev.wallet()))
    order = buyer.cards.purchase()
    buyer.cards.wait_until_active(order, interval=0.2)

    client = side.client(EthAccountSigner(dev.operator_wallet), operator_token=Secret(dev.operator_token))
    jobs = list(client.admin.fee_jobs())
    job = next(j for j in jobs if j.order_id == order.order_id)
    assert client.admin.reconcile_fee_job(job.id).id == job.id
    assert all(j.status == "succeeded" for j in client.admin.fee_jobs(status="succeeded"))
    with pytest.raises(roamcard.ConflictError, match="provider_failure_unconfirmed"):
        client.admin.retry_fee_job(job.id, "it did not fail")
    with pytest.raises(roamcard.ConflictError, match="provider_failure_unconfirmed"):
        client.admin.write_off_fee_job(job.id, "it did not fail")
    with pytest.raises(NotFoundError):
        client.admin.reconcile_fee_job("00000000-0000-4000-8000-000000000000")
    assert (
        client.admin.reconcile().at == client.admin.reconciliation().at or client.admin.reconciliation().at is not None
    )
    runs = list(client.admin.reconciliations(outcome="agreed"))
    assert all(r.outcome == "agreed" and r.open == 0 and r.began_at <= r.ended_at for r in runs)
    assert {r.id for r in runs} <= {r.id for r in client.admin.reconciliations()}
    assert all(t.status == "open" for t in client.admin.transfers(status="open"))
    with pytest.raises(NotFoundError, match="transfer_not_found"):
        client.admin.resolve_transfer("0x" + "0" * 64, 0, "known", "a test")
    assert client.admin.inspect_order(order.order_id).order.order_id == order.order_id
    assert order.order_id in [o.order_id for o in client.admin.order_queue(status="fulfilled")]
    inspected = client.admin.inspect_order(order.order_id)
    assert order.order_id in [o.order_id for o in client.admin.order_queue(owner=inspected.owner, sort="oldest")]
    assert order.order_id in [o.order_id for o in client.admin.order_queue(request_id=inspected.timeline[0].request_id)]
    assert list(client.admin.order_queue(request_id="of-nobody")) == []
    assert {r.actor for r in client.admin.audit(action="order.inspect", subject=order.order_id)} == {
        client.admin.who_am_i().operator
    }
    assert client.admin.who_am_i().role == "admin"
    minted = client.admin.mint_token("python", "viewer", 60, "a test")
    assert minted.token.id in [t.id for t in client.admin.tokens(status="active")]
    assert client.admin.revoke_token(minted.token.id, "a test").status == "revoked"
    assert list(client.admin.approvals(status="pending")) == []
    assert all(count.count > 0 for count in client.admin.count_orders())
    assert "payee" in [account.name for account in client.admin.gauges().accounts]
    assert all(j.status in ("failed", "operator_review") for j in client.admin.jobs())
    done = next(iter(client.admin.jobs(status="succeeded")))
    assert client.admin.job(done.id).id == done.id
    with pytest.raises(roamcard.ConflictError, match="job_not_stopped"):
        client.admin.retry_job(done.id, "a test")
    with pytest.raises(NotFoundError, match="job_not_found"):
        client.admin.drop_job("00000000-0000-4000-8000-000000000000", "a test")
    review = client.admin.review_order(order.order_id)
    assert not any(action.allowed for action in review.allowed_actions) and review.postings
    with pytest.raises(roamcard.ConflictError, match="version_changed"):
        client.admin.decide_order(order.order_id, "retry", "a test", version=review.order.version + 1)
    with pytest.raises(roamcard.ConflictError, match="order_not_in_review"):
        client.admin.decide_order(order.order_id, "refund", "a test")
    switches = {s.product for s in client.admin.switches()}
    assert switches == {"card_issue", "card_topup", "esim", "esim_topup", "provider.sandbox"}
    assert client.admin.set_switch("card_topup", False, "it was open").paused is False
    assert client.admin.challenge_retention().retention_seconds > 0
    assert client.admin.prune_challenges().remaining is not None
    assert client.admin.activity(days=1).days == 1
    assert client.admin.prune_activity() >= 0

    with pytest.raises(RoamcardError, match="operator_token"):
        list(buyer.admin.fee_jobs())
    with pytest.raises(UnauthorizedError):
        list(side.client(CountingSigner(dev.wallet()), operator_token="wrong").admin.fee_jobs())
