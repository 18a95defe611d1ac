"""What a bad network, and a service that steals, make of a request."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from pyqwest import ReadError

from roamcard.testing.faults import Answered, Incoming

if TYPE_CHECKING:
    from world import World

KINDS = {"PurchaseEsim": "esim", "PurchaseCard": "card_issue", "TopUpCard": "card_topup"}
STRANGER = "0x000000000000000000000000000000000000dEaD"


def purchase_of(path: str, body: bytes) -> str:
    """The purchase that a request makes; empty for others."""
    kind = KINDS.get(path.rpartition("/")[2])
    return f"{kind} {json.loads(body)['idempotencyKey']}" if kind else ""


class Exchange:
    """One request and what is made of it."""

    def __init__(self, world: World, incoming: Incoming, key: str, header: str | None) -> None:
        self.world = world
        self.incoming = incoming
        self.key = key
        self.header = header

    def answer(self, mood: int) -> Answered:
        if mood == 0 or self.world.draw(2) == 0:
            return self._ask(self.header)
        if mood == 1:
            return self._badly()
        # What is published stays honest: a lie there is one about the terms.
        if not self.key:
            return self._ask(None)
        return self._false_terms() if self.header is None else self._lie(self.header)

    def _ask(self, payment: str | None) -> Answered:
        headers = {name: value for name, value in self.incoming.headers.items() if name != "payment-signature"}
        if payment:
            headers["payment-signature"] = payment
        return self.world.service.serve(replace(self.incoming, headers=headers))

    def _badly(self) -> Answered:
        kind = self.world.draw(5)
        self.world.tell(f"network {kind}: {self.key}")
        if kind == 0:  # the request is lost
            raise ReadError("the connection was lost")
        answered = self._ask(self.header)
        match kind:
            case 1:  # the answer is lost
                raise ReadError("the connection was lost")
            case 2:  # it is cut
                return replace(answered, cut=20)
            case 3:  # the service was there, and something before it was not
                return self._plain(503, "upstream")
        return self._ask(self.header)  # the request comes twice

    def _false_terms(self) -> Answered:
        answered = self._ask(None)
        if answered.status != 402:
            return answered
        terms = json.loads(base64.b64decode(answered.headers["payment-required"]))
        [offer], kind = terms["accepts"], self.world.draw(6)
        self.world.tell(f"terms {kind}: {self.key}")
        if kind == 3:
            terms["accepts"].append(offer)
        elif kind == 5:
            terms["resource"]["url"] = "http://other.test/api/card/purchase"
        else:
            changes: dict[int, dict[str, Any]] = {
                0: {"amount": "24990000"}, 1: {"payTo": STRANGER}, 2: {"asset": STRANGER},
                4: {"maxTimeoutSeconds": 3600},
            }  # fmt: skip
            offer.update(changes[kind])
        return replace(answered, headers={**answered.headers, "payment-required": _base64(terms)})

    def _lie(self, header: str) -> Answered:
        """Answers a payment as a thief does, who may take it too."""
        kind = self.world.draw(12)
        taken = f", taken: {self.world.service.token.take(header)}" if self.world.draw(2) == 0 else ""
        self.world.tell(f"lie {kind}: {self.key}{taken}")
        match kind:
            case 0 | 1:
                return self._call_dead()
            case 2:
                return self._ask(None)
            case 3:
                return self._plain(409, '{"code":"failed_precondition","message":"no","details":[]}')
            case 4:
                return self._plain(200, "<html>Thank you</html>")
            case 5:
                return self._plain(200, "{}")
            case 6:
                return self._plain(307, "", location="http://other.test/")
            case 7:
                return self._plain(500, "")
            case 8:
                return self._plain(429, "")
            case 9:
                return self._forge(header, "ord_of_somebody_else", 1)
            case 10:
                return self._forge(header, "ord_forged", 0)
        return self._plain(402, "<html>pay</html>")

    def _call_dead(self) -> Answered:
        """Says that the payment was taken up and can never arrive, whatever became of it."""
        answered = self._ask(None)
        if answered.status != 402:
            return answered
        self.world.dead[self.key] += 1
        receipt = {"success": False, "transaction": "", "network": "eip155:8453", "errorReason": "expired"}
        return replace(answered, headers={**answered.headers, "payment-response": _base64(receipt)})

    def _plain(self, status: int, body: str, **headers: str) -> Answered:
        kind = "text/html" if body.startswith("<") else "application/json"
        date = formatdate(self.world.clock.now, usegmt=True)
        return Answered(status, {"content-type": kind, "date": date, **headers}, body.encode())

    def _forge(self, header: str, order_id: str, more: int) -> Answered:
        """Answers with an order that fits the payment, but for so many cents."""
        value = json.loads(base64.b64decode(header))["payload"]["authorization"]["value"]
        order = {
            "orderId": order_id,
            "kind": self.key.partition(" ")[0],
            "status": "settled",
            "amountUsdCents": int(value) // 10_000 + more,
        }
        return self._plain(200, json.dumps({"order": order}))


def _base64(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()
