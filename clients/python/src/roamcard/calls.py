"""Calls of the API as programs: open ones, those of an owner, and those of whoever holds a delivery token."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from protobuf import Message

from .answers import api_error_of, passes, wait_of
from .errors import ApiError, RoamcardError, UnauthorizedError, may_pass
from .given import check_given
from .programs import Answer, Authorize, Call, CallFailed, Pause, Program, ReadRetries
from .secret import Secret

T = TypeVar("T")

_DELIVERY_HEADER = "x-esim-delivery-token"
"""Stands for a session where an eSIM order is read."""
_KEY_HEADER = "idempotency-key"
_PAUSES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The pauses between looks that a wait does not fail with."""
_READS = ("get_", "list_", "inspect_")
"""How the names of methods begin that change nothing: only these are called again by themselves."""
_FIRST_PAUSE = 0.25
_LAST_PAUSE = 4.0
_LONGEST_WAIT = 30.0


def called(
    service: str, method: str, request: Message[Any], headers: Mapping[str, str] | None = None
) -> Program[Answer]:
    """Calls a method; a read again where its failure may pass."""
    check_given(request, headers)
    retries = (yield ReadRetries()) if method.startswith(_READS) else 0
    for attempt in range(retries + 1):
        try:
            answer: Answer = yield Call(service, method, request, headers or {})
            return answer
        except CallFailed as failed:
            pause = (
                pause_before(attempt, failed.headers)
                if attempt < retries and passes(failed.error.__cause__, failed.status)
                else None
            )
            if pause is None:
                raise api_error_of(failed.error, failed.headers, failed.status) from failed.error
        yield Pause(pause)
    raise AssertionError("unreachable")


def pause_before(attempt: int, headers: Mapping[str, str]) -> float | None:
    """How many seconds to wait before another read; None when the service asks for more than anybody would wait here.

    Many clients that failed together do not come again together.
    """
    wait = wait_of(headers)
    if wait is not None:
        return wait + _FIRST_PAUSE * random.random() if wait <= _LONGEST_WAIT else None
    return min(_FIRST_PAUSE * 2.0**attempt, _LAST_PAUSE) * random.uniform(0.5, 1)


def owned(service: str, method: str, request: Message[Any], headers: Mapping[str, str] | None = None) -> Program[Any]:
    """Calls what belongs to an owner, and once more when the session was revoked meanwhile."""
    check_given(request, headers)
    header = yield Authorize()
    try:
        return (yield from called(service, method, request, {**(headers or {}), "authorization": header})).message
    except UnauthorizedError as error:
        if error.code != "session_invalid":
            raise
    header = yield Authorize(stale=header)
    return (yield from called(service, method, request, {**(headers or {}), "authorization": header})).message


def retried(read: Callable[[], Program[T]]) -> Program[T]:
    """Reads again where a failure may pass."""
    for pause in _PAUSES:
        try:
            return (yield from read())
        except ApiError as error:
            if not may_pass(error):
                raise
        yield Pause(pause)
    return (yield from read())


def delivered(method: str, request: Message[Any], token: Secret[str] | None) -> Program[Any]:
    """Calls what belongs to an owner or to the holder of a delivery token."""
    if token is None:
        return (yield from owned("esims", method, request))
    return (yield from called("esims", method, request, {_DELIVERY_HEADER: token.reveal()})).message


def keyed(key: str | None) -> dict[str, str]:
    """The headers of a call under an idempotency key."""
    return {} if key is None else {_KEY_HEADER: key}


def present(kind: type[T], value: object) -> T:
    """What has to be in an answer."""
    if not isinstance(value, kind):
        raise RoamcardError("the service answered without what was asked for")
    return value
