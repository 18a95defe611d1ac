"""How calls are made: retries of reads, options of one call, headers of requests, pages, and transports of httpx."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from cases import CASES, play
from conftest import AUTONOMOUS, HANGS, CountingSigner, Dev, Hostile, Proxy, Side
from wire import Wire, gateway

from roamcard import (
    ApiError,
    AsyncRoamcard,
    ClockError,
    NotFoundError,
    Policy,
    PolicyDeniedError,
    Roamcard,
    TermsMismatchError,
    UnavailableError,
)
from roamcard.errors import printable
from roamcard.nesting import Frames, is_deep
from roamcard.version import USER_AGENT


def client_on(wire: Wire, side: Side, dev: Dev, signer: Any = None, **options: Any) -> Any:
    return side.client(
        signer or CountingSigner(dev.wallet()), base_url=dev.base_url, http_transport=wire.transport, **options
    )


def refused(request: httpx.Request) -> Exception:
    return httpx.ConnectError("refused", request=request)


def reset(request: httpx.Request) -> Exception:
    return httpx.ReadError("reset", request=request)


@pytest.mark.usefixtures("pauses")
def test_a_read_goes_out_again_after_what_may_pass(dev: Dev, side: Side) -> None:
    wire = Wire(side.kind, refused, gateway(502))
    assert client_on(wire, side, dev).discovery.config().network.pay_to == dev.pay_to
    assert wire.paths() == ["GetConfig"] * 3
    for status in (429, 503, 504):
        wire = Wire(side.kind, gateway(status), reset)
        assert client_on(wire, side, dev).discovery.agent()["contractVersion"] == 1
        assert wire.paths() == ["agent"] * 3
    # What belongs to a session, too; not what makes the session.
    wire = Wire(side.kind, lambda r: None, lambda r: None, gateway(503))
    assert client_on(wire, side, dev).cards.list() == []
    assert wire.paths() == ["CreateChallenge", "VerifyChallenge", "ListCards", "ListCards"]
    wire = Wire(side.kind, gateway(503))
    with pytest.raises(UnavailableError):
        client_on(wire, side, dev).cards.list()
    assert wire.paths() == ["CreateChallenge"]


@pytest.mark.usefixtures("pauses")
def test_retries_end_and_are_only_for_what_may_pass(dev: Dev, side: Side) -> None:
    wire = Wire(side.kind, *[gateway(502)] * 9)
    with pytest.raises(UnavailableError) as failure:
        client_on(wire, side, dev).discovery.config()
    assert (len(wire.requests), failure.value.status) == (3, 502)
    wire = Wire(side.kind, *[gateway(502)] * 9)
    with pytest.raises(UnavailableError):
        client_on(wire, side, dev, read_retries=0).discovery.agent()
    assert len(wire.requests) == 1
    for final in (
        gateway(404),
        gateway(500),
        gateway(307, location="/"),
        gateway(200, content_encoding="br"),
        gateway(200),
    ):
        wire = Wire(side.kind, *[final] * 9)
        with pytest.raises(ApiError):
            client_on(wire, side, dev).discovery.config()
        assert len(wire.requests) == 1
    # Nor what changes anything, though no answer came.
    wire = Wire(side.kind, lambda r: None, lambda r: None, reset)
    with pytest.raises(ApiError):
        client_on(wire, side, dev).orders.create_card()
    assert wire.paths()[2:] == ["CreateCardOrder"]


def test_retry_after_is_waited_for_unless_it_is_long(dev: Dev, side: Side, pauses: list[float]) -> None:
    wire = Wire(side.kind, gateway(429, retry_after="7"))
    client_on(wire, side, dev).discovery.config()
    assert len(pauses) == 1 and pauses[0] >= 7
    wire = Wire(side.kind, gateway(429, retry_after="3600"))
    with pytest.raises(UnavailableError) as failure:
        client_on(wire, side, dev).discovery.config()
    assert (failure.value.retry_after, failure.value.status, len(wire.requests)) == (3600, 429, 1)


@pytest.mark.usefixtures("pauses")
def test_raw_answers_have_the_status_whoever_answered(dev: Dev, side: Side) -> None:
    wire = Wire(side.kind, refused, gateway(502, x_gateway="one"), gateway(504))
    client = client_on(wire, side, dev)
    with client.with_raw_response() as raw, pytest.raises(UnavailableError):
        client.discovery.config()
    assert [(r.method, r.status) for r in raw] == [
        ("runtime.get_config", 0),
        ("runtime.get_config", 502),
        ("runtime.get_config", 504),
    ]
    assert raw[1].headers["x-gateway"] == "one"
    wire = Wire(side.kind, gateway(307, location="/"))
    client = client_on(wire, side, dev)
    with client.with_raw_response() as raw, pytest.raises(ApiError):
        client.discovery.agent()
    assert raw.last.status == 307


def test_options_are_for_the_calls_that_are_made_by_them(dev: Dev, side: Side, proxy: Proxy) -> None:
    wire = Wire(side.kind)
    client = client_on(wire, side, dev, headers={"X-Shop": "one"})
    client.cards.list()
    assert {r.headers["x-shop"] for r in wire.requests} == {"one"}
    assert all("x-trace" not in r.headers for r in wire.requests)
    seen = len(wire.requests)
    traced = client.with_options(headers={"X-Trace": "abc"}) if side.kind == "sync" else type(client)(
        client._awaiting.with_options(headers={"X-Trace": "abc"}), side
    )  # fmt: skip
    traced.cards.list()
    # The session is shared, so there was no other sign-in.
    [request] = wire.requests[seen:]
    assert (request.headers["x-trace"], request.headers["x-shop"]) == ("abc", "one")
    client.cards.list()
    assert "x-trace" not in wire.requests[-1].headers

    slow = side.client(CountingSigner(dev.wallet()), read_retries=0, timeout=HANGS)
    proxy.inject({"delayMs": 3_600_000}, {"delayMs": 3_600_000})
    hurried = (
        slow.with_options(timeout=0.3)
        if side.kind == "sync"
        else type(slow)(slow._awaiting.with_options(timeout=0.3), side)
    )
    for call in (hurried.discovery.config, hurried.discovery.agent):
        began = time.monotonic()
        with pytest.raises(ApiError):
            call()
        assert time.monotonic() - began < HANGS / 2


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "payment-signature",
        "Host",
        "Accept-Encoding",
        "Connect-Protocol-Version",
        "x\n",
        "X-Esim-Delivery-Token",
    ],
)
def test_headers_that_are_the_clients_own_cannot_be_given(name: str, dev: Dev, side: Side) -> None:
    with pytest.raises(ValueError, match="header"):
        side.client(CountingSigner(dev.wallet()), headers={name: "x"})
    with pytest.raises(ValueError, match="timeout"):
        side.client(CountingSigner(dev.wallet()), timeout=0)


def test_every_request_names_the_package_and_its_version(dev: Dev, side: Side) -> None:
    wire = Wire(side.kind)
    client = client_on(wire, side, dev)
    client.discovery.agent()
    order = client.esim.purchase()
    assert list(client.orders.watch(order))
    assert "WatchOrder" in wire.paths() and "PurchaseEsim" in wire.paths()
    assert {r.headers["user-agent"] for r in wire.requests} == {USER_AGENT}
    assert USER_AGENT.startswith("roamcard-python/0.") or USER_AGENT.startswith("roamcard-python/1.")
    assert {r.headers["accept-encoding"] for r in wire.requests} == {"identity"}


def test_several_orders_are_followed_over_one_stream(dev: Dev, side: Side) -> None:
    wire = Wire(side.kind)
    client = client_on(wire, side, dev)
    esim, card = client.esim.purchase(), client.cards.purchase()
    last = {o.order_id: o.status for o in client.orders.watch_all([esim, card.order_id], interval=0.2)}
    assert last == {esim.order_id: "fulfilled", card.order_id: "fulfilled"}
    assert "WatchOrders" in wire.paths() and "GetOrder" not in wire.paths()
    assert list(client.orders.watch_all([])) == []
    with pytest.raises(NotFoundError):
        list(client.orders.watch_all(["ord_none"]))
    listed = list(client.orders.list(kind="esim"))
    assert [o.order_id for o in listed] == [esim.order_id]
    assert listed[0].delivery is not None and listed[0].delivery.plan_name
    renewed = client.esim.rotate_token(esim)
    assert renewed.expires_at is not None
    assert client.esim.status(esim.order_id, delivery_token=renewed.token).order_id == esim.order_id
    with pytest.raises(NotFoundError):
        client.esim.status(esim.order_id, delivery_token=esim.delivery_token)


def test_pages_complement_the_iterators(dev: Dev) -> None:
    signer = CountingSigner(dev.wallet())
    with Roamcard(dev.base_url, signer, AUTONOMOUS) as client:
        plan = next(client.plans.list())
        opened = [client.orders.create_esim(plan.plan_id).order_id for _ in range(5)][::-1]
        page = client.orders.list(active=True).page(size=2)
        pages = [page]
        while (page := page.next()) is not None:  # type: ignore[assignment]
            pages.append(page)
        assert [[order.order_id for order in page.items] for page in pages] == [opened[:2], opened[2:4], opened[4:]]
        assert json.loads(json.dumps(pages[0].to_dict())).keys() == {"items", "next_page_token"}
        again = client.orders.list(active=True).page(size=2, token=pages[0].next_page_token)
        assert again.items == pages[1].items
        plans = client.plans.list().page()
        assert plans.items == list(client.plans.list()) and plans.next() is None

    async def awaiting() -> list[list[str]]:
        async with AsyncRoamcard(dev.base_url, signer, AUTONOMOUS) as client:
            seen, page = [], await client.orders.list(active=True).page(size=2)
            while page is not None:
                seen.append([order.order_id for order in page.items])
                page = await page.next()  # type: ignore[assignment]
            return seen

    assert asyncio.run(awaiting()) == [opened[:2], opened[2:4], opened[4:]]


def test_a_purchase_over_a_transport_of_httpx_is_paid_once_whatever_is_lost(dev: Dev, side: Side, proxy: Proxy) -> None:
    account = dev.wallet()
    signer, wire = CountingSigner(account), Wire(side.kind)
    client = side.client(signer, http_transport=wire.transport)
    proxy.inject({"on": "paid", "cut": 0}, {"on": "paid", "status": 503}, {"on": "paid", "cut": -3})
    card = client.cards.wait_until_active(client.cards.purchase(idempotency_key="py-over-httpx"), interval=0.2)
    assert card.status == "ACTIVE"
    assert (len(signer.signed), len(proxy.payments()), len(set(proxy.payments()))) == (1, 4, 1)
    assert dev.transfers(account) == [25_000_000]


@contextmanager
def forward_proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy as companies have them: it is told the whole URL."""
    asked: list[str] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            with near:
                head = near.recv(65536)
                url = httpx.URL(head.split(b" ", 2)[1].decode())
                asked.append(str(url))
                with socket.create_connection((url.host, url.port)) as far:
                    path = head.replace(str(url).encode(), url.raw_path, 1).replace(
                        b"Connection: keep-alive", b"Connection: close"
                    )
                    far.sendall(path)
                    while part := far.recv(65536):
                        near.sendall(part)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
    finally:
        server.close()


def test_a_proxy_of_the_callers_is_gone_through(dev: Dev, side: Side) -> None:
    with forward_proxy() as (url, asked):
        transport: Any = httpx.HTTPTransport(proxy=url) if side.kind == "sync" else httpx.AsyncHTTPTransport(proxy=url)
        client = side.client(CountingSigner(dev.wallet()), base_url=dev.base_url, http_transport=transport)
        assert client.discovery.agent()["contractVersion"] == 1
    assert asked == [f"{dev.base_url}/api/agent"]


HOSTILE = [c for c in CASES if any(word in c["name"] for word in ("redirect", "bomb", "endless", "see other"))]


@pytest.mark.parametrize("case", HOSTILE, ids=[c["name"] for c in HOSTILE])
def test_a_transport_of_httpx_keeps_every_guard(
    case: dict[str, Any], dev: Dev, side: Side, hostile: Hostile, request: pytest.FixtureRequest
) -> None:
    transport: Any = httpx.HTTPTransport() if side.kind == "sync" else httpx.AsyncHTTPTransport()
    play(case, dev, side, hostile, request, http_transport=transport)


def test_a_clock_that_is_off_is_told_before_anything_is_signed(dev: Dev, side: Side) -> None:
    def late(response: httpx.Response) -> httpx.Response:
        response.headers["date"] = "Tue, 01 Jan 2041 00:00:00 GMT"
        return response

    signer = CountingSigner(dev.wallet())
    with pytest.raises(
        ClockError, match=r"it is \d{4}-.* UTC here, and Tue, 01 Jan 2041 00:00:00 GMT at the service"
    ) as failure:
        client_on(Wire(side.kind, changes=late), side, dev, signer).cards.purchase()
    assert (signer.signed, failure.value.to_dict()["type"]) == ([], "ClockError")


EVIL = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\r\nFAKE LOG LINE"


def test_control_characters_of_answers_are_escaped_in_errors_and_logs(
    dev: Dev, side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "roamcard")
    problem = {
        "status": 409,
        "code": EVIL,
        "detail": EVIL * 500,
        "nextAction": EVIL,
        "orderId": EVIL,
        "fields": [{"path": EVIL}],
    }

    def evil(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            409,
            headers={"content-type": "application/json"},
            content=json.dumps({"message": EVIL, "code": "aborted", **problem}),
        )

    for call in ("agent", "config"):
        client = client_on(Wire(side.kind, evil), side, dev)
        with pytest.raises(ApiError) as failure:
            getattr(client.discovery, call)()
        error = failure.value
        shown = [
            str(error),
            error.code,
            error.detail,
            error.next_action,
            str(error.order_id),
            json.dumps(error.to_dict(), ensure_ascii=False),
        ]
        shown += [str(error.__cause__ or ""), str([vars(f) for f in error.fields])]
        for text in shown:
            assert text.isprintable(), text
            assert len(text) < 10_000
    assert isinstance(client_on(Wire(side.kind), side, dev).discovery.agent(), dict)

    def foreign(response: httpx.Response) -> httpx.Response:
        if (header := response.headers.get("payment-required")) is None:
            return response
        terms = json.loads(base64.b64decode(header))
        terms["resource"]["url"] = f"{dev.base_url}/{EVIL}"
        response.headers["payment-required"] = base64.b64encode(json.dumps(terms).encode()).decode()
        return response

    signer = CountingSigner(dev.wallet())
    client = client_on(Wire(side.kind, changes=foreign), side, dev, signer)
    order = client.orders.create_card()
    for buy in (client.cards.purchase, lambda: client.orders.pay(order)):
        with pytest.raises(TermsMismatchError) as mismatch:
            buy()
        assert str(mismatch.value).isprintable()
    assert signer.signed == []
    assert all(record.getMessage().isprintable() for record in caplog.records if record.name == "roamcard")
    assert printable("grün ✓") == "grün ✓"


def test_a_refusal_of_the_policy_names_its_settings(dev: Dev, side: Side) -> None:
    for policy, names in (
        (Policy("autonomous", "24", "100"), "Policy.max_per_payment_usd (ROAMCARD_MAX_PER_PAYMENT_USD)"),
        (Policy("autonomous", "25", "24"), "Policy.max_per_day_usd (ROAMCARD_MAX_PER_DAY_USD)"),
        (Policy("autonomous"), "(ROAMCARD_MAX_PER_PAYMENT_USD and ROAMCARD_MAX_PER_DAY_USD)"),
        (Policy("human_approval"), "Policy.approve"),
    ):
        with pytest.raises(PolicyDeniedError) as failure:
            side.client(CountingSigner(dev.wallet()), policy=policy).cards.purchase()
        assert names in str(failure.value)


def test_streams_are_read_by_their_messages_and_not_nested_without_end() -> None:
    message, deep = b'{"cursor":1}', b'{"a":' * 1_000
    stream = b"".join(b"\0" + len(m).to_bytes(4, "big") + m for m in (message, b'{"text":"[[[[\\"[["}' * 30, message))
    for size in (1, 3, 7, len(stream)):
        frames = Frames(1 << 20)
        taken = b"".join(frames.fed(stream[at : at + size]) for at in range(0, len(stream), size))
        assert (taken, frames.left()) == (stream, b"")
    frames = Frames(1 << 20)
    assert (frames.fed(stream[:9]), frames.left()) == (b"", stream[:9])
    with pytest.raises(ValueError, match="nested"):
        Frames(1 << 20).fed(b"\2" + len(deep).to_bytes(4, "big") + deep)
    with pytest.raises(ValueError, match="bytes"):
        Frames(100).fed(b"\0" + (101).to_bytes(4, "big"))
    assert (
        not is_deep(json.dumps({"a": ["[{" * 500] * 100}).encode())
        and is_deep(b"[" * 65)
        and not is_deep(b"[" * 64 + b"]" * 64)
    )
