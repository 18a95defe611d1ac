"""How a service is reached: by transports in this process, and on a port of this machine."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyqwest import Headers, ReadError, Request, Response, SyncRequest, SyncResponse

from .faults import Answered, Faults, Incoming, Lost, Serve, Wait

if TYPE_CHECKING:
    import httpx


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _parts(answered: Answered) -> Iterator[bytes]:
    if answered.cut is None:
        yield answered.body
        return
    yield answered.body[: answered.cut]
    raise ReadError("the fault ended the connection")


def _wait_of(limit: float | None) -> Wait:
    """Waits, or as long as the client does."""

    def wait(seconds: float) -> None:
        if limit is not None and limit < seconds:
            time.sleep(limit)
            raise Lost("the answer took too long")
        time.sleep(seconds)

    return wait


class FakeTransport:
    """Reaches a service in this process."""

    def __init__(self, faults: Faults, serve: Serve) -> None:
        self._faults = faults
        self._serve = serve

    def execute_sync(self, request: SyncRequest) -> SyncResponse:
        """Implements SyncTransport."""
        content = request.content
        answered = self.answered(request, content if isinstance(content, bytes) else b"".join(content))
        return SyncResponse(
            status=answered.status, headers=Headers(list(answered.headers.items())), content=_parts(answered)
        )

    def answered(self, request: SyncRequest | Request, body: bytes) -> Answered:
        """Answers a request whose body was read."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        told = headers.get("connect-timeout-ms", "")
        wait = _wait_of(int(told) / 1000 if told.isdecimal() else None)
        try:
            return self._faults.serve(Incoming(request.method, _path_of(request.url), headers, body), self._serve, wait)
        except Lost as error:
            raise ReadError(str(error)) from error


class AsyncFakeTransport:
    """The same for those who await."""

    def __init__(self, below: FakeTransport) -> None:
        self._below = below

    async def execute(self, request: Request) -> Response:
        """Implements Transport."""
        content = request.content
        body = content if isinstance(content, bytes) else b"".join([bytes(part) async for part in content])
        answered = await asyncio.to_thread(self._below.answered, request, body)

        async def parts() -> AsyncIterator[bytes]:
            for part in _parts(answered):
                yield part

        return Response(status=answered.status, headers=Headers(list(answered.headers.items())), content=parts())


def httpx_transport(faults: Faults, serve: Serve) -> httpx.BaseTransport:
    """Reaches a service in this process by httpx."""
    import httpx

    class Cut(httpx.SyncByteStream):
        def __init__(self, answered: Answered) -> None:
            self._answered = answered

        def __iter__(self) -> Iterator[bytes]:
            try:
                yield from _parts(self._answered)
            except ReadError as error:
                raise httpx.ReadError(str(error)) from error

    class Transport(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            headers = {name.lower(): value for name, value in request.headers.items()}
            wait = _wait_of(request.extensions.get("timeout", {}).get("read"))
            try:
                answered = faults.serve(
                    Incoming(request.method, _path_of(str(request.url)), headers, request.read()), serve, wait
                )
            except Lost as error:
                raise httpx.ReadError(str(error)) from error
            return httpx.Response(answered.status, headers=answered.headers, stream=Cut(answered))

    return Transport()


class Listening:
    """A server on a free port of the loopback interface."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self._thread = threading.Thread(target=server.serve_forever, name="roamcard-testing", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def listen(faults: Faults, serve: Serve) -> Listening:
    """Serves on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            try:
                answered = faults.serve(Incoming(self.command, self.path, headers, body), serve, time.sleep)
            except Lost:
                self._reset()
                return
            self.send_response_only(answered.status)
            for name, value in {**answered.headers, "content-length": str(len(answered.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answered.body if answered.cut is None else answered.body[: answered.cut])
            if answered.cut is not None:
                self._reset()

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def _reset(self) -> None:
            # A connection that is closed with nothing to linger is reset.
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Says nothing: a client that hangs up is what is tested."""

    return Listening(Server(("127.0.0.1", 0), Handler))
