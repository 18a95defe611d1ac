"""Showing a card or an eSIM to a person, and keeping it from everybody else, the caller included."""

from __future__ import annotations

import base64
import json
import re
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TextIO, TypeAlias, TypeVar, runtime_checkable

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey, PyHPKEError

from ._gen.roamcard.v1.order_pb import EsimCredentials
from .custody import program_environment
from .errors import RevealError
from .localpage import LocalPage
from .model import Model
from .secret import Secret

SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM"
"""The HPKE suite as the service names it."""

_INFO = b"roamcard card reveal v1"


@dataclass(frozen=True)
class Presented(Model):
    """Whether a card was seen. It never says what was on it."""

    presented: bool
    reason: (
        Literal["timeout", "no_terminal", "opened_in_browser", "not_pressed", "opened_elsewhere", "interrupted"] | None
    ) = None
    """Why not, or that it is not known: a page of the service's was opened in the browser.

    `not_pressed`: the page was opened, and nobody pressed its button. `opened_elsewhere`: it was opened twice, so one
    of the two was not the person's browser.
    """


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
        """Opens that page in a browser.

        Its address is a secret like the card, and goes nowhere else, the browser's command line included.
        """
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

    The browser opens a file that only this user can read, and the file posts the page's secret: it is on no command
    line, which everybody on the machine can read. The page belongs to the browser that came first, and shows the card
    when the person presses its button; it is gone then, or after a minute. `open` takes the file's address, which is no
    secret, to the person: the system's browser when None. A page of the service's is opened in the same way.
    """

    def __init__(self, open: Callable[[str], object] | None = None, timeout: float = 60) -> None:
        self._open = open or _open_browser
        self._timeout = timeout

    def prepare(self) -> Showing:
        """A key pair for one card."""
        return _Sealed(self._view)

    def present_esim(self, esim: Secret[EsimCredentials]) -> Presented:
        """Shows an eSIM."""
        return self._show(LocalPage("Your eSIM", content=_esim_html(_opened(esim))))

    def open_page(self, url: str) -> Presented:
        """Opens a page of the service's, which shows a card once. Returns once the browser has it."""
        return self._show(LocalPage("Your card", leads=url))

    def _view(self, card: _Card) -> Presented:
        return self._show(LocalPage("Your card", content=_card_html(card)))

    def _show(self, page: LocalPage) -> Presented:
        with page.served() as address:
            if self._open(address) is False:
                raise RevealError("no browser can be opened here")
            page.wait(self._timeout)
        return {
            "shown": Presented(True),
            "led": Presented(False, "opened_in_browser"),
            "doubled": Presented(False, "opened_elsewhere"),
            "interrupted": Presented(False, "interrupted"),
            "opened": Presented(False, "not_pressed"),
            "waits": Presented(False, "timeout"),
        }[page.state]


def _open_browser(address: str) -> bool:
    """Starts the desktop's own browser, which gets no key or token of the environment."""
    program = {"darwin": "open", "win32": "explorer"}.get(sys.platform, "xdg-open")
    quiet = subprocess.DEVNULL
    try:
        browser = subprocess.Popen(
            [program, address],
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            start_new_session=True,
            env=program_environment(),
        )
    except OSError:
        return False
    threading.Thread(target=browser.wait, daemon=True).start()  # its exit code does not matter
    return True


# What the pages show needs no escaping: the parts are checked to be what they should.


def _card_html(card: _Card) -> str:
    return (
        f"<dl><dt>Number</dt><dd>{card.grouped}</dd><dt>Valid to</dt><dd>{card.expiry}</dd>"
        f"<dt>Code</dt><dd>{card.security_code}</dd></dl>"
    )


def _esim_html(esim: EsimCredentials) -> str:
    shown = (("SM-DP+ address", esim.smdp_address), ("Activation code", esim.matching_id), ("ICCID", esim.iccid))
    parts = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in shown)
    return f'<img src="{esim.qr_png}" alt="{esim.lpa}" width="300"><dl>{parts}</dl>'


def _opened(secret: Secret[EsimCredentials]) -> EsimCredentials:
    """The eSIM, when its parts are what a page and a terminal can show as they are."""
    esim = secret.reveal()
    parts = re.fullmatch(r"LPA:1\$([A-Za-z0-9.-]+)\$([A-Za-z0-9.-]*)(?:\$[0-9]+(?:\.[0-9]+)+)?", esim.lpa)
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
