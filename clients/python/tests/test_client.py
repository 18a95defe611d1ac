"""Both clients against the real service, through a proxy that loses, delays and falsifies answers."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest
from conftest import AUTONOMOUS, Blocking, CountingSigner, Dev, Proxy, eventually

from roamcard import (
    AmbiguousPaymentError,
    ApprovalDeniedError,
    CommandSigner,
    ConflictError,
    FileStore,
    InsufficientFundsError,
    KeyConflictError,
    MemoryStore,
    PagePresenter,
    Policy,
    PolicyDeniedError,
    TermsMismatchError,
)

CARD = 25_000_000
STRANGER = "0x000000000000000000000000000000000000dEaD"


def new_key() -> str:
    return f"py-{uuid.uuid4()}"


def fetch(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_a_card_is_bought_topped_up_and_shown_to_a_person_only(dev: Dev, make: Any) -> None:
    account = dev.wallet()
    client = make(CountingSigner(account))
    bought = client.buy_card()
    assert bought.receipt.transaction == bought.order.payment.transaction
    assert dev.transfers(account) == [CARD]
    card = client.wait_until_active(bought.order, interval=0.2)
    eventually("a balance of 15.00", lambda: client.balance(card.id).available_usd_cents == 1500)
    topped = client.top_up(2500)
    assert topped.order.topup.card_credit_usd_cents == 2450
    assert list(client.watch_order(topped.order.order_id, interval=0.2))[-1].status == "fulfilled"
    assert dev.transfers(account) == [CARD, CARD]
    assert [o.order_id for o in client.orders()] == [topped.order.order_id, bought.order.order_id]

    seen: list[tuple[int, str]] = []

    def look(url: str) -> None:
        seen.extend((fetch(url, **{"Sec-Fetch-Site": "cross-site"}), fetch(url), fetch(url)))

    result = client.reveal(card.id, PagePresenter(look))
    assert (result.presented, result.reason) == (True, None)
    assert [status for status, _ in seen] == [404, 200, 410]
    number = re.search(r"<dd>([\d ]+)</dd>", seen[1][1])
    assert number and number[1].replace(" ", "")[-4:] == card.last4


FAULTS = {
    "a reply dropped before its first byte": [{"on": "paid", "cut": 0}],
    "a reply dropped in its headers": [{"on": "paid", "cut": 100}],
    "a reply dropped in its body": [{"on": "paid", "cut": -5}],
    "a connection lost while the payment is taken": [{"on": "paid", "cut": "request"}],
    "503 after the payment was taken": [{"on": "paid", "status": 503}],
    "503 before the payment came through": [{"on": "paid", "status": 503, "forward": False}],
    "one after the other": [{"on": "unpaid", "cut": 0}, {"on": "paid", "cut": 0}, {"on": "paid", "status": 503}, {"on": "paid", "cut": 40}],
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_costs_one_payment_signed_once_and_sent_again_byte_for_byte(dev: Dev, proxy: Proxy, make: Any, faults: list[dict[str, Any]]) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    proxy.inject(*faults)
    make(signer).buy_card()
    assert dev.transfers(account) == [CARD]
    assert len(signer.signed) == 1
    sent = proxy.payments()
    assert (len(sent), len(set(sent))) == (sum(f["on"] == "paid" for f in faults) + 1, 1)


def test_a_reply_that_takes_too_long_is_asked_for_again(dev: Dev, proxy: Proxy, make: Any) -> None:
    account = dev.wallet()
    proxy.inject({"on": "paid", "delayMs": 60_000})
    make(CountingSigner(account), timeout=2).buy_card()
    assert dev.transfers(account) == [CARD]
    assert (len(proxy.payments()), len(set(proxy.payments()))) == (2, 1)


def test_an_unknown_outcome_is_told_and_a_new_client_goes_on(dev: Dev, proxy: Proxy, make: Any, tmp_path: Path) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    proxy.inject({"on": "paid", "cut": 0}, {"on": "paid", "cut": 0})
    with pytest.raises(AmbiguousPaymentError) as failure:
        make(signer, store=FileStore(tmp_path / "s"), max_replays=1).buy_card(idempotency_key=key)
    assert failure.value.idempotency_key == key
    after = make(signer, store=FileStore(tmp_path / "s"))
    assert [p.idempotency_key for p in after.pending()] == [key]
    assert after.buy_card(idempotency_key=key).replayed
    assert after.pending() == []
    assert dev.transfers(account) == [CARD]
    assert (len(signer.signed), len(set(proxy.payments()))) == (1, 1)
    assert os.stat(tmp_path / "s" / "journal.json").st_mode & 0o777 == 0o600


def test_a_killed_client_resumes_from_its_journal(dev: Dev, proxy: Proxy, tmp_path: Path) -> None:
    account = dev.wallet()
    arguments = [sys.executable, str(Path(__file__).parent / "buyer.py"), proxy.base_url, dev.base_url, str(tmp_path), new_key()]
    environment = {**os.environ, "WALLET_KEY": account.key.hex()}
    proxy.inject({"on": "paid", "delayMs": 60_000})
    first = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE)
    eventually("the payment", lambda: len(proxy.payments()) == 1)
    first.kill()
    first.communicate()
    second = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, check=True, timeout=60)
    assert json.loads(second.stdout)["replayed"] is True
    assert dev.transfers(account) == [CARD]
    assert len(set(proxy.payments())) == 1


def test_a_lost_journal_cannot_pay_twice(dev: Dev, make: Any) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    first = make(signer).buy_card(idempotency_key=key)
    again = make(signer, store=MemoryStore()).buy_card(idempotency_key=key)
    assert (again.order.order_id, again.replayed) == (first.order.order_id, True)
    assert len({data["message"]["nonce"] for data in signer.signed}) == 1
    assert dev.transfers(account) == [CARD]


def test_a_payment_that_died_unsent_is_signed_anew_with_the_same_nonce(dev: Dev, proxy: Proxy, make: Any) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    client = make(signer, max_replays=0)
    proxy.inject({"on": "unpaid", "terms": {"maxTimeoutSeconds": 1}}, {"on": "paid", "status": 503, "forward": False})
    with pytest.raises(AmbiguousPaymentError):
        client.buy_card(idempotency_key=key)
    dead = int(signer.signed[0]["message"]["validBefore"])
    eventually("the end of the authorization", lambda: time.time() > dead + 1)
    client.buy_card(idempotency_key=key)
    assert len(signer.signed) == 2 and len({data["message"]["nonce"] for data in signer.signed}) == 1
    assert dev.transfers(account) == [CARD]


def test_parallel_calls_with_one_key_sign_once(dev: Dev, proxy: Proxy, make: Any) -> None:
    account, key = dev.wallet(), new_key()
    signer = CountingSigner(account)
    client = make(signer)
    if isinstance(client, Blocking):
        results = client.at_once(*[lambda c: c.buy_card(idempotency_key=key)] * 8)
    else:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            results = [f.result() for f in [pool.submit(client.buy_card, idempotency_key=key) for _ in range(8)]]
    assert len({bought.order.order_id for bought in results}) == 1
    assert (len(signer.signed), len(proxy.payments())) == (1, 1)
    assert dev.transfers(account) == [CARD]


def test_clients_that_share_a_store_send_the_same_bytes(dev: Dev, proxy: Proxy, tmp_path: Path) -> None:
    account = dev.wallet()
    arguments = [sys.executable, str(Path(__file__).parent / "buyer.py"), proxy.base_url, dev.base_url, str(tmp_path), new_key()]
    environment = {**os.environ, "WALLET_KEY": account.key.hex()}
    buyers = [subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    orders = {json.loads(b.communicate(timeout=60)[0])["orderId"] for b in buyers}
    assert len(orders) == 1
    assert len(set(proxy.payments())) == 1
    assert dev.transfers(account) == [CARD]


WRONG = [
    {"payTo": STRANGER}, {"amount": "25000001"}, {"amount": "1"}, {"asset": STRANGER}, {"network": "eip155:1"}, {"scheme": "upto"},
    {"resource": "https://elsewhere.example/"}, {"extra": {"name": "USDC", "version": "2"}}, {"maxTimeoutSeconds": 1_000_000},
]  # fmt: skip


def test_wrong_terms_are_refused_before_anything_is_signed(dev: Dev, proxy: Proxy, make: Any) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    client = make(signer)
    for terms in WRONG:
        proxy.inject({"on": "unpaid", "terms": terms})
        with pytest.raises(TermsMismatchError):
            client.buy_card()
    assert (signer.signed, proxy.payments(), dev.transfers(account)) == ([], [], [])


def test_a_payee_that_changes_is_refused_unless_it_is_the_pinned_one(dev: Dev, make: Any) -> None:
    store = MemoryStore()
    store.update(lambda book: book.payees.setdefault(dev.base_url, STRANGER))
    signer = CountingSigner(dev.wallet())
    for policy in (AUTONOMOUS, Policy("autonomous", "25", "25", pay_to=STRANGER)):
        with pytest.raises(TermsMismatchError):
            make(signer, store=store, policy=policy).buy_card()
    quote = make(signer, store=store, policy=Policy("autonomous", "25", "25", pay_to=dev.pay_to)).quote_card()
    assert (quote.amount_usd, signer.signed) == ("25.00", [])


def test_the_policy_decides_before_anything_is_signed(dev: Dev, proxy: Proxy, make: Any) -> None:
    asked: list[str] = []

    def refuse(quote: Any) -> bool:
        asked.append(quote.amount_usd)
        return False

    account = dev.wallet()
    signer = CountingSigner(account)
    denied = [
        (Policy("autonomous"), PolicyDeniedError),
        (Policy("autonomous", max_per_payment_usd=100), PolicyDeniedError),
        (Policy("autonomous", "24.999999", "100"), PolicyDeniedError),
        (Policy("autonomous", "25", "24.99"), PolicyDeniedError),
        (Policy("autonomous", "25", "25", operations=["/api/card/topup"]), PolicyDeniedError),
        (Policy("human_approval"), PolicyDeniedError),
        (Policy("policy_gated"), PolicyDeniedError),
        (Policy("policy_gated", approve_above_usd="24.99", approve=refuse), ApprovalDeniedError),
        (Policy("human_approval", approve=refuse), ApprovalDeniedError),
    ]
    for policy, kind in denied:
        with pytest.raises(kind):
            make(signer, policy=policy).buy_card()
    with pytest.raises(TypeError):
        Policy("autonomous", max_per_payment_usd=24.99)  # type: ignore[arg-type]
    assert asked == ["25.00", "25.00"]
    assert (signer.signed, proxy.payments(), dev.transfers(account)) == ([], [], [])


def test_the_cap_of_a_day_holds_between_clients_that_share_a_store(dev: Dev, make: Any, tmp_path: Path) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    client = make(signer, store=FileStore(tmp_path), policy=Policy("autonomous", "30", "75"))
    client.wait_until_active(client.buy_card().order, interval=0.2)
    # 50 of 75 are left: of three top-ups at once two fit.
    if isinstance(client, Blocking):
        results = client.at_once(*[lambda c: c.top_up(2500)] * 3)
    else:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(client.top_up, 2500) for _ in range(3)]
            results = [f.exception() or f.result() for f in futures]
    assert sum(isinstance(r, PolicyDeniedError) for r in results) == 1, results
    assert dev.transfers(account) == [CARD] * 3
    with pytest.raises(PolicyDeniedError):
        client.top_up(2500)


def test_a_final_refusal_is_told_by_type_and_frees_its_budget(dev: Dev, make: Any) -> None:
    account, key, store = dev.wallet(0), new_key(), MemoryStore()
    capped = make(CountingSigner(account), store=store, policy=Policy("autonomous", "25", "25"))
    with pytest.raises(InsufficientFundsError):
        capped.buy_card(idempotency_key=key)
    dev.fund(account, 1000)
    capped.buy_card(idempotency_key=key)
    assert dev.transfers(account) == [CARD]
    with pytest.raises(ConflictError) as failure:
        make(CountingSigner(account), store=store).buy_card()
    assert failure.value.code == "card_already_exists" and failure.value.request_id


def test_a_key_belongs_to_one_request(dev: Dev, make: Any) -> None:
    account, key = dev.wallet(), new_key()
    client = make(CountingSigner(account))
    client.wait_until_active(client.buy_card().order, interval=0.2)
    client.top_up(2500, idempotency_key=key)
    with pytest.raises(KeyConflictError):
        client.top_up(2600, idempotency_key=key)
    assert dev.transfers(account) == [CARD, CARD]


def test_a_wallet_behind_a_command_pays_signs_in_and_reveals(dev: Dev, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    account = dev.wallet()
    monkeypatch.setenv("WALLET_KEY", account.key.hex())
    signer = CommandSigner(account.address, [sys.executable, str(Path(__file__).parent / "signer.py")])
    client = make(signer)
    card = client.wait_until_active(client.buy_card().order, interval=0.2)
    assert client.reveal(card.id, PagePresenter(fetch)).presented
    assert dev.transfers(account) == [CARD]


def test_sign_in_happens_once_and_again_after_a_logout(dev: Dev, proxy: Proxy, make: Any) -> None:
    client = make(CountingSigner(dev.wallet()))

    def together() -> list[Any]:
        if isinstance(client, Blocking):
            return client.at_once(*[lambda c: c.cards()] * 3)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return [f.result() for f in [pool.submit(client.cards) for _ in range(3)]]

    def sign_ins() -> int:
        return sum(r["path"].endswith("/VerifyChallenge") for r in proxy.requests())

    assert together() == [[], [], []]
    assert sign_ins() == 1
    token = next(r["authorization"] for r in proxy.requests() if r["path"].endswith("/ListCards"))
    logout = urllib.request.Request(f"{dev.base_url}/api/auth/logout", b"", {"authorization": token}, method="POST")
    urllib.request.urlopen(logout, timeout=10).close()
    assert together() == [[], [], []]
    assert sign_ins() == 2
