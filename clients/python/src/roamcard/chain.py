"""What the chain says of authorizations, asked of a node that the caller trusts."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from .errors import RoamcardError
from .journal import Entry, SignedAuthorization, Void
from .nesting import loads
from .network import MOST_BYTES
from .version import USER_AGENT

_AUTHORIZATION_STATE = "0xe94a0102"
_USED = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
_CANCELLED = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"
_TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
_BLOCK_TIME = 2
_SEARCH_SLACK = 1_000
_LOG_RANGE = 5_000


class Chain:
    """One JSON-RPC node. It blocks."""

    def __init__(self, url: str, asset: str, timeout: float) -> None:
        self._url, self._asset, self._timeout = url, asset, timeout
        self._opener = urllib.request.build_opener(_NoRedirects)

    def voids(self, entry: Entry) -> dict[int, Void]:
        """Which authorizations of a purchase the chain can never take, as of a block that nothing undoes.

        What cannot be asked is left out.
        """
        found: dict[int, Void] = {}
        for i, authorization in enumerate(entry.authorizations):
            try:
                reason = None if authorization.void else self._void(entry, authorization)
            except (OSError, ValueError, KeyError, TypeError, RoamcardError):
                reason = None
            if reason is not None:
                found[i] = reason
        return found

    def lacks_code(self, account: str) -> bool:
        """Whether the node says that an account has no code. What it does not answer is left to the service."""
        try:
            return bool(self._ask("eth_getCode", account, "latest") == "0x")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RoamcardError):
            return False

    def _void(self, entry: Entry, a: SignedAuthorization) -> Void | None:
        block = self._ask("eth_getBlockByNumber", "safe", False)
        data = _AUTHORIZATION_STATE + _word(entry.payer) + _word(a.nonce)
        head, at = int(block["number"], 16), int(block["timestamp"], 16)
        if int(self._ask("eth_call", {"to": self._asset, "data": data}, block["number"]), 16) == 0:
            return "expired" if at > a.valid_before else None
        first = max(0, head - max(0, at - a.signed_at) // _BLOCK_TIME - _SEARCH_SLACK)
        for begin in range(first, head + 1, _LOG_RANGE):
            logs = self._ask("eth_getLogs", {
                "address": self._asset, "topics": [[_USED, _CANCELLED], "0x" + _word(entry.payer), a.nonce],
                "fromBlock": hex(begin), "toBlock": hex(min(begin + _LOG_RANGE - 1, head)),
            })  # fmt: skip
            if logs:
                return (
                    "cancelled"
                    if logs[0]["topics"][0] == _CANCELLED
                    else self._elsewhere(logs[0], entry.payer, int(a.amount))
                )
        return None

    def _elsewhere(self, used: dict[str, Any], payer: str, amount: int) -> Void | None:
        """Reads the transfer directly after an authorization's use: one of the same amount is the payment itself."""
        wanted = int(used["logIndex"], 16) + 1
        for log in self._ask("eth_getTransactionReceipt", used["transactionHash"])["logs"]:
            if int(log["logIndex"], 16) == wanted and log["topics"][:2] == [_TRANSFER, "0x" + _word(payer)]:
                return "used_elsewhere" if int(log["data"], 16) != amount else None
        return None

    def _ask(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(
            self._url, body, {"content-type": "application/json", "user-agent": USER_AGENT}
        )
        with self._opener.open(request, timeout=self._timeout) as answer:
            result = loads(answer.read(MOST_BYTES)).get("result")
        if result is None:
            raise RoamcardError(f"the node does not answer {method}")
        return result


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


def _word(value: str) -> str:
    return value.removeprefix("0x").lower().rjust(64, "0")
