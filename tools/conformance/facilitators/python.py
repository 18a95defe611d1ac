"""The x402 facilitator of the Python package, as it is, for one chain and the scheme `exact`.

Settings are in FACILITATOR_PORT, FACILITATOR_KEY, FACILITATOR_CHAIN and FACILITATOR_RPC.
"""

import os
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from x402 import x402Facilitator
from x402.mechanisms.evm import FacilitatorWeb3Signer
from x402.mechanisms.evm.exact import register_exact_evm_facilitator
from x402.schemas import PaymentPayload, PaymentRequirements

facilitator = x402Facilitator()
register_exact_evm_facilitator(
    facilitator,
    FacilitatorWeb3Signer(os.environ["FACILITATOR_KEY"], os.environ["FACILITATOR_RPC"]),
    networks=f"eip155:{os.environ['FACILITATOR_CHAIN']}",
)
app = FastAPI()


class Asked(BaseModel):
    """A request to verify or to settle a payment."""

    paymentPayload: PaymentPayload
    paymentRequirements: PaymentRequirements


def shown(value: BaseModel) -> dict[str, Any]:
    """Returns a value as it is written on the wire."""
    return value.model_dump(by_alias=True, exclude_none=True)


# The package's signer waits without giving way, so payments are settled one after the other. In threads its nonces
# reach the node in another order, and after a refusal for a gap it numbers nothing right any more.
@app.get("/supported")
async def supported() -> dict[str, Any]:
    return shown(facilitator.get_supported())


@app.post("/verify")
async def verify(asked: Asked) -> dict[str, Any]:
    return shown(await facilitator.verify(asked.paymentPayload, asked.paymentRequirements))


@app.post("/settle")
async def settle(asked: Asked) -> dict[str, Any]:
    return shown(await facilitator.settle(asked.paymentPayload, asked.paymentRequirements))


uvicorn.run(app, host="127.0.0.1", port=int(os.environ["FACILITATOR_PORT"]), log_level="warning")
