"""What programs ask for.

A program is a generator that yields what it needs done and is given the outcome: it does no input or output itself. The
clients, one that blocks and one that awaits, run the same programs; so each algorithm exists once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from connectrpc.errors import ConnectError
from protobuf import Message

from ._gen.roamcard.v1.order_pb import WatchOrderRequest, WatchOrdersRequest
from .errors import ApiError, printable

T = TypeVar("T")

Program: TypeAlias = Generator[Any, Any, T]


@dataclass(frozen=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Do:
    """Call something that may block, or give an awaitable, and give its result."""

    act: Callable[[], Any]


@dataclass(frozen=True)
class Exchange:
    """Call something that sends: it blocks in a client that blocks, and gives an awaitable in one that awaits."""

    act: Callable[[], Any]


@dataclass(frozen=True)
class Call:
    """Call a method of the API. Gives an Answer, or raises CallFailed."""

    service: str
    method: str
    request: Message[Any]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """What a method returned."""

    message: Any
    headers: Mapping[str, str]


class CallFailed(Exception):
    """A call that failed, with the HTTP status and headers of the answer; 0 and none when there was none."""

    def __init__(self, error: ConnectError, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(printable(error))
        self.error = error
        self.status = status
        self.headers = headers


@dataclass(frozen=True)
class ReadRetries:
    """Give how often a read goes out again after a failure that may pass."""


@dataclass(frozen=True)
class Fetch:
    """Read a document of the service. Gives its status, headers and bytes."""

    path: str


@dataclass(frozen=True)
class Authorize:
    """Give the Authorization header of the session; not `stale`, which the service no longer takes.

    Signs in when needed.
    """

    stale: str | None = None


@dataclass(frozen=True)
class ClearSession:
    """Clear the session."""


@dataclass(frozen=True)
class Follow:
    """Open the stream of an order, or of several, in place of the one before, for so many milliseconds.

    What goes wrong is an ApiError.
    """

    request: WatchOrderRequest | WatchOrdersRequest
    limit_ms: int


@dataclass(frozen=True)
class Next:
    """Give the next answer of the stream; None at its end. What goes wrong is an ApiError."""


@dataclass(frozen=True)
class Emit:
    """Hand this to whoever iterates."""

    item: Any


@dataclass(frozen=True)
class Send:
    """Send the purchase, with a PAYMENT-SIGNATURE header when there is one. Gives a Done, Refused or Unclear."""

    payment: str | None


@dataclass(frozen=True)
class Done(Generic[T]):
    """The request was answered with 200."""

    value: T
    order: Any = None
    """What may hold the order: the documented JSON, or the generated answer."""


@dataclass(frozen=True)
class Refused:
    """A final answer that is no success; with the PAYMENT-REQUIRED header when it is a 402."""

    error: ApiError
    terms: str | None = None
    dead: bool = False
    """Whether PAYMENT-RESPONSE calls a payment dead that was taken up before."""
    answer: Any = None
    """The answer itself, for those who pass it on."""
    date: str | None = None
    """The service's clock."""


@dataclass(frozen=True)
class Unclear:
    """No answer, or one that says nothing about the money."""

    error: Exception
    answered: bool = False
    order_id: str | None = None
    wait: float | None = None
    answer: Any = None
    """The answer itself, for those who pass it on."""


def serving(program: Program[T], send: Callable[[str | None], Program[Any]]) -> Program[T]:
    """Runs a program, and its sending by another one."""
    try:
        effect = next(program)
        while True:
            try:
                outcome = (yield from send(effect.payment)) if isinstance(effect, Send) else (yield effect)
            except BaseException as error:
                effect = program.throw(error)
            else:
                effect = program.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result
