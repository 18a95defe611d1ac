"""Tests programs that buy: a fake of the service in this process, and faults between a client and the fake or a real
service.

It is what `roamcard/testing` is for TypeScript and roamcardtest for Go, by the same words.

The fake needs no chain, no database and no network. It serves what the clients call, over Connect and REST: settings,
plans, 402 with the terms of x402, purchases, orders that are paid later, sign-in, cards, balances, eSIMs. It does not
serve streams (clients ask again and again instead), reveals of cards, or what operators do.

Its token keeps balances in memory, checks each authorization as the chain would (EIP-3009: payee, amount, time, and the
signature where eth-account is installed), takes each nonce once, and lists its transfers. A repeat gets the same order,
with `replayed: true`.

Faults hit the requests that their arguments name: the answer is lost after the service acted, or the request before it;
the answer is cut, held, another one, or a page; the request comes twice.

`look` is the person at a PagePresenter's page.
"""

from .faults import Faults, SeenRequest
from .person import Seen, look
from .proxy import FaultProxy
from .service import FakeService
from .token import Token, Transfer, Verify

__all__ = ["FakeService", "FaultProxy", "Faults", "Seen", "SeenRequest", "Token", "Transfer", "Verify", "look"]
