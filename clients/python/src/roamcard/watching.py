"""Following an order: over the service's stream, and by asking again and again where streams do not get through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ._gen.models import Order
from ._gen.roamcard.v1.order_pb import (
    WatchedOrder,
    WatchOrderRequest,
    WatchOrderResponse,
    WatchOrdersRequest,
    WatchOrdersResponse,
)
from .errors import ApiError, may_pass
from .model import read
from .programs import Emit, Follow, Next, Pause, Program

_MOVING = {"payment_required", "settling", "settled", "provisioning", "refund_pending"}
"""The statuses that an order leaves by itself."""
_FIRST_STREAM = 5.0
"""How long the first stream may take. A gateway that holds streams back shows nothing by then."""
_STREAM = 45.0
"""How long the others may: the service ends them after 30 s."""
_MAX_FAILURES = 2
"""How many streams in a row may break before they brought anything; then only asking is left."""
_LONGEST_PAUSE = 30.0
"""How far the pauses grow while looking at the order fails."""


def following(
    order_id: str, look: Callable[[str], Program[Order]], interval: float, timeout: float | None
) -> Program[None]:
    """Emits an order now and whenever it changed, until it moves no more by itself or the time is over."""
    watch = Watch(order_id, interval, timeout)
    while True:
        if (opening := watch.open()) is not None:
            well = True
            try:
                yield Follow(*opening)
                while (answer := (yield Next())) is not None:
                    if (order := watch.received(answer)) is not None:
                        yield Emit(order)
                    if watch.is_over:
                        return
            except ApiError:
                well = False
            if watch.ended(well):
                continue
        # What is wrong with more than the stream shows here.
        try:
            order = watch.looked((yield from look(order_id)))
        except ApiError as error:
            watch.missed(error)
        else:
            if order is not None:
                yield Emit(order)
        if watch.is_over:
            return
        yield Pause(watch.pause)


class Watch:
    """How far an order has been followed.

    A stream that breaks is gone on with where it left off, after a look at the order.
    """

    def __init__(self, order_id: str, interval: float, timeout: float | None) -> None:
        self._order_id = order_id
        self._interval = interval
        self._end = None if timeout is None else time.monotonic() + timeout
        self._after: int | None = None
        self._seen: tuple[str, ...] | None = None
        self._final = False
        self._failures = 0
        self._misses = 0
        self._brought = False

    @property
    def is_over(self) -> bool:
        """Whether the order moves no more by itself, or the time is over."""
        return self._final or (self._end is not None and time.monotonic() >= self._end)

    @property
    def is_final(self) -> bool:
        """Whether the order moves no more by itself."""
        return self._final

    @property
    def pause(self) -> float:
        """How long to wait before the next look: longer after each that failed."""
        pause = self._interval * float(1 << min(self._misses, 10))
        pause = min(pause, max(_LONGEST_PAUSE, self._interval))
        return pause if self._end is None else max(0.0, min(pause, self._end - time.monotonic()))

    def open(self) -> tuple[WatchOrderRequest, int] | None:
        """The stream to open, and for how many milliseconds; None when it is given up or there is no time for it."""
        if self._failures >= _MAX_FAILURES or self.is_over:
            return None
        self._brought = False
        limit = _FIRST_STREAM if self._after is None else _STREAM
        if self._end is not None:
            limit = min(limit, self._end - time.monotonic())
        return WatchOrderRequest(order_id=self._order_id, after=self._after), max(1, int(limit * 1000))

    def received(self, answer: WatchOrderResponse) -> Order | None:
        """Takes an answer of the stream, and gives its order when it changed."""
        self._after, self._brought, self._failures = answer.cursor, True, 0
        return self.looked(read(Order, answer.order)) if answer.order is not None else None

    def looked(self, order: Order) -> Order | None:
        """Takes an order, and gives it when it changed."""
        self._misses = 0
        state = _state_of(order)
        changed, self._seen = state != self._seen, state
        self._final = order.status not in _MOVING
        return order if changed else None

    def missed(self, error: ApiError) -> None:
        """Takes a look that failed. One that cannot pass by itself ends the watch."""
        if not may_pass(error):
            raise error
        self._misses += 1

    def ended(self, well: bool) -> bool:
        """Takes the end of a stream.

        Whether to open the next one at once: it brought something, and ended as it should.
        """
        if not well and not self._brought:
            self._failures += 1
        return well and self._brought


def following_all(
    order_ids: Iterable[str], look: Callable[[str], Program[Order]], interval: float, timeout: float | None
) -> Program[None]:
    """Emits each of several orders now and whenever it changed, until none moves any more or the time is over."""
    watch = WatchAll(order_ids, interval, timeout)
    while not watch.is_over:
        if (opening := watch.open()) is not None:
            well = True
            try:
                yield Follow(*opening)
                while (answer := (yield Next())) is not None:
                    if (order := watch.received(answer)) is not None:
                        yield Emit(order)
                    if watch.is_over:
                        return
            except ApiError:
                well = False
            if (pause := watch.ended(well)) is not None:
                yield Pause(pause)
                continue
        for order_id in watch.moving:
            try:
                order = watch.looked((yield from look(order_id)))
            except ApiError as error:
                watch.missed(error)
                break
            if order is not None:
                yield Emit(order)
        if not watch.is_over:
            yield Pause(watch.pause)


class WatchAll:
    """How far several orders have been followed, over one stream for all."""

    def __init__(self, order_ids: Iterable[str], interval: float, timeout: float | None) -> None:
        self._watches = {order_id: Watch(order_id, interval, timeout) for order_id in order_ids}
        self._after: dict[str, int] = {}
        self._interval = interval
        self._end = None if timeout is None else time.monotonic() + timeout
        self._failures = 0
        self._misses = 0
        self._brought = False

    @property
    def moving(self) -> list[str]:
        """The orders that still move by themselves."""
        return list(self._watches)

    @property
    def is_over(self) -> bool:
        """Whether none of them moves any more, or the time is over."""
        return not self._watches or (self._end is not None and time.monotonic() >= self._end)

    @property
    def pause(self) -> float:
        """How long to wait before the next look: longer after each that failed."""
        pause = min(self._interval * float(1 << min(self._misses, 10)), max(_LONGEST_PAUSE, self._interval))
        return pause if self._end is None else max(0.0, min(pause, self._end - time.monotonic()))

    def open(self) -> tuple[WatchOrdersRequest, int] | None:
        """The stream to open, and for how many milliseconds; None when it is given up."""
        if self._failures >= _MAX_FAILURES:
            return None
        self._brought = False
        limit = _STREAM if self._after else _FIRST_STREAM
        if self._end is not None:
            limit = min(limit, self._end - time.monotonic())
        orders = [WatchedOrder(order_id=order_id, after=self._after.get(order_id)) for order_id in self._watches]
        return WatchOrdersRequest(orders=orders), max(1, int(limit * 1000))

    def received(self, answer: WatchOrdersResponse) -> Order | None:
        """Takes an answer of the stream, and gives its order when it changed."""
        self._brought, self._failures = True, 0
        if answer.order is None:
            return None
        self._after[answer.order.order_id] = answer.cursor
        return self.looked(read(Order, answer.order))

    def looked(self, order: Order) -> Order | None:
        """Takes an order, and gives it when it changed."""
        self._misses = 0
        watch = self._watches.get(order.order_id)
        if watch is None:
            return None
        changed = watch.looked(order)
        if watch.is_final:
            del self._watches[order.order_id]
        return changed

    def missed(self, error: ApiError) -> None:
        """Takes a look that failed. One that cannot pass by itself ends the watch."""
        if not may_pass(error):
            raise error
        self._misses += 1

    def ended(self, well: bool) -> float | None:
        """Takes the end of a stream: how long to wait before the next one; None when the orders are looked at first.

        The service shows what is final in every stream: one that brought nothing, and ended well, has missed nothing.
        """
        if not well:
            self._failures += 0 if self._brought else 1
            return None
        return 0.0 if self._brought else self.pause


def _state_of(order: Order) -> tuple[str, ...]:
    """What a watcher wants to hear about when it changes."""
    parts = (order.issuance, order.topup, order.delivery, order.esim_topup)
    return order.status, *(part.status if part else "" for part in parts)
