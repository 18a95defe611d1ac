"""How calls are made: what may differ from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .version import USER_AGENT

_OURS = {
    "accept-encoding", "authorization", "connection", "content-encoding", "content-length", "content-type", "host",
    "idempotency-key", "payment-signature", "transfer-encoding", "x-esim-delivery-token",
}  # fmt: skip
"""Headers that the client alone sets: they are who asks, what is paid, and how an answer is bounded."""


@dataclass(frozen=True)
class Options:
    """How calls are made."""

    timeout: float
    """How many seconds one request may take."""
    read_retries: int
    """How often a read goes out again after a failure that may pass."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request in addition to those of the client."""

    def __post_init__(self) -> None:
        if self.timeout <= 0 or self.read_retries < 0:
            raise ValueError("timeout has to be more than 0 seconds, and read_retries no less than 0")
        for name, value in self.headers.items():
            if name.lower() in _OURS or name.lower().startswith("connect-"):
                raise ValueError(f"the header {name} is set by the client alone")
            if not (name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
                raise ValueError(f"the header {name!r} is none")

    def sent(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of a request: those of the client win."""
        return {"user-agent": USER_AGENT, **{name.lower(): value for name, value in self.headers.items()}, **headers}

    def but(self, timeout: float | None, headers: Mapping[str, str] | None, read_retries: int | None) -> Options:
        """These options with some others."""
        return replace(
            self,
            timeout=self.timeout if timeout is None else timeout,
            headers={**self.headers, **(headers or {})},
            read_retries=self.read_retries if read_retries is None else read_retries,
        )
