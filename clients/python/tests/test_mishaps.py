"""What goes wrong around a payment on the caller's side: its clock, its event handlers, its journal, its timeouts."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone, tzinfo
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from conftest import HANGS, CountingSigner, age, eventually
from eth_account import Account

from roamcard import (
    AmbiguousPaymentError,
    ApiError,
    AsyncRoamcard,
    ClockError,
    Events,
    InsufficientFundsError,
    JournalError,
    MemoryStore,
    OutsideWallet,
    PaymentError,
    Policy,
    Roamcard,
    RoamcardError,
)
from roamcard.testing import FakeService
from roamcard.testing.faults import Answered, Faults, Incoming
from roamcard.testing.serving import FakeTransport

POLICY = Policy("autonomous", max_per_payment_usd="250", max_per_day_usd="1000")
HANDLERS = ("on_quote", "on_approval", "on_signed", "on_replay", "on_settled", "on_unkept")
DEAD = base64.b64encode(json.dumps({"success": False, "transaction": "", "network": "eip155:8453"}).encode()).decode()


class BreakingStore(MemoryStore):
    """A store that fails to do what `broken` names."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: tuple[str, ...] = ()

    def read(self) -> Any:
        self._fail("read")
        return super().read()

    def update(self, change: Callable[[Any], Any]) -> Any:
        self._fail("update")
        return super().update(change)

    def _fail(self, what: str) -> None:
        if what in self.broken:
            raise JournalError("journal.json", "failed", f"no {what}")


def wallet() -> CountingSigner:
    return CountingSigner(Account.create())


def buyer(service: FakeService, signer: CountingSigner, **more: Any) -> Roamcard:
    return Roamcard(service.url, signer, POLICY, **{"http_transport": service.transport(), "max_replays": 1, **more})


def paid(service: FakeService, answer: Callable[[Incoming], Answered]) -> FakeTransport:
    """A transport on which this answers every payment."""
    return FakeTransport(
        Faults(), lambda incoming: (answer if "payment-signature" in incoming.headers else service.serve)(incoming)
    )


def challenged(service: FakeService, incoming: Incoming) -> Answered:
    """Answers a payment with a new challenge, and calls it dead."""
    answered = service.serve(
        replace(incoming, headers={n: v for n, v in incoming.headers.items() if n != "payment-signature"})
    )
    return replace(answered, headers={**answered.headers, "payment-response": DEAD})


def test_a_clock_that_jumps_signs_no_second_payment_while_one_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    service, signer, store, now = FakeService(now=time.time), wallet(), MemoryStore(), time.time
    service.faults.lose_answer("paid", before=True)
    with pytest.raises(AmbiguousPaymentError):
        buyer(service, signer, store=store, max_replays=0).cards.purchase(idempotency_key="k")

    class Dates(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.fromtimestamp(now() + 3600, tz or timezone.utc)

    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    monkeypatch.setattr("roamcard.payer.datetime", Dates)
    transport = paid(service, lambda incoming: challenged(service, incoming))
    with pytest.raises(ClockError) as raised:
        buyer(service, signer, store=store, http_transport=transport).cards.purchase(idempotency_key="k")
    assert (raised.value.idempotency_key, len(signer.signed)) == ("k", 1)


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handler_that_raises_changes_nothing(name: str, caplog: pytest.LogCaptureFixture) -> None:
    service, signer, store = FakeService(), wallet(), BreakingStore()

    def fails(*_: Any) -> None:
        raise RuntimeError("the handler is wrong")

    def answer(incoming: Incoming) -> Answered:
        answered = service.serve(incoming)
        if name == "on_unkept":
            store.broken = ("update",)
        return answered if json.loads(answered.body)["order"].get("replayed") else replace(answered, cut=0)

    client = buyer(service, signer, store=store, events=Events(**{name: fails}), http_transport=paid(service, answer))
    with caplog.at_level(logging.WARNING, "roamcard"):
        assert client.cards.purchase(idempotency_key="k").replayed
    assert f"the event handler {name} failed: the handler is wrong" in caplog.text
    assert (len(signer.signed), len(service.token.transfers)) == (1, 1)


@pytest.mark.parametrize("broken", [("read",), ("update",), ("read", "update")])
def test_a_journal_that_breaks_meanwhile_hides_no_refusal(broken: tuple[str, ...]) -> None:
    service, signer, store = FakeService(balance=1), wallet(), BreakingStore()

    def answer(incoming: Incoming) -> Answered:
        store.broken = broken
        return service.serve(incoming)

    client = buyer(service, signer, store=store, http_transport=paid(service, answer))
    for _ in range(2):  # the second time it is sent again
        store.broken = ()
        with pytest.raises(InsufficientFundsError) as raised:
            client.cards.purchase(idempotency_key="k")
        assert (raised.value.idempotency_key, len(signer.signed)) == ("k", 1)


def test_what_the_chain_shows_but_cannot_be_kept_is_not_proven() -> None:
    service, signer, store = FakeService(), wallet(), BreakingStore()
    service.faults.lose_answer("paid", before=True)
    with pytest.raises(AmbiguousPaymentError):
        buyer(service, signer, store=store, max_replays=0).cards.purchase(idempotency_key="k")

    def answer(incoming: Incoming) -> Answered:
        def refuse(book: Any) -> None:
            for id, entry in book.purchases.items():
                book.purchases[id] = replace(entry, state="refused")

        store.update(refuse)
        store.broken = ("update",)
        return challenged(service, incoming)

    with node() as (rpc_url, asked):
        client = buyer(service, signer, store=store, rpc_url=rpc_url, http_transport=paid(service, answer))
        with pytest.raises(ApiError) as raised:
            client.cards.purchase(idempotency_key="k")
    assert "eth_call" in asked
    assert (raised.value.status, raised.value.idempotency_key, len(signer.signed)) == (402, "k", 1)
    assert raised.value.retry_at is not None and raised.value.retryable


@contextmanager
def node() -> Iterator[tuple[str, list[str]]]:
    """A node whose chain is past the end of every authorization and has taken none."""
    asked: list[str] = []
    results = {
        "eth_getBlockByNumber": {"number": "0x1", "timestamp": hex(int(time.time()) + 86_400)},
        "eth_call": "0x0",
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["method"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"result": results[asked[-1]]}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


def test_an_interrupt_after_the_signature_names_the_key() -> None:
    service, signer, store = FakeService(), wallet(), MemoryStore()

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    for more in ({"events": Events(on_signed=interrupt)}, {"http_transport": paid(service, interrupt)}):
        with pytest.raises(KeyboardInterrupt) as raised:
            buyer(service, signer, store=store, **more).cards.purchase(idempotency_key="k")
        assert getattr(raised.value, "idempotency_key", None) == "k"
    assert buyer(service, signer, store=store).resume("k").idempotency_key == "k"
    assert (len(signer.signed), len(service.token.transfers)) == (1, 1)


def test_a_cancelled_call_names_the_key() -> None:
    service, signer = FakeService(), wallet()

    async def give_up() -> Any:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def approve(quote: Any) -> bool:
            asked.set()
            return await go_on.wait()

        async def buy() -> Any:
            try:
                await client.cards.purchase(idempotency_key="k")
            except asyncio.CancelledError as error:
                return getattr(error, "idempotency_key", None)

        policy = Policy("human_approval", approve=approve)
        async with AsyncRoamcard(service.url, signer, policy, http_transport=service.async_transport()) as client:
            buying = asyncio.create_task(buy())
            await asked.wait()
            buying.cancel()
            key = await buying
            go_on.set()
        return key

    assert asyncio.run(give_up()) == "k"
    assert len(service.token.transfers) == 1


def test_a_purchase_that_is_settled_is_resumed_with_the_same_bytes() -> None:
    service, signer, store = FakeService(), wallet(), MemoryStore()
    bought = buyer(service, signer, store=store).cards.purchase(idempotency_key="k")
    client = buyer(service, signer, store=store)
    again = client.resume("k")
    assert (again.order_id, again.replayed, len(signer.signed)) == (bought.order_id, True, 1)
    assert client.pending() == []
    with pytest.raises(RoamcardError, match="no payment under other"):
        client.resume("other")


def after_a_dead_payment(seconds: int) -> tuple[Callable[..., Roamcard], CountingSigner]:
    """A buyer whose first payment the service called dead, and whose time is over by so many seconds."""
    service, signer, store = FakeService(), wallet(), MemoryStore()

    def make(by: Any = signer, policy: Policy = POLICY) -> Roamcard:
        dead = paid(service, lambda incoming: challenged(service, incoming))
        return Roamcard(service.url, by, policy, store=store, http_transport=dead, max_replays=0)

    with pytest.raises(ApiError):
        make().cards.purchase(idempotency_key="k")
    age(store, 120 + seconds)
    return make, signer


def refuse(*_: Any) -> bool:
    return False


def fail(*_: Any) -> bool:
    raise RuntimeError("no screen")


@pytest.mark.parametrize(
    "policy",
    [
        replace(POLICY, max_per_payment_usd="1"), replace(POLICY, max_per_day_usd="30"), Policy("human_approval"),
        Policy("human_approval", approve=refuse), Policy("human_approval", approve=fail),
        replace(POLICY, pay_to="0x000000000000000000000000000000000000dEaD"),
    ],
    ids=["payment", "day", "nobody", "no", "failure", "payee"],
)  # fmt: skip
def test_a_refusal_to_sign_again_names_the_key(policy: Policy) -> None:
    make, signer = after_a_dead_payment(300)
    with pytest.raises((RoamcardError, RuntimeError)) as raised:
        make(policy=policy).cards.purchase(idempotency_key="k")
    assert (getattr(raised.value, "idempotency_key", None), len(signer.signed)) == ("k", 1), raised.value


def test_a_wallet_that_does_not_sign_again_names_the_key() -> None:
    make, signer = after_a_dead_payment(300)

    class Unwilling(OutsideWallet):
        def sign_typed_data(self, data: dict[str, Any]) -> str:
            raise OSError("no")

    with pytest.raises(PaymentError) as raised:
        make(Unwilling(signer.address)).cards.purchase(idempotency_key="k")
    assert (raised.value.idempotency_key, len(signer.signed)) == ("k", 1)


@pytest.mark.parametrize(("seconds", "signed"), [(55, 1), (65, 2)])
def test_a_clock_that_is_ahead_signs_nothing_while_a_payment_lives(seconds: int, signed: int) -> None:
    make, signer = after_a_dead_payment(seconds)
    with pytest.raises(ApiError) as raised:
        make().cards.purchase(idempotency_key="k")
    assert (raised.value.idempotency_key, len(signer.signed)) == ("k", signed)


def interrupt_waiting(thread: int) -> None:
    """Interrupts a thread once it waits for another one's purchase."""

    def waits() -> bool:
        names = [frame.name for frame in traceback.extract_stack(sys._current_frames()[thread])]
        return "once" in names and names[-1] == "wait"

    eventually("the wait", waits)
    signal.pthread_kill(thread, signal.SIGUSR1)


def test_an_interrupt_while_another_thread_buys_names_the_key() -> None:
    service, signer = FakeService(), wallet()
    asked, go_on = threading.Event(), threading.Event()

    def approve(_: Any) -> bool:
        asked.set()
        return go_on.wait(HANGS)

    policy = Policy("human_approval", approve=approve)
    client = Roamcard(service.url, signer, policy, http_transport=service.transport())
    buying = threading.Thread(target=lambda: client.cards.purchase(idempotency_key="k"))
    buying.start()
    assert asked.wait(HANGS)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    interrupting = threading.Thread(target=interrupt_waiting, args=(threading.get_ident(),))
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            client.cards.purchase(idempotency_key="k")
    finally:
        interrupting.join()
        signal.signal(signal.SIGUSR1, before)
        go_on.set()
        buying.join()
    assert getattr(raised.value, "idempotency_key", None) == "k"
    assert (len(signer.signed), len(service.token.transfers)) == (1, 1)


def test_a_payment_that_is_called_dead_only_when_it_is_repeated_has_a_nonce_of_its_own_after_it() -> None:
    service, signer, store = FakeService(), wallet(), MemoryStore()
    dead = iter((False, True, True, False, False))

    def answer(incoming: Incoming) -> Answered:
        answered = challenged(service, incoming)
        kept = {name: value for name, value in answered.headers.items() if name != "payment-response"}
        return answered if next(dead) else replace(answered, headers=kept)

    client = buyer(service, signer, store=store, http_transport=paid(service, answer))
    for _ in range(3):
        with pytest.raises(ApiError):
            client.cards.purchase(idempotency_key="k")
    age(store, 300)
    with pytest.raises(ApiError):
        client.cards.purchase(idempotency_key="k")
    [entry] = store.read().purchases.values()
    assert (entry.attempt, len({a.nonce for a in entry.authorizations}), len(entry.authorizations)) == (1, 2, 2)
