"""Transports of httpx, with proxies or certificates of the caller's, for the requests of this package."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx
from pyqwest import Request, Response

from ..httpx_requests import as_pyqwest, is_refused, made_of, pyqwest_headers
from ..network import time_limit


class HttpxTransport:
    """Makes requests by a transport of httpx.

    It follows no redirects and unpacks nothing: clients of httpx do, above it.
    """

    def __init__(self, below: httpx.AsyncBaseTransport) -> None:
        self._below = below

    async def execute(self, request: Request) -> Response:
        """Implements pyqwest's Transport."""
        content = request.content
        if not isinstance(content, bytes):
            content = b"".join([bytes(part) async for part in content])
        limit = time_limit()
        end = None if limit is None else time.monotonic() + limit
        with as_pyqwest():
            response = await self._below.handle_async_request(made_of(request, content, limit))
        status, headers = response.status_code, pyqwest_headers(response)
        if is_refused(response):
            await response.aclose()
            return Response(status=status, headers=headers)
        return Response(status=status, headers=headers, content=_parts(response, end))


async def _parts(response: httpx.Response, end: float | None) -> AsyncIterator[bytes]:
    try:
        with as_pyqwest():
            async for part in response.stream:  # type: ignore[union-attr]
                if end is not None and time.monotonic() > end:
                    raise TimeoutError("the answer did not end in time")
                yield part
    finally:
        await response.aclose()
