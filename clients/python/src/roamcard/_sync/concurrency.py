"""What needs threads. The awaiting client has the same names with asyncio, in _async/concurrency.py."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from connectrpc.errors import ConnectError
from pyqwest import SyncClient

from ..errors import naming

T = TypeVar("T")

Lock = threading.Lock


def sleep(seconds: float) -> None:
    """Waits for so many seconds."""
    time.sleep(seconds)


def call(act: Callable[[], Any]) -> Any:
    """Calls a function, which may block."""
    return act()


def get(http: SyncClient, url: str, headers: dict[str, str], timeout: float) -> Any:
    """Makes a GET request that takes no longer than so many seconds, or raises a TimeoutError."""
    return http.get(url, headers, timeout=timeout)


def raise_if_cancelled(error: ConnectError) -> None:
    """Does nothing: no thread is cancelled."""


class Runs:
    """The purchases that run now: calls of one purchase at the same time share one run."""

    def __init__(self, logger: logging.Logger) -> None:
        self._running: dict[tuple[str, ...], Future[Any]] = {}
        self._lock = threading.Lock()

    def share(self, name: tuple[str, ...], key: str, run: Callable[[], T]) -> T:
        """Returns what the run of that name comes to, in this thread unless another one has started it already."""
        mine: Future[Any] = Future()
        with self._lock:
            running = self._running.setdefault(name, mine)
        if running is not mine:
            with naming(key):  # an interrupt of this thread does not end what the other one has signed
                wait((running,))
            shared: T = running.result()
            return shared
        try:
            result = run()
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(result)
            return result
        finally:
            with self._lock:
                del self._running[name]

    def drain(self) -> None:
        """Does nothing: every run has a thread that calls."""
