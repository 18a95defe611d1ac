"""A buyer as a process of its own, to be killed."""

import json
import os
import sys

from eth_account import Account

from roamcard import EthAccountSigner, FileStore, Policy, Roamcard

base_url, origin, folder, key = sys.argv[1:]
signer = EthAccountSigner(Account.from_key(os.environ["WALLET_KEY"]))
client = Roamcard(base_url, signer, Policy("autonomous", "25", "50"), origin=origin, store=FileStore(folder))
bought = client.buy_card(idempotency_key=key)
print(json.dumps({"orderId": bought.order.order_id, "replayed": bought.replayed}))
