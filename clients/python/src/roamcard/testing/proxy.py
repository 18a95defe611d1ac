"""A fault proxy before a real service, for clients of any language."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from .faults import Answered, Faults, Incoming
from .serving import listen

_OWN = ("connection", "keep-alive", "transfer-encoding", "content-length", "host", "expect")


class FaultProxy:
    """A proxy on a port of this machine. Give a client its `url` as base_url, and the service's own address as origin.

    Every answer passes when it is whole: those of streams come at their end.
    """

    def __init__(self, upstream: str) -> None:
        self.faults = Faults()
        self._upstream = urlsplit(upstream)
        self._listening = listen(self.faults, self._forward)

    @property
    def url(self) -> str:
        """Where it is."""
        return self._listening.url

    def close(self) -> None:
        """Ends it."""
        self._listening.close()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forward(self, incoming: Incoming) -> Answered:
        secure = self._upstream.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self._upstream.hostname or "", self._upstream.port, timeout=60)
        try:
            headers = {name: value for name, value in incoming.headers.items() if name not in _OWN}
            connection.request(incoming.method, incoming.path, incoming.body or None, headers)
            response = connection.getresponse()
            kept = {name.lower(): value for name, value in response.getheaders() if name.lower() not in _OWN}
            return Answered(response.status, kept, response.read())
        finally:
            connection.close()
