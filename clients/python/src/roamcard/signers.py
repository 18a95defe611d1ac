"""Who signs: any wallet that can sign typed data."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from .custody import program_environment
from .errors import RoamcardError
from .x402 import TypedData


class Signer(Protocol):
    """A wallet. Both kinds of client call it as it is; it may block."""

    @property
    def address(self) -> str: ...

    def sign_typed_data(self, data: TypedData) -> str:
        """Signs an EIP-712 document; 0x and the hex of 65 bytes, or of what a smart account's code takes."""
        ...


@runtime_checkable
class TextSigner(Protocol):
    """A wallet that signs texts (EIP-191) as well. Those without sign in by typed data."""

    def sign_message(self, text: str) -> str: ...


def hashable(data: TypedData) -> TypedData:
    """An EIP-712 document as eth-account takes it: whole numbers as such, not as the decimal strings of wallets."""
    members = data["types"][data["primaryType"]]
    numbers = {m["name"] for m in members if m["type"].startswith(("uint", "int"))}
    message = {name: int(value) if name in numbers else value for name, value in data["message"].items()}
    return {**data, "message": message}


class EthAccountSigner:
    """An account of eth-account, such as `Account.from_key(…)`. Needs the extra `evm`."""

    def __init__(self, account: Any) -> None:
        self._account = account

    @property
    def address(self) -> str:
        """The account's address."""
        return str(self._account.address)

    def sign_typed_data(self, data: TypedData) -> str:
        """Signs an EIP-712 document."""
        signed = self._account.sign_typed_data(full_message=hashable(data))
        return "0x" + bytes(signed.signature).hex()

    def sign_message(self, text: str) -> str:
        """Signs a text."""
        from eth_account.messages import encode_defunct

        return "0x" + bytes(self._account.sign_message(encode_defunct(text=text)).signature).hex()


class OutsideWallet:
    """A wallet that signs its payments by itself, such as one of an official x402 client above a transport of this
    package.

    It pays for nothing else and signs in nowhere.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def address(self) -> str:
        """The wallet's address."""
        return self._address

    def sign_typed_data(self, data: TypedData) -> str:
        """Refuses."""
        raise RoamcardError(f"the wallet {self._address} signs outside of this client; nothing was signed")


class NoWallet:
    """Stands for the wallet of a client that only reads what is published."""

    @property
    def address(self) -> str:
        """There is none."""
        raise RoamcardError(_NO_WALLET)

    def sign_typed_data(self, data: TypedData) -> str:
        """Refuses."""
        raise RoamcardError(_NO_WALLET)


_NO_WALLET = (
    "the client has no wallet: give it a signer, or set ROAMCARD_SIGNER and ROAMCARD_SIGNER_ADDRESS, "
    "or ROAMCARD_WALLET_KEY(_FILE)"
)


class CommandSigner:
    """A wallet behind a command, the same for the clients of every language: the key stays with it.

    For each signature the command is started again: it reads {"method": "eth_signTypedData_v4", "address", "typedData"}
    from its standard input and writes the signature, 0x and hex, to its standard output. Of this program's environment
    it gets what programs need, such as PATH, HOME and the language, and the variables that `environment` names: no key
    or token else.
    """

    def __init__(
        self, address: str, command: Sequence[str], timeout: float = 120, environment: Sequence[str] = ()
    ) -> None:
        self._address = address
        self._command = list(command)
        self._timeout = timeout
        self._environment = tuple(environment)

    @property
    def address(self) -> str:
        """The wallet's address."""
        return self._address

    def sign_typed_data(self, data: TypedData) -> str:
        """Runs the command."""
        request = json.dumps({"method": "eth_signTypedData_v4", "address": self._address, "typedData": data}).encode()
        try:
            done = subprocess.run(
                self._command,
                input=request,
                stdout=subprocess.PIPE,
                timeout=self._timeout,
                check=True,
                env=program_environment(self._environment),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise RoamcardError(f"the signer {self._command[0]} did not sign") from error
        return done.stdout.decode().strip()
