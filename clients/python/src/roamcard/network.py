"""What is read of an answer: only of the host that was asked, as it comes, and no more than its bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from pyqwest import Response, SyncResponse

from .nesting import Frames, is_deep

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


UNPACKED: dict[str, Any] = {
    "codec": Codec(),
    "accept_compression": (),
    "send_compression": None,
    "read_max_bytes": MOST_BYTES,
}
"""How the generated clients ask: a service answers compressed where it was asked so."""

PLAIN: dict[str, Any] = {
    "tls_include_system_certs": True, "follow_redirects": False, "enable_gzip": False, "enable_brotli": False,
    "enable_zstd": False,
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


def check_answer(status: int, encoding: str | None) -> None:
    """Refuses what is not followed or unpacked."""
    if 300 <= status < 400:
        raise RefusedAnswerError(f"the service answered with a redirect ({status}), which is not followed")
    if encoding not in (None, "", "identity"):
        raise RefusedAnswerError(f"the answer is encoded as {encoding!a}, which was not asked for")


def check(response: Response | SyncResponse) -> None:
    """Keeps the status and headers of an answer for whoever asks, and refuses what is not followed or unpacked."""
    if (request := _asking.get()) is not None:
        request.status, request.headers = response.status, dict(response.headers.items())
    check_answer(response.status, response.headers.get("content-encoding"))


def is_stream(response: Response | SyncResponse) -> bool:
    """Whether an answer is a stream of the Connect protocol."""
    return response.headers.get("content-type", "").startswith("application/connect+")


def shallow(body: bytes) -> bytes:
    """Refuses an answer that is nested too deep to be parsed."""
    if is_deep(body):
        raise RefusedAnswerError("the answer is nested without end")
    return body


def whole(frames: Frames, part: Any) -> bytes:
    """The messages of a stream that a part of it completes."""
    try:
        return frames.fed(part)
    except ValueError as error:
        raise RefusedAnswerError(str(error)) from error


def counted(seen: int, part: Any) -> None:
    """Refuses a part of an answer that takes it past its bound."""
    if seen + len(part) > MOST_BYTES:
        raise RefusedAnswerError(f"the answer has more than {MOST_BYTES} bytes")
