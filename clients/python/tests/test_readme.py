"""What the README shows works, as it stands; so does the example."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import Dev

PACKAGE = Path(__file__).parents[1]
SNIPPETS: list[str] = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)
CARD = 25_000_000
END = "--- the end of a snippet"
RUNNER = f"""
import json, sys

for code in json.load(sys.stdin):
    exec(compile(code, "README.md", "exec", dont_inherit=True), {{"__name__": "__main__"}})
    print({END!r})
"""
"""Runs snippets one after the other, in one process: each by itself would load the packages again."""


def run(dev: Dev, account: Any, folder: Path, arguments: list[str], given: str = "", **more: str) -> str:
    browser = folder / "bin/xdg-open"
    browser.parent.mkdir(exist_ok=True)
    # A person at a browser, who presses the buttons.
    browser.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import sys, roamcard.testing as t; t.look(sys.argv[1])' \"$1\"\n"
    )
    browser.chmod(0o755)
    environment = {
        **os.environ, "WALLET_KEY": account.key.hex(), "PATH": f"{browser.parent}:{os.environ['PATH']}",
        "ROAMCARD_URL": dev.base_url,
        "ROAMCARD_WALLET_KEY": account.key.hex(), "ROAMCARD_JOURNAL": str(folder / ".roamcard"), **more,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        input=given,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def test_the_readmes_snippets_run_one_after_the_other_for_one_wallet(dev: Dev, tmp_path: Path) -> None:
    account = dev.wallet()
    snippets = json.dumps([s.replace("http://127.0.0.1:8402", dev.base_url) for s in SNIPPETS])
    smart = dev.smart_account(account)
    output = run(dev, account, tmp_path, ["-c", RUNNER], snippets, ACCOUNT=smart.address).split(f"{END}\n")
    cards, esims, settings, awaiting, accounts, auto, official, answers, rest = output
    assert accounts == f"{smart.address}\n" and dev.transfers(smart) == [CARD]
    assert rest == ""
    assert re.match(r"\d{4} \d+\n", cards)
    assert "Presented(presented=True" in esims and "Presented(presented=True" in awaiting
    listed, fulfilled, pay_to = settings.splitlines()
    assert [order["kind"] for order in json.loads(listed)] == ["esim"] and (fulfilled, pay_to) == ("True", dev.pay_to)
    # The purchases by auto-pay repeat the first.
    order_id = auto.splitlines()[0]
    assert order_id in awaiting and auto.count(order_id) == 2
    assert official.startswith("ord_")
    assert "it is signed" in answers and "card_already_exists" in answers
    paid = dev.transfers(account)
    assert paid[:2] == [CARD, CARD] and len(paid) == 5 and CARD not in paid[2:]


def test_the_readmes_snippets_stand_strict_type_checks(tmp_path: Path) -> None:
    def checked(name: str, *texts: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / name
        folder.mkdir()
        for number, text in enumerate(texts):
            (folder / f"{name}_{number}.py").write_text(text)
        command = [
            "mypy",
            "--strict",
            "--config-file=",
            f"--cache-dir={PACKAGE / '.mypy_cache'}",
            *map(str, folder.iterdir()),
        ]
        return subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    as_they_are = checked("snippet", *SNIPPETS)
    assert as_they_are.returncode == 0, as_they_are.stdout
    # It would find a status that is misspelled.
    [snippet] = [s for s in SNIPPETS if '.status == "fulfilled"' in s]
    wrong = checked("misspelled", snippet.replace('"fulfilled"', '"fulfiled"'))
    assert wrong.returncode == 1 and "comparison-overlap" in wrong.stdout, wrong.stdout


def test_the_example_runs(dev: Dev, tmp_path: Path) -> None:
    account = dev.wallet()
    output = run(dev, account, tmp_path, [str(PACKAGE / "examples/buy_card.py")])
    assert "is ACTIVE." in output and "You have seen it." in output
    assert dev.transfers(account) == [CARD]
