"""Buys with the official x402 client what each line of standard input asks for, all of them at once, and writes what
came of each as a line: clients/typescript/test/support/official.mjs says how.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
from eth_account import Account
from x402 import x402Client
from x402.http.clients.httpx import x402AsyncTransport
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.mechanisms.evm.signers import EthAccountSigner


async def buy(asked: dict[str, Any]) -> None:
    official = register_exact_evm_client(x402Client(), EthAccountSigner(Account.from_key(asked["privateKey"])))
    official.set_spend_controls({"max_amount_per_payment": "$250"})
    within = asked["timeoutMs"] / 1000 if asked.get("timeoutMs") else None
    try:
        async with httpx.AsyncClient(transport=x402AsyncTransport(official), base_url=asked["baseUrl"]) as http:
            response = await http.post(asked["path"], json=asked["body"], timeout=within)
            status, body = response.status_code, response.text
    except Exception as error:
        status, body = 0, repr(error)
    print(json.dumps({"nth": asked["nth"], "status": status, "body": body}), flush=True)


async def main() -> None:
    buying: set[asyncio.Task[None]] = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        one = asyncio.create_task(buy(json.loads(line)))
        buying.add(one)
        one.add_done_callback(buying.discard)
    await asyncio.gather(*buying)


asyncio.run(main())
