"""The journal is that of the clients of every language: clients/testing/journal.json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, CountingSigner, Dev, Proxy, Side

from roamcard import Book, FileStore, Journal, JournalError, MemoryStore
from roamcard.core import new_key

VECTORS: dict[str, list[dict[str, Any]]] = json.loads((ROOT / "clients/testing/journal.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["valid"], ids=[v["name"] for v in VECTORS["valid"]])
def test_the_journal_is_that_of_every_language(vector: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "journal.json"
    file.write_text(json.dumps(vector["book"]))
    journal = Journal(FileStore(tmp_path), lambda: int(vector["now"]))
    assert [e.key for e in journal.pending()] == vector["pending"]
    assert str(journal.spent()) == vector["spent"]
    journal.store.update(lambda book: None)
    assert json.loads(file.read_text()) == vector["book"] | {"generation": vector["book"].get("generation", 0) + 1}
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=[v["name"] for v in VECTORS["refused"]])
def test_a_journal_that_cannot_be_read_signs_nothing(
    vector: dict[str, Any], tmp_path: Path, dev: Dev, side: Side
) -> None:
    file = tmp_path / "journal.json"
    file.write_text(vector["text"])
    refuses(side, dev, FileStore(file), file, vector["reason"])
    assert file.read_text() == vector["text"]


@pytest.mark.parametrize(("option", "reason"), [("size=64k", "full"), ("ro", "read_only")])
def test_a_journal_on_a_full_or_read_only_disk_signs_nothing(
    option: str, reason: str, tmp_path: Path, dev: Dev, side: Side
) -> None:
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"mode=700,{option}", "tmpfs", str(tmp_path)], capture_output=True
        ).returncode
        != 0
    ):
        pytest.skip("no file system can be mounted here")
    try:
        if reason == "full":
            with pytest.raises(OSError, match="space"):
                (tmp_path / "filler").write_bytes(bytes(1 << 20))
        refuses(side, dev, FileStore(tmp_path), tmp_path / "journal.json", reason)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def refuses(side: Side, dev: Dev, store: Any, file: Path, reason: str) -> None:
    signer = CountingSigner(dev.wallet(0))
    with pytest.raises(JournalError) as raised:
        side.client(signer, store=store).cards.purchase()
    assert (raised.value.file, raised.value.reason, signer.signed) == (str(file), reason, [])


class Filling(MemoryStore):
    """A store whose disk is full after so many changes."""

    def __init__(self, changes: int) -> None:
        super().__init__()
        self.left = changes

    def update(self, change: Any) -> Any:
        if self.left == 0:
            raise JournalError("journal.json", "full", "no space left")
        self.left -= 1
        return super().update(change)


def test_a_disk_that_is_full_after_the_answer_loses_no_answer(dev: Dev, side: Side, proxy: Proxy) -> None:
    account, key = dev.wallet(), new_key()
    signer, store = CountingSigner(account), Filling(3)  # payee, reserved and signed are kept, settled is not
    first = side.client(signer, store=store).cards.purchase(idempotency_key=key)
    store.left = 100
    again = side.client(signer, store=store).cards.purchase(idempotency_key=key)
    assert (again.order_id, again.replayed, len(signer.signed), len(dev.transfers(account))) == (
        first.order_id,
        True,
        1,
        1,
    )
    store.left, other, sent = 1, new_key(), len(proxy.payments())
    with pytest.raises(JournalError) as raised:
        side.client(signer, store=store).esim.purchase(idempotency_key=other)
    assert (raised.value.idempotency_key, len(proxy.payments())) == (other, sent)


WRITER = """
import os, signal, sys
from roamcard import FileStore
folder, name, dies = sys.argv[1:]
def change(book, n):
    if dies == "dies" and n == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    book.payees[f"https://{name}.example/{n}"] = "0x1"
for n in range(30):
    FileStore(folder).update(lambda book: change(book, n))
"""
NODE_WRITER = """
import { FileStore } from "roamcard/node";
const [folder, name] = process.argv.slice(1);
for (let n = 0; n < 30; n++) {
  await new FileStore(folder).update((book) => { book.payees[`https://${name}.example/${n}`] = "0x1"; });
}
"""


def test_processes_of_two_languages_share_a_folder(tmp_path: Path) -> None:
    typescript = ROOT / "clients/typescript"
    if not (typescript / "dist/node/index.js").exists():
        pytest.skip("the TypeScript client is not built")
    node = ["node", "--input-type=module", "-e", NODE_WRITER, str(tmp_path)]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name, fate])
        for name, fate in (("a", "lives"), ("b", "dies"))
    ]
    writers.append(subprocess.Popen([*node, "node"], cwd=typescript / "test"))
    for writer in writers:
        writer.wait()
    book: Book = FileStore(tmp_path).read()
    missing = [
        f"https://{name}.example/{n}"
        for name in ("a", "node")
        for n in range(30)
        if f"https://{name}.example/{n}" not in book.payees
    ]
    assert missing == []
