"""The Python package of x402 signs in for one request: it has the answer of its purchase again, by the same client."""

import asyncio
import json
import os
import uuid
from pathlib import Path

import httpx
from eth_account import Account
from x402 import x402Client
from x402.extensions.sign_in_with_x import create_siwx_client_hook
from x402.http import x402HTTPClient
from x402.http.clients.httpx import x402AsyncTransport
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.mechanisms.evm.signers import EthAccountSigner

READY = json.loads(Path(os.environ["ROAMCARD_READY"]).read_text())
PATH = "/api/esim/purchase"


class Counting(httpx.AsyncHTTPTransport):
    """Notes what each request brought and got."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[bool, bool, int]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        brought = ("sign-in-with-x" in request.headers, "payment-signature" in request.headers)
        self.seen.append((*brought, response.status_code))
        return response


async def main() -> None:
    account = Account.from_key(READY["wallets"][6]["privateKey"])
    client = register_exact_evm_client(x402Client(), EthAccountSigner(account))
    client.set_spend_controls({"max_amount_per_payment": "$100"})
    official = x402HTTPClient(client).on_payment_required(create_siwx_client_hook(account))
    wire = Counting()
    body = {"idempotencyKey": f"siwx-python-{uuid.uuid4()}"}
    orders = []
    async with httpx.AsyncClient(
        transport=x402AsyncTransport(official, wire), base_url=READY["baseUrl"], timeout=60
    ) as http:
        for _ in range(2):
            response = await http.post(PATH, json=body)
            assert response.status_code == 200, response.text
            orders.append(response.json()["orderId"])
    assert orders[0] == orders[1], orders
    first = [(False, False, 402), (True, False, 402), (False, True, 200)]
    assert wire.seen == [*first, (False, False, 402), (True, False, 200)], wire.seen


asyncio.run(main())
