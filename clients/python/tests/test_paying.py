"""What a client does about payments in addition to the scenarios."""

from __future__ import annotations

import asyncio
import base64
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import AUTONOMOUS, CountingSigner, Dev, Proxy, Side, age, eventually
from wire import Wire

from roamcard import (
    AmbiguousPaymentError,
    ApiError,
    AsyncRoamcard,
    CommandSigner,
    ConflictError,
    Events,
    FileStore,
    InsufficientFundsError,
    KeyConflictError,
    MemoryStore,
    PagePresenter,
    Policy,
    PolicyDeniedError,
    Roamcard,
    TermsMismatchError,
    UnavailableError,
)
from roamcard.connect import (
    CardServiceClient,
    CardServiceClientSync,
    OrderServiceClientSync,
    PayOrderRequest,
    PurchaseCardRequest,
)
from roamcard.testing import look

CARD = 25_000_000
STRANGER = "0x000000000000000000000000000000000000dEaD"


def new_key() -> str:
    return f"py-{uuid.uuid4()}"


def test_an_unknown_outcome_is_told_and_a_new_client_goes_on(
    dev: Dev, proxy: Proxy, side: Side, tmp_path: Path
) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    proxy.inject({"on": "paid", "cut": 0}, {"on": "paid", "status": 503})
    with pytest.raises(AmbiguousPaymentError) as failure:
        side.client(signer, store=FileStore(tmp_path / "s"), max_replays=1).cards.purchase(idempotency_key=key)
    assert failure.value.idempotency_key == key and failure.value.retryable
    after = side.client(signer, store=FileStore(tmp_path / "s"))
    assert [p.idempotency_key for p in after.pending()] == [key]
    assert after.cards.purchase(idempotency_key=key).replayed
    assert after.pending() == []
    assert dev.transfers(account) == [CARD]
    assert (len(signer.signed), len(set(proxy.payments()))) == (1, 1)


def test_a_payment_that_died_unsent_is_signed_anew_with_the_same_nonce(dev: Dev, proxy: Proxy, side: Side) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    store = MemoryStore()
    client = side.client(signer, max_replays=0, store=store)
    proxy.inject({"on": "unpaid", "terms": {"maxTimeoutSeconds": 1}}, {"on": "paid", "status": 503, "forward": False})
    with pytest.raises(AmbiguousPaymentError):
        client.cards.purchase(idempotency_key=key)
    dead = int(signer.signed[0]["message"]["validBefore"])
    eventually("the end of the authorization", lambda: time.time() > dead)
    age(store, 60)
    side.client(signer, store=store).cards.purchase(idempotency_key=key)
    assert len(signer.signed) == 2 and len({data["message"]["nonce"] for data in signer.signed}) == 1
    assert dev.transfers(account) == [CARD]


def test_a_payee_that_changes_is_refused_unless_it_is_the_pinned_one(dev: Dev, side: Side) -> None:
    store = MemoryStore()
    store.update(lambda book: book.payees.setdefault(dev.base_url, STRANGER))
    signer = CountingSigner(dev.wallet())
    for policy in (AUTONOMOUS, Policy("autonomous", "25", "25", pay_to=STRANGER)):
        with pytest.raises(TermsMismatchError):
            side.client(signer, store=store, policy=policy).cards.purchase()
    quoted = side.client(signer, store=store, policy=Policy("autonomous", "25", "25", pay_to=dev.pay_to)).quote.card()
    assert (quoted.quote.amount_usd, signer.signed) == ("25.00", [])


def test_the_cap_of_a_day_holds_between_keys_that_race(dev: Dev, side: Side, tmp_path: Path) -> None:
    account = dev.wallet()
    policy = Policy("autonomous", "30", "75")
    clients = [side.client(CountingSigner(account), store=FileStore(tmp_path), policy=policy) for _ in range(3)]
    clients[0].cards.wait_until_active(clients[0].cards.purchase(), interval=0.2)
    # 50 of 75 are left: of three top-ups at once two fit.
    results = side.at_once(*[lambda c=c: c.cards.top_up(2500) for c in clients])
    assert sum(isinstance(r, PolicyDeniedError) for r in results) == 1, results
    assert dev.transfers(account) == [CARD] * 3
    quoted = clients[0].quote.topup(2500)
    assert not quoted.allowed and "75.00 are allowed" in quoted.reason


def test_a_final_refusal_is_told_by_type_and_the_same_payment_does_once_the_wallet_can_pay(
    dev: Dev, side: Side
) -> None:
    account, key, store = dev.wallet(0), new_key(), MemoryStore()
    capped = side.client(CountingSigner(account), store=store, policy=Policy("autonomous", "25", "25"))
    with pytest.raises(InsufficientFundsError):
        capped.cards.purchase(idempotency_key=key)
    dev.fund(account, 1000)
    capped.cards.purchase(idempotency_key=key)
    assert dev.transfers(account) == [CARD]
    with pytest.raises(ConflictError) as failure:
        side.client(CountingSigner(account), store=store).cards.purchase()
    assert (failure.value.code, failure.value.status) == ("card_already_exists", 409)
    assert failure.value.request_id


def test_a_key_belongs_to_one_request(dev: Dev, side: Side) -> None:
    account, key = dev.wallet(), new_key()
    client = side.client(CountingSigner(account))
    plan = list(client.plans.list())[1]
    client.esim.purchase(idempotency_key=key)
    with pytest.raises(KeyConflictError):
        client.esim.purchase(plan.plan_id, idempotency_key=key)
    with pytest.raises(KeyConflictError):
        side.http(client).post("/api/esim/purchase", json={"idempotencyKey": key, "planId": plan.plan_id})
    assert len(dev.transfers(account)) == 1


def test_a_wallet_behind_a_command_pays_signs_in_and_reveals(
    dev: Dev, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = dev.wallet()
    monkeypatch.setenv("WALLET_KEY", account.key.hex())
    command = [sys.executable, str(Path(__file__).parent / "signer.py")]
    client = side.client(CommandSigner(account.address, command, environment=["WALLET_KEY"]))
    card = client.cards.wait_until_active(client.cards.purchase(), interval=0.2)
    assert client.cards.reveal(card.id, PagePresenter(look)).presented
    assert dev.transfers(account) == [CARD]


def test_events_come_in_the_order_in_which_things_happen(dev: Dev, proxy: Proxy, side: Side) -> None:
    told: list[str] = []
    events = Events(
        on_quote=lambda quote: told.append(f"quote {quote.amount_usd}"),
        on_approval=lambda quote: told.append("approval"),
        on_signed=lambda quote: told.append("signed"),
        on_replay=lambda key, replay, error: told.append(f"replay {replay}"),
        on_settled=lambda key: told.append(f"settled {key}"),
    )
    key = new_key()
    proxy.inject({"on": "paid", "cut": 0})
    policy = Policy("policy_gated", approve_above_usd="10", approve=lambda quote: told.append("asked") is None)
    side.client(CountingSigner(dev.wallet()), events=events, policy=policy).cards.purchase(idempotency_key=key)
    assert told == ["quote 25.00", "asked", "approval", "signed", "replay 1", f"settled {key}"]


def test_a_cancelled_purchase_goes_on_to_its_end_and_is_paid_once(dev: Dev, proxy: Proxy) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    store = MemoryStore()
    approved = asyncio.Event()

    async def approve(quote: Any) -> bool:
        approved.set()
        return True

    async def give_up_and_ask_again() -> Any:
        policy = Policy("human_approval", approve=approve)
        async with AsyncRoamcard(proxy.base_url, signer, policy, origin=dev.base_url, store=store) as client:
            buying = asyncio.create_task(client.cards.purchase(idempotency_key=key))
            await approved.wait()
            buying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await buying
        # Who leaves waits for what was begun.
        assert [e.state for e in store.read().purchases.values()] == ["settled"]
        async with AsyncRoamcard(proxy.base_url, signer, policy, origin=dev.base_url, store=store) as client:
            return await client.cards.purchase(idempotency_key=key)

    assert asyncio.run(give_up_and_ask_again()).replayed
    assert (len(signer.signed), len(set(proxy.payments()))) == (1, 1)
    assert dev.transfers(account) == [CARD]


def test_a_watch_that_is_cancelled_leaves_nothing_behind(dev: Dev, proxy: Proxy) -> None:
    async def watched() -> set[asyncio.Task[Any]]:
        async with AsyncRoamcard(
            proxy.base_url, CountingSigner(dev.wallet()), AUTONOMOUS, origin=dev.base_url
        ) as client:
            order = await client.orders.create_card()

            async def follow() -> None:
                async for update in client.orders.watch(order):
                    seen.set_result(update.status)

            seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            following = asyncio.create_task(follow())
            assert await seen == "payment_required"
            following.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(following, 10)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.cards.wait_until_active(order), 0.5)
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    assert asyncio.run(watched()) == set()


def test_the_interceptors_pay_once(dev: Dev, proxy: Proxy) -> None:
    account = dev.wallet()
    signer, key = CountingSigner(account), new_key()
    proxy.inject({"on": "paid", "cut": 0})

    async def buy() -> str:
        async with AsyncRoamcard(proxy.base_url, signer, AUTONOMOUS, origin=dev.base_url) as payer:
            cards = CardServiceClient(proxy.base_url, interceptors=[payer.interceptor()])
            bought = await cards.purchase_card(PurchaseCardRequest(idempotency_key=key))
            assert bought.order
            return bought.order.order_id

    assert asyncio.run(buy()).startswith("ord_")
    assert (len(signer.signed), len(proxy.payments()), len(set(proxy.payments()))) == (1, 2, 1)
    assert dev.transfers(account) == [CARD]

    other = dev.wallet()
    payer = Roamcard(proxy.base_url, CountingSigner(other), AUTONOMOUS, origin=dev.base_url)
    order = payer.orders.create_card()
    orders = OrderServiceClientSync(proxy.base_url, interceptors=[payer.interceptor()])
    paid = orders.pay_order(PayOrderRequest(order_id=order.order_id)).order
    assert paid is not None and paid.order_id == order.order_id
    assert dev.transfers(other) == [CARD]
    with pytest.raises(ConflictError):
        CardServiceClientSync(proxy.base_url, interceptors=[payer.interceptor()]).purchase_card(
            PurchaseCardRequest(idempotency_key=new_key())
        )


def test_over_rest_the_policy_the_journal_and_the_replays_are_the_same(
    dev: Dev, proxy: Proxy, side: Side, tmp_path: Path
) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    request = {"url": "/api/card/purchase", "json": {"idempotencyKey": key}}
    with pytest.raises(PolicyDeniedError):
        side.http(side.client(signer, policy=Policy("autonomous", "24", "100"))).post(**request)
    client = side.client(signer, store=FileStore(tmp_path), max_replays=1)
    http = side.http(client)
    proxy.inject({"on": "paid", "cut": 0}, {"on": "paid", "cut": -3})
    with pytest.raises(AmbiguousPaymentError):
        http.post(**request)
    assert [p.idempotency_key for p in client.pending()] == [key]
    # Another client of the store, over another protocol, sends the same bytes.
    assert side.client(signer, store=FileStore(tmp_path)).cards.purchase(idempotency_key=key).replayed
    assert (len(signer.signed), len(set(proxy.payments()))) == (1, 1)
    # A refusal is of the package's types; what costs nothing passes by, mistakes of the caller too.
    with pytest.raises(ConflictError, match="card_already_exists"):
        http.post("/api/card/purchase", json={"idempotencyKey": new_key()})
    assert http.get("/api/config").json()["network"]["payTo"] == dev.pay_to
    wrong = http.post("/api/card/purchase", json={"key": key})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "schema_invalid")
    assert http.post("/api/card/purchase", content=b"{").status_code == 415
    assert dev.transfers(account) == [CARD]


def test_a_service_that_is_down_is_told_by_type(dev: Dev, proxy: Proxy, side: Side) -> None:
    client = side.client(CountingSigner(dev.wallet()), base_url="http://127.0.0.1:9", max_replays=0)
    for call in (client.discovery.config, client.discovery.agent, client.cards.list, client.cards.purchase):
        with pytest.raises(ApiError) as failure:
            call()
        assert failure.value.retryable
    proxy.inject({"on": "/api/agent", "status": 503})
    with pytest.raises(UnavailableError, match="dependency_down"):
        side.client(CountingSigner(dev.wallet()), read_retries=0).discovery.agent()


def test_what_is_nested_without_end_is_no_answer(dev: Dev, side: Side) -> None:
    def nested(response: httpx.Response) -> httpx.Response:
        if "payment-signature" not in response.request.headers:
            return response
        return httpx.Response(200, headers={"content-type": "application/json"}, content=b'{"a":' * 100_000)

    account, key = dev.wallet(), new_key()
    signer, wire = CountingSigner(account), Wire(side.kind, changes=nested)
    client = side.client(signer, base_url=dev.base_url, max_replays=1)
    plan_id = min(client.plans.list(), key=lambda plan: int(plan.amount)).plan_id
    with pytest.raises(AmbiguousPaymentError) as failure:
        side.http(client, wire.transport).post("/api/card/purchase", json={"idempotencyKey": key})
    assert (failure.value.idempotency_key, len(signer.signed), dev.transfers(account)) == (key, 1, [CARD])

    # The same over Connect, as an answer and as an error.
    for status in (200, 500):

        def deep(response: httpx.Response, status: int = status) -> httpx.Response:
            if "payment-signature" not in response.request.headers:
                return response
            return httpx.Response(status, headers={"content-type": "application/json"}, content=b'{"order":' * 100_000)

        buyer = side.client(
            signer, base_url=dev.base_url, max_replays=0, http_transport=Wire(side.kind, changes=deep).transport
        )
        with pytest.raises(AmbiguousPaymentError):
            buyer.esim.purchase(plan_id, idempotency_key=f"{key}-{status}")

    def unreadable(response: httpx.Response) -> httpx.Response:
        response.headers["payment-required"] = base64.b64encode(b"[" * 4_000).decode()
        return response

    other = CountingSigner(dev.wallet())
    with pytest.raises(TermsMismatchError):
        side.client(
            other, base_url=dev.base_url, http_transport=Wire(side.kind, changes=unreadable).transport
        ).cards.purchase()
    assert other.signed == []
