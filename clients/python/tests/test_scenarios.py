"""What every client has to prove, see clients/testing/scenarios.json: against the real service, through a proxy that
loses, delays and falsifies answers, by the client that blocks and the one that awaits."""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from conftest import HANGS, ROOT, CountingSigner, Dev, Proxy, Side, eventually
from eth_account import Account

from roamcard import (
    ApprovalDeniedError,
    CoinbaseSmartAccount,
    ConflictError,
    EthAccountSigner,
    Events,
    FileStore,
    InsufficientFundsError,
    MemoryStore,
    NotDeployedError,
    NotFoundError,
    PagePresenter,
    Policy,
    PolicyDeniedError,
    Secret,
    TermsMismatchError,
)
from roamcard.testing import look

CARD = 25_000_000
STRANGER = "0x000000000000000000000000000000000000dEaD"
STREAM = "/roamcard.v1.OrderService/WatchOrder"
GET_ORDER = "/roamcard.v1.OrderService/GetOrder"
LIFECYCLE = ["settling", "settled", "provisioning", "fulfilled"]

Moved = Callable[[int], None]


def new_key() -> str:
    return f"py-{uuid.uuid4()}"


def calls(proxy: Proxy, method: str) -> int:
    return sum(r["path"].partition("?")[0].endswith(f"/{method}") for r in proxy.requests())


def paid_once(dev: Dev, account: Any, moved: Moved, amount: int = CARD) -> None:
    """Checks on chain that the wallet paid this, in one transfer."""
    assert dev.transfers(account) == [amount]
    moved(1)


def test_every_scenario_is_here() -> None:
    wanted = json.loads((ROOT / "clients/testing/scenarios.json").read_text("utf-8"))
    here = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert set(wanted) == here - {"every-scenario-is-here"}


def test_purchase(dev: Dev, side: Side, moved: Moved) -> None:
    over_connect, over_rest = dev.wallet(), dev.wallet()
    client = side.client(CountingSigner(over_connect))
    bought = client.cards.purchase()
    assert bought.receipt.transaction == bought.order.payment.transaction
    assert (bought.order_id, bool(bought.request_id), bought.replayed) == (bought.order.order_id, True, False)
    card = client.cards.wait_until_active(bought, interval=0.2)
    assert [c.id for c in client.cards.list()] == [card.id]
    assert [o.order_id for o in client.orders.list()] == [bought.order_id]

    key = new_key()
    client = side.client(CountingSigner(over_rest))
    http = side.http(client)
    answers = [http.post("/api/card/purchase", json={"idempotencyKey": key}) for _ in range(2)]
    assert [a.status_code for a in answers] == [200, 200]
    assert [a.json().get("replayed") for a in answers] == [None, True]
    assert answers[0].headers["payment-response"]
    # One key is one purchase, whatever the protocol.
    assert client.cards.purchase(idempotency_key=key).order_id == answers[0].json()["orderId"]
    client.cards.wait_until_active(answers[0].json()["orderId"], interval=0.2)

    transfers = [dev.transfers(over_connect), dev.transfers(over_rest)]
    assert transfers == [[CARD], [CARD]]
    moved(2)


def test_top_up(dev: Dev, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    client = side.client(CountingSigner(account))
    card = client.cards.wait_until_active(client.cards.purchase(), interval=0.2)
    eventually("a balance of 15.00", lambda: client.cards.balance(card.id).available_usd_cents == 1500)
    before = len(dev.transfers(account))
    topped = client.cards.top_up(2500)
    assert topped.order.topup.card_credit_usd_cents == 2450
    assert list(client.orders.watch(topped, interval=0.2))[-1].status == "fulfilled"
    eventually("a balance of 39.50", lambda: client.cards.balance(card.id).available_usd_cents == 3950)
    assert dev.transfers(account)[before:] == [CARD]
    moved(1)


def test_controls(dev: Dev, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    client = side.client(CountingSigner(account))
    card = client.cards.wait_until_active(client.cards.purchase(), interval=0.2)
    assert list(client.cards.transactions(card.id)) == []

    def freeze() -> Any:
        """Until the fee of the issue is withdrawn it is not frozen."""
        try:
            return client.cards.freeze(card.id)
        except ConflictError as error:
            if error.code != "card_not_active":
                raise
            return None

    client.cards.set_limits(card.id, per_transaction_usd_cents=1000, blocked_categories=["7995"])
    limits = client.cards.limits(card.id)
    assert (limits.per_transaction_usd_cents, limits.per_month_usd_cents) == (1000, None)
    assert (limits.allowed_categories, limits.blocked_categories) == ((), ("7995",))
    details = client.cards.details(card.id)
    assert details.billing_address is not None
    assert (details.billing_address.city, details.billing_address.country) == ("Dover", "US")
    assert details.three_d_secure is not None
    assert (details.three_d_secure.method, details.three_d_secure.destination) == ("automatic", None)
    frozen = eventually("a frozen card", freeze)
    assert (frozen.id, frozen.status) == (card.id, "FROZEN")
    with pytest.raises(ConflictError, match="active_card_missing"):
        client.cards.top_up(2500)
    at = dev.locked_card(card.last4)
    dev.charge(at, 700)
    assert client.cards.unfreeze(card.id).status == "ACTIVE"
    dev.charge(at, 300)
    used = list(client.cards.transactions(card.id))
    assert json.loads(json.dumps([t.to_dict() for t in used]))[0]["merchant"]["name"] == "Corner shop"
    told = [(t.kind, t.status, t.amount_usd_cents, t.merchant.name, t.decline_reason) for t in used]
    assert told == [
        ("purchase", "completed", 300, "Corner shop", None),
        ("purchase", "declined", 700, "Corner shop", "card_frozen"),
    ]
    paid_once(dev, account, moved)


def test_esim(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    client = side.client(signer)
    plans = list(client.plans.list(country_code="JP", type="country"))
    assert plans and all(list(p.country_codes) == ["JP"] for p in plans)
    quoted = client.quote.esim(plans[0].plan_id)
    assert (quoted.quote.operation, quoted.quote.amount, quoted.allowed) == (
        "/api/esim/purchase",
        int(plans[0].amount),
        True,
    )
    bought = client.esim.purchase(plans[0].plan_id)
    assert (bought.order.delivery.plan_id, bought.status) == (plans[0].plan_id, "fulfilled")
    assert bought.credentials.reveal().lpa.startswith("LPA:1$")
    assert (len(signer.signed), len(proxy.payments())) == (1, 1)
    paid_once(dev, account, moved, int(plans[0].amount))


def test_esim_topup(dev: Dev, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    client = side.client(CountingSigner(account))
    bought = client.esim.purchase()
    had = int(client.esim.profile(bought).usage.total_bytes)
    plans = list(client.esim.top_ups(bought.order_id))
    quoted = client.quote.esim_top_up(bought.order_id, plans[0].plan_id)
    assert (quoted.quote.operation, quoted.quote.amount) == (
        "/api/esim/orders/{orderId}/topup",
        int(plans[0].amount),
    )
    key = new_key()
    more = client.esim.top_up(bought.order_id, plans[0].plan_id, idempotency_key=key)
    added = more.order.esim_topup
    assert (more.order.kind, added.status, added.order_id, added.plan_id) == (
        "esim_topup",
        "fulfilled",
        bought.order_id,
        plans[0].plan_id,
    )
    assert client.esim.top_up(bought.order_id, plans[0].plan_id, idempotency_key=key).order_id == more.order_id
    assert int(client.esim.profile(bought).usage.total_bytes) == had + (plans[0].data_mb << 20)
    stranger = dev.wallet()
    with pytest.raises(NotFoundError, match="order_not_found"):
        side.client(CountingSigner(stranger)).esim.top_up(bought.order_id, plans[0].plan_id)
    assert (len(dev.transfers(account)), dev.transfers(stranger)) == (2, [])
    moved(2)


def test_esim_late(dev: Dev, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    client = side.client(CountingSigner(account))
    plan = next(iter(client.plans.list()))
    # The sandbox's supplier takes 30 s for a key that ends so; the service answers after 15.
    bought = client.esim.purchase(plan.plan_id, idempotency_key=f"{new_key()}~005")
    assert bought.credentials is None and bought.delivery_token is not None and bought.status != "fulfilled"
    with pytest.raises(Exception, match="order_not_fulfilled"):
        client.esim.install(bought, PagePresenter(look))
    assert client.orders.wait_until_fulfilled(bought, interval=0.5, timeout=HANGS).status == "fulfilled"
    assert client.esim.status(bought).delivery.status == "fulfilled"
    assert client.esim.install(bought, PagePresenter(look)).presented
    paid_once(dev, account, moved, int(plan.amount))


def test_smart_account(dev: Dev, side: Side, moved: Moved) -> None:
    owner, store, key = Account.create(), MemoryStore(), new_key()
    account = dev.smart_account(owner)
    client = side.client(account, store=store)
    bought = client.cards.purchase(idempotency_key=key)
    assert (bought.order.payment.payer, bought.replayed) == (account.address, False)
    again = client.cards.purchase(idempotency_key=key)
    assert (again.order_id, again.replayed) == (bought.order_id, True)
    # Without its journal it signs once more, and the nonce is the same.
    lost = side.client(account).cards.purchase(idempotency_key=key)
    assert (lost.order_id, lost.replayed) == (bought.order_id, True)
    assert client.auth.sign_in().wallet == account.address
    card = client.cards.wait_until_active(bought, interval=0.2)
    assert client.cards.reveal(card.id, PagePresenter(look)).presented

    owner, signed, store = Account.create(), [], MemoryStore()
    created = dev.smart_account(owner, deployed=False)
    plain = CoinbaseSmartAccount(EthAccountSigner(owner), created.address)
    with pytest.raises(NotDeployedError):
        side.client(plain, rpc_url=dev.rpc).cards.purchase()
    client = side.client(created, rpc_url=dev.rpc, store=store, events=Events(on_signed=signed.append))
    assert client.auth.sign_in().wallet == created.address
    made = client.cards.purchase(idempotency_key=key)
    assert (made.order.payment.payer, made.replayed, dev.has_code(created)) == (created.address, False, True)
    again = client.cards.purchase(idempotency_key=key)
    assert (again.order_id, again.replayed, len(signed)) == (made.order_id, True, 1)
    # The account has code now, and signs as before or as one that is deployed.
    for signer in (created, plain):
        other = side.client(signer, rpc_url=dev.rpc)
        assert other.auth.sign_in().wallet == created.address
        assert other.cards.purchase(idempotency_key=key).order_id == made.order_id
    client.cards.wait_until_active(made, interval=0.2)
    client.cards.top_up(2500)
    assert (dev.transfers(account), dev.transfers(created)) == ([CARD], [CARD, 25_000_000])
    moved(3)


def test_pay_order(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    client = side.client(signer)
    order = client.orders.create_card(idempotency_key=new_key())
    assert (order.status, order.payable_url) == ("payment_required", f"{dev.base_url}/pay/{order.order_id}")
    with pytest.raises(TermsMismatchError):
        client.orders.pay(f"https://elsewhere.example/pay/{order.order_id}")
    proxy.inject({"on": "/roamcard.v1.OrderService/PayOrder"}, {"on": "paid", "cut": 0})
    paid = client.orders.pay(order)
    assert (paid.order_id, paid.receipt.transaction) == (order.order_id, paid.order.payment.transaction)
    again = [client.orders.pay(name) for name in (order, order.order_id, order.payable_url)]
    http = side.http(client)
    by_rest = [
        http.get(f"/pay/{order.order_id}"),
        http.post(f"/pay/{order.order_id}"),
        http.get(f"/api/x402/pay/{order.order_id}"),
    ]
    assert {p.order_id for p in again} | {a.json()["orderId"] for a in by_rest} == {order.order_id}
    assert all(p.replayed for p in again) and all(a.json()["replayed"] for a in by_rest)
    assert (len(signer.signed), len(set(proxy.payments()))) == (1, 1)
    assert client.pending() == []
    paid_once(dev, account, moved)


def test_reply_dropped(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    # While it is taken, before the first byte, in the headers, in the body.
    proxy.inject({"on": "unpaid", "cut": 0}, *({"on": "paid", "cut": at} for at in ("request", 0, 100, -5)))
    side.client(signer).cards.purchase()
    assert len(signer.signed) == 1
    assert (len(proxy.payments()), len(set(proxy.payments()))) == (5, 1)
    paid_once(dev, account, moved)


def test_reply_late(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    proxy.inject({"on": "paid", "delayMs": 3_600_000})
    side.client(signer, timeout=5).cards.purchase()
    # On a busy machine more answers than this one may be late.
    assert (len(signer.signed), len(set(proxy.payments()))) == (1, 1) and len(proxy.payments()) >= 2
    paid_once(dev, account, moved)


def test_unavailable(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    proxy.inject(
        {"on": "paid", "status": 503, "forward": False}, {"on": "paid", "status": 503}, {"on": "paid", "status": 503}
    )
    side.client(signer).cards.purchase()
    assert (len(signer.signed), len(proxy.payments()), len(set(proxy.payments()))) == (1, 4, 1)
    paid_once(dev, account, moved)


def test_killed(dev: Dev, proxy: Proxy, side: Side, moved: Moved, tmp_path: Path) -> None:
    account = dev.wallet()
    arguments = [
        sys.executable,
        str(Path(__file__).parent / "buyer.py"),
        side.kind,
        proxy.base_url,
        dev.base_url,
        str(tmp_path),
        new_key(),
    ]
    environment = {**os.environ, "WALLET_KEY": account.key.hex()}
    proxy.inject({"on": "paid", "delayMs": 3_600_000})
    first = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE)
    # What was only sent may get there after what the second process sends.
    eventually("the payment", lambda: len(dev.transfers(account)) == 1)
    first.kill()
    first.communicate()
    sent = len(proxy.payments())
    second = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, check=True)
    assert json.loads(second.stdout)["replayed"] is True
    assert (len(proxy.payments()) - sent, len(set(proxy.payments()))) == (1, 1)
    assert os.stat(tmp_path / "journal.json").st_mode & 0o777 == 0o600
    paid_once(dev, account, moved)


def test_journal_lost(dev: Dev, side: Side, moved: Moved, tmp_path: Path) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    first = side.client(signer, store=FileStore(tmp_path / "store")).cards.purchase(idempotency_key=key)
    shutil.rmtree(tmp_path / "store")
    again = side.client(signer, store=FileStore(tmp_path / "store")).cards.purchase(idempotency_key=key)
    assert (again.order_id, again.replayed) == (first.order_id, True)
    assert len({data["message"]["nonce"] for data in signer.signed}) == 1
    paid_once(dev, account, moved)


def test_parallel(dev: Dev, proxy: Proxy, side: Side, moved: Moved, tmp_path: Path) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    clients = [side.client(signer, store=FileStore(tmp_path)) for _ in range(2)]
    results = side.at_once(*[lambda c=c: c.cards.purchase(idempotency_key=key) for c in clients * 4])
    assert len({bought.order_id for bought in results}) == 1
    assert (len(signer.signed), len(set(proxy.payments()))) == (1, 1)
    # What the service answers with "not yet" is sent again, as often as a slow machine needs.
    answered = [r for r in proxy.requests() if r["payment"] and r.get("status") == HTTPStatus.OK]
    assert len(answered) <= 2, "the calls in one client are one"
    assert [p.name for p in tmp_path.glob("0x*.lock")] == []
    paid_once(dev, account, moved)


def test_caps(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    for policy in (
        Policy("autonomous"),
        Policy("autonomous", max_per_payment_usd=100),
        Policy("autonomous", "24.999999", "100"),
        Policy("autonomous", "25", "24.99"),
        Policy("autonomous", "25", "25", operations=["/api/card/topup"]),
    ):
        client = side.client(signer, policy=policy)
        assert not client.quote.card().allowed
        with pytest.raises(PolicyDeniedError):
            client.cards.purchase()
    # The cheapest eSIM is held to its own price.
    proxy.inject({"on": "unpaid", "terms": {"amount": "260000000"}})
    with pytest.raises(TermsMismatchError):
        side.client(signer).esim.purchase()

    # Two keys race for a day's 25: one is asked for while it has the budget, the other one is denied until it is given
    # back.
    asked, answered = threading.Event(), threading.Event()

    def refuse(quote: Any) -> bool:
        asked.set()
        return answered.wait(HANGS) and False

    store, policy = MemoryStore(), Policy("human_approval", "25", "25", approve=refuse)
    one, two = (side.client(signer, store=store, policy=policy) for _ in range(2))
    results: list[Any] = []
    first = threading.Thread(target=lambda: results.extend(side.at_once(one.cards.purchase)))
    first.start()
    assert asked.wait(HANGS)
    other = Side(side.kind, dev, proxy)
    [denied] = other.at_once(other.client(signer, store=store, policy=policy).cards.purchase)
    answered.set()
    first.join()
    other.loop.close()
    assert (type(denied), [type(r) for r in results]) == (PolicyDeniedError, [ApprovalDeniedError])
    with pytest.raises(TypeError):
        Policy("autonomous", max_per_payment_usd=24.99)  # type: ignore[arg-type]
    assert (signer.signed, proxy.payments(), dev.transfers(account)) == ([], [], [])
    assert two.quote.card().allowed
    moved(0)


WRONG = [
    {"payTo": STRANGER}, {"amount": "25000001"}, {"amount": "1"}, {"asset": STRANGER}, {"network": "eip155:1"},
    {"scheme": "upto"}, {"resource": "https://elsewhere.example/"}, {"extra": {"name": "USDC", "version": "2"}},
    {"maxTimeoutSeconds": 1_000_000},
]  # fmt: skip


def test_wrong_terms(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    client = side.client(signer)
    http = side.http(client)
    for terms in WRONG:
        proxy.inject({"on": "unpaid", "terms": terms})
        with pytest.raises(TermsMismatchError):
            client.cards.purchase()
    proxy.inject({"on": "unpaid", "terms": WRONG[0]})
    with pytest.raises(TermsMismatchError):
        http.post("/api/card/purchase", json={"idempotencyKey": new_key()})
    cheapest = next(iter(client.plans.list()))
    proxy.inject({"on": "unpaid", "terms": {"amount": str(int(cheapest.amount) + 10_000)}})
    with pytest.raises(TermsMismatchError):
        client.esim.purchase(cheapest.plan_id)
    order = client.orders.create_card()
    for terms in ({"amount": "25000001"}, {"resource": "https://elsewhere.example/pay/1"}):
        proxy.inject({"on": "/roamcard.v1.OrderService/PayOrder", "terms": terms})
        with pytest.raises(TermsMismatchError):
            client.orders.pay(order)
    assert (signer.signed, proxy.payments(), dev.transfers(account)) == ([], [], [])
    moved(0)


def test_approval(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    asked: list[str] = []

    def refuse(quote: Any) -> bool:
        asked.append(quote.amount_usd)
        return False

    account = dev.wallet()
    signer = CountingSigner(account)
    for policy, kind in (
        (Policy("human_approval"), PolicyDeniedError),
        (Policy("policy_gated"), PolicyDeniedError),
        (Policy("policy_gated", approve_above_usd="24.99", approve=refuse), ApprovalDeniedError),
        (Policy("human_approval", approve=refuse), ApprovalDeniedError),
        (Policy("human_approval", approve=lambda quote: "yes"), ApprovalDeniedError),
    ):
        client = side.client(signer, policy=policy)
        assert client.quote.card().asks
        with pytest.raises(kind):
            client.cards.purchase()
    assert asked == ["25.00", "25.00"]
    assert (signer.signed, proxy.payments(), dev.transfers(account)) == ([], [], [])
    moved(0)


def test_poor(dev: Dev, side: Side, moved: Moved) -> None:
    account = dev.wallet(24)
    with pytest.raises(InsufficientFundsError) as failure:
        side.client(CountingSigner(account)).cards.purchase()
    assert failure.value.request_id
    assert dev.transfers(account) == []
    moved(0)


def test_reveal(dev: Dev, proxy: Proxy, side: Side, moved: Moved, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    account, store = dev.wallet(), MemoryStore()
    client = side.client(CountingSigner(account), store=store)
    card = client.cards.wait_until_active(client.cards.purchase(), interval=0.2)
    pages: list[str] = []
    presenter = PagePresenter(lambda url: pages.append(look(url).html))
    result = client.cards.reveal(card.id, presenter)
    assert (result.presented, result.reason) == (True, None)
    number = re.search(r"<dd>([\d ]+)</dd>", pages.pop())
    assert number and number[1].replace(" ", "")[-4:] == card.last4

    bought = client.esim.purchase()
    token, esim = bought.delivery_token, bought.credentials.reveal()
    for options in ({"delivery_token": token}, {}):
        assert client.esim.status(bought.order_id, **options).status == "fulfilled"
        assert client.esim.install(bought.order_id, presenter, **options).presented
    assert (
        all(re.search(r'<img src="data:image/png;base64,[^"]+" alt="LPA:1\$', page) for page in pages)
        and len(pages) == 2
    )

    # The secrets show nowhere but where they are asked for.
    book = json.dumps([asdict(e) for e in store.read().purchases.values()])
    written = f"{result!r} {bought!r} {bought} {token} {bought.credentials!r} {book} {caplog.text}"
    for secret in (number[1], number[1].replace(" ", ""), esim.lpa, esim.iccid, token.reveal()):
        assert secret not in written
    assert "[redacted]" in written and "cards.reveal_card answered 200" in written
    with pytest.raises(TypeError):
        pickle.dumps(token)
    with pytest.raises(NotFoundError):
        side.client(CountingSigner(dev.wallet())).esim.status(bought.order_id)
    with pytest.raises(Exception, match=r"session_invalid|order_not_found"):
        client.esim.status(bought.order_id, delivery_token=Secret("wrong"))
    assert len(dev.transfers(account)) == 2
    moved(2)


WAYS: dict[str, list[dict[str, Any]]] = {
    "the stream": [],
    "a stream that is cut in its first answer": [{"on": STREAM, "cutMessage": 1}],
    "a stream that is cut again and again": [{"on": STREAM, "cutMessage": n} for n in (2, 1, 2, 1)],
    "looks, the first of which fail": [
        *[{"on": STREAM, "status": 501, "forward": False}] * 10,
        {"on": GET_ORDER, "status": 503}, {"on": GET_ORDER, "status": 429}, {"on": GET_ORDER, "cut": 0},
    ],
}  # fmt: skip


def test_watch(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    client = side.client(CountingSigner(account))
    card = client.cards.purchase()
    for way, faults in WAYS.items():
        order = card if way == "the stream" else client.cards.top_up(2500)
        proxy.inject(*faults)
        before = {method: calls(proxy, method) for method in ("GetOrder", "WatchOrder")}
        seen = list(client.orders.watch(order, interval=0.1, timeout=HANGS))
        # It is seen to move forwards only, each time once, to its end.
        states = [(LIFECYCLE.index(o.status), (o.issuance or o.topup).status) for o in seen]
        assert [step for step, _ in states] == sorted(step for step, _ in states), way
        assert len(set(states)) == len(states), way
        assert states[-1] in ((3, "active"), (3, "credited")), way
        looks, streams = (calls(proxy, method) - before[method] for method in ("GetOrder", "WatchOrder"))
        if way == "the stream":
            assert looks == 0
        if way.startswith("looks"):
            assert streams <= 2 and looks >= 4
    assert [o.status for o in client.orders.watch(card, timeout=HANGS)] == ["fulfilled"]
    with pytest.raises(NotFoundError):
        list(side.client(CountingSigner(dev.wallet())).orders.watch(card, timeout=HANGS))
    assert len(dev.transfers(account)) == len(WAYS)
    moved(len(WAYS))


def test_sign_in(dev: Dev, proxy: Proxy, side: Side, moved: Moved) -> None:
    account = dev.wallet()
    client = side.client(CountingSigner(account))

    def sign_ins() -> int:
        return calls(proxy, "VerifyChallenge")

    assert side.at_once(*[client.cards.list] * 3) == [[], [], []]
    assert sign_ins() == 1
    token = next(r["authorization"] for r in proxy.requests() if r["path"].partition("?")[0].endswith("/ListCards"))
    logout = urllib.request.Request(f"{dev.base_url}/api/auth/logout", b"", {"authorization": token}, method="POST")
    urllib.request.urlopen(logout).close()
    assert side.at_once(*[client.cards.list] * 3) == [[], [], []]
    assert sign_ins() == 2
    assert client.auth.sign_in().wallet.lower() == account.address.lower()
    client.auth.sign_out()
    client.auth.sign_in()
    assert sign_ins() == 3
    assert dev.transfers(account) == []
    moved(0)
