"""One development server for a run, new wallets for each test, and the fault proxy between client and service."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from eth_abi import encode
from eth_account import Account
from eth_utils import keccak

from roamcard import AsyncRoamcard, CoinbaseSmartAccount, EthAccountSigner, MemoryStore, Policy, Roamcard

ROOT = Path(__file__).parents[3]
BINARY = os.environ.get("ROAMCARD_BIN", str(ROOT / "bin/roamcard"))
TRANSFER = "0x" + keccak(text="Transfer(address,address,uint256)").hex()
FACTORY = "0xBA5ED110eFDBa3D005bfC882d75358ACBbB85842"
"""Makes Coinbase Smart Wallets of version 1.1."""
AUTONOMOUS = Policy("autonomous", max_per_payment_usd="250", max_per_day_usd="1000")


class Dev:
    """The development server and what its chain says of the money."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.base_url: str = ready["baseUrl"]
        self.pay_to: str = ready["payTo"]
        self.operator_token: str = ready["operatorToken"]
        self.operator_wallet: Any = Account.from_key(ready["operatorWallet"]["privateKey"])
        self.rpc: str = ready["rpcUrl"]
        self._sandbox: str = ready["sandboxUrl"]
        self._usdc: str = ready["usdc"]

    def wallet(self, dollars: int = 1000) -> Any:
        """A new wallet with this much USDC: the token of the development chain keeps balances in its third slot."""
        account = Account.from_key("0x" + secrets.token_hex(32))
        self.fund(account, dollars)
        return account

    def smart_account(self, owner: Any, dollars: int = 1000, deployed: bool = True) -> CoinbaseSmartAccount:
        """A Coinbase Smart Wallet of an account's with this much USDC, made by the factory or by its first payment."""
        if not deployed:
            created = CoinbaseSmartAccount.undeployed(EthAccountSigner(owner))
            self.fund(created, dollars)
            return created
        arguments = encode(["bytes[]", "uint256"], [[bytes.fromhex(owner.address[2:].rjust(64, "0"))], 0]).hex()
        selector = keccak(text="getAddress(bytes[],uint256)")[:4].hex()
        address = self.call("eth_call", {"to": FACTORY, "data": "0x" + selector + arguments}, "latest")
        account = CoinbaseSmartAccount(EthAccountSigner(owner), "0x" + address[-40:])
        selector = keccak(text="createAccount(bytes[],uint256)")[:4].hex()
        self.call("anvil_setBalance", owner.address, hex(10**18))
        self.call("anvil_impersonateAccount", owner.address)
        self.call("eth_sendTransaction", {"from": owner.address, "to": FACTORY, "data": "0x" + selector + arguments})
        eventually("an account", lambda: self.has_code(account))
        self.fund(account, dollars)
        return account

    def fund(self, account: Any, dollars: int) -> None:
        slot = keccak(bytes.fromhex(account.address[2:].rjust(64, "0")) + (2).to_bytes(32, "big"))
        self.call(
            "anvil_setStorageAt", self._usdc, "0x" + slot.hex(), "0x" + (dollars * 1_000_000).to_bytes(32, "big").hex()
        )

    def has_code(self, account: Any) -> bool:
        return bool(self.call("eth_getCode", account.address, "latest") != "0x")

    def transfers(self, account: Any) -> list[int]:
        """The amounts of every transfer from the wallet to the service, asked of the chain."""
        topics = [TRANSFER, *("0x" + a[2:].lower().rjust(64, "0") for a in (account.address, self.pay_to))]
        logs = self.call(
            "eth_getLogs", {"address": self._usdc, "topics": topics, "fromBlock": "0x0", "toBlock": "latest"}
        )
        return [int(log["data"], 16) for log in logs]

    def locked_card(self, last4: str) -> str:
        """The issuer's name of a card that is locked."""
        with urllib.request.urlopen(f"{self._sandbox}/control/books") as answer:
            cards = json.load(answer)["cards"]
        return next(c["id"] for c in cards if c["status"] == "locked" and c["number"].endswith(last4))

    def charge(self, card: str, cents: int) -> None:
        """A merchant's purchase with a card of the issuer."""
        body = json.dumps({"amountCents": cents, "merchant": "Corner shop"}).encode()
        url = f"{self._sandbox}/control/cards/{card}/purchases"
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        urllib.request.urlopen(request).close()

    def call(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(self.rpc, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["result"]


SHARED = "ROAMCARD_READY"
"""Names the ready file of a server that runs already: for this run, or for every worker of it."""


def pytest_configure(config: pytest.Config) -> None:
    """Starts one server for all workers, in the process that starts them, unless one runs already."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput") and SHARED not in os.environ:
        server = running()
        os.environ[SHARED] = str(server.__enter__())
        config.add_cleanup(lambda: server.__exit__(None, None, None))


TORTURE = "ROAMCARD_TORTURE"
"""Asks for the tests for which an ordinary run has no time."""

MADE = ("test_hostile.py", "test_calls.py")
"""Their rules are kept by code that awaits, of which the blocking client is made (tools/sync.py)."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts one kind of client after the other, so that two workers share what takes long."""
    items.sort(key=lambda item: "[async" in item.name)
    if TORTURE in os.environ or len({item.path for item in items}) == 1:
        return
    made = [item for item in items if item.path.name in MADE and "[sync" in item.name]
    config.hook.pytest_deselected(items=made)
    items[:] = [item for item in items if item not in made]


COSTS = "ROAMCARD_COSTS"
"""Names the file that is told what each test took of the processors, one JSON line each."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Counts the processors' time of one test, with that of its fixtures and of the processes that it ended."""
    before = sum(os.times()[:4])
    result = yield
    if COSTS in os.environ:
        line = {"suite": "python", "test": item.nodeid, "seconds": round(sum(os.times()[:4]) - before, 2)}
        with open(os.environ[COSTS], "a") as file:
            file.write(json.dumps(line) + "\n")
    return result


@pytest.fixture(scope="session")
def dev() -> Iterator[Dev]:
    with nullcontext(Path(os.environ[SHARED])) if SHARED in os.environ else running() as ready:
        yield Dev(json.loads(ready.read_text()))


@contextmanager
def running(*more: str) -> Iterator[Path]:
    """Runs a development server, with more arguments; gives its ready file."""
    with tempfile.TemporaryDirectory(prefix="roamcard-py-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)  # PostgreSQL refuses to run as root and runs as another user, who has to get in
        ready, log = Path(folder, "ready.json"), Path(folder, "log")
        with log.open("w") as output:
            arguments = [BINARY, "dev", "--data", folder, "--addr", "127.0.0.1:0", "--ready-file", str(ready), *more]
            server = subprocess.Popen(arguments, stdout=output, stderr=output)
        try:
            while not ready.exists() and server.poll() is None:
                time.sleep(0.05)
            assert server.poll() is None, log.read_text()
            yield ready
        finally:
            server.terminate()
            assert server.wait() == 0, log.read_text()[-4000:]


class Proxy:
    """The fault proxy, see clients/testing/fault-proxy.mjs: one process, which gives each test a proxy of its own."""

    def __init__(self, upstream: str) -> None:
        script = str(ROOT / "clients/testing/fault-proxy.mjs")
        self._process = subprocess.Popen(
            ["node", script, upstream], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        where = json.loads(self._process.stdout.readline())
        self.base_url: str = where["baseUrl"]
        self._control: str = where["controlUrl"]

    def renew(self) -> None:
        """Starts anew at another port: what an earlier test sent, or left to come, is no part of this one."""
        with urllib.request.urlopen(urllib.request.Request(self._control, method="PUT")) as answer:
            self.base_url = json.load(answer)["baseUrl"]

    def inject(self, *faults: dict[str, Any]) -> None:
        """The faults of the requests to come."""
        urllib.request.urlopen(self._control, json.dumps(faults).encode()).close()

    def requests(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(self._control) as answer:
            requests: list[dict[str, Any]] = json.load(answer)
            return requests

    def payments(self) -> list[str]:
        """Every PAYMENT-SIGNATURE that was sent."""
        return [r["payment"] for r in self.requests() if r["payment"]]

    def close(self) -> None:
        self._process.communicate("")


@pytest.fixture(scope="session")
def proxies(dev: Dev) -> Iterator[Proxy]:
    proxy = Proxy(dev.base_url)
    yield proxy
    proxy.close()


@pytest.fixture
def proxy(proxies: Proxy) -> Proxy:
    proxies.renew()
    return proxies


class Hostile:
    """The service, see clients/testing/hostile-service.mjs."""

    def __init__(self, dev: Dev) -> None:
        script = str(ROOT / "clients/testing/hostile-service.mjs")
        command = ["node", script, dev.base_url, dev.rpc, dev._usdc]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        where = json.loads(self._process.stdout.readline())
        self.base_url: str = where["baseUrl"]
        self._control: str = where["controlUrl"]

    def lie(self, lies: list[dict[str, Any]]) -> None:
        urllib.request.urlopen(self._control, json.dumps({"lies": lies}).encode()).close()

    def told(self) -> dict[str, Any]:
        with urllib.request.urlopen(self._control) as answer:
            told: dict[str, Any] = json.load(answer)
            return told

    def close(self) -> None:
        self._process.communicate("")


@pytest.fixture(scope="module")
def hostile(dev: Dev) -> Any:
    service = Hostile(dev)
    yield service
    service.close()


class CountingSigner(EthAccountSigner):
    """A wallet that keeps what it signed."""

    def __init__(self, account: Any) -> None:
        super().__init__(account)
        self.signed: list[dict[str, Any]] = []

    def sign_typed_data(self, data: dict[str, Any]) -> str:
        self.signed.append(data)
        return super().sign_typed_data(data)


class Blocking:
    """What awaits, with the interface of what blocks, so that both stand the same tests."""

    def __init__(self, awaiting: Any, side: Side) -> None:
        self._awaiting, self._side = awaiting, side

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._awaiting, name)
        if not callable(member):
            return Blocking(member, self._side) if hasattr(member, "_engine") else member
        return lambda *args, **kwargs: self._side.wait(member(*args, **kwargs))


class Side:
    """One of the two clients: the one that blocks, or the one that awaits."""

    def __init__(self, kind: str, dev: Dev, proxy: Proxy) -> None:
        self.kind, self._dev, self._proxy = kind, dev, proxy
        self.loop = asyncio.new_event_loop()
        self._gathering = False

    def client(self, signer: Any, *, policy: Policy = AUTONOMOUS, base_url: str | None = None, **options: Any) -> Any:
        """A client behind the proxy."""
        options = {"store": MemoryStore(), "origin": self._dev.base_url, **options}
        url = base_url or self._proxy.base_url
        if self.kind == "sync":
            return Roamcard(url, signer, policy, **options)
        return Blocking(AsyncRoamcard(url, signer, policy, **options), self)

    def http(self, client: Any, below: Any = None) -> Any:
        """An httpx client behind the proxy, or on a transport of its own, that pays as this client does."""
        paying = client if self.kind == "sync" else client._awaiting
        base_url = paying._engine.core.base_url
        if self.kind == "sync":
            return httpx.Client(transport=paying.transport(below), base_url=base_url)
        return Blocking(httpx.AsyncClient(transport=paying.transport(below), base_url=base_url), self)

    def at_once(self, *calls: Callable[[], Any]) -> list[Any]:
        """Makes calls at the same time; gives what they returned or raised."""
        if self.kind == "sync":
            with ThreadPoolExecutor(len(calls)) as pool:
                return [f.exception() or f.result() for f in [pool.submit(call) for call in calls]]

        async def gather() -> list[Any]:
            return await asyncio.gather(*(call() for call in calls), return_exceptions=True)

        self._gathering = True
        try:
            return self.loop.run_until_complete(gather())
        finally:
            self._gathering = False

    def wait(self, result: Any) -> Any:
        if hasattr(result, "__aiter__"):
            result = _listed(result)
        return self.loop.run_until_complete(result) if asyncio.iscoroutine(result) and not self._gathering else result


async def _listed(items: Any) -> list[Any]:
    return [item async for item in items]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clients wait for between their requests, in seconds; here no time passes."""
    asked: list[float] = []

    async def sleep(seconds: float) -> None:
        asked.append(seconds)

    monkeypatch.setattr("roamcard._sync.engine.sleep", asked.append)
    monkeypatch.setattr("roamcard._async.engine.sleep", sleep)
    return asked


@pytest.fixture(params=["sync", "async"])
def side(request: pytest.FixtureRequest, dev: Dev, proxy: Proxy) -> Iterator[Side]:
    side = Side(request.param, dev, proxy)
    yield side
    side.loop.close()


SCENARIOS = "ROAMCARD_SCENARIOS"
"""Names the file that is told of every scenario that passed."""

_told: dict[str, list[tuple[str, int | None]]] = defaultdict(list)


@pytest.fixture
def moved(request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Tells how many transfers the chain has seen of a scenario."""
    return lambda transfers: request.node.user_properties.append(("transfers", transfers))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collects the scenarios, in the process that started the workers."""
    module, _, test = report.nodeid.partition("::")
    if module.endswith("test_scenarios.py") and (report.when == "call" or report.outcome != "passed"):
        name = test.partition("[")[0].removeprefix("test_").replace("_", "-")
        _told[name].append((report.outcome, dict(report.user_properties).get("transfers")))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes a line for every scenario whose whole family passed."""
    if SCENARIOS not in os.environ or hasattr(session.config, "workerinput"):
        return
    with open(os.environ[SCENARIOS], "a") as file:
        for name, told in sorted(_told.items()):
            transfers = {n for outcome, n in told if outcome == "passed"}
            if (
                len(told) >= 2
                and all(outcome == "passed" for outcome, _ in told)
                and len(transfers) == 1
                and None not in transfers
            ):
                file.write(json.dumps({"client": "python", "scenario": name, "transfers": transfers.pop()}) + "\n")


def age(store: Any, seconds: int) -> None:
    """Lets so many seconds pass for what a store has signed."""

    def change(book: Any) -> None:
        for id, entry in book.purchases.items():
            older = tuple(
                replace(a, signed_at=a.signed_at - seconds, valid_before=a.valid_before - seconds)
                for a in entry.authorizations
            )
            book.purchases[id] = replace(entry, authorizations=older)

    store.update(change)


HANGS = 300
"""What only something that hangs takes in seconds, on however busy a machine."""


def eventually(what: str, holds: Callable[[], Any]) -> Any:
    """Asks again until it holds."""
    end = time.monotonic() + HANGS
    while not (value := holds()):
        assert time.monotonic() < end, f"{what} did not come within {HANGS} s"
        time.sleep(0.05)
    return value
