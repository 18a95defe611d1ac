"""Wallets with code: what they sign, and what is taken for their signature."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import ROOT, CountingSigner
from eth_account import Account

from roamcard import (
    ApiError,
    CoinbaseSmartAccount,
    EthAccountSigner,
    MemoryStore,
    NotDeployedError,
    PaymentError,
    Policy,
    Roamcard,
)
from roamcard.testing import FakeService

VECTORS: list[dict[str, Any]] = json.loads((ROOT / "clients/testing/smartaccounts.json").read_text("utf-8"))
POLICY = Policy("autonomous", "250", "1000")


def account_of(vector: dict[str, Any]) -> CoinbaseSmartAccount:
    owner = EthAccountSigner(Account.from_key(vector["ownerKey"]))
    return CoinbaseSmartAccount(owner, vector["account"], vector["ownerIndex"])


def test_they_sign_as_in_every_language() -> None:
    assert VECTORS
    for vector in VECTORS:
        account = account_of(vector)
        assert account.sign_typed_data(vector["typedData"]) == vector["typedDataSignature"]
        assert account.sign_message(vector["message"]) == vector["messageSignature"]


def test_an_account_is_not_its_owner_and_the_owner_is_who_signs() -> None:
    owner, vector = EthAccountSigner(Account.create()), VECTORS[0]
    for address, index in ((owner.address, 0), ("0x12", 0), ("", 0), (vector["account"], -1)):
        with pytest.raises(ValueError):  # noqa: PT011
            CoinbaseSmartAccount(owner, address, index)

    class Posing(EthAccountSigner):
        address = vector["account"][:-2] + "00"

    with pytest.raises(PaymentError, match="signed something else"):
        CoinbaseSmartAccount(Posing(Account.create()), vector["account"]).sign_typed_data(vector["typedData"])


class Wallet:
    """A wallet that answers with the same signature, whatever it is asked for."""

    address = VECTORS[0]["account"]

    def __init__(self, signature: str) -> None:
        self._signature = signature

    def sign_typed_data(self, data: dict[str, Any]) -> str:
        return self._signature


def test_what_is_no_signature_of_a_key_or_an_account_is_not_sent() -> None:
    whole = VECTORS[0]["typedDataSignature"]
    wrong = {
        "": PaymentError,
        "0x": PaymentError,
        "0x" + "11" * 64: PaymentError,
        "0x" + "11" * 66: PaymentError,
        "0x" + "11" * 224: PaymentError,
        whole[:-2]: PaymentError,
        whole[:-64]: PaymentError,
        whole + "00" * 32: PaymentError,
        whole + "6492" * 16: NotDeployedError,
    }
    for signature, error in wrong.items():
        service, store = FakeService(), MemoryStore()
        client = Roamcard(service.url, Wallet(signature), POLICY, store=store, http_transport=service.transport())
        with pytest.raises(error) as raised:
            client.cards.purchase(idempotency_key="k")
        assert type(raised.value) is error, signature
        assert not store.read().purchases and not raised.value.idempotency_key


def test_a_service_that_takes_keys_only_refuses_and_nothing_more_is_signed() -> None:
    service, store = FakeService(), MemoryStore()
    vector = VECTORS[0]
    owner = CountingSigner(Account.from_key(vector["ownerKey"]))
    account = CoinbaseSmartAccount(owner, vector["account"])
    client = Roamcard(service.url, account, POLICY, store=store, http_transport=service.transport())
    for _ in range(2):
        with pytest.raises(ApiError, match="payer_kind_not_accepted"):
            client.cards.purchase(idempotency_key="k")
    assert len(owner.signed) == 1 and not service.token.transfers
