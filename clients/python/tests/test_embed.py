"""Cards of issuers that show them on a page only: a browser opens it, and nothing else learns its address."""

from __future__ import annotations

import base64
import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from conftest import AUTONOMOUS, Blocking, Dev, Side, running

from roamcard import (
    AsyncRoamcard,
    EthAccountSigner,
    MemoryStore,
    PagePresenter,
    RevealError,
    Roamcard,
    TerminalPresenter,
    UntrustedMessageError,
)
from roamcard._gen.roamcard.v1.problem_pb import Problem
from roamcard.testing import Seen, look
from roamcard.testing.faults import Answered, Faults, Incoming
from roamcard.testing.serving import AsyncFakeTransport, FakeTransport

Change = Callable[[Incoming, Callable[[Incoming], Answered]], Answered]


@pytest.fixture(scope="module")
def vendor() -> Iterator[Dev]:
    """A server that sells cards of Lithic: the one that ROAMCARD_READY_LITHIC names, or one that starts for this."""
    shared = os.environ.get("ROAMCARD_READY_LITHIC")
    with nullcontext(Path(shared)) if shared else running("--issuer", "lithic") as ready:
        yield Dev(json.loads(ready.read_text()))


class TypedWallet:
    """A wallet that signs documents only, and keeps what it signed."""

    def __init__(self, account: Any) -> None:
        self._wallet = EthAccountSigner(account)
        self.signed: list[Any] = []

    @property
    def address(self) -> str:
        return self._wallet.address

    def sign_typed_data(self, data: dict[str, Any]) -> str:
        self.signed.append(data)
        return self._wallet.sign_typed_data(data)


class TextWallet(TypedWallet):
    """A wallet that signs texts as well."""

    def sign_message(self, text: str) -> str:
        self.signed.append(text)
        return self._wallet.sign_message(text)


def fetched(method: str, url: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answered:
    request = urllib.request.Request(url, body or None, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return Answered(answer.status, dict(answer.headers.items()), answer.read())
    except urllib.error.HTTPError as error:
        return Answered(error.code, dict(error.headers.items()), error.read())


def client_of(dev: Dev, side: Side, signer: Any, change: Change | None = None) -> Any:
    """A client of a server, over a network that changes answers."""

    def serve(incoming: Incoming) -> Answered:
        def ask(asked: Incoming) -> Answered:
            headers = {k: v for k, v in asked.headers.items() if k not in ("host", "accept-encoding", "content-length")}
            return fetched(asked.method, dev.base_url + asked.path, asked.body, headers)

        return change(incoming, ask) if change else ask(incoming)

    transport = FakeTransport(Faults(), serve)
    if side.kind == "sync":
        return Roamcard(dev.base_url, signer, AUTONOMOUS, store=MemoryStore(), http_transport=transport)
    awaiting = AsyncRoamcard(
        dev.base_url, signer, AUTONOMOUS, store=MemoryStore(), http_transport=AsyncFakeTransport(transport)
    )
    return Blocking(awaiting, side)


def card_of(client: Any) -> Any:
    return client.cards.wait_until_active(client.cards.purchase(), interval=0.2)


def test_how_cards_are_shown_is_declared_before_one_is_bought(dev: Dev, vendor: Dev, side: Side) -> None:
    kinds = []
    for server in (vendor, dev):
        client = client_of(server, side, TextWallet(server.wallet(0)))
        kinds.append(client.discovery.card().credentials.reveal_kind)
    assert kinds[0] == "embed" and kinds[1] in ("inline", "sealed")


@pytest.mark.parametrize("wallet", [TextWallet, TypedWallet])
def test_a_page_is_opened_in_the_browser_once(
    vendor: Dev, side: Side, wallet: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = client_of(vendor, side, wallet(vendor.wallet()))
    card = card_of(client)
    given: list[str] = []
    opened: list[Seen] = []

    def open_file(address: str) -> None:
        given.append(address)
        opened.append(look(address))

    shown = client.cards.reveal(card.id, PagePresenter(open_file))
    assert (shown.presented, shown.reason) == (False, "opened_in_browser")
    [seen] = opened
    assert seen.url.startswith(vendor.base_url + "/reveal/")
    assert seen.html.count("<iframe ") == 4
    assert fetched("POST", seen.url).status == 410
    # The browser's command line is everybody's, too.
    secret = seen.url.rpartition("/")[2]
    assert "reveal_card answered 200" in caplog.text and secret not in caplog.text + repr(shown) + given[0]


def test_a_presenter_that_is_no_browser_shows_nothing_and_signs_nothing_for_a_page(vendor: Dev, side: Side) -> None:
    signer = TextWallet(vendor.wallet())
    client = client_of(vendor, side, signer)
    card = card_of(client)
    with pytest.raises(RevealError, match="browser only"):
        client.cards.reveal(card.id, TerminalPresenter())
    assert not any(card.id in str(signed) for signed in signer.signed)
    with pytest.raises(RevealError, match="no browser"):
        client.cards.reveal(card.id, PagePresenter(lambda url: False))


@pytest.mark.parametrize("url", ["http://127.0.0.2:1/reveal/x", "javascript:alert(1)", "no address", ""])
def test_a_page_of_somebody_elses_is_not_opened_and_not_quoted(vendor: Dev, side: Side, url: str) -> None:
    def elsewhere(incoming: Incoming, ask: Callable[[Incoming], Answered]) -> Answered:
        answered = ask(incoming)
        if not incoming.path.endswith("/RevealCard"):
            return answered
        body = json.loads(answered.body)
        body["embed"]["url"] = url
        headers = {k: v for k, v in answered.headers.items() if k.lower() != "content-length"}
        return Answered(answered.status, headers, json.dumps(body).encode())

    client = client_of(vendor, side, TextWallet(vendor.wallet()), elsewhere)
    card = card_of(client)
    opened: list[str] = []
    with pytest.raises(RevealError) as failure:
        client.cards.reveal(card.id, PagePresenter(opened.append))
    assert opened == [] and (not url or url not in str(failure.value))


@pytest.mark.parametrize("wallet", [TextWallet, TypedWallet])
def test_a_relay_that_says_that_the_service_does_not_seal_gets_no_signature(dev: Dev, side: Side, wallet: Any) -> None:
    asked: list[bool] = []

    def unsealed(incoming: Incoming, ask: Callable[[Incoming], Answered]) -> Answered:
        if not incoming.path.endswith("/CreateRevealChallenge"):
            return ask(incoming)
        asked.append("recipientKey" in json.loads(incoming.body))
        if not asked[-1]:
            return ask(incoming)
        problem = {"status": 409, "code": "sealing_missing", "title": "It does not seal", "detail": "It does not seal."}
        value = base64.b64encode(Problem.from_json(json.dumps(problem)).to_binary()).decode().rstrip("=")
        detail = {"type": "roamcard.v1.Problem", "value": value, "debug": problem}
        error = {"code": "failed_precondition", "message": "It does not seal.", "details": [detail]}
        return Answered(400, {"content-type": "application/json"}, json.dumps(error).encode())

    signer = wallet(dev.wallet())
    client = client_of(dev, side, signer, unsealed)
    card = card_of(client)
    opened: list[str] = []
    with pytest.raises(UntrustedMessageError):
        client.cards.reveal(card.id, PagePresenter(opened.append))
    assert (asked, opened) == ([True, False], [])
    assert not any(card.id in str(signed) for signed in signer.signed)
