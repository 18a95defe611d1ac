"""A client as the environment says: the names are those of the clients of every language and of the command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Dev

from roamcard import AsyncRoamcard, ConfigError, FileStore, MemoryStore, OutsideWallet, Policy, Roamcard, RoamcardError

KEY = "0x" + "11" * 32
ADDRESS = "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"
PAYEE = "0x" + "22" * 20


def engine(client: Any) -> Any:
    return client._engine.core


@pytest.mark.parametrize("kind", [Roamcard, AsyncRoamcard])
def test_everything_is_read_from_the_environment(kind: Any, tmp_path: Path) -> None:
    client = kind.from_env({
        "ROAMCARD_URL": " https://roamcard.example ", "ROAMCARD_MODE": "autonomous",
        "ROAMCARD_MAX_PER_PAYMENT_USD": "25.50", "ROAMCARD_MAX_PER_DAY_USD": "100", "ROAMCARD_APPROVE_ABOVE_USD": "0",
        "ROAMCARD_JOURNAL": str(tmp_path / "j"), "ROAMCARD_RPC_URL": "https://rpc.example", "ROAMCARD_WALLET_KEY": KEY,
        "ROAMCARD_OPERATOR_TOKEN": "tok",
    })  # fmt: skip
    core = engine(client)
    assert (core.base_url, client.address) == ("https://roamcard.example", ADDRESS)
    assert core.payer.policy == Policy("autonomous", "25.50", "100", "0")
    assert core.journal.store._file == tmp_path / "j" / "journal.json"
    assert core.payer.chain is not None and core.operator_token.reveal() == "tok"


def test_the_least_is_a_client_that_reads_and_asks(dev: Dev, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ROAMCARD_SIGNER", "ROAMCARD_WALLET_KEY", "ROAMCARD_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROAMCARD_URL", dev.base_url)
    monkeypatch.setenv("ROAMCARD_JOURNAL", str(tmp_path))
    client = Roamcard.from_env()
    assert engine(client).payer.policy == Policy("human_approval")
    assert client.discovery.config().network.pay_to == dev.pay_to and list(client.plans.list())
    for act in (client.cards.list, client.cards.purchase, client.pending):
        with pytest.raises(RoamcardError, match=r"has no wallet.*ROAMCARD_SIGNER.*ROAMCARD_WALLET_KEY"):
            act()


def test_what_is_given_wins_and_a_key_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f" {KEY[2:]}\n")
    file.chmod(0o600)
    env = {
        "ROAMCARD_URL": "https://roamcard.example",
        "ROAMCARD_WALLET_KEY_FILE": str(file),
        "ROAMCARD_WALLET_KEY": " ",
    }
    store, approve = MemoryStore(), lambda quote: True
    client = Roamcard.from_env(env, store=store, approve=approve, timeout=5, base_url="https://other.example")
    core = engine(client)
    assert (client.address, core.base_url, core.journal.store) == (ADDRESS, "https://other.example", store)
    assert core.payer.policy.approve is approve and client._engine.options.timeout == 5
    other = Roamcard.from_env(env, signer=OutsideWallet(PAYEE), policy=Policy("autonomous", 1, 1), store=store)
    asked = Roamcard.from_env(env, policy=Policy("human_approval"), approve=approve, store=store)
    assert engine(asked).payer.policy == Policy("human_approval", approve=approve)
    assert (other.address, engine(other).payer.policy.mode) == (PAYEE, "autonomous")


def test_a_command_that_signs_comes_before_a_key(dev: Dev, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = dev.wallet()
    monkeypatch.setenv("WALLET_KEY", account.key.hex())
    client = Roamcard.from_env({
        "ROAMCARD_URL": dev.base_url, "ROAMCARD_SIGNER": f"{sys.executable} {Path(__file__).parent / 'signer.py'}",
        "ROAMCARD_SIGNER_ADDRESS": account.address, "ROAMCARD_SIGNER_ENV": "WALLET_KEY OTHER",
        "ROAMCARD_WALLET_KEY": KEY, "ROAMCARD_MODE": "autonomous",
        "ROAMCARD_MAX_PER_PAYMENT_USD": "25", "ROAMCARD_MAX_PER_DAY_USD": "25", "ROAMCARD_JOURNAL": str(tmp_path),
    })  # fmt: skip
    assert client.address == account.address
    client.cards.purchase()
    assert dev.transfers(account) == [25_000_000]
    assert isinstance(engine(client).journal.store, FileStore) and (tmp_path / "journal.json").exists()


def test_all_that_is_wrong_is_told_at_once_and_no_secret_is(tmp_path: Path) -> None:
    secret = "0xnot-a-key-but-secret"
    env = {
        "ROAMCARD_URL": "roamcard", "ROAMCARD_MODE": "yolo", "ROAMCARD_MAX_PER_PAYMENT_USD": "1e3",
        "ROAMCARD_MAX_PER_DAY_USD": "0.00", "ROAMCARD_APPROVE_ABOVE_USD": "25.001", "ROAMCARD_SIGNER_ADDRESS": "me",
        "ROAMCARD_RPC_URL": "rpc", "ROAMCARD_WALLET_KEY": secret,
        "ROAMCARD_OPERATOR_TOKEN_FILE": str(tmp_path / "none"),
    }  # fmt: skip
    with pytest.raises(ConfigError) as failure:
        Roamcard.from_env(env)
    told = str(failure.value)
    assert all(f"{name}:" in told for name in env) and secret not in told
    both = {"ROAMCARD_SIGNER": "sign", "ROAMCARD_OPERATOR_TOKEN": "a-secret", "ROAMCARD_OPERATOR_TOKEN_FILE": "b"}
    with pytest.raises(
        ConfigError, match=r"ROAMCARD_URL: it is needed.*ROAMCARD_SIGNER_ADDRESS: it is needed.*_TOKEN: .*set one"
    ) as failure:
        Roamcard.from_env(both)
    assert "a-secret" not in str(failure.value)
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "empty").chmod(0o600)
    with pytest.raises(ConfigError, match="ROAMCARD_WALLET_KEY_FILE: it names an empty file"):
        Roamcard.from_env({"ROAMCARD_URL": "https://a.example", "ROAMCARD_WALLET_KEY_FILE": str(tmp_path / "empty")})
    with pytest.raises(ConfigError, match="ROAMCARD_SIGNER: it is needed"):
        Roamcard.from_env({"ROAMCARD_URL": "https://roamcard.example", "ROAMCARD_SIGNER_ADDRESS": ADDRESS})
