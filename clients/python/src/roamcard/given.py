"""What identifies something is given or left out, and never empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protobuf import Message

from .errors import EmptyError

_HEADERS = ("idempotency-key", "x-esim-delivery-token", "x-order-watch-token")
"""The headers that identify something."""
_OPTIONAL = frozenset({"plan_id", "order_id", "owner", "transaction", "request_id", "intent_id"})
"""What may be left out of a request, and identifies something when it is there."""


def not_empty(name: str, text: str) -> str:
    """The text, unless it names nothing, as a variable that is not set makes it."""
    if not text.strip(" \t\r\n\0"):
        raise EmptyError(f"{name} is given and empty; nothing was signed or sent")
    return text


def check_given(request: Message[Any], headers: Mapping[str, str] | None = None) -> None:
    """Refuses a request that has an empty text in the place of what identifies something.

    Every text that a request has to have is such a place.
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
