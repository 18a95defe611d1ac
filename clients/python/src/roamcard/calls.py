"""Calls of the API as programs: open ones, those of an owner, and those of whoever holds a delivery token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from protobuf import Message

from .answers import api_error_of
from .errors import ApiError, RoamcardError, UnauthorizedError, may_pass
from .programs import Answer, Authorize, Call, CallFailed, Pause, Program
from .secret import Secret

T = TypeVar("T")

_DELIVERY_HEADER = "x-esim-delivery-token"
"""Stands for a session where an eSIM order is read."""
_KEY_HEADER = "idempotency-key"
_PATIENCE = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The pauses between looks that a wait does not fail with."""


def called(service: str, method: str, request: Message[Any], headers: Mapping[str, str] | None = None) -> Program[Answer]:
    """Calls a method."""
    try:
        answer: Answer = yield Call(service, method, request, headers or {})
    except CallFailed as failed:
        raise api_error_of(failed.error) from failed.error
    return answer


def owned(service: str, method: str, request: Message[Any], headers: Mapping[str, str] | None = None) -> Program[Any]:
    """Calls what belongs to an owner, and once more when the session was revoked meanwhile."""
    header = yield Authorize()
    try:
        return (yield from called(service, method, request, {**(headers or {}), "authorization": header})).message
    except UnauthorizedError as error:
        if error.code != "session_invalid":
            raise
    header = yield Authorize(stale=header)
    return (yield from called(service, method, request, {**(headers or {}), "authorization": header})).message


def patiently(read: Callable[[], Program[T]]) -> Program[T]:
    """Reads again where a failure may pass."""
    for pause in _PATIENCE:
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
