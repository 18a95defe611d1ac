"""Carries programs out and blocks meanwhile."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

from connectrpc.client import ResponseMetadata
from connectrpc.errors import ConnectError
from pyqwest import ReadError, RemoteProtocolError, SyncClient, WriteError

from ._gen.roamcard.v1.activity_connect import ActivityServiceClientSync
from ._gen.roamcard.v1.auth_connect import AuthServiceClientSync
from ._gen.roamcard.v1.card_connect import CardServiceClientSync
from ._gen.roamcard.v1.esim_connect import EsimServiceClientSync
from ._gen.roamcard.v1.operator_connect import OperatorServiceClientSync
from ._gen.roamcard.v1.order_connect import OrderServiceClientSync
from ._gen.roamcard.v1.order_pb import WatchOrderResponse
from ._gen.roamcard.v1.service_connect import RuntimeServiceClientSync
from .answers import RawResponse, api_error_of, note
from .core import Core, now
from .errors import ApiError, naming
from .network import UNPACKED, BoundedSyncTransport, RefusedAnswerError, asking
from .options import Options
from .payer import Purchase
from .programs import Answer, Authorize, Call, CallFailed, Do, Emit, Exchange, Fetch, Follow, Forget, Next, Pause, Program, ReadRetries

if TYPE_CHECKING:
    from .network import AnySyncTransport

T = TypeVar("T")


class Engine:
    """Carries the programs of a core out. Threads may share it."""

    def __init__(self, core: Core, options: Options, transport: AnySyncTransport | None) -> None:
        self.core = core
        self.options = options
        url = core.base_url
        self._http = http = SyncClient(BoundedSyncTransport(transport))
        self._clients: dict[str, Any] = {
            "activity": ActivityServiceClientSync(url, http_client=http, **UNPACKED),
            "auth": AuthServiceClientSync(url, http_client=http, **UNPACKED),
            "cards": CardServiceClientSync(url, http_client=http, **UNPACKED),
            "esims": EsimServiceClientSync(url, http_client=http, **UNPACKED),
            "operator": OperatorServiceClientSync(url, http_client=http, **UNPACKED),
            "orders": OrderServiceClientSync(url, http_client=http, **UNPACKED),
            "runtime": RuntimeServiceClientSync(url, http_client=http, **UNPACKED),
        }
        self._signing_in = threading.Lock()
        self._running: dict[tuple[str, str, str], Future[Any]] = {}
        self._running_lock = threading.Lock()

    def with_options(self, options: Options) -> Engine:
        """The same with other options: connections, session and running purchases are shared."""
        twin = copy.copy(self)
        twin.options = options
        return twin

    def close(self) -> None:
        """Ends the use of the connections."""
        for client in self._clients.values():
            client.close()

    def run(self, program: Program[T]) -> T:
        """Carries a program out."""
        try:
            effect = next(program)
            while True:
                try:
                    outcome = self._perform(effect)
                except BaseException as error:
                    effect = program.throw(error)
                else:
                    effect = program.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result

    def each(self, program: Program[None]) -> Iterator[Any]:
        """Carries a program out and hands on what it emits, as it is asked for."""
        stream: Iterator[WatchOrderResponse] | None = None
        try:
            effect = next(program)
            while True:
                outcome: Any = None
                try:
                    match effect:
                        case Emit(item):
                            yield item
                        case Follow():
                            _end(stream)
                            stream = self._follow(effect)
                        case Next():
                            outcome = _next(stream)
                        case _:
                            outcome = self._perform(effect)
                except BaseException as error:
                    effect = program.throw(error)
                else:
                    effect = program.send(outcome)
        except StopIteration:
            return
        finally:
            _end(stream)

    def once(self, purchase: Purchase, program: Program[T], face: str = "client") -> T:
        """Lets calls of one purchase at the same time share one run."""
        name = (face, self.core.payer.identity(purchase), purchase.fingerprint)
        mine: Future[Any] = Future()
        with self._running_lock:
            running = self._running.setdefault(name, mine)
        if running is not mine:
            with naming(purchase.key):  # an interrupt meanwhile does not end what the other thread has signed
                wait((running,))
            shared: T = running.result()
            return shared
        try:
            result = self.run(program)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(result)
            return result
        finally:
            with self._running_lock:
                del self._running[name]

    def _perform(self, effect: Any) -> Any:
        match effect:
            case Call():
                return self._call(effect)
            case Do(act) | Exchange(act):
                return act()
            case Pause(seconds):
                return time.sleep(seconds)
            case Authorize(stale):
                return self._authorize(stale)
            case Forget():
                self.core.signed_in = None
                return None
            case ReadRetries():
                return self.options.read_retries
            case Fetch(path):
                return self._fetch(path)
        raise AssertionError(effect)

    def _call(self, call: Call) -> Answer:
        began, method = time.monotonic(), f"{call.service}.{call.method}"
        timeout, headers = self.options.timeout, self.options.sent(call.headers)
        with asking(timeout) as asked, ResponseMetadata() as metadata:
            try:
                act = getattr(self._clients[call.service], call.method)
                message = act(call.request, headers=headers, timeout_ms=max(1, int(timeout * 1000)))
            except ConnectError as error:
                note(self.core.logger, RawResponse(method, asked.status, asked.headers), time.monotonic() - began)
                raise CallFailed(error, asked.status, asked.headers) from error
        kept = None if call.service == "auth" else message
        note(self.core.logger, RawResponse(method, asked.status, metadata.headers, kept), time.monotonic() - began)
        return Answer(message, metadata.headers)

    def _fetch(self, path: str) -> tuple[int, dict[str, str], bytes]:
        began = time.monotonic()
        with asking(self.options.timeout) as asked:
            try:
                answer = self._http.get(self.core.base_url + path, self.options.sent({}), timeout=self.options.timeout)
            except (OSError, ReadError, RemoteProtocolError, WriteError, RefusedAnswerError) as error:
                note(self.core.logger, RawResponse(f"GET {path}", asked.status, asked.headers), time.monotonic() - began)
                raise ApiError(asked.status, "unreachable", str(error), retryable=not isinstance(error, RefusedAnswerError)) from error
        headers = {name: value for name, value in answer.headers.items()}
        note(self.core.logger, RawResponse(f"GET {path}", answer.status, headers), time.monotonic() - began)
        return answer.status, headers, answer.content

    def _follow(self, follow: Follow) -> Iterator[WatchOrderResponse]:
        headers = self.options.sent({"authorization": self._authorize(None)})
        answers: Iterator[WatchOrderResponse] = self._clients["orders"].watch_order(follow.request, headers=headers, timeout_ms=follow.limit_ms)
        return answers

    def _authorize(self, stale: str | None) -> str:
        with self._signing_in:
            session = self.core.signed_in
            if session is None or session.header == stale or session.until < now():
                self.core.signed_in = session = self.run(self.core.sign_in())
            return session.header


def _next(stream: Iterator[WatchOrderResponse] | None) -> WatchOrderResponse | None:
    try:
        return next(stream, None) if stream is not None else None
    except ConnectError as error:
        raise api_error_of(error) from error


def _end(stream: Any) -> None:
    if hasattr(stream, "close"):
        stream.close()
