"""Requests that are awaited: they follow no redirect, and read no more of an answer than its bound."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any, TypeAlias

from pyqwest import HTTPTransport, Request, Response, Transport

from ..nesting import Frames
from ..network import MOST_BYTES, PLAIN, check, counted, is_stream, shallow, whole

if TYPE_CHECKING:
    import httpx

    AnyTransport: TypeAlias = Transport | httpx.AsyncBaseTransport


class BoundedTransport:
    """Makes requests, follows no redirect and reads no more than MOST_BYTES."""

    def __init__(self, below: AnyTransport | None = None) -> None:
        self._below: Transport = _transport_of(below) if below is not None else HTTPTransport(**PLAIN)

    async def execute(self, request: Request) -> Response:
        """Implements Transport."""
        response = await self._below.execute(request)
        check(response)
        content = _framed(response.content) if is_stream(response) else _shallow(response.content)
        return Response(
            status=response.status,
            http_version=response.http_version,
            headers=response.headers,
            content=content,
            trailers=response.trailers,
        )


def _transport_of(below: Any) -> Transport:
    if hasattr(below, "handle_async_request"):
        from .httpx_transport import HttpxTransport

        below = HttpxTransport(below)
    transport: Transport = below
    return transport


async def bounded(parts: AsyncIterable[Any]) -> bytes:
    """Reads an answer up to its bound."""
    body = bytearray()
    async for part in parts:
        counted(len(body), part)
        body += part
    return bytes(body)


async def _shallow(parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    yield shallow(await bounded(parts))


async def _framed(parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    frames = Frames(MOST_BYTES)
    async for part in parts:
        yield whole(frames, part)
    yield frames.left()
