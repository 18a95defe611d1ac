"""The fake's USDC."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..x402 import USDC, Payment, authorization_typed_data, decode_payment, same_address

Verify = Callable[[str, "dict[str, Any] | str", str], bool]
"""Whether an address has signed a typed document or a text."""


def verify(address: str, signed: dict[str, Any] | str, signature: str) -> bool:
    """Verifies as the chain does, by eth-account where it is installed; without it, any signature of 65 bytes does."""
    if not re.fullmatch("0x[0-9a-fA-F]{130}", signature):
        return False
    try:
        from eth_account import Account
        from eth_account.messages import encode_defunct, encode_typed_data
    except ImportError:
        return True
    if isinstance(signed, str):
        message = encode_defunct(text=signed)
    else:
        numbers = {m["name"] for m in signed["types"][signed["primaryType"]] if m["type"].startswith("uint")}
        values = {name: int(value) if name in numbers else value for name, value in signed["message"].items()}
        message = encode_typed_data(full_message={**signed, "message": values})
    try:
        return same_address(Account.recover_message(message, signature=signature), address)
    except Exception:
        return False  # what is no point of the curve is signed by nobody


@dataclass(frozen=True)
class Transfer:
    """One payment that the token moved."""

    payer: str
    pay_to: str
    amount: int
    """In USDC's smallest unit."""
    nonce: str
    transaction: str
    """Made up of payer and nonce."""
    at: float
    """Seconds since 1970."""


class Token:
    """The fake's USDC. Threads may share it."""

    def __init__(self, starting: int, now: Callable[[], float], verify: Verify) -> None:
        self._starting = starting
        self._now = now
        self._verify = verify
        self._lock = threading.Lock()
        self._balances: dict[str, int] = {}
        self._used: set[tuple[str, str]] = set()
        self._transfers: list[Transfer] = []

    @property
    def transfers(self) -> list[Transfer]:
        """The payments that were taken, oldest first."""
        with self._lock:
            return list(self._transfers)

    def set_balance(self, wallet: str, units: int) -> None:
        """Gives a wallet so much, in USDC's smallest unit."""
        with self._lock:
            self._balances[wallet.lower()] = units

    def take(self, header: str) -> Transfer | str:
        """Moves the money of a PAYMENT-SIGNATURE header, as anybody who has one can.

        The reason of x402 why it does not.
        """
        payment = decode_payment(header)
        if payment is None:
            return "invalid_payload"
        offer = {**payment.accepted, "asset": USDC, "extra": {"name": "USD Coin", "version": "2"}}
        data = authorization_typed_data(offer, payment.authorization)
        if not self._verify(payment.authorization["from"], data, signature_in(header)):
            return "invalid_exact_evm_signature"
        with self._lock:
            return self._move(payment)

    def _move(self, payment: Payment) -> Transfer | str:
        a, now = payment.authorization, int(self._now())
        payer, amount = a["from"].lower(), int(a["value"])
        balance = self._balances.get(payer, self._starting)
        if now <= int(a["validAfter"]):
            return "invalid_exact_evm_payload_authorization_valid_after"
        if now >= int(a["validBefore"]):
            return "invalid_exact_evm_payload_authorization_valid_before"
        if (payer, a["nonce"].lower()) in self._used:
            return "invalid_exact_evm_nonce_already_used"
        if balance < amount:
            return "invalid_exact_evm_insufficient_balance"
        self._used.add((payer, a["nonce"].lower()))
        self._balances[payer] = balance - amount
        transaction = "0x" + hashlib.sha256(f"{payer} {a['nonce']}".encode()).hexdigest()
        moved = Transfer(a["from"], a["to"], amount, a["nonce"], transaction, self._now())
        self._transfers.append(moved)
        return moved


KEY_SIGNATURE = 2 + 2 * 65
"""How many characters a key's signature has."""


def signature_in(header: str) -> str:
    """The signature of a payment that can be read."""
    return str(json.loads(base64.b64decode(header))["payload"].get("signature"))
