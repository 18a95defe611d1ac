"""Results as plain, immutable values that survive json.dumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, TypeVar

from protobuf import Message
from protobuf.wkt import Timestamp

from .errors import RoamcardError
from .secret import Secret


class Model:
    """The base of every result. Its classes are dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """The members by their names, as json.dumps takes them: times as ISO 8601 in UTC, lists as lists.

        Secrets are "[redacted]".
        """
        members = [f.name for f in fields(self) if f.name[0] != "_"]  # type: ignore[arg-type]
        return {name.rstrip("_"): plain(getattr(self, name)) for name in members}


M = TypeVar("M", bound=Model)


def read(kind: type[M], message: object) -> M:
    """The result that a message of the API is. Without one the answer lacks what was asked for."""
    if not isinstance(message, Message) or type(message).__name__ != kind.__name__:
        raise RoamcardError("the service answered without what was asked for")
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        # What may be absent has a default; what else is not set is zero, or has to be there.
        if field.default is MISSING or message.has_field(field.name.rstrip("_")):
            value = getattr(message, field.name)
            if value is None:
                raise RoamcardError(f"the service answered without {field.name}")
            values[field.name] = _read(value)
    return kind(**values)


def _read(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return value.to_datetime().replace(tzinfo=timezone.utc)
    if isinstance(value, Message):
        return read(getattr(models(), type(value).__name__), value)
    return tuple(map(_read, value)) if isinstance(value, list) else value


def models() -> Any:
    """The generated results, which are made of this module."""
    from ._gen import models

    return models


def plain(value: Any) -> Any:
    """A value as json.dumps takes it."""
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, (Secret, Decimal)):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(member) for member in value]
    return value.to_dict()
