"""The x402 facilitator of the Python package, as it is, for one chain and the scheme `exact`.

Settings are in FACILITATOR_PORT, FACILITATOR_KEY, FACILITATOR_CHAIN and FACILITATOR_RPC.
"""

import os
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from x402 import x402FacilitatorSync
from x402.mechanisms.evm import FacilitatorWeb3Signer
from x402.mechanisms.evm.exact import register_exact_evm_facilitator
from x402.schemas import PaymentPayload, PaymentRequirements

facilitator = x402FacilitatorSync()
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


# These are not coroutines, so that several are run at once, each in a thread.
@app.get("/supported")
def supported() -> dict[str, Any]:
    return shown(facilitator.get_supported())


@app.post("/verify")
def verify(asked: Asked) -> dict[str, Any]:
    return shown(facilitator.verify(asked.paymentPayload, asked.paymentRequirements))


@app.post("/settle")
def settle(asked: Asked) -> dict[str, Any]:
    return shown(facilitator.settle(asked.paymentPayload, asked.paymentRequirements))


uvicorn.run(app, host="127.0.0.1", port=int(os.environ["FACILITATOR_PORT"]), log_level="warning")
