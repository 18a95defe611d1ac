"""What belongs to a wallet stays with its user: the cases of all languages, clients/testing/custody.json."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from roamcard import CommandSigner, ConfigError, FileStore, JournalError, PagePresenter, Roamcard, Secret
from roamcard._gen.roamcard.v1.order_pb import EsimCredentials
from roamcard.custody import make_folder, program_environment

CASES: dict[str, Any] = json.loads((ROOT / "clients/testing/custody.json").read_text())
BOOK = '{"schema": "roamcard.journal", "version": 2, "payees": {}, "purchases": {}}'

modes = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes say nothing here")


def give(path: Path, owner: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("nothing can be given away here")
    os.lchown(path, owner, -1)


def make(root: Path, given: dict[str, Any]) -> None:
    """Makes what a case is about. What is another user's can be made by root alone."""
    path = root / (given.get("folder") or given.get("file") or given["link"])
    if "folder" in given:
        path.mkdir()
    elif "link" in given:
        path.symlink_to(given["to"].replace("{root}", str(root)))
    else:
        path.write_text(BOOK if path.suffix == ".json" else "0")
    if "owner" in given:
        give(path, given["owner"])
    if "mode" in given:
        path.chmod(int(given["mode"], 8))


@modes
@pytest.mark.parametrize("case", CASES["journals"], ids=[case["name"] for case in CASES["journals"]])
def test_a_journal_that_others_may_write_or_replace_is_refused(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given in case["make"]:
        make(tmp_path, given)
    if "home" in case:
        monkeypatch.setenv("HOME", str(tmp_path / case["home"]))
    store = FileStore(tmp_path / case["journal"])
    refused, locked = case.get("refused"), case.get("locked")

    def told(text: str) -> str:
        text = text.replace("{root}", str(tmp_path)).replace("{user}", str(os.geteuid()))
        return ": " + re.escape(text) + "$"

    def note() -> None:
        store.update(lambda book: book.payees.update({"https://a.example": "0x1"}))

    if refused:
        with pytest.raises(JournalError, match=told(refused)) as reading:
            store.read()
        assert reading.value.reason == "exposed"
    if refused or locked:
        with pytest.raises(JournalError, match=told(refused or locked)) as changing:
            note()
        assert changing.value.reason == "exposed"
    else:
        note()
    if not refused:
        assert len(store.read().payees) == (0 if locked else 1)
    assert "absent" not in case or not (tmp_path / case["absent"]).exists()


@modes
def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "new" / "journal")
    for made in (tmp_path / "new", tmp_path / "new" / "journal"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


@modes
@pytest.mark.parametrize("case", CASES["secrets"], ids=[case["name"] for case in CASES["secrets"]])
def test_a_file_with_a_key_that_others_may_use_is_refused(case: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("46" * 32)
    if "owner" in case:
        give(file, case["owner"])
    file.chmod(int(case["mode"], 8))
    environ = {
        "ROAMCARD_URL": "https://roamcard.example",
        "ROAMCARD_WALLET_KEY_FILE": str(file),
        "ROAMCARD_JOURNAL": str(tmp_path / "journal"),
    }
    if "refused" in case:
        told = case["refused"].replace("{file}", str(file)).replace("{user}", str(os.geteuid()))
        with pytest.raises(ConfigError, match=re.escape(told)):
            Roamcard.from_env(environ)
    else:
        assert Roamcard.from_env(environ).address.startswith("0x")


def test_programs_get_what_they_need_of_the_environment_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    given, named, kept = (CASES["environment"][of] for of in ("given", "named", "kept"))
    names = [name for name in given + named + kept if name != "path" or sys.platform != "win32"]
    for name in names:
        monkeypatch.setenv(name, f"of {name}")
    got = program_environment(named)
    assert [name for name in names if got.get(name) == f"of {name}"] == given + named


@pytest.mark.skipif(sys.platform != "linux", reason="the browser is started in another way")
def test_the_signer_and_the_browser_see_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, program = tmp_path / "seen", tmp_path / "xdg-open"
    program.write_text(f'#!/bin/sh\nenv >"{seen}.new" && mv "{seen}.new" "{seen}"\n')
    program.chmod(0o755)
    for name, value in (
        ("ROAMCARD_WALLET_KEY", "a key"),
        ("ROAMCARD_OPERATOR_TOKEN", "a token"),
        ("VAULT_ADDR", "of its own"),
        ("PATH", f"{tmp_path}:{os.environ['PATH']}"),
    ):
        monkeypatch.setenv(name, value)

    def environment() -> str:
        while not seen.exists():
            time.sleep(0.01)
        text = seen.read_text()
        seen.unlink()
        assert re.search("^PATH=", text, re.MULTILINE)
        assert not re.search("ROAMCARD_|a key|a token", text)
        return text

    data: Any = {}
    CommandSigner("0x1", [str(program)], environment=["VAULT_ADDR"]).sign_typed_data(data)
    assert "\nVAULT_ADDR=of its own\n" in "\n" + environment()
    esim = EsimCredentials(
        lpa="LPA:1$smdp.example$MATCH-1",
        iccid="8901234567890123456",
        smdp_address="smdp.example",
        matching_id="MATCH-1",
        qr_png="data:image/png;base64,AAAA",
    )
    assert not PagePresenter(timeout=0.01).present_esim(Secret(esim)).presented
    assert "VAULT_ADDR" not in environment()
