"""What the README shows works, as it stands; so does the example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import Dev

PACKAGE = Path(__file__).parents[1]
CARD = 25_000_000


def run(dev: Dev, account: Any, folder: Path, arguments: list[str]) -> str:
    browser = folder / "browser"
    # A browser that looks at the page, in place of a person's.
    browser.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1])' \"$1\"\n")
    browser.chmod(0o755)
    environment = {**os.environ, "WALLET_KEY": account.key.hex(), "ROAMCARD_URL": dev.base_url, "BROWSER": f"{browser} %s"}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=90).stdout


def test_the_readmes_snippets_run_one_after_the_other_for_one_wallet(dev: Dev, tmp_path: Path) -> None:
    account = dev.wallet()
    snippets = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)
    cards, esims, awaiting, auto, official, answers = (
        run(dev, account, tmp_path, ["-c", s.replace("http://127.0.0.1:8402", dev.base_url)]) for s in snippets
    )
    assert re.match(r"\d{4} \d+\n", cards)
    assert "Presented(presented=True" in esims and "Presented(presented=True" in awaiting
    # The purchases of the fourth repeat the first.
    order_id = auto.splitlines()[0]
    assert order_id in awaiting and auto.count(order_id) == 2
    assert official.startswith("ord_")
    assert "it is signed" in answers and "card_already_exists" in answers
    paid = dev.transfers(account)
    assert paid[:2] == [CARD, CARD] and len(paid) == 5 and CARD not in paid[2:]


def test_the_example_runs(dev: Dev, tmp_path: Path) -> None:
    account = dev.wallet()
    output = run(dev, account, tmp_path, [str(PACKAGE / "examples/buy_card.py")])
    assert "is ACTIVE." in output and "You have seen it." in output
    assert dev.transfers(account) == [CARD]
