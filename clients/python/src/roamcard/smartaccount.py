"""Wallets with code: an owner signs, the account pays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .errors import PaymentError
from .signers import Signer, hashable
from .x402 import CHAIN_ID, TypedData, same_address

_WORD = 32
_OWNER_BYTES = 65
_LONGEST = 2 << 10
"""How many bytes the service takes of a smart account's signature."""

_MARK = bytes.fromhex("6492" * 16)
"""Ends a signature that says how its account is made (ERC-6492)."""

_FACTORY = bytes.fromhex("ba5ed110efdba3d005bfc882d75358acbbb85842")
"""Makes wallets of version 1.1 on Base: script/DeployFactory.s.sol of github.com/coinbase/smart-wallet."""

_PROXY = bytes.fromhex(
    "603d3d8160223d3973" "00000110dcdedc9581cb5ecb8467282f2926534d" "60095155f3"
    "363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"
    "545af43d6000803e6038573d6000fd5b3d6000f3"
)  # fmt: skip
"""Makes the code of its accounts, which are proxies of the implementation that it names."""


class _SmartAccount:
    """What the accounts have in common: they sign whatever has a digest."""

    _address: str

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
        raise NotImplementedError


class CoinbaseSmartAccount(_SmartAccount):
    """A Coinbase Smart Wallet, version 1 or 1.1, one of whose owners is a key. Needs the extra `evm`.

    This is one that is deployed; `undeployed` makes others. `owner` is any signer of typed data, and `owner_index` its
    place in the account's list of owners. Whether that is so is not asked.
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
        self._call = b""

    @classmethod
    def undeployed(cls, owner: Signer, owners: Sequence[str] = (), nonce: int = 0) -> CoinbaseSmartAccount:
        """An account of version 1.1 that need not be deployed: its first payment does that.

        Its address follows from the owners, in their order, and the nonce, which is 0 for the first account of the same
        owners. Owners are addresses, or the public keys of passkeys, x and y in 64 bytes; the signer is one of them, or
        the only one when none is named. It signs in the same form (ERC-6492) once the account is deployed, and the
        service takes that, too; the signatures of an account made by its address are shorter.
        """
        from eth_abi.abi import encode
        from eth_utils.crypto import keccak

        if not 0 <= nonce < 1 << 256:
            raise ValueError("the nonce is a number of 32 bytes")
        named = [_owner_of(text) for text in owners or (owner.address,)]
        if len({*named}) != len(named):
            raise ValueError("an owner is named twice")
        signs = _owner_of(owner.address)
        if signs not in named:
            raise ValueError(f"the signer {owner.address} is none of the owners")
        arguments = encode(["bytes[]", "uint256"], [named, nonce])
        made = keccak(b"\xff" + _FACTORY + keccak(arguments) + keccak(_PROXY))
        account = cls(owner, "0x" + made[12:].hex(), named.index(signs))
        account._call = keccak(text="createAccount(bytes[],uint256)")[:4] + arguments
        if len(account._wrapped(bytes(_OWNER_BYTES))) > _LONGEST:
            raise ValueError("the account has more owners than a signature has room for")
        return account

    def _signed(self, message: Any) -> str:
        """Has the owner sign the message's digest for this account alone, as the account's code asks for."""
        document = self._document("0x" + _digest_of(message).hex())
        return "0x" + self._wrapped(_signed_by(self._owner, document)).hex()

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
        """The struct SignatureWrapper {uint256 ownerIndex; bytes signatureData} as the account's code reads it.

        When the account need not be deployed, it comes with the call that makes it.
        """
        from eth_abi.abi import encode

        wrapped: bytes = encode(["(uint256,bytes)"], [(self._index, signature)])
        if not self._call:
            return wrapped
        return bytes(encode(["address", "bytes", "bytes"], [_FACTORY, self._call, wrapped])) + _MARK


class SafeAccount(_SmartAccount):
    """A Safe, version 1.3.0, 1.4.1 or 1.5.0, for which keys sign. Needs the extra `evm`.

    It is deployed. `owners` are signers of typed data, as many as the account's threshold says, in any order. Whether
    that is so is not asked.
    """

    def __init__(self, address: str, *owners: Signer) -> None:
        if not re.fullmatch("0x[0-9a-fA-F]{40}", address):
            raise ValueError(f"{address!r} is no address, 0x and 40 hex digits")
        named = {owner.address.lower() for owner in owners}
        if not 0 < len(owners) <= _LONGEST // _OWNER_BYTES or len(named) != len(owners):
            raise ValueError("the owners that sign are 1 to 31 different ones")
        if address.lower() in named:
            raise ValueError("the account and its owner have the same address")
        from eth_utils.address import to_checksum_address

        self._address = to_checksum_address(address)
        self._owners = sorted(owners, key=lambda owner: int(owner.address, 16))

    def _signed(self, message: Any) -> str:
        """Has each owner sign the message's digest for this account alone, in the order of their addresses."""
        document: TypedData = {
            "types": {
                "EIP712Domain": [
                    {"name": "chainId", "type": "uint256"},
                    {"name": "verifyingContract", "type": "address"},
                ],
                "SafeMessage": [{"name": "message", "type": "bytes"}],
            },
            "primaryType": "SafeMessage",
            "domain": {"chainId": CHAIN_ID, "verifyingContract": self.address},
            "message": {"message": "0x" + _digest_of(message).hex()},
        }
        return "0x" + b"".join(_signed_by(owner, document) for owner in self._owners).hex()


def _digest_of(message: Any) -> bytes:
    from eth_utils.crypto import keccak

    digest: bytes = keccak(b"\x19" + message.version + message.header + message.body)
    return digest


def _signed_by(owner: Signer, document: TypedData) -> bytes:
    """The owner's signature of a document, in 65 bytes."""
    from eth_account import Account
    from eth_account.messages import encode_typed_data

    signature = bytes.fromhex(owner.sign_typed_data(document).removeprefix("0x"))
    if len(signature) == _OWNER_BYTES and signature[-1] < 2:  # as some wallets count
        signature = signature[:-1] + bytes([signature[-1] + 27])
    try:
        signer = Account.recover_message(encode_typed_data(full_message=hashable(document)), signature=signature)
    except Exception:
        signer = ""
    if len(signature) != _OWNER_BYTES or not same_address(signer, owner.address):
        raise PaymentError("the account's owner signed something else; nothing was sent")
    return signature


def _owner_of(text: str) -> bytes:
    """An owner as the account's code keeps it: the word of an address, or the 64 bytes of a passkey."""
    if not re.fullmatch("0x(0{24})?[0-9a-fA-F]{40}|0x[0-9a-fA-F]{128}", text):
        raise ValueError(f"the owner {text!r} is neither an address nor a passkey's public key of 64 bytes")
    return bytes.fromhex(text[2:]).rjust(_WORD, b"\0")


def of_account(signature: str) -> bool:
    """Whether a signature has the form of a smart account's.

    That is the struct in which the owner's is wrapped, or those of some owners of a Safe.
    """
    if re.fullmatch("0x([0-9a-fA-F]{130}){2,31}", signature):
        return True
    if not re.fullmatch("0x([0-9a-fA-F]{64}){5,}", signature) or len(signature) > 2 + 2 * _LONGEST:
        return False
    words = bytes.fromhex(signature[2:])
    return (_number(words, 0), _number(words, 2)) == (_WORD, 2 * _WORD) and _end(words, 3 * _WORD) == len(words)


def names_creation(signature: str) -> bool:
    """Whether a signature is that of a smart account, and says how that is made (ERC-6492)."""
    mark, longest = _MARK.hex(), 2 + 2 * _LONGEST
    if not re.fullmatch(f"0x([0-9a-f]{{64}}){{5,}}{mark}", signature.lower()) or len(signature) > longest:
        return False
    # The words of the factory and of where the call and the signature begin, then these two, each after its length.
    words = bytes.fromhex(signature[2:]).removesuffix(_MARK)
    head = 3 * _WORD
    begin = _end(words, head)
    return (
        not any(words[:12])
        and (_number(words, 1), _number(words, 2)) == (head, begin)
        and _end(words, begin) == len(words)
        and of_account("0x" + words[begin + _WORD :].hex())
    )


def _number(words: bytes, at: int) -> int:
    return int.from_bytes(words[at * _WORD : (at + 1) * _WORD], "big")


def _end(words: bytes, begin: int) -> int:
    """Where bytes end whose length stands at a place of their encoding."""
    size = _number(words, begin // _WORD)
    return begin + _WORD + size + -size % _WORD
