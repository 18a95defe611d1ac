"""The fake of the service: what is asked over both protocols, and who may ask it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ..x402 import CHAIN_ID, same_address
from .faults import Answered, Faults, Incoming
from .orders import Orders, stamp
from .said import connect_error_of, said_by
from .serving import AsyncFakeTransport, FakeTransport, Listening, httpx_transport, listen
from .shop import Asked, Shop, Told, ok
from .token import Token, Verify, verify

if TYPE_CHECKING:
    import httpx

_CHALLENGE = 300
_SESSION = 3600
_SCOPES = ["cards", "orders"]
_PAID = (
    "CardService/PurchaseCard", "CardService/TopUpCard", "EsimService/PurchaseEsim", "EsimService/TopUpEsim",
    "OrderService/PayOrder",
)  # fmt: skip


class FakeService:
    """A fake of the service. Threads may share it.

    balance: what every wallet has at first, in USDC's smallest unit.
    now: the clock, in seconds since 1970.
    verify: verifies signatures.
    """

    def __init__(
        self, *, balance: int = 1_000_000_000, now: Callable[[], float] | None = None, verify: Verify = verify
    ) -> None:
        self.faults = Faults()
        """What goes wrong for those who come by a transport or over the network."""
        self._now = now or (lambda: time.time())
        self._verify = verify
        self.token = Token(balance, self._now, verify)
        self._lock = threading.RLock()
        self._listening: Listening | None = None
        self._challenges: dict[str, tuple[str, str, float]] = {}
        self._sessions: dict[str, tuple[str, float]] = {}
        self._settle_at("http://roamcard.test")

    def _settle_at(self, url: str) -> None:
        self._url, self._said = url, said_by(url)
        self._orders = Orders(self._said, url, self._now)
        self._shop = Shop(self._said, self._orders, self.token)

    @property
    def url(self) -> str:
        """The fake's origin, for the base_url of a client."""
        return self._url

    @property
    def pay_to(self) -> str:
        """Whom purchases pay."""
        return str(self._said["config"]["network"]["payTo"])

    def transport(self) -> FakeTransport:
        """Reaches the fake in this process: for the http_transport of Roamcard."""
        return FakeTransport(self.faults, self.serve)

    def async_transport(self) -> AsyncFakeTransport:
        """The same for AsyncRoamcard."""
        return AsyncFakeTransport(self.transport())

    def httpx_transport(self) -> httpx.BaseTransport:
        """The same for httpx, below `client.transport()`. Needs the extra `httpx`."""
        return httpx_transport(self.faults, self.serve)

    def listen(self) -> None:
        """Serves the fake on a free port of this machine as well, until close. Call it before anything is bought."""
        self._listening = listen(self.faults, self.serve)
        self._settle_at(self._listening.url)

    def close(self) -> None:
        """Ends listen."""
        if self._listening is not None:
            self._listening.close()

    def __enter__(self) -> FakeService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, incoming: Incoming) -> Answered:
        """Answers a request, without faults."""
        with self._lock:
            return self._answer(incoming)

    def _answer(self, incoming: Incoming) -> Answered:
        url = urlsplit(incoming.path)
        method, in_body, named = self._find(incoming.method, url.path)
        body = _object_of(incoming.body) if incoming.body else {}
        members = {**dict(parse_qsl(url.query)), **named, **(body or {})}
        connect = url.path.startswith("/roamcard.v1.")
        asked = Asked(method, connect, self._url + url.path, incoming.headers, self._orders.id("request"), members)
        if not method:
            told = asked.problem("route_not_found", "There is nothing here.")
        elif body is None:
            told = asked.problem("schema_invalid", "The body is no JSON object.")
        else:
            told = self._serve(asked)
        failed = told.status >= 400
        said: Any = told.body
        if failed:
            said = connect_error_of(told.body) if connect else told.body
        elif in_body and not connect:
            said = told.body[in_body]
        kind = "application/problem+json" if failed and not connect else "application/json"
        headers = {
            **told.headers,
            "content-type": kind,
            "x-request-id": asked.request_id,
            "date": formatdate(self._now(), usegmt=True),
        }
        return Answered(told.status, headers, json.dumps(said).encode())

    def _find(self, verb: str, path: str) -> tuple[str, str | None, dict[str, str]]:
        """The procedure to call, the member of its answer that is the body over REST, and what the path names."""
        for route in self._said["routes"]:
            if path == f"/roamcard.v1.{route['method']}" and verb == "POST":
                return route["method"], route.get("body"), {}
            taken, _, pattern = route["route"].partition(" ")
            found = (
                re.fullmatch(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(pattern)), path)
                if verb == taken
                else None
            )
            if found:
                return (
                    route["method"],
                    route.get("body"),
                    {name: unquote(value) for name, value in found.groupdict().items()},
                )
        return "", None, {}

    def _serve(self, asked: Asked) -> Told:
        discovery = self._said["discovery"]
        match asked.method:
            case "RuntimeService/GetHealth":
                return ok({"status": "ok"})
            case "RuntimeService/GetConfig":
                return ok(self._said["config"])
            case "CardService/GetCardDiscovery":
                return ok(discovery["card"])
            case "CardService/GetTopupDiscovery":
                return ok(discovery["topup"])
            case "EsimService/GetEsimDiscovery":
                return ok(discovery["esim"])
            case "EsimService/ListEsimPlans":
                return self._shop.plans(asked)
            case "AuthService/CreateChallenge":
                return self._challenge(asked)
            case "AuthService/VerifyChallenge":
                return self._sign_in(asked)
            case method if method in _PAID:
                return self._shop.sell(asked)
        return self._shop.delivered(asked) or self._serve_owner(asked)

    def _serve_owner(self, asked: Asked) -> Told:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        wallet, until = self._sessions.get(token, ("", 0.0))
        if until <= self._now():
            told = asked.problem("session_invalid", "Sign in first.")
            return Told(told.status, told.body, {"www-authenticate": "Bearer"})
        if asked.method == "AuthService/GetSession":
            return ok({"wallet": wallet, "scopes": _SCOPES, "expiresAt": stamp(until)})
        if asked.method == "AuthService/Logout":
            del self._sessions[token]
            return ok({"revoked": True})
        return self._shop.owned(asked, wallet)

    def _challenge(self, asked: Asked) -> Told:
        """Gives a text to sign in with (EIP-4361)."""
        wallet = str(asked.members.get("address"))
        if not re.fullmatch("0x[0-9a-fA-F]{40}", wallet):
            return asked.problem("schema_invalid", "The address is none.")
        intent, now = self._orders.id("intent"), self._now()
        until = now + _CHALLENGE
        text = (
            f"{urlsplit(self._url).netloc} wants you to sign in with your Ethereum account:\n{wallet}\n\n"
            "Sign in to roamcard. This moves no money and reveals no card.\n\n"
            f"URI: {self._url}\nVersion: 1\nChain ID: {CHAIN_ID}\n"
            f"Nonce: {self._orders.id('nonce').replace('-', '')}\n"
            f"Issued At: {stamp(now)}\nExpiration Time: {stamp(until)}\nRequest ID: {intent}"
        )
        self._challenges[intent] = (wallet, text, until)
        return ok({"intentId": intent, "messageScheme": "eip191", "message": text, "expiresAt": stamp(until)})

    def _sign_in(self, asked: Asked) -> Told:
        members = asked.members
        wallet, text, until = self._challenges.pop(str(members.get("intentId")), ("", "", 0.0))
        signed = until > self._now() and same_address(wallet, str(members.get("address")))
        if not signed or not self._verify(wallet, text, str(members.get("signature"))):
            return asked.problem("challenge_invalid", "The challenge is not signed by its wallet.")
        token, ends = f"rcs_{self._orders.id('session')}", self._now() + _SESSION
        self._sessions[token] = (wallet, ends)
        return ok(
            {"accessToken": token, "tokenType": "Bearer", "wallet": wallet, "scopes": _SCOPES, "expiresAt": stamp(ends)}
        )


def _object_of(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
