"""What goes wrong between a client and a service, as a test says."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..x402 import SIGNATURE_HEADER
from .said import problem_of


@dataclass(frozen=True)
class Incoming:
    """A request. The names of its headers are lower-case."""

    method: str
    path: str
    """With the query."""
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answered:
    """An answer, of which the connection ends after `cut` bytes of the body when that is set."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: int | None = None


class Lost(Exception):
    """The connection ended in place of an answer."""


Serve = Callable[[Incoming], Answered]
Wait = Callable[[float], None]
"""Waits so many seconds; it may raise what the client's timeout raises."""


@dataclass(frozen=True)
class SeenRequest:
    """A request that came."""

    path: str
    payment: str | None
    """Its PAYMENT-SIGNATURE header."""
    fault: str | None
    """The fault that hit it, by its method."""


@dataclass
class _Fault:
    kind: str
    on: str | None
    nth: int
    times: float
    before: bool
    cut: int | None = None
    hold: float | None = None
    answer: Answered | None = None
    twice: bool = False
    seen: int = field(default=0, init=False)

    def hits(self, path: str, payment: str | None) -> bool:
        if self.on == "paid":
            fits = payment is not None
        elif self.on == "unpaid":
            fits = payment is None and _PRICED.search(path) is not None
        else:
            fits = self.on is None or path.startswith(self.on)
        self.seen += fits
        return fits and self.nth <= self.seen < self.nth + self.times

    def apply(self, incoming: Incoming, serve: Serve, wait: Wait) -> Answered:
        if self.hold is not None and self.before:
            wait(self.hold)
        told: Answered | None = None
        if not self.before or self.hold is not None:
            for _ in range(2 if self.twice else 1):
                told = serve(incoming)
        if self.hold is not None and not self.before:
            wait(self.hold)
        if self.answer is not None:
            return self.answer
        if told is None or (self.cut == 0):
            raise Lost("the fault ended the connection")
        if self.cut is None:
            return told
        passing = max(0, len(told.body) + self.cut) if self.cut < 0 else self.cut
        return Answered(told.status, told.headers, told.body, passing)


_PRICED = re.compile(
    r"/api/card/(purchase|topup)$|/api/esim/(purchase|orders/[^/]+/topup)$|/pay/[^/]+$"
    r"|Service/(PurchaseCard|TopUpCard|PurchaseEsim|TopUpEsim|PayOrder)$"
)


class Faults:
    """What goes wrong between a client and a service. The first fault that fits a request hits it, alone. Threads may
    share it.

    on: "paid", requests that bring a payment; "unpaid", those that ask a price; or how the path begins. Every request
        when None.
    nth: the first of these requests that it hits, counted from 1 since the fault was made, without those that an
        earlier fault hits.
    times: how many it hits one after the other; math.inf for all that follow.
    before: it hits before the service has the request, which the service then never gets.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[_Fault] = []
        self._requests: list[SeenRequest] = []

    def lose_answer(self, on: str | None = None, *, nth: int = 1, times: float = 1, before: bool = False) -> None:
        """Ends the connection in place of the answer."""
        self._add(_Fault("lose_answer", on, nth, times, before, cut=0))

    def cut_answer(self, size: int, on: str | None = None, *, nth: int = 1, times: float = 1) -> None:
        """Ends the connection after so many bytes of the answer's body; a negative number counts from its end."""
        self._add(_Fault("cut_answer", on, nth, times, False, cut=size))

    def delay(
        self, seconds: float, on: str | None = None, *, nth: int = 1, times: float = 1, before: bool = False
    ) -> None:
        """Holds the answer, or the request with `before`, which the service gets then."""
        self._add(_Fault("delay", on, nth, times, before, hold=seconds))

    def answer(
        self,
        status: int,
        body: str = "",
        on: str | None = None,
        *,
        content_type: str = "text/plain",
        nth: int = 1,
        times: float = 1,
        before: bool = False,
    ) -> None:
        """Answers so."""
        self._add(
            _Fault(
                "answer", on, nth, times, before, answer=Answered(status, {"content-type": content_type}, body.encode())
            )
        )

    def unavailable(self, on: str | None = None, *, nth: int = 1, times: float = 1, before: bool = False) -> None:
        """Answers 503, as the service does when something it needs is down."""
        body = json.dumps(problem_of("dependency_down", "The fault says so.", "fault")).encode()
        answer = Answered(503, {"content-type": "application/problem+json"}, body)
        self._add(_Fault("unavailable", on, nth, times, before, answer=answer))

    def page(self, on: str | None = None, *, nth: int = 1, times: float = 1, before: bool = False) -> None:
        """Answers 200 with a page of HTML, as a proxy does."""
        self._add(
            _Fault(
                "page",
                on,
                nth,
                times,
                before,
                answer=Answered(200, {"content-type": "text/html"}, b"<html>Thank you</html>"),
            )
        )

    def repeat(self, on: str | None = None, *, nth: int = 1, times: float = 1) -> None:
        """Lets the request come to the service twice, as by a proxy that tries again; the second answer is given."""
        self._add(_Fault("repeat", on, nth, times, False, twice=True))

    def clear(self) -> None:
        """Forgets all faults and requests."""
        with self._lock:
            self._faults, self._requests = [], []

    @property
    def requests(self) -> list[SeenRequest]:
        """The requests that came, oldest first."""
        with self._lock:
            return list(self._requests)

    def serve(self, incoming: Incoming, serve: Serve, wait: Wait) -> Answered:
        """Answers a request by `serve`, but for what goes wrong. It raises Lost when there is no answer."""
        path, payment = incoming.path.partition("?")[0], incoming.headers.get(SIGNATURE_HEADER)
        with self._lock:
            hit = next((fault for fault in self._faults if fault.hits(path, payment)), None)
            self._requests.append(SeenRequest(path, payment, hit.kind if hit else None))
        return serve(incoming) if hit is None else hit.apply(incoming, serve, wait)

    def _add(self, fault: _Fault) -> None:
        with self._lock:
            self._faults.append(fault)
