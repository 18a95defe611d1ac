"""Showing a card or an eSIM to a person, and keeping it from everybody else, the caller included."""

from __future__ import annotations

import base64
import json
import re
import secrets
import select
import sys
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Protocol, TextIO, TypeAlias, TypeVar, runtime_checkable

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey, PyHPKEError

from ._gen.roamcard.v1.order_pb import EsimCredentials
from .errors import RevealError
from .model import Model
from .secret import Secret

SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM"
"""The HPKE suite as the service names it."""

_INFO = b"roamcard card reveal v1"


@dataclass(frozen=True)
class Presented(Model):
    """Whether a card was seen. It never says what was on it."""

    presented: bool
    reason: Literal["timeout", "no_terminal", "opened_in_browser"] | None = None
    """Why not, or that it is not known: a page of the service's was opened in the browser."""


class Showing(Protocol):
    """One card about to be shown."""

    @property
    def recipient_key(self) -> str:
        """The X25519 public key that this one card is sealed to: 32 bytes, base64."""
        ...

    def show(self, card_id: str, suite: str, enc: str, ciphertext: str) -> Presented:
        """Opens the card where the person sees it, and returns when that is over. It blocks."""
        ...


class Presenter(Protocol):
    """Shows cards to a person."""

    def prepare(self) -> Showing: ...


@runtime_checkable
class BrowserPresenter(Presenter, Protocol):
    """Shows cards to a person, also those whose issuer shows them on a page of the service's only."""

    def open_page(self, url: str) -> Presented:
        """Opens that page in a browser. Its address is a secret like the card, and goes nowhere else."""
        ...


class EsimPresenter(Protocol):
    """Shows eSIMs to a person."""

    def present_esim(self, esim: Secret[EsimCredentials]) -> Presented:
        """Shows it, and returns when that is over. It blocks."""
        ...


Where: TypeAlias = Literal["browser", "tty"]
"""A presenter by name: a page in the system's browser, or the terminal."""

P = TypeVar("P")


def presenter_of(present: P | Where) -> P | PagePresenter | TerminalPresenter:
    """The presenter of this name, or the one that is given."""
    if present == "browser":
        return PagePresenter()
    return TerminalPresenter() if present == "tty" else present


@dataclass(frozen=True, repr=False)
class _Card:
    number: str
    expiry: str
    security_code: str

    def __repr__(self) -> str:
        return "[redacted]"

    @property
    def grouped(self) -> str:
        return " ".join(re.findall(".{1,4}", self.number))


class _Sealed:
    """A key pair made for one card; what it opens goes to `view` and to nobody else."""

    def __init__(self, view: Callable[[_Card], Presented]) -> None:
        self._view = view
        self._private = X25519PrivateKey.generate()
        self.recipient_key = base64.b64encode(self._private.public_key().public_bytes_raw()).decode()

    def show(self, card_id: str, suite: str, enc: str, ciphertext: str) -> Presented:
        if suite != SUITE:
            raise RevealError(f"the card is sealed by {suite}, not {SUITE}")
        try:
            card = json.loads(self._open(base64.b64decode(enc), base64.b64decode(ciphertext), card_id.encode()))
            number, month, year, code = (
                str(card["number"]),
                int(card["expiryMonth"]),
                int(card["expiryYear"]),
                str(card["securityCode"]),
            )
        except (PyHPKEError, ValueError, KeyError, TypeError):
            # The reason could quote the number.
            raise RevealError("what was sealed cannot be opened") from None
        if not re.fullmatch("[0-9]{12,19}", number) or not re.fullmatch("[0-9]{3,4}", code):
            raise RevealError("what was sealed is not a card")
        return self._view(_Card(number, f"{month:02d}/{year % 100:02d}", code))

    def _open(self, enc: bytes, ciphertext: bytes, aad: bytes) -> bytes:
        """The receiver of RFC 9180 in base mode."""
        suite = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES256_GCM)
        return suite.create_recipient_context(enc, KEMKey.from_pyca_cryptography_key(self._private), info=_INFO).open(
            ciphertext, aad
        )


class PagePresenter:
    """Shows the card, or the eSIM with its QR code, in a page that this process serves on loopback, one time.

    Its address cannot be guessed and is gone after the first view, or after a minute. `open` takes it to the person:
    the system's browser when None. Whoever has the address can see the page once, so give it to nobody but the person.
    """

    def __init__(self, open: Callable[[str], object] | None = None, timeout: float = 60) -> None:
        self._open = open or webbrowser.open
        self._timeout = timeout

    def prepare(self) -> Showing:
        """A key pair for one card."""
        return _Sealed(self._view)

    def present_esim(self, esim: Secret[EsimCredentials]) -> Presented:
        """Shows an eSIM."""
        return self._show(_esim_html(_opened(esim)))

    def open_page(self, url: str) -> Presented:
        """Opens a page of the service's, which shows a card once."""
        if self._open(url) is False:
            raise RevealError("no browser can be opened here")
        return Presented(False, "opened_in_browser")

    def _view(self, card: _Card) -> Presented:
        return self._show(_card_html(card))

    def _show(self, html: str) -> Presented:
        page = _Page(html)
        serving = threading.Thread(target=page.serve_forever, daemon=True)
        serving.start()
        try:
            self._open(page.url)
            seen = page.seen.wait(self._timeout)
        finally:
            page.html = None
            # The first view is answered; a browser that asks again a little later still hears that it is over.
            threading.Timer(1.5, page.shutdown_and_close).start()
        return Presented(True) if seen else Presented(False, "timeout")


class _Page(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, html: str) -> None:
        super().__init__(("127.0.0.1", 0), _PageHandler)
        self.html: str | None = html
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.path = "/" + secrets.token_urlsafe(24)
        self.url = f"http://{self.host}{self.path}"
        self.seen = threading.Event()
        self._taking = threading.Lock()

    def take(self) -> str | None:
        """The page, for the first who asks."""
        with self._taking:
            html, self.html = self.html, None
            return html

    def shutdown_and_close(self) -> None:
        self.shutdown()
        self.server_close()


class _PageHandler(BaseHTTPRequestHandler):
    server: _Page  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        # Another host name or a foreign page means that somebody tricked the browser into asking.
        site = self.headers.get("Sec-Fetch-Site", "none")
        if (
            self.path != self.server.path
            or self.headers.get("Host") != self.server.host
            or site not in ("none", "same-origin")
        ):
            return self._answer(404, "text/plain", "")
        html = self.server.take()
        if html is None:
            return self._answer(410, "text/plain", "This was shown already.\n")
        self._answer(200, "text/html", html)
        self.server.seen.set()

    def _answer(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in {
            **_HEADERS,
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(data)),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """The address is a secret: nothing is logged."""


_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


# What the pages show needs no escaping: the parts are checked to be what they should.


def _card_html(card: _Card) -> str:
    parts = (
        f"<dt>Number</dt><dd>{card.grouped}</dd><dt>Valid to</dt><dd>{card.expiry}</dd>"
        f"<dt>Code</dt><dd>{card.security_code}</dd>"
    )
    return _page("Your card", f"<dl>{parts}</dl>")


def _esim_html(esim: EsimCredentials) -> str:
    shown = (("SM-DP+ address", esim.smdp_address), ("Activation code", esim.matching_id), ("ICCID", esim.iccid))
    parts = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in shown)
    return _page("Your eSIM", f'<img src="{esim.qr_png}" alt="{esim.lpa}" width="300"><dl>{parts}</dl>')


def _opened(secret: Secret[EsimCredentials]) -> EsimCredentials:
    """The eSIM, when its parts are what a page and a terminal can show as they are."""
    esim = secret.reveal()
    parts = re.fullmatch(r"LPA:1\$([A-Za-z0-9.-]+)\$([A-Za-z0-9.-]*)", esim.lpa)
    picture = re.fullmatch("data:image/png;base64,[A-Za-z0-9+/=]+", esim.qr_png)
    if (
        not parts
        or parts.groups() != (esim.smdp_address, esim.matching_id)
        or not re.fullmatch("[0-9]{18,22}", esim.iccid)
        or not picture
    ):
        # The reason could quote the code.
        raise RevealError("what came is not an eSIM")
    return esim


def _page(title: str, content: str) -> str:
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:1.2rem system-ui;display:grid;place-items:center;min-height:90vh;margin:0}}
main{{border:1px solid;border-radius:1rem;padding:2rem}}
dd{{font:1.6rem ui-monospace,monospace;margin:0 0 1rem}}p{{max-width:26rem}}</style>
<main>{content}
<p>Shown once. Close this window when you are done; it cannot be loaded again.</p></main></html>
"""


class TerminalPresenter:
    """Shows the card, or the eSIM, on the terminal's alternate screen until Enter is pressed, or for a minute.

    It refuses pipes and files.
    """

    def __init__(self, input: TextIO | None = None, output: TextIO | None = None, timeout: float = 60) -> None:
        self._input = input or sys.stdin
        self._output = output or sys.stdout
        self._timeout = timeout

    def prepare(self) -> Showing:
        """A key pair for one card."""
        return _Sealed(self._view)

    def present_esim(self, esim: Secret[EsimCredentials]) -> Presented:
        """Shows an eSIM."""
        open = _opened(esim)
        return self._show(
            open.lpa,
            f"SM-DP+ address {open.smdp_address}",
            f"activation code {open.matching_id}",
            f"ICCID {open.iccid}",
        )

    def _view(self, card: _Card) -> Presented:
        return self._show(card.grouped, f"valid to {card.expiry}   code {card.security_code}")

    def _show(self, *lines: str) -> Presented:
        if not self._input.isatty() or not self._output.isatty():
            return Presented(False, "no_terminal")
        shown = "".join(f"  {line}\n" for line in lines)
        self._output.write(f"\x1b[?1049h\x1b[2J\x1b[H\n{shown}\n  Press Enter to hide it.\n")
        self._output.flush()
        try:
            if select.select([self._input], [], [], self._timeout)[0]:
                self._input.readline()
        finally:
            self._output.write("\x1b[2J\x1b[?1049l")
            self._output.flush()
        return Presented(True)
