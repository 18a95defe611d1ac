"""What identifies something is never empty: nothing is signed and nothing sent for a call that has it so."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from typing import Any

import httpx
import pytest
from conftest import CountingSigner
from eth_account import Account
from wire import Wire

import roamcard
from roamcard import AsyncRoamcard, EmptyError, EthAccountSigner, Policy, Roamcard, Secret

IDENTITIES = {
    "idempotency_key", "order", "orders", "order_id", "card_id", "id", "reason", "transaction", "delivery_token",
    "token", "plan_id",
}  # fmt: skip
GROUPS = ("cards", "esim", "orders", "quote", "admin")


class Signer(CountingSigner):
    """A wallet that counts what it signs of any kind."""

    def sign_message(self, text: str) -> str:
        self.signed.append({"message": text})
        return EthAccountSigner.sign_message(self, text)


def arguments(method: Any, name: str, empty: str) -> dict[str, Any]:
    """Arguments of a method that all name something, but for one."""
    made: dict[str, Any] = {}
    for parameter in inspect.signature(method).parameters.values():
        kind = str(parameter.annotation)
        if parameter.name == name:
            made[name] = Secret(empty) if "Secret" in kind else [empty] if name == "orders" else empty
        elif parameter.default is inspect.Parameter.empty:
            made[parameter.name] = 2500 if kind.startswith("int") else ["x"] if parameter.name == "orders" else "x"
    return made


def cases(client: Any) -> list[tuple[str, str, str]]:
    return [
        (group, name, parameter)
        for group in GROUPS
        for name, method in inspect.getmembers(type(getattr(client, group)), callable)
        if not name.startswith("_")
        for parameter in inspect.signature(method).parameters
        if parameter in IDENTITIES
    ]


def ended(answer: Any) -> None:
    """Runs what a call gave."""
    if inspect.isawaitable(answer):

        async def wait() -> None:
            await answer

        asyncio.run(wait())
    elif hasattr(answer, "__aiter__"):

        async def take() -> None:
            async for _ in answer:
                break

        asyncio.run(take())
    elif hasattr(answer, "__iter__"):
        next(iter(answer), None)


def failure(method: Any, given: dict[str, Any]) -> Exception | None:
    try:
        ended(method(**given))
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_nothing_is_signed_or_sent_for_an_empty_identity(kind: str) -> None:
    signer = Signer(Account.from_key("0x" + secrets.token_hex(32)))
    wire = Wire(kind, *[lambda request: httpx.ConnectError("sent")] * 1000)
    of: Any = Roamcard if kind == "sync" else AsyncRoamcard
    client = of(
        "http://127.0.0.1:9", signer, Policy("autonomous", "250", "1000"), operator_token="t",
        http_transport=wire.transport,
    )  # fmt: skip
    found = cases(client)
    assert len(found) > 60
    for group, name, parameter in found:
        for empty in ("", " \t"):
            method = getattr(getattr(client, group), name)
            what = f"{group}.{name}({parameter}={empty!r})"
            assert isinstance(failure(method, arguments(method, parameter, empty)), EmptyError), what
            assert (wire.requests, signer.signed) == ([], []), what


def test_a_key_that_is_left_out_is_made() -> None:
    assert roamcard.core.key_of(None) != roamcard.core.key_of(None) != ""


def test_a_url_with_a_password_is_refused_and_not_shown() -> None:
    def made(url: str, origin: str | None = None) -> Roamcard:
        return Roamcard(url, None, Policy("human_approval"), origin=origin)

    for url, origin in (("https://me:hunter2@a.example", None), ("https://a.example", "HTTPS://hunter2@a.example/")):
        with pytest.raises(ValueError, match="has a user or a password") as failure:
            made(url, origin)
        assert "hunter2" not in str(failure.value)
    assert made("https://a.example/@path/")
