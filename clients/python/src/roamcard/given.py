"""What is given is of the type that is asked for; what identifies something is given or left out, and never empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protobuf import Message

from .errors import EmptyError, WrongTypeError

_HEADERS = ("idempotency-key", "x-esim-delivery-token", "x-order-watch-token")
"""The headers that identify something."""
_OPTIONAL = frozenset({"plan_id", "order_id", "owner", "transaction", "request_id", "intent_id"})
"""What may be left out of a request, and identifies something when it is there."""


def not_empty(name: str, text: str) -> str:
    """The text, unless it names nothing, as a variable that is not set makes it."""
    if not isinstance(text, str):
        raise WrongTypeError(f"{name} is {_kind(text)}, not a text; nothing was signed or sent")
    if not text.strip(" \t\r\n\0"):
        raise EmptyError(f"{name} is given and empty; nothing was signed or sent")
    return text


_TYPES: dict[str, tuple[type, str]] = {
    "STRING": (str, "a text"), "BOOL": (bool, "True or False"), "BYTES": (bytes, "bytes"),
    **dict.fromkeys(("INT32", "INT64", "UINT32", "UINT64"), (int, "a whole number")),
}  # fmt: skip
"""What Python calls the types of a request."""


def _kind(value: object) -> str:
    return f"{value!r:.100} of type {type(value).__name__}"


def _check_type(name: str, type_: str, value: object) -> None:
    kind, called = _TYPES.get(type_, (object, ""))
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise WrongTypeError(f"{name} is {_kind(value)}, not {called}; nothing was signed or sent")
    if isinstance(value, int) and kind is int:
        bits = int(type_[-2:])
        least, most = (0, 2**bits - 1) if type_[0] == "U" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not least <= value <= most:
            raise WrongTypeError(f"{name} is {value}, not from {least} to {most}; nothing was signed or sent")


def check_types(request: Message[Any]) -> None:
    """Refuses a request with a member of another type than the API's.

    A request that cannot be written down would look like a connection that failed.
    """
    for field in type(request).desc().fields:
        value = getattr(request, field.local_name, None)
        if value is None:
            continue
        many = field.proto.label.name == "REPEATED" and isinstance(value, list)
        for one in value if many else [value]:
            _check_type(field.name, field.proto.type.name, one)


def check_given(request: Message[Any], headers: Mapping[str, str] | None = None) -> None:
    """Refuses a request that has an empty text in the place of what identifies something.

    Every text that a request has to have is such a place. A member of another type is refused, too.
    """
    for name in _HEADERS:
        if headers and name in headers:
            not_empty(name, headers[name])
    for field in type(request).desc().fields:
        value = getattr(request, field.local_name, None)
        if not isinstance(value, str):
            continue
        needed = field.presence.name == "IMPLICIT"
        if needed or (field.name in _OPTIONAL and request.has_field(field.local_name)):
            not_empty(field.name, value)
    check_types(request)
