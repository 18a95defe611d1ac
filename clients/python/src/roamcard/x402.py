"""The wire form of x402 version 2, scheme exact, EIP-3009: what a challenge says and what a payer signs."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from .errors import TermsMismatchError
from .model import Model
from .nesting import loads

NETWORK = "eip155:8453"
"""The network every payment is made on: Base."""
CHAIN_ID = 8453
"""The EIP-155 id of that network."""
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
"""Native USDC on Base."""

REQUIRED_HEADER = "payment-required"
SIGNATURE_HEADER = "payment-signature"
FORMER_SIGNATURE_HEADER = "x-payment"
"""The header of a payment in version 1."""
RESPONSE_HEADER = "payment-response"

TypedData: TypeAlias = dict[str, Any]
"""An EIP-712 document in the JSON form of eth_signTypedData_v4."""


@dataclass(frozen=True)
class Terms:
    """A challenge: what is sold and how it can be paid. Offers are kept as they came: they are echoed."""

    version: int
    error: str
    resource: dict[str, Any]
    accepts: list[dict[str, Any]]


@dataclass(frozen=True)
class Receipt(Model):
    """What the service says about a payment it took."""

    success: bool
    transaction: str
    network: str
    payer: str | None


def decode_terms(header: str) -> Terms:
    """Reads a PAYMENT-REQUIRED header."""
    terms = _decode(header)
    match terms:
        case {
            "x402Version": int(version),
            "resource": {"url": str()} as resource,
            "accepts": [{"amount": str()}, *_] as accepts,
        }:
            return Terms(version, str(terms.get("error", "")), resource, list(accepts))
    raise TermsMismatchError("the PAYMENT-REQUIRED header cannot be read; nothing was signed")


def decode_receipt(header: str | None) -> Receipt | None:
    """Reads a PAYMENT-RESPONSE header; None when there is none that can be read."""
    receipt = _decode(header or "")
    match receipt:
        case {"success": bool(success), "transaction": str(transaction), "network": str(network)}:
            return Receipt(success, transaction, network, receipt.get("payer"))
    return None


def encode_payment(terms: Terms, offer: dict[str, Any], authorization: dict[str, str], signature: str) -> str:
    """Writes a PAYMENT-SIGNATURE header."""
    payment = {
        "x402Version": 2,
        "resource": terms.resource,
        "accepted": offer,
        "payload": {"signature": signature, "authorization": authorization},
    }
    return base64.b64encode(json.dumps(payment, separators=(",", ":")).encode()).decode()


@dataclass(frozen=True)
class Payment:
    """A payment that somebody signed."""

    accepted: dict[str, Any]
    authorization: dict[str, str]


def decode_payment(header: str) -> Payment | None:
    """Reads a PAYMENT-SIGNATURE header; None when it cannot be read."""
    match _decode(header):
        case {
            "x402Version": 2,
            "accepted": {"amount": str(), "payTo": str()} as accepted,
            "payload": {"authorization": {
                "from": str(), "to": str(), "value": str(), "validBefore": str(), "nonce": str(),
            } as authorization},
        }:  # fmt: skip
            return Payment(accepted, authorization) if str(authorization["validBefore"]).isdecimal() else None
    return None


def authorization_typed_data(offer: dict[str, Any], authorization: dict[str, str]) -> TypedData:
    """The typed data of an authorization; numbers are decimal strings."""
    domain = {"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address"}
    transfer = {
        "from": "address", "to": "address", "value": "uint256", "validAfter": "uint256", "validBefore": "uint256",
        "nonce": "bytes32",
    }  # fmt: skip
    extra = offer["extra"]
    return {
        "types": {"EIP712Domain": _members(domain), "TransferWithAuthorization": _members(transfer)},
        "primaryType": "TransferWithAuthorization",
        "domain": {
            "name": extra["name"],
            "version": extra["version"],
            "chainId": CHAIN_ID,
            "verifyingContract": offer["asset"],
        },
        "message": dict(authorization),
    }


def proves_dead(headers: Mapping[str, str]) -> bool:
    """Whether the headers of a 402 prove that the payment was taken up and can never arrive."""
    receipt = decode_receipt(headers.get(RESPONSE_HEADER))
    return receipt is not None and not receipt.success


def nonce_of(origin: str, path: str, payer: str, key: str, attempt: int = 0) -> str:
    """The EIP-3009 nonce of a purchase.

    The token takes a nonce of a payer once: however often a purchase is signed, even by a client that lost its journal,
    the chain itself refuses to pay for it twice. Each part is preceded by its length. `path` is the documented REST
    path whatever the protocol; `attempt` counts the authorizations that the service proved dead.
    """
    digest = hashlib.sha256()
    for part in ("v1", origin, path, payer.lower(), key, *([str(attempt)] if attempt else [])):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return "0x" + digest.hexdigest()


def same_address(a: object, b: str) -> bool:
    """Whether two texts are the same address."""
    return str(a).lower() == b.lower()


def _members(types: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in types.items()]


def _decode(header: str) -> Any:
    try:
        return loads(base64.b64decode(header, validate=True))
    except ValueError:
        return None
