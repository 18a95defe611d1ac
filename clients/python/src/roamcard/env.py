"""What the environment says of a client, by the names that the clients of every language and the command share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .custody import GROUP_READERS, ExposedError, read_own
from .errors import ConfigError
from .filestore import FileStore
from .journal import default_journal
from .policy import Policy
from .secret import Secret
from .signers import CommandSigner, EthAccountSigner, Signer

T = TypeVar("T")

_MODES = ("autonomous", "policy_gated", "human_approval")
_USD = r"[0-9]{1,9}(\.[0-9]{1,2})?"


@dataclass(frozen=True)
class Settings:
    """The arguments of a client."""

    base_url: str
    signer: Signer | None
    policy: Policy
    options: dict[str, Any]


def settings(given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Reads what is not given.

    All that is wrong is told at once, by the names of the variables; keys and tokens never are.
    """
    environ = os.environ if environ is None else environ
    env = _Environment(environ)
    options = dict(given)
    base_url = options.pop("base_url", None) or env.text(
        "ROAMCARD_URL", r"https?://\S+", "it is the service's URL, such as https://roamcard.example"
    )
    if base_url is None:
        env.wrong("ROAMCARD_URL", "it is needed: where the service is")
    signer = options.pop("signer", None) or env.signer()
    policy = options.pop("policy", None) or env.policy()
    approve = options.pop("approve", None)
    if approve is not None:
        policy = replace(policy, approve=approve)
    options.setdefault("rpc_url", env.text("ROAMCARD_RPC_URL", r"https?://\S+", "it is the URL of a node"))
    token = env.secret("ROAMCARD_OPERATOR_TOKEN")
    options.setdefault("operator_token", None if token is None else Secret(token))
    env.check()
    if options.get("store") is None:
        options["store"] = FileStore(default_journal(environ))
    return Settings(str(base_url), signer, policy, options)


class _Environment:
    """Reads variables, and collects what is wrong with them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._wrong: dict[str, str] = {}

    def wrong(self, name: str, why: str) -> None:
        self._wrong.setdefault(name, why)

    def check(self) -> None:
        if self._wrong:
            raise ConfigError([f"{name}: {why}" for name, why in self._wrong.items()])

    def text(self, name: str, pattern: str | None = None, what: str = "") -> str | None:
        """The value of a variable; None when it is empty."""
        value = self._environ.get(name, "").strip()
        if value and pattern is not None and not re.fullmatch(pattern, value):
            self.wrong(name, what)
            return None
        return value or None

    def secret(self, name: str) -> str | None:
        """The value of a variable, or of the file that its other one names.

        Nobody else may write that file, and nobody outside its group may read it.
        """
        value, file = self.text(name), self.text(f"{name}_FILE")
        if value and file:
            self.wrong(name, f"it is set, and {name}_FILE is too: set one of the two")
        if value or not file:
            return value
        try:
            text = read_own(file, GROUP_READERS).strip()
        except ExposedError as error:
            self.wrong(f"{name}_FILE", f"it is not used: {error}")
            return None
        except (OSError, UnicodeDecodeError) as error:
            self.wrong(f"{name}_FILE", f"it cannot be read ({type(error).__name__})")
            return None
        if not text:
            self.wrong(f"{name}_FILE", "it names an empty file")
        return text or None

    def signer(self) -> Signer | None:
        command, address = (
            self.text("ROAMCARD_SIGNER"),
            self.text("ROAMCARD_SIGNER_ADDRESS", "0x[0-9a-fA-F]{40}", "it is no address, 0x and 40 hex"),
        )
        key = self.secret("ROAMCARD_WALLET_KEY")
        if command is None and address is not None:
            self.wrong("ROAMCARD_SIGNER", "it is needed with ROAMCARD_SIGNER_ADDRESS: who signs")
        if command is not None:
            if address is None:
                self.wrong("ROAMCARD_SIGNER_ADDRESS", "it is needed with ROAMCARD_SIGNER: whose wallet that is")
                return None
            named = (self.text("ROAMCARD_SIGNER_ENV") or "").split()
            return CommandSigner(address, command.split(), environment=named)
        return (
            None
            if key is None
            else self._made(lambda: _account(key), "ROAMCARD_WALLET_KEY", "it is no private key, 32 bytes in hex")
        )

    def policy(self) -> Policy:
        caps: dict[str, Any] = {
            argument: self.text(name, _USD, "it is no amount of US dollars, such as 25.00")
            for argument, name in (
                ("max_per_payment_usd", "ROAMCARD_MAX_PER_PAYMENT_USD"),
                ("max_per_day_usd", "ROAMCARD_MAX_PER_DAY_USD"),
                ("approve_above_usd", "ROAMCARD_APPROVE_ABOVE_USD"),
            )
        }
        for argument, name in (
            ("max_per_payment_usd", "ROAMCARD_MAX_PER_PAYMENT_USD"),
            ("max_per_day_usd", "ROAMCARD_MAX_PER_DAY_USD"),
        ):
            if (cap := caps[argument]) is not None and not cap.strip("0."):
                self.wrong(name, "it is more than 0")
        mode: Any = (
            self.text("ROAMCARD_MODE", "|".join(_MODES), f"it is one of {', '.join(_MODES)}") or "human_approval"
        )
        return Policy(mode, **caps)

    def _made(self, make: Callable[[], T], name: str, what: str) -> T | None:
        try:
            return make()
        except ImportError:
            self.wrong(name, "it needs the extra evm: pip install 'roamcard[evm]'")
        except Exception:
            # What was wrong could quote the key.
            self.wrong(name, what)
        return None


def _account(key: str) -> EthAccountSigner:
    from eth_account import Account

    if not re.fullmatch("(0x)?[0-9a-fA-F]{64}", key):
        raise ValueError
    return EthAccountSigner(Account.from_key(key))
