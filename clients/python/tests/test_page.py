"""The page of a card: a file that only the user can read leads one browser to it, once."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from urllib.request import url2pathname

import pytest

from roamcard import PagePresenter, Presented, Secret
from roamcard._gen.roamcard.v1.order_pb import EsimCredentials
from roamcard.testing import look

CODE = "LPA:1$smdp.example$MATCH-1"
FROM_FILE = {"Origin": "null", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
FROM_PAGE = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def esim() -> Secret[EsimCredentials]:
    return Secret(
        EsimCredentials(
            lpa=CODE,
            iccid="8901234567890123456",
            smdp_address="smdp.example",
            matching_id="MATCH-1",
            qr_png="data:image/png;base64,AAAA",
        )
    )


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str
    cookie: str = field(init=False)
    token: str = field(init=False)

    def __post_init__(self) -> None:
        self.cookie = self.headers.get("set-cookie", "").partition(";")[0]
        found = re.search(r'name="token" value="([^"]+)"', self.text)
        self.token = found[1] if found else ""

    @property
    def shows(self) -> bool:
        return CODE in self.text


class Visitor:
    """A browser at the page, or what passes for one."""

    def __init__(self, address: str) -> None:
        self.address, self.path = address, Path(url2pathname(urlsplit(address).path))
        self.html = self.path.read_text()
        found = re.search(r'action="http://([^"]+)/".* name="secret" value="([^"]+)"', self.html)
        assert found
        self.host, self.secret = found[1], found[2]

    def ask(
        self, method: str, path: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection(self.host, timeout=60)
        body = urlencode(form or {})
        connection.request(method, path, body, {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    def opens(self) -> Answer:
        return self.ask("POST", "/", {"secret": self.secret}, FROM_FILE)

    def presses(self, opened: Answer) -> Answer:
        own = {**FROM_PAGE, "Origin": f"http://{self.host}", "Cookie": opened.cookie}
        return self.ask("POST", "/show", {"token": opened.token}, own)


def shown(visit: Callable[[Visitor], object], page: str | None = None) -> Presented:
    """Shows an eSIM, or a page of the service's, to a visitor, who is done when it returns."""
    visitors: list[Visitor] = []

    def open(address: str) -> None:
        visitors.append(Visitor(address))
        visit(visitors[0])

    presenter = PagePresenter(open, timeout=0.01)
    result = presenter.present_esim(esim()) if page is None else presenter.open_page(page)
    assert not visitors[0].path.parent.exists()
    return result


def test_the_pages_secret_is_in_a_file_of_the_user_only() -> None:
    def visit(visitor: Visitor) -> None:
        assert visitor.path.stat().st_mode & 0o777 == 0o600
        assert visitor.path.parent.stat().st_mode & 0o777 == 0o700
        assert len(visitor.secret) > 40 and visitor.secret not in visitor.address and CODE not in visitor.html
        assert visitor.presses(visitor.opens()).shows

    assert shown(visit) == Presented(True)
    pages: list[str] = []
    assert PagePresenter(lambda url: pages.append(look(url).html)).present_esim(esim()) == Presented(True)
    assert CODE in pages[0]


def test_the_page_shows_nothing_to_who_has_its_address_only() -> None:
    def visit(visitor: Visitor) -> None:
        secret, port = {"secret": visitor.secret}, visitor.host.partition(":")[2]
        for name, answer in {
            "a look": visitor.ask("GET", "/"),
            "a look at the button": visitor.ask("GET", "/show"),
            "a look with it all": visitor.ask("GET", f"/?secret={visitor.secret}"),
            "no secret": visitor.ask("POST", "/", {}, FROM_FILE),
            "an empty secret": visitor.ask("POST", "/", {"secret": ""}, FROM_FILE),
            "a wrong secret": visitor.ask("POST", "/", {"secret": visitor.secret + "x"}, FROM_FILE),
            "a secret of other letters": visitor.ask("POST", "/", {"secret": "é"}, FROM_FILE),
            "in its address": visitor.ask("POST", f"/?secret={visitor.secret}", {}, FROM_FILE),
            "the button first": visitor.ask("POST", "/show", {"token": ""}, {**FROM_PAGE, "Cookie": "roamcard="}),
            "another name": visitor.ask("POST", "/", secret, {**FROM_FILE, "Host": "rebound.example"}),
            "the name of loopback": visitor.ask("POST", "/", secret, {**FROM_FILE, "Host": f"localhost:{port}"}),
            "without its port": visitor.ask("POST", "/", secret, {**FROM_FILE, "Host": "127.0.0.1"}),
            "a page elsewhere": visitor.ask("POST", "/", secret, {**FROM_FILE, "Origin": "https://evil.example"}),
            "another port": visitor.ask("POST", "/", secret, {**FROM_FILE, "Sec-Fetch-Site": "same-site"}),
            "a frame": visitor.ask("POST", "/", secret, {**FROM_FILE, "Sec-Fetch-Dest": "iframe"}),
            "a script": visitor.ask("POST", "/", secret, {**FROM_FILE, "Sec-Fetch-Mode": "no-cors"}),
            "ahead of time": visitor.ask("POST", "/", secret, {**FROM_FILE, "Sec-Purpose": "prefetch"}),
        }.items():
            assert answer.status >= 400 and not (answer.cookie or answer.token or answer.shows), name
        # None of that has used the secret up, and nothing is seen before the button is pressed.
        opened = visitor.opens()
        assert opened.status == 200 and opened.cookie and opened.token and not opened.shows

    assert shown(visit) == Presented(False, "not_pressed")
    assert shown(lambda visitor: None) == Presented(False, "timeout")


def test_the_page_is_bound_to_one_browser() -> None:
    def visit(visitor: Visitor) -> None:
        opened = visitor.opens()
        assert "HttpOnly; SameSite=Strict" in opened.headers["set-cookie"]
        assert (opened.headers["cache-control"], opened.headers["x-frame-options"]) == ("no-store", "DENY")
        assert re.match("default-src 'none'.*frame-ancestors 'none'", opened.headers["content-security-policy"])
        token = {"token": opened.token}
        own = {**FROM_PAGE, "Origin": f"http://{visitor.host}", "Cookie": opened.cookie}
        for name, answer in {
            "no cookie": visitor.ask("POST", "/show", token, {**own, "Cookie": ""}),
            "another cookie": visitor.ask("POST", "/show", token, {**own, "Cookie": opened.cookie + "x"}),
            "no button": visitor.ask("POST", "/show", {}, own),
            "another button": visitor.ask("POST", "/show", {"token": opened.token + "x"}, own),
            "from elsewhere": visitor.ask("POST", "/show", token, {**own, "Sec-Fetch-Site": "cross-site"}),
            "from a file": visitor.ask("POST", "/show", token, {**own, "Origin": "null"}),
            "in a frame": visitor.ask("POST", "/show", token, {**own, "Sec-Fetch-Dest": "iframe"}),
        }.items():
            assert answer.status == 403 and not answer.shows, name
        assert visitor.presses(opened).shows
        again = visitor.presses(opened)
        assert again.status == 410 and not again.shows

    assert shown(visit) == Presented(True)


def test_a_page_that_was_opened_twice_is_not_called_shown() -> None:
    def before(visitor: Visitor) -> None:
        thief, person = visitor.opens(), visitor.opens()
        assert person.status == 410 and not person.cookie
        pressed = visitor.presses(thief)
        assert pressed.status == 410 and not pressed.shows

    def after(visitor: Visitor) -> None:
        assert visitor.presses(visitor.opens()).shows
        assert "freeze the card" in visitor.opens().text

    assert shown(before) == Presented(False, "opened_elsewhere")
    assert shown(after) == Presented(False, "opened_elsewhere")


@pytest.mark.parametrize(("times", "reason"), [(0, "timeout"), (1, "opened_in_browser"), (2, "opened_elsewhere")])
def test_a_page_of_the_services_is_opened_through_the_file(times: int, reason: str) -> None:
    page = "http://127.0.0.1:1/reveal/secret"

    def visit(visitor: Visitor) -> None:
        assert "reveal" not in visitor.address + visitor.html
        for i in range(times):
            assert visitor.opens().headers.get("location") == (page if i == 0 else None)

    result = shown(visit, page)
    assert (result.presented, result.reason) == (False, reason)
