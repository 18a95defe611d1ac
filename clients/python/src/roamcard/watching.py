"""Following an order: over the service's stream, and by asking again and again where streams do not get through."""

from __future__ import annotations

import time

from ._gen.roamcard.v1.order_pb import Order, WatchOrderRequest, WatchOrderResponse

_MOVING = {"payment_required", "settling", "settled", "provisioning", "refund_pending"}
"""The statuses that an order leaves by itself."""
_FIRST_STREAM = 5.0
"""How long the first stream may take. A gateway that holds streams back shows nothing by then."""
_STREAM = 45.0
"""How long the others may: the service ends them after 30 s."""
_PATIENCE = 2
"""How many streams in a row may break before they brought anything; then only asking is left."""


class Watch:
    """How far an order has been followed.

    A stream that breaks is gone on with where it left off, after a look at the order: what is wrong with more than the stream
    shows there.
    """

    def __init__(self, order_id: str, timeout: float | None) -> None:
        self._order_id = order_id
        self._end = None if timeout is None else time.monotonic() + timeout
        self._after: int | None = None
        self._seen: tuple[str, ...] | None = None
        self._final = False
        self._failures = 0
        self._brought = False

    @property
    def is_over(self) -> bool:
        """Whether the order moves no more by itself, or the time is over."""
        return self._final or (self._end is not None and time.monotonic() >= self._end)

    def open(self) -> tuple[WatchOrderRequest, int] | None:
        """The stream to open, and for how many milliseconds; None when it is given up or there is no time for it."""
        if self._failures >= _PATIENCE or self.is_over:
            return None
        self._brought = False
        limit = _FIRST_STREAM if self._after is None else _STREAM
        if self._end is not None:
            limit = min(limit, self._end - time.monotonic())
        return WatchOrderRequest(order_id=self._order_id, after=self._after), max(1, int(limit * 1000))

    def received(self, answer: WatchOrderResponse) -> Order | None:
        """Takes an answer of the stream, and gives its order when it changed."""
        self._after, self._brought, self._failures = answer.cursor, True, 0
        return self.looked(answer.order) if answer.order is not None else None

    def looked(self, order: Order) -> Order | None:
        """Takes an order, and gives it when it changed."""
        state = _state_of(order)
        changed, self._seen = state != self._seen, state
        self._final = order.status not in _MOVING
        return order if changed else None

    def ended(self, well: bool) -> bool:
        """Takes the end of a stream. Whether to open the next one at once: it brought something, and ended as it should."""
        if not well and not self._brought:
            self._failures += 1
        return well and self._brought


def _state_of(order: Order) -> tuple[str, ...]:
    """What a watcher wants to hear about when it changes."""
    parts = (order.issuance, order.topup, order.delivery)
    return order.status, *(part.status if part else "" for part in parts)
