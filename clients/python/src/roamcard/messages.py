"""Messages that a wallet is asked to sign, held to what they have to be before it does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from .errors import UntrustedMessageError
from .signers import Signer, TextSigner
from .x402 import CHAIN_ID, same_address


@dataclass(frozen=True)
class Purpose:
    """What a message to sign has to be about."""

    origin: str
    primary_type: Literal["SignIn", "RevealCard"]
    """The EIP-712 struct that is signed."""
    resources: tuple[str, ...] = ()
    """The resources that a text has to name, none more but the session."""
    members: dict[str, str] = field(default_factory=dict)
    """Members that typed data has to have."""


def scheme_of(signer: Signer) -> str:
    """The scheme in which a wallet signs messages."""
    return "eip191" if isinstance(signer, TextSigner) else "eip712"


def sign_challenge(signer: Signer, scheme: str, text: str, typed: dict[str, Any] | None, purpose: Purpose) -> str:
    """Signs a challenge of this service, for this wallet and purpose, and nothing else."""
    if scheme != scheme_of(signer):
        raise UntrustedMessageError(f"the message is in {scheme}; it was not signed")
    if isinstance(signer, TextSigner):
        _check_text(text, signer.address, purpose)
        return signer.sign_message(text)
    data = _whole(typed or {})
    _check_typed(data, signer.address, purpose)
    return signer.sign_typed_data(data)


def _check_text(text: str, address: str, purpose: Purpose) -> None:
    """Holds an EIP-4361 text to its purpose: a service in error could otherwise have anything signed."""
    body, _, listed = text.partition("\nResources:")
    lines = [*body.split("\n"), "", ""]
    named = listed.split("\n- ")[1:]
    fits = (
        lines[0] == f"{urlsplit(purpose.origin).netloc} wants you to sign in with your Ethereum account:"
        and same_address(lines[1], address)
        and f"URI: {purpose.origin}" in lines
        and f"Chain ID: {CHAIN_ID}" in lines
        and set(purpose.resources) <= set(named)
        and all(r in purpose.resources or (purpose.resources and r.startswith("urn:roamcard:session:")) for r in named)
    )
    if not fits:
        raise UntrustedMessageError(
            f"the message to sign is not for {purpose.origin} and this purpose; it was not signed"
        )


def _check_typed(data: dict[str, Any], address: str, purpose: Purpose) -> None:
    """Sees to it that what is signed is a message, and never a transfer."""
    domain, message = data.get("domain", {}), data.get("message", {})
    wanted = {"domain": urlsplit(purpose.origin).netloc, "uri": purpose.origin, "chainId": CHAIN_ID, **purpose.members}
    fits = (
        data.get("primaryType") == purpose.primary_type
        and domain.get("name") == "roamcard"
        and "verifyingContract" not in domain
        and domain.get("chainId") == CHAIN_ID
        and same_address(message.get("address"), address)
        and all(message.get(name) == value for name, value in wanted.items())
    )
    if not fits:
        raise UntrustedMessageError(
            f"the typed data to sign is not for {purpose.origin} and this purpose; it was not signed"
        )


def _whole(value: Any) -> Any:
    """Numbers come as floats from a protobuf Struct; typed data has whole ones only."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole(member) for name, member in value.items()}
    return [_whole(member) for member in value] if isinstance(value, list) else value
