"""Wallets with code: an owner signs, the account pays."""

from __future__ import annotations

import re
from typing import Any

from .errors import NotDeployedError, PaymentError
from .signers import Signer, hashable
from .x402 import CHAIN_ID, TypedData, same_address

_WORD = 32
_OWNER_BYTES = 65
_FACTORY = "6492" * 16
"""Ends the signature of an account that is not deployed, which names the call that would (ERC-6492)."""


class CoinbaseSmartAccount:
    """A Coinbase Smart Wallet, version 1 or 1.1, one of whose owners is a key. Needs the extra `evm`.

    The account has to be deployed before it pays. `owner` is any signer of typed data, and `owner_index` its place in
    the account's list of owners. Whether that is so is not asked.
    """

    def __init__(self, owner: Signer, address: str, owner_index: int = 0) -> None:
        if not re.fullmatch("0x[0-9a-fA-F]{40}", address):
            raise ValueError(f"{address!r} is no address, 0x and 40 hex digits")
        if same_address(address, owner.address):
            raise ValueError("the account and its owner have the same address")
        if owner_index < 0:
            raise ValueError("the owners are counted from 0")
        from eth_utils.address import to_checksum_address

        self._owner, self._address, self._index = owner, to_checksum_address(address), owner_index

    @property
    def address(self) -> str:
        """The account's address."""
        return str(self._address)

    def sign_typed_data(self, data: TypedData) -> str:
        """Signs an EIP-712 document."""
        from eth_account.messages import encode_typed_data

        return self._signed(encode_typed_data(full_message=hashable(data)))

    def sign_message(self, text: str) -> str:
        """Signs a text."""
        from eth_account.messages import encode_defunct

        return self._signed(encode_defunct(text=text))

    def _signed(self, message: Any) -> str:
        """Has the owner sign the message's digest for this account alone, as the account's code asks for."""
        from eth_account import Account
        from eth_account.messages import encode_typed_data
        from eth_utils.crypto import keccak

        digest = keccak(b"\x19" + message.version + message.header + message.body)
        document = self._document("0x" + digest.hex())
        signature = bytes.fromhex(self._owner.sign_typed_data(document).removeprefix("0x"))
        if len(signature) == _OWNER_BYTES and signature[-1] < 2:  # as some wallets count
            signature = signature[:-1] + bytes([signature[-1] + 27])
        try:
            signer = Account.recover_message(encode_typed_data(full_message=document), signature=signature)
        except Exception:
            signer = ""
        if not same_address(signer, self._owner.address):
            raise PaymentError("the account's owner signed something else; nothing was sent")
        return "0x" + self._wrapped(signature).hex()

    def _document(self, digest: str) -> TypedData:
        """What an owner signs for the account."""
        fields = (("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address"))
        return {
            "types": {
                "EIP712Domain": [{"name": name, "type": kind} for name, kind in fields],
                "CoinbaseSmartWalletMessage": [{"name": "hash", "type": "bytes32"}],
            },
            "primaryType": "CoinbaseSmartWalletMessage",
            "domain": {
                "name": "Coinbase Smart Wallet",
                "version": "1",
                "chainId": CHAIN_ID,
                "verifyingContract": self.address,
            },
            "message": {"hash": digest},
        }

    def _wrapped(self, signature: bytes) -> bytes:
        """The struct SignatureWrapper {uint256 ownerIndex; bytes signatureData} as the account's code reads it."""
        head = (_WORD, self._index, 2 * _WORD, len(signature))
        return b"".join(n.to_bytes(_WORD, "big") for n in head) + signature + bytes(-len(signature) % _WORD)


def of_account(signature: str) -> bool:
    """Whether a signature has the form of a smart account's: the struct in which the owner's is wrapped.

    Raises a NotDeployedError for that of an account which is not deployed.
    """
    if signature.lower().endswith(_FACTORY):
        raise NotDeployedError("the wallet's account is not deployed (ERC-6492); deploy it first. Nothing was sent")
    if not re.fullmatch("0x([0-9a-fA-F]{64}){5,}", signature):
        return False
    words = bytes.fromhex(signature[2:])
    begin, _, data, size = (int.from_bytes(words[at : at + _WORD], "big") for at in range(0, 4 * _WORD, _WORD))
    return (begin, data) == (_WORD, 2 * _WORD) and len(words) - 4 * _WORD == size + -size % _WORD
