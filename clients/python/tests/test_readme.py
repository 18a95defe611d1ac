"""What the README shows works, as it stands; so do the examples, and the interceptors it names."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from conftest import AUTONOMOUS, CountingSigner, Dev, Proxy

from roamcard import AsyncRoamcard
from roamcard.connect import CardServiceClient, PurchaseCardRequest

PACKAGE = Path(__file__).parents[1]
CARD = 25_000_000


def run(dev: Dev, account: Any, folder: Path, arguments: list[str]) -> str:
    browser = folder / "browser"
    # A browser that looks at the page, in place of a person's.
    browser.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1])' \"$1\"\n")
    browser.chmod(0o755)
    environment = {**os.environ, "WALLET_KEY": account.key.hex(), "ROAMCARD_URL": dev.base_url, "BROWSER": f"{browser} %s"}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=90).stdout


def test_the_readmes_snippets_run_one_after_the_other_for_one_card(dev: Dev, tmp_path: Path) -> None:
    account = dev.wallet()
    snippets = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)
    assert len(snippets) == 3
    output = [run(dev, account, tmp_path, ["-c", s.replace("http://127.0.0.1:8402", dev.base_url)]) for s in snippets]
    assert "Presented(presented=True" in output[1]
    # One card and one top-up: the last purchase repeats the first.
    assert dev.transfers(account) == [CARD, CARD]


def test_the_example_runs(dev: Dev, tmp_path: Path) -> None:
    account = dev.wallet()
    output = run(dev, account, tmp_path, [str(PACKAGE / "examples/buy_card.py")])
    assert "is ACTIVE." in output and "You have seen it." in output
    assert dev.transfers(account) == [CARD]


def test_the_async_interceptor_pays_once(dev: Dev, proxy: Proxy) -> None:
    account = dev.wallet()
    signer = CountingSigner(account)
    key = f"py-{uuid.uuid4()}"
    proxy.inject({"on": "paid", "cut": 0})

    async def buy() -> str:
        payer = AsyncRoamcard(proxy.base_url, signer, AUTONOMOUS, origin=dev.base_url)
        cards = CardServiceClient(proxy.base_url, interceptors=[payer.interceptor()])
        bought = await cards.purchase_card(PurchaseCardRequest(idempotency_key=key))
        assert bought.order
        return bought.order.order_id

    assert asyncio.run(buy()).startswith("ord_")
    assert (len(signer.signed), len(proxy.payments()), len(set(proxy.payments()))) == (1, 2, 1)
    assert dev.transfers(account) == [CARD]
