"""A buyer as a process of its own, to be killed."""

import asyncio
import json
import os
import sys

from eth_account import Account

from roamcard import AsyncRoamcard, EthAccountSigner, FileStore, PaidOrder, Policy, Roamcard

kind, base_url, origin, folder, key = sys.argv[1:]
signer = EthAccountSigner(Account.from_key(os.environ["WALLET_KEY"]))
policy, store = Policy("autonomous", "25", "50"), FileStore(folder)


async def awaiting() -> PaidOrder:
    async with AsyncRoamcard(base_url, signer, policy, origin=origin, store=store) as client:
        return await client.cards.purchase(idempotency_key=key)


def blocking() -> PaidOrder:
    with Roamcard(base_url, signer, policy, origin=origin, store=store) as client:
        return client.cards.purchase(idempotency_key=key)


bought = blocking() if kind == "sync" else asyncio.run(awaiting())
print(json.dumps({"orderId": bought.order_id, "replayed": bought.replayed}))
