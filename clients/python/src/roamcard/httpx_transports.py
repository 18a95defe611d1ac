"""Transports of httpx, with proxies or certificates of the caller's, for the requests of this package."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
from pyqwest import Headers, ReadError, Request, Response, SyncRequest, SyncResponse

from .network import RefusedAnswerError, check_answer, time_limit

_WATCH_TIMEOUT = 60.0
"""How long a stream may be silent: the service ends each within half of it."""


class HttpxSyncTransport:
    """Makes requests by a transport of httpx. It follows no redirects and unpacks nothing: clients of httpx do, above it."""

    def __init__(self, below: httpx.BaseTransport) -> None:
        self._below = below

    def execute_sync(self, request: SyncRequest) -> SyncResponse:
        """Implements pyqwest's SyncTransport."""
        content = request.content if isinstance(request.content, bytes) else b"".join(request.content)
        limit = time_limit()
        end = None if limit is None else time.monotonic() + limit
        with _failures():
            response = self._below.handle_request(_asked(request, content, limit))
        if _is_refused(response):
            response.close()
            return SyncResponse(status=response.status_code, headers=_headers(response))
        return SyncResponse(status=response.status_code, headers=_headers(response), content=_parts(response, end))


class HttpxTransport:
    """The same, awaited. Whoever awaits sets the limit."""

    def __init__(self, below: httpx.AsyncBaseTransport) -> None:
        self._below = below

    async def execute(self, request: Request) -> Response:
        """Implements pyqwest's Transport."""
        content = request.content if isinstance(request.content, bytes) else b"".join([bytes(part) async for part in request.content])
        with _failures():
            response = await self._below.handle_async_request(_asked(request, content, time_limit()))
        if _is_refused(response):
            await response.aclose()
            return Response(status=response.status_code, headers=_headers(response))
        return Response(status=response.status_code, headers=_headers(response), content=_parts_async(response))


def _asked(request: SyncRequest | Request, content: bytes, limit: float | None) -> httpx.Request:
    headers = [(name, value) for name, value in request.headers.items() if name.lower() not in ("accept-encoding", "content-length")]
    timeout = httpx.Timeout(_WATCH_TIMEOUT if limit is None else limit).as_dict()
    return httpx.Request(
        request.method, request.url, headers=[*headers, ("accept-encoding", "identity")], content=content, extensions={"timeout": timeout}
    )


def _is_refused(response: httpx.Response) -> bool:
    """Whether nobody reads the answer, so that its connection has to be let go here."""
    try:
        check_answer(response.status_code, response.headers.get("content-encoding"))
    except RefusedAnswerError:
        return True
    return False


def _headers(response: httpx.Response) -> Headers:
    return Headers(response.headers.multi_items())


def _parts(response: httpx.Response, end: float | None) -> Iterator[bytes]:
    try:
        with _failures():
            for part in response.stream:  # type: ignore[union-attr]
                if end is not None and time.monotonic() > end:
                    raise TimeoutError("the answer did not end in time")
                yield part
    finally:
        response.close()


async def _parts_async(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        with _failures():
            async for part in response.stream:  # type: ignore[union-attr]
                yield part
    finally:
        await response.aclose()


@contextmanager
def _failures() -> Iterator[None]:
    """Gives the failures of httpx the types of pyqwest."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimeoutError(str(error) or type(error).__name__) from error
    except httpx.ConnectError as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    except httpx.HTTPError as error:
        raise ReadError(str(error) or type(error).__name__) from error
