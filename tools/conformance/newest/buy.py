"""Buys an eSIM from a development server with the official x402 package for Python, twice under one key.

    python buy.py READYFILE
"""

import asyncio
import base64
import json
import sys
import uuid

from eth_account import Account
from x402 import x402Client
from x402.http.clients.httpx import x402HttpxClient
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.mechanisms.evm.signers import EthAccountSigner


async def main(file: str) -> None:
    with open(file, encoding="utf-8") as text:
        ready = json.load(text)
    account = Account.from_key(ready["wallets"][11]["privateKey"])
    client = register_exact_evm_client(x402Client(), EthAccountSigner(account))
    client.set_spend_controls({"max_amount_per_payment": "$100"})
    body = {"idempotencyKey": f"newest-{uuid.uuid4()}"}
    bought = []
    async with x402HttpxClient(client, timeout=60) as http:
        for replayed in (None, True):
            answer = await http.post(ready["baseUrl"] + "/api/esim/purchase", json=body)
            order = answer.json()
            assert answer.status_code == 200, order
            assert order.get("replayed") is replayed, order
            settled = json.loads(base64.b64decode(answer.headers["payment-response"]))
            assert settled["success"] and settled["transaction"] == order["payment"]["transaction"], settled
            bought.append(order["orderId"])
    assert bought[0] == bought[1]
    print(account.address, "bought", bought[0])


asyncio.run(main(sys.argv[1]))
