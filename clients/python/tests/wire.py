"""Transports of httpx that watch and change what passes: what a client sends, and what the service seems to answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

Answer = Callable[[httpx.Request], httpx.Response | Exception | None]
"""What is answered in place of the service; None for what it answers itself."""


class Wire:
    """What passed, for one kind of client."""

    def __init__(
        self, kind: str, *answers: Answer, changes: Callable[[httpx.Response], httpx.Response] | None = None
    ) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = list(answers)
        self._changes = changes or (lambda response: response)
        self.transport: Any = _Sync(self) if kind == "sync" else _Async(self)

    def answer(self, request: httpx.Request) -> httpx.Response | None:
        self.requests.append(request)
        answered = self._answers.pop(0)(request) if self._answers else None
        if isinstance(answered, Exception):
            raise answered
        return answered

    def changed(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        response.request = request
        return self._changes(response)

    def paths(self) -> list[str]:
        return [request.url.path.rpartition("/")[2] for request in self.requests]


class _Sync(httpx.HTTPTransport):
    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._wire.answer(request) or self._wire.changed(request, super().handle_request(request))


class _Async(httpx.AsyncHTTPTransport):
    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self._wire.answer(request) or self._wire.changed(request, await super().handle_async_request(request))


def gateway(status: int, **headers: str) -> Answer:
    """The answer of a gateway, which is no JSON."""
    named = {"content-type": "text/html", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return lambda request: httpx.Response(status, headers=named, content=b"<h1>no</h1>")
