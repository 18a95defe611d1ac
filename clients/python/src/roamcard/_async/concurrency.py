"""What needs asyncio. The blocking client has the same names with threads, in _sync/concurrency.py."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from connectrpc.errors import ConnectError
from pyqwest import Client

T = TypeVar("T")

Lock = asyncio.Lock


async def sleep(seconds: float) -> None:
    """Waits for so many seconds."""
    await asyncio.sleep(seconds)


async def call(act: Callable[[], Any]) -> Any:
    """Calls a function that may block, such as a wallet's or a file's, or that is async, such as one of the caller."""
    outcome = await asyncio.to_thread(act)
    return await outcome if inspect.isawaitable(outcome) else outcome


async def get(http: Client, url: str, headers: dict[str, str], timeout: float) -> Any:
    """Makes a GET request that takes no longer than so many seconds, or raises a TimeoutError."""
    try:
        return await asyncio.wait_for(http.get(url, headers), timeout)
    except asyncio.TimeoutError as error:  # another class than TimeoutError before Python 3.11
        raise TimeoutError(str(error)) from error


def raise_if_cancelled(error: ConnectError) -> None:
    """Lets a cancelled task end: the generated clients make a failed call of its cancellation."""
    if isinstance(error.__cause__, asyncio.CancelledError):
        raise asyncio.CancelledError from error


class Runs:
    """The purchases that run now: calls of one purchase at the same time share one run."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._running: dict[tuple[str, ...], asyncio.Task[Any]] = {}

    async def share(self, name: tuple[str, ...], key: str, run: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns what the run of that name comes to, which starts here unless it has started already.

        A call that is cancelled leaves the run to the others, and to its end: cancelling does not unsend a payment. The
        error of the cancelled call has the idempotency_key.
        """
        running = self._running.get(name)
        if running is None:
            self._running[name] = running = asyncio.create_task(run())
            running.add_done_callback(lambda task: self._ended(name, task))
        try:
            result: T = await asyncio.shield(running)
        except asyncio.CancelledError as error:
            vars(error)["idempotency_key"] = key
            raise
        return result

    async def drain(self) -> None:
        """Waits for the runs whose callers were cancelled."""
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _ended(self, name: tuple[str, ...], task: asyncio.Task[Any]) -> None:
        del self._running[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            # Whoever still waits gets it from the task. Read here, it is not reported as never retrieved when nobody
            # does.
            self._logger.debug("a purchase ended in %s", type(error).__name__)
