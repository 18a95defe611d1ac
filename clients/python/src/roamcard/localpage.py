"""A page on this machine, which one browser sees one time."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs

from .custody import ExposedError, check_folder
from .errors import RevealError

_AFTERGLOW = 1.5
"""How long a page that was seen still tells who comes again that it was."""
_MAX_POST = 4096
"""Has room for a secret."""

_DOUBLED = (
    "This page was opened before, by another window. It shows nothing any more. If that window was not yours, somebody "
    "else may have seen what it had: freeze the card, and ask again."
)

State = Literal["waits", "opened", "shown", "led", "interrupted", "doubled"]

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # The button's post tells its origin: with no-referrer it would be null, as that of a stranger's page.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LocalPage:
    """Is shown to one browser, once.

    A post of / with the secret of the file gets a button and a cookie, and a post of /show with both gets the content.
    The secret works once. Who comes with it a second time is another browser than the first, and one of them is not the
    person's: then nothing is shown any more. A page that leads elsewhere sends the first browser there.
    """

    def __init__(self, title: str, content: str | None = None, leads: str | None = None) -> None:
        self.title, self.leads = title, leads
        self.state: State = "waits"
        self._content = content
        self._secret, self._cookie, self._token = secrets.token_urlsafe(32), "", ""
        self._over = threading.Event()
        self._turn = threading.Lock()
        self.host = ""

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serves it, and gives the address of the file that a browser opens."""
        server = _Server(self)
        self.host = f"127.0.0.1:{server.server_address[1]}"
        folder = _folder()
        try:
            file = folder / "open.html"
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as text:
                text.write(self._file())
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            try:
                yield file.as_uri()
            finally:
                server.shutdown()
        finally:
            server.server_close()
            self._content = None
            shutil.rmtree(folder, ignore_errors=True)  # what it says is used up

    def wait(self, timeout: float) -> None:
        """Waits until it is over; a little longer for who comes a second time, when somebody has come."""
        if self._over.wait(timeout):
            time.sleep(_AFTERGLOW)

    def _file(self) -> str:
        secret = f'<input type="hidden" name="secret" value="{self._secret}">'
        form = f'<form method="post" action="http://{self.host}/">{secret}<button>Continue</button></form>'
        return _html(self.title, f"{form}<script>document.forms[0].submit()</script>")

    def _end(self, state: State) -> None:
        self.state = state
        self._over.set()

    def open(self, handler: _Handler) -> None:
        """Gives the page to the browser that comes first with the file's secret. A file has the origin null."""
        given = handler.field("secret")
        with self._turn:
            if not handler.comes("null", "none", "cross-site") or not _same(given, self._secret):
                return handler.say(403, "This page is opened by its own file.")
            if self.state != "waits":
                self._content = None
                self._end("doubled")
                return handler.say(410, _DOUBLED)
            if self.leads is not None:
                self._end("led")
                return handler.answer(303, "", {"Location": self.leads, "Referrer-Policy": "no-referrer"})
            self.state, self._cookie, self._token = "opened", secrets.token_urlsafe(32), secrets.token_urlsafe(32)
            token = f'<input type="hidden" name="token" value="{self._token}">'
            form = f'<form method="post" action="/show">{token}<button>Show it</button></form>'
            asks = "<p>It is shown once. Make sure that nobody else sees your screen.</p>"
            cookie = f"roamcard={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
            handler.answer(200, _html(self.title, asks + form), {"Set-Cookie": cookie})

    def show(self, handler: _Handler) -> None:
        """Shows the content to the person who pressed the button, in the browser that has the page.

        The cookie alone would not do: other ports of this machine get it, too.
        """
        token = handler.field("token")
        cookies = [c.strip() for c in (handler.headers.get("Cookie") or "").split(";")]
        with self._turn:
            bound = self._cookie != "" and any(_same(c, f"roamcard={self._cookie}") for c in cookies)
            own = handler.comes(f"http://{self.host}", "same-origin")
            if not own or not bound or not _same(token, self._token):
                return handler.say(403, "This button is pressed in the window that has it.")
            content, self._content = self._content, None
            if self.state != "opened" or content is None:
                return handler.say(410, "This page was shown once. Ask for it again.")
            once = "<p>Shown once. Close this window when you are done; it cannot be loaded again.</p>"
            try:
                handler.answer(200, _html(self.title, content + once))
            except OSError:
                return self._end("interrupted")  # what is not written was not seen
            self._end("shown")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, page: LocalPage) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page = page

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is nothing to tell."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = 10

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        if not self._is_here(path):
            return self.say(404, "")
        mode, dest = self.headers.get("Sec-Fetch-Mode", "navigate"), self.headers.get("Sec-Fetch-Dest", "document")
        if mode != "navigate" or dest != "document" or "Sec-Purpose" in self.headers:
            return self.say(403, "This page is opened by itself, in a window of its own.")
        page = self.server.page
        return page.open(self) if path == "/" else page.show(self)

    def do_GET(self) -> None:
        if not self._is_here(self.path.partition("?")[0]):
            return self.say(404, "")
        told = "There is nothing here. Open the file that you were told."
        self.answer(405, _html("roamcard", f"<p>{told}</p>"), {"Allow": "POST"})

    def _is_here(self, path: str) -> bool:
        """Another host name means that somebody tricked the browser into asking."""
        return self.headers.get("Host") == self.server.page.host and path in ("/", "/show")

    def comes(self, origin: str, *sites: str) -> bool:
        """Whether the request comes from one of these origins and sites, as far as its browser says."""
        return self.headers.get("Origin", origin) == origin and self.headers.get("Sec-Fetch-Site", sites[0]) in sites

    def field(self, name: str) -> str:
        """One field of the posted form."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > _MAX_POST:
            return ""
        text = self.rfile.read(int(length)).decode("utf-8", "replace")
        return parse_qs(text).get(name, [""])[0]

    def say(self, status: int, text: str) -> None:
        self.answer(status, _html("roamcard", f"<p>{text}</p>"))

    def answer(self, status: int, html: str, more: dict[str, str] | None = None) -> None:
        data = html.encode()
        self.send_response(status)
        told = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(data))}
        for name, value in {**_HEADERS, **told, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


def _same(given: str, secret: str) -> bool:
    return compare_digest(given.encode(), secret.encode())


def _folder() -> Path:
    """A folder that this user alone can read, where others cannot put another one in its place.

    A browser in a snap sees another /tmp, and of the home what is not hidden.
    """
    try:
        home = Path.home()
        if sys.platform == "linux" and (home / "snap").is_dir():
            return Path(tempfile.mkdtemp(prefix="roamcard-", dir=home))
    except (OSError, RuntimeError):
        pass
    folder = Path(tempfile.mkdtemp(prefix="roamcard-"))
    try:
        check_folder(folder)
    except ExposedError as error:
        folder.rmdir()
        raise RevealError(str(error)) from error
    return folder


def _html(title: str, content: str) -> str:
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:1.2rem system-ui;display:grid;place-items:center;min-height:90vh;margin:0}}
main{{border:1px solid;border-radius:1rem;padding:2rem}}button{{font:inherit;padding:.6rem 1.5rem}}
dd{{font:1.6rem ui-monospace,monospace;margin:0 0 1rem}}p{{max-width:26rem}}</style>
<main>{content}</main></html>
"""
