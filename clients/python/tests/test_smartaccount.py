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
    SafeAccount,
)
from roamcard.chain import Chain
from roamcard.testing import FakeService

VECTORS: list[dict[str, Any]] = json.loads((ROOT / "clients/testing/smartaccounts.json").read_text("utf-8"))
UNDEPLOYED = next(vector for vector in VECTORS if len(vector.get("owners", [])) == 1)
SAFES: list[dict[str, Any]] = json.loads((ROOT / "clients/testing/safes.json").read_text("utf-8"))
POLICY = Policy("autonomous", "250", "1000")


def account_of(vector: dict[str, Any]) -> CoinbaseSmartAccount:
    owner = EthAccountSigner(Account.from_key(vector["ownerKey"]))
    if "owners" in vector:
        return CoinbaseSmartAccount.undeployed(owner, vector["owners"], vector["nonce"])
    return CoinbaseSmartAccount(owner, vector["account"], vector["ownerIndex"])


def test_they_sign_as_in_every_language() -> None:
    assert VECTORS
    for vector in VECTORS:
        account = account_of(vector)
        assert account.address.lower() == vector["account"].lower()
        assert account.sign_typed_data(vector["typedData"]) == vector["typedDataSignature"]
        assert account.sign_message(vector["message"]) == vector["messageSignature"]


def test_safes_sign_as_in_every_language() -> None:
    assert SAFES
    for vector in SAFES:
        owners = [EthAccountSigner(Account.from_key(key)) for key in vector["ownerKeys"]]
        for given in (owners, owners[::-1]):
            account = SafeAccount(vector["account"], *given)
            assert account.address.lower() == vector["account"]
            assert account.sign_typed_data(vector["typedData"]) == vector["typedDataSignature"]
            assert account.sign_message(vector["message"]) == vector["messageSignature"]


def test_a_safe_names_its_owners_and_they_are_who_signs() -> None:
    owner, account = EthAccountSigner(Account.create()), SAFES[0]["account"]
    many = [EthAccountSigner(Account.create()) for _ in range(32)]
    for address, owners in (
        ("0x12", [owner]),
        (account, []),
        (account, [owner, owner]),
        (owner.address, [owner]),
        (account, many),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            SafeAccount(address, *owners)

    class Posing(EthAccountSigner):
        address = account[:-2] + "00"

    with pytest.raises(PaymentError, match="signed something else"):
        SafeAccount(account, Posing(Account.create())).sign_typed_data(SAFES[0]["typedData"])


def test_an_account_is_not_its_owner_and_the_owner_is_who_signs() -> None:
    owner, vector = EthAccountSigner(Account.create()), VECTORS[0]
    for address, index in ((owner.address, 0), ("0x12", 0), ("", 0), (vector["account"], -1)):
        with pytest.raises(ValueError):  # noqa: PT011
            CoinbaseSmartAccount(owner, address, index)

    class Posing(EthAccountSigner):
        address = vector["account"][:-2] + "00"

    with pytest.raises(PaymentError, match="signed something else"):
        CoinbaseSmartAccount(Posing(Account.create()), vector["account"]).sign_typed_data(vector["typedData"])


def test_an_account_that_is_not_deployed_is_of_its_owners() -> None:
    owner = EthAccountSigner(Account.create())
    alone, word = CoinbaseSmartAccount.undeployed(owner), "0x" + owner.address[2:].rjust(64, "0")
    assert CoinbaseSmartAccount.undeployed(owner, [word]).address == alone.address
    assert CoinbaseSmartAccount.undeployed(owner, nonce=1).address != alone.address
    mine = owner.address
    for owners, nonce in (
        ([VECTORS[0]["account"]], 0),
        ([mine, word], 0),
        ([mine, "owner"], 0),
        ([mine, "0x" + "11" * 32], 0),
        ([mine, mine[2:]], 0),
        ([mine, "0x" + "00" * 33], 0),
        ([mine, *(f"0x{i:040x}" for i in range(1, 21))], 0),
        ([], -1),
        ([], 1 << 256),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            CoinbaseSmartAccount.undeployed(owner, owners, nonce)


class Wallet:
    """A wallet that answers with the same signature, whatever it is asked for."""

    address = VECTORS[0]["account"]

    def __init__(self, signature: str) -> None:
        self._signature = signature

    def sign_typed_data(self, data: dict[str, Any]) -> str:
        return self._signature


def test_what_is_no_signature_of_a_key_or_an_account_is_not_sent() -> None:
    whole, created = VECTORS[0]["typedDataSignature"], UNDEPLOYED["typedDataSignature"]
    mark = "6492" * 16
    # The words of the factory, of where call and signature begin, and of the call's length.
    head = [created[2 + at : 2 + at + 64] for at in range(0, 256, 64)]
    rest = created[258:]
    wrong = (
        "",
        "0x",
        "0x" + "11" * 64,
        "0x" + "11" * 66,
        "0x" + "11" * 224,
        whole[:-2],
        whole[:-64],
        whole + "00" * 32,
        whole + mark,
        "0x" + mark,
        "0x" + "00" * 65 + mark,
        created[:-64],
        created[:-66] + mark,
        created[:-64] + "00" * 32 + mark,
        "0x01" + created[4:],
        "0x" + "".join([head[0], f"{128:064x}", *head[2:]]) + rest,
        "0x" + "".join([*head[:2], f"{96:064x}", head[3]]) + rest,
        "0x" + "".join([*head[:3], "f" * 64]) + rest,
        created.replace(f"{65:064x}", f"{2:064x}"),
        # Longer than the service takes any.
        f"0x{32:064x}{0:064x}{64:064x}{2048:064x}" + "11" * 2048,
    )
    for signature in wrong:
        service, store = FakeService(), MemoryStore()
        client = Roamcard(service.url, Wallet(signature), POLICY, store=store, http_transport=service.transport())
        with pytest.raises(PaymentError) as raised:
            client.cards.purchase(idempotency_key="k")
        assert type(raised.value) is PaymentError, signature
        assert not store.read().purchases and not raised.value.idempotency_key


@pytest.mark.parametrize("vector", [VECTORS[0], UNDEPLOYED])
def test_a_service_that_takes_keys_only_refuses_and_nothing_more_is_signed(vector: dict[str, Any]) -> None:
    service, store = FakeService(), MemoryStore()
    owner = CountingSigner(Account.from_key(vector["ownerKey"]))
    account = (
        CoinbaseSmartAccount.undeployed(owner) if "owners" in vector else CoinbaseSmartAccount(owner, vector["account"])
    )
    client = Roamcard(service.url, account, POLICY, store=store, http_transport=service.transport())
    for _ in range(2):
        with pytest.raises(ApiError, match="payer_kind_not_accepted") as failure:
            client.cards.purchase(idempotency_key="k")
        assert (failure.value.retryable, failure.value.retry_at) == (False, None)
    assert len(owner.signed) == 1 and not service.token.transfers


def test_a_safe_that_is_not_there_pays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chain, "lacks_code", lambda self, account: True)
    safe = SafeAccount("0x" + "5a" * 20, EthAccountSigner(Account.create()))
    service = FakeService()
    client = Roamcard(service.url, safe, POLICY, rpc_url="http://node.test", http_transport=service.transport())
    with pytest.raises(NotDeployedError):
        client.cards.purchase()
