"""A person at a browser, for the pages of a PagePresenter."""

from __future__ import annotations

import html
import re
import urllib.request
from dataclasses import dataclass
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin, urlsplit

_FORM = re.compile(r'<form method="post"(?: action="([^"]*)")?>(.*?)</form>', re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


@dataclass(frozen=True)
class Seen:
    """What a browser shows in the end."""

    url: str
    html: str


def look(url: str) -> Seen:
    """Opens the address that a PagePresenter gives, as a browser does, and presses the buttons that it finds.

    It is a presenter's `open` for tests: `PagePresenter(look)`.
    """
    if not url.startswith("file:///"):
        raise ValueError("it is not the address of a file")
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with urllib.request.urlopen(url, timeout=10) as file:
        seen = Seen(url, file.read().decode())
    for _ in range(4):  # the file, the page of this machine, and one of the service's
        form = _FORM.search(seen.html)
        if form is None:
            return seen
        seen = _press(browser, seen, *form.groups(""))
    raise ValueError("the buttons do not end")


def _press(browser: urllib.request.OpenerDirector, page: Seen, action: str, content: str) -> Seen:
    """Posts the form of a page, as browsers do."""
    values = {html.unescape(name): html.unescape(value) for name, value in _HIDDEN.findall(content)}
    at = urlsplit(page.url)
    local = at.scheme == "file"
    headers = {
        "Origin": "null" if local else f"{at.scheme}://{at.netloc}",
        "Sec-Fetch-Site": "cross-site" if local else "same-origin",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    target = urljoin(page.url, html.unescape(action)) if action else page.url
    with browser.open(urllib.request.Request(target, urlencode(values).encode(), headers), timeout=30) as answer:
        return Seen(answer.url, answer.read().decode())
