"""What is read of an answer: only of the host that was asked, as it comes, and no more than its bound."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pyqwest import HTTPTransport, Request, Response, SyncHTTPTransport, SyncRequest, SyncResponse, SyncTransport, Transport

from .nesting import Frames, is_deep

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 1 << 20
"""The most bytes of an answer that are read. Answers are not compressed, so that none grows while it is unpacked."""


class RefusedAnswerError(Exception):
    """An answer that is not read: to ask again would bring it again."""


class Codec:
    """The documented JSON. Members that a later service adds are passed by."""

    def name(self) -> str:
        """Implements connectrpc's Codec."""
        return "json"

    def encode(self, message: Any) -> bytes:
        """Implements connectrpc's Codec."""
        json: str = message.to_json()
        return json.encode()

    def decode(self, data: bytes | bytearray, message_class: type[Any]) -> Any:
        """Implements connectrpc's Codec."""
        return message_class.from_json(data, ignore_unknown_fields=True)


UNPACKED: dict[str, Any] = {"codec": Codec(), "accept_compression": (), "send_compression": None, "read_max_bytes": MOST_BYTES}
"""How the generated clients ask: a service answers compressed where it was asked so."""

_PLAIN: dict[str, Any] = {
    "tls_include_system_certs": True, "follow_redirects": False, "enable_gzip": False, "enable_brotli": False, "enable_zstd": False,
}  # fmt: skip


@dataclass
class Asking:
    """One request on its way, and what came back of it whatever becomes of its body."""

    timeout: float
    status: int = 0
    """0 while nothing came."""
    headers: Mapping[str, str] = field(default_factory=dict)


_asking: ContextVar[Asking | None] = ContextVar("roamcard_asking", default=None)


@contextmanager
def asking(timeout: float) -> Iterator[Asking]:
    """Keeps what comes back of the request that is made inside."""
    request = Asking(timeout)
    token = _asking.set(request)
    try:
        yield request
    finally:
        _asking.reset(token)


def time_limit() -> float | None:
    """How many seconds the request on its way may take; None when nobody said."""
    request = _asking.get()
    return None if request is None else request.timeout


if TYPE_CHECKING:
    AnySyncTransport: TypeAlias = SyncTransport | httpx.BaseTransport
    AnyTransport: TypeAlias = Transport | httpx.AsyncBaseTransport


class BoundedSyncTransport:
    """Makes requests that block, follows no redirect and reads no more than MOST_BYTES."""

    def __init__(self, below: AnySyncTransport | None = None) -> None:
        self._below: SyncTransport = _sync_of(below) if below is not None else SyncHTTPTransport(**_PLAIN)

    def execute_sync(self, request: SyncRequest) -> SyncResponse:
        """Implements SyncTransport."""
        response = self._below.execute_sync(request)
        _check(response)
        content = _framed(response.content) if _is_stream(response) else _shallow(response.content)
        return SyncResponse(
            status=response.status,
            http_version=response.http_version,
            headers=response.headers,
            content=content,
            trailers=response.trailers,
        )


class BoundedTransport:
    """Makes requests that are awaited, follows no redirect and reads no more than MOST_BYTES."""

    def __init__(self, below: AnyTransport | None = None) -> None:
        self._below: Transport = _async_of(below) if below is not None else HTTPTransport(**_PLAIN)

    async def execute(self, request: Request) -> Response:
        """Implements Transport."""
        response = await self._below.execute(request)
        _check(response)
        content = _framed_async(response.content) if _is_stream(response) else _shallow_async(response.content)
        return Response(
            status=response.status,
            http_version=response.http_version,
            headers=response.headers,
            content=content,
            trailers=response.trailers,
        )


def check_answer(status: int, encoding: str | None) -> None:
    """Refuses what is not followed or unpacked."""
    if 300 <= status < 400:
        raise RefusedAnswerError(f"the service answered with a redirect ({status}), which is not followed")
    if encoding not in (None, "", "identity"):
        raise RefusedAnswerError(f"the answer is encoded as {encoding!a}, which was not asked for")


def bounded(parts: Iterable[bytes]) -> bytes:
    """Reads an answer up to its bound."""
    return b"".join(_limited(parts))


def _sync_of(below: Any) -> SyncTransport:
    if hasattr(below, "handle_request"):
        from .httpx_transports import HttpxSyncTransport

        below = HttpxSyncTransport(below)
    transport: SyncTransport = below
    return transport


def _async_of(below: Any) -> Transport:
    if hasattr(below, "handle_async_request"):
        from .httpx_transports import HttpxTransport

        below = HttpxTransport(below)
    transport: Transport = below
    return transport


def _check(response: Response | SyncResponse) -> None:
    if (request := _asking.get()) is not None:
        request.status, request.headers = response.status, dict(response.headers.items())
    check_answer(response.status, response.headers.get("content-encoding"))


def _is_stream(response: Response | SyncResponse) -> bool:
    return response.headers.get("content-type", "").startswith("application/connect+")


def _limited(parts: Iterable[Any]) -> Iterator[bytes]:
    seen = 0
    for part in parts:
        seen = _counted(seen, part)
        yield bytes(part)


def _shallow(parts: Iterable[Any]) -> Iterator[bytes]:
    yield _checked(bounded(parts))


async def _shallow_async(parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    body = bytearray()
    async for part in parts:
        _counted(len(body), part)
        body += part
    yield _checked(bytes(body))


def _checked(body: bytes) -> bytes:
    if is_deep(body):
        raise RefusedAnswerError("the answer is nested without end")
    return body


def _framed(parts: Iterable[Any]) -> Iterator[bytes]:
    frames = Frames(MOST_BYTES)
    for part in parts:
        yield _whole(frames, part)
    yield frames.left()


async def _framed_async(parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    frames = Frames(MOST_BYTES)
    async for part in parts:
        yield _whole(frames, part)
    yield frames.left()


def _whole(frames: Frames, part: Any) -> bytes:
    try:
        return frames.fed(part)
    except ValueError as error:
        raise RefusedAnswerError(str(error)) from error


def _counted(seen: int, part: Any) -> int:
    seen += len(part)
    if seen > MOST_BYTES:
        raise RefusedAnswerError(f"the answer has more than {MOST_BYTES} bytes")
    return seen
