"""Requests, answers and failures of httpx as those of pyqwest, and the other way round: what both clients share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from pyqwest import Headers, ReadError, Request, SyncRequest

from .network import RefusedAnswerError, check_answer

_WATCH_TIMEOUT = 60.0
"""How long a stream may be silent: the service ends each within half of it."""


def made_of(request: SyncRequest | Request, content: bytes, limit: float | None) -> httpx.Request:
    """The same request for a transport of httpx, which takes no longer than so many seconds."""
    headers = [
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in ("accept-encoding", "content-length")
    ]
    timeout = httpx.Timeout(_WATCH_TIMEOUT if limit is None else limit).as_dict()
    return httpx.Request(
        request.method,
        request.url,
        headers=[*headers, ("accept-encoding", "identity")],
        content=content,
        extensions={"timeout": timeout},
    )


def is_refused(response: httpx.Response) -> bool:
    """Whether nobody reads the answer, so that its connection has to be let go here."""
    try:
        check_answer(response.status_code, response.headers.get("content-encoding"))
    except RefusedAnswerError:
        return True
    return False


def pyqwest_headers(response: httpx.Response) -> Headers:
    """The headers of an answer of httpx."""
    return Headers(response.headers.multi_items())


@contextmanager
def as_pyqwest() -> Iterator[None]:
    """Gives the failures of httpx the types of pyqwest."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimeoutError(str(error) or type(error).__name__) from error
    except httpx.ConnectError as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    except httpx.HTTPError as error:
        raise ReadError(str(error) or type(error).__name__) from error
