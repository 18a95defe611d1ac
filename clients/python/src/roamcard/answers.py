"""What answers of the service mean: errors, what they say of a payment, and what is kept of them for those who look."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from connectrpc.errors import ConnectError
from pyqwest import ReadError, RemoteProtocolError, WriteError

from ._gen.roamcard.v1.problem_pb import Problem
from .errors import ApiError, WrongField, api_error_type, is_unclear, printable
from .nesting import loads
from .network import RefusedAnswerError
from .programs import Refused, Unclear
from .x402 import REQUIRED_HEADER, proves_dead

REQUEST_ID_HEADER = "x-request-id"
_FOR_NOW = (429, 502, 503, 504)
"""The statuses after which a read is tried again."""


@dataclass(frozen=True)
class RawResponse:
    """One answer of the service."""

    method: str
    """What was called, such as orders.get_order, or GET and a path."""
    status: int
    """The HTTP status, whoever answered; 0 when no answer came."""
    headers: Mapping[str, str]
    message: Any = field(default=None, repr=False)
    """The message as it is generated. It may hold secrets; those of a sign-in are not in it."""

    @property
    def request_id(self) -> str:
        """What the service's operators ask for."""
        return self.headers.get(REQUEST_ID_HEADER, "")


class RawResponses(list[RawResponse]):
    """Every answer since the recording began, in order: calls that pay, sign in or wait have several."""

    @property
    def last(self) -> RawResponse:
        """The answer that made the result."""
        return self[-1]


_recording: ContextVar[RawResponses | None] = ContextVar("roamcard_raw_responses", default=None)


@contextmanager
def recording() -> Iterator[RawResponses]:
    """Keeps the answers to the calls made inside."""
    responses = RawResponses()
    token = _recording.set(responses)
    try:
        yield responses
    finally:
        _recording.reset(token)


def note(logger: logging.Logger, response: RawResponse, seconds: float) -> None:
    """Logs an answer, and keeps it for whoever records. Neither a payment nor a secret is logged."""
    if (responses := _recording.get()) is not None:
        responses.append(response)
    logger.debug(
        "%s answered %d in %.0f ms, request %s",
        response.method,
        response.status,
        seconds * 1000,
        printable(response.request_id) or "unknown",
    )


def reply_of(error: ConnectError, headers: Mapping[str, str], status: int = 0) -> Refused | Unclear:
    """What a failed call says about a payment. Without a problem of the service it is not even known who answered."""
    problem = problem_of(error)
    return Unclear(api_error_of(error, headers, status)) if problem is None else reply_to(problem, headers)


def reply_to(problem: ApiError, headers: Mapping[str, str], answer: Any = None) -> Refused | Unclear:
    """What a failure that the service told says about a payment."""
    if problem.status == 402 and REQUIRED_HEADER in headers:
        return Refused(problem, headers[REQUIRED_HEADER], proves_dead(headers), answer, headers.get("date"))
    if is_unclear(problem.status, problem.retryable):
        return Unclear(problem, True, problem.order_id, wait_of(headers), answer)
    return Refused(problem, answer=answer)


def wait_of(headers: Mapping[str, str]) -> float | None:
    """How many seconds the service asks to wait; None when it does not say so in seconds."""
    wait = headers.get("retry-after", "")
    return float(wait) if wait.isascii() and wait.isdecimal() and len(wait) < 6 else None


def passes(cause: BaseException | None, status: int) -> bool:
    """Whether a read that failed is worth another try: nothing came whole, or what came says that it is for now."""
    if isinstance(cause, RefusedAnswerError):
        return False
    if status in _FOR_NOW:
        return True
    # An answer that came whole and cannot be read comes again as it is; the time of a call is over for good.
    is_broken = isinstance(cause, (OSError, ReadError, WriteError, RemoteProtocolError)) and not isinstance(
        cause, TimeoutError
    )
    return is_broken and status in (0, 200)


def api_error_of(error: ConnectError, headers: Mapping[str, str] | None = None, status: int = 0) -> ApiError:
    """The error of this package for a failed call."""
    failure = problem_of(error) or api_error_type(status)(
        status, f"connect_{error.code.value}", error.message, retryable=True
    )
    failure.retry_after = wait_of(headers or {})
    # Its text is shown with a traceback.
    error.args = (printable(error.message),)
    failure.__cause__ = error
    return failure


def problem_of(error: ConnectError) -> ApiError | None:
    """The failure that the service told."""
    for detail in error.details:
        problem = detail.value(Problem) if detail.type_name == "roamcard.v1.Problem" else None
        if problem is not None:
            return api_error_type(problem.status)(
                problem.status, problem.code, problem.detail, request_id=problem.request_id,
                retryable=problem.retryable, safe_to_pay_again=problem.safe_to_pay_again,
                next_action=problem.next_action, order_id=problem.order_id or None,
                fields=tuple(
                    WrongField(printable(f.path), printable(f.rule), printable(f.message)) for f in problem.fields
                ),
            )  # fmt: skip
    return None


def rest_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error of a REST answer: its problem document (RFC 9457), or what the status says."""
    problem = object_of(body) or {}
    fields = [f for f in problem.get("fields") or [] if isinstance(f, dict)]
    return api_error_type(status)(
        status, str(problem.get("code") or f"http_{status}"), str(problem.get("detail") or "no detail"),
        request_id=str(problem.get("requestId") or headers.get(REQUEST_ID_HEADER, "")),
        retryable=problem.get("retryable") is True, safe_to_pay_again=problem.get("safeToPayAgain") is True,
        next_action=str(problem.get("nextAction") or ""), order_id=problem.get("orderId"),
        fields=tuple(WrongField(*(printable(f.get(name, "")) for name in ("path", "rule", "message"))) for f in fields),
        retry_after=wait_of(headers),
    )  # fmt: skip


def object_of(body: bytes) -> dict[str, Any] | None:
    """A JSON object; None when it is none."""
    try:
        value = loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
