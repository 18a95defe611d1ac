"""Refuses JSON that is nested without end before it is parsed.

The parser of Python recurses, and eth-account lifts its limit past the stack.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEEPEST = 64
"""How deep JSON may be nested; what the service documents needs 8."""

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.S)
_BRACKETS = re.compile(rb"[\[\]{}]")


def is_deep(data: bytes) -> bool:
    """Whether JSON is nested deeper than anybody needs. What is no JSON may count as deep, too."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return False
    depth = 0
    for bracket in _BRACKETS.findall(_TEXT.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            return True
    return False


def loads(data: bytes | str) -> Any:
    """Parses JSON, or raises a ValueError."""
    if is_deep(data.encode() if isinstance(data, str) else data):
        raise ValueError(f"it is nested deeper than {DEEPEST}")
    return json.loads(data)


class Frames:
    """The messages of a stream of the Connect protocol: each is one byte of flags, four of its length, and JSON."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._rest = bytearray()

    def fed(self, part: Any) -> bytes:
        """Takes what came, and gives the messages that are whole. Raises a ValueError for one that is not read."""
        self._rest += part
        whole = 0
        while len(self._rest) >= whole + 5:
            end = whole + 5 + int.from_bytes(self._rest[whole + 1 : whole + 5], "big")
            if end - whole > self._most_bytes:
                raise ValueError(f"a message has more than {self._most_bytes} bytes")
            if len(self._rest) < end:
                break
            if is_deep(bytes(self._rest[whole + 5 : end])):
                raise ValueError(f"a message is nested deeper than {DEEPEST}")
            whole = end
        taken = bytes(self._rest[:whole])
        del self._rest[:whole]
        return taken

    def left(self) -> bytes:
        """What came of a message that did not end."""
        return bytes(self._rest)
