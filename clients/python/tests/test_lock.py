"""A lock whose owner cannot be seen is not dead; and the clients of all languages share one journal."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from roamcard import Book, FileStore, JournalError

LINUX = sys.platform == "linux"


def note(folder: Path, name: str) -> None:
    FileStore(folder).update(lambda book: book.payees.update({f"https://{name}.example": "0x1"}))


def noted(folder: Path) -> list[str]:
    return [url[8:-8] for url in FileStore(folder).read().payees]


def record(**changes: Any) -> str:
    host = socket.gethostname()
    own: dict[str, Any] = {"pid": 4_000_000, "host": host, "boot": f"host:{host}", "namespace": f"host:{host}"}
    if LINUX:
        own["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        own["namespace"] = os.readlink("/proc/self/ns/pid")
    return json.dumps({**own, "started": "1", "locked": False, **changes})


def holds(folder: Path, text: str) -> Path:
    """Leaves a lock in a folder, as a holder of an hour ago."""
    lock = folder / "lock-7"
    lock.write_text(text)
    os.utime(lock, (time.time() - 3600,) * 2)
    return folder / "free-7"


@pytest.mark.parametrize(
    "text",
    [
        record(namespace="pid:[1]"),
        record(host="elsewhere"),
        record(boot="0-0-0", locked=True),
        record(boot=""),
        "4000000",
        '{"pid": 40',
        "",
    ],
    ids=["another container", "another host", "another boot", "no boot", "an older client", "half", "nothing"],
)
def test_the_lock_of_a_holder_that_cannot_be_seen_is_not_taken(text: str, tmp_path: Path) -> None:
    free = holds(tmp_path, text)
    with pytest.raises(JournalError, match=str(free)) as raised:
        note(tmp_path, "a")
    assert (raised.value.reason, noted(tmp_path)) == ("locked", [])
    free.touch()  # a person has looked, and says that it has ended
    note(tmp_path, "a")
    assert noted(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "text",
    [
        record(),
        record(pid=os.getpid()) if LINUX else record(),
        record(namespace="pid:[1]", host="elsewhere", locked=True) if LINUX else record(),
        "0",
    ],
    ids=["no such process", "the pid of another", "another container, without its lock of the file", "an older client"],
)
def test_the_lock_of_a_dead_holder_is_taken(text: str, tmp_path: Path) -> None:
    holds(tmp_path, text)
    note(tmp_path, "a")
    assert noted(tmp_path) == ["a"]


OTHER = '{"schema": "roamcard.journal", "version": 2, "payees": {"https://other.example": "0x1"}, "purchases": {}'


@pytest.mark.parametrize(
    ("meanwhile", "kept"),
    [
        (lambda folder: ((folder / "free-1").touch(), note(folder, "other")), ["other"]),
        (lambda folder: (folder / "journal.json").write_text(OTHER + ', "generation": 1}'), ["other"]),
        (lambda folder: (folder / "journal.json").write_text(OTHER + "}"), ["other"]),
    ],
    ids=["a lock given away", "another generation", "another text"],
)
def test_a_writer_of_an_older_generation_changes_nothing(
    meanwhile: Callable[[Path], object], kept: list[str], tmp_path: Path
) -> None:
    def change(book: Book) -> None:
        meanwhile(tmp_path)
        book.payees["https://stale.example"] = "0x1"

    with pytest.raises(JournalError, match="nothing was changed") as raised:
        FileStore(tmp_path).update(change)
    assert (raised.value.reason, noted(tmp_path)) == ("failed", kept)
    assert not list(tmp_path.glob("*draft*"))


# The same journal by three languages at once. Each writer takes a part of what a day's cap leaves, until it is used up.

CAP, EACH = 3_000_000, 100_000
PYTHON = """
import sys
from roamcard import FileStore
from roamcard.journal import Entry
folder, name, cap, each = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def take(book, n):
    full = sum(int(e.amount) for e in book.purchases.values()) + each > cap
    if full:
        book.payees[f"https://{name}.example"] = "done"
    else:
        id = f"{name}-{n}"
        at = ("/api/card/purchase", "https://roamcard.example", "/api/card/purchase")
        book.purchases[id] = Entry(id, *at, "0x1", {}, str(each), holder=name)
    return full
store, n = FileStore(folder), 0
print("ready", flush=True)
sys.stdin.read()
while not store.update(lambda book: take(book, n)):
    n += 1
"""
NODE = """
import { FileStore } from "roamcard/node";
const [folder, name, cap, each] = process.argv.slice(1);
const store = new FileStore(folder);
const take = (book, n) => {
  const spent = Object.values(book.purchases).reduce((sum, e) => sum + Number(e.amount), 0);
  const full = spent + Number(each) > Number(cap);
  if (full) book.payees[`https://${name}.example`] = "done";
  else
    book.purchases[`${name}-${n}`] = {
      key: `${name}-${n}`, operation: "/api/card/purchase", origin: "https://roamcard.example",
      path: "/api/card/purchase", payer: "0x1", request: {}, amount: each, state: "reserved", at: 0, holder: name,
      attempt: 0, authorizations: [],
    };
  return full;
};
console.log("ready");
for await (const _ of process.stdin);
for (let n = 0; !(await store.update((book) => take(book, n))); n++);
"""
GO = """
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

func main() {
	folder, name := os.Args[1], os.Args[2]
	most, _ := strconv.ParseInt(os.Args[3], 10, 64)
	each, _ := strconv.ParseInt(os.Args[4], 10, 64)
	store, err := roamcard.NewFileStore(folder)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	for n, full := 0, false; !full; n++ {
		err := store.Update(context.Background(), func(b *roamcard.Book) error {
			spent := each
			for _, e := range b.Purchases {
				spent += e.Amount
			}
			if full = spent > most; full {
				b.Payees["https://"+name+".example"] = "done"
				return nil
			}
			id := fmt.Sprintf("%s-%d", name, n)
			b.Purchases[id] = roamcard.Entry{
				Key: id, Operation: "/api/card/purchase", Origin: "https://roamcard.example",
				Path: "/api/card/purchase",
				Payer: "0x1", Request: []byte("{}"), Amount: each, State: roamcard.Reserved, Holder: name,
				Authorizations: []roamcard.SignedAuthorization{},
			}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
}
"""


def namespaced(command: list[str]) -> list[str]:
    """The command in a pid namespace of its own, as a container has; as it is where there are none."""
    flags = ["-pf", "--mount-proc", "--kill-child"]
    unshare = ["unshare", *flags] if os.geteuid() == 0 else ["unshare", "-U", "--map-root-user", *flags]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        return command
    return [*unshare, *command]


def test_the_same_journal_by_three_languages_in_namespaces(tmp_path: Path) -> None:
    typescript, go = ROOT / "clients/typescript", tmp_path / "go"
    if not (typescript / "dist/node/index.js").exists():
        pytest.skip("the TypeScript client is not built")
    (tmp_path / "main.go").write_text(GO)
    built = shutil.which("go") and subprocess.run(
        ["go", "build", "-ldflags=-s -w", "-o", str(go), str(tmp_path / "main.go")],
        cwd=ROOT / "clients/go",
        capture_output=True,
    )
    if not built or built.returncode != 0:
        pytest.skip("the Go client cannot be built here")
    for n in range(100 if os.environ.get("ROAMCARD_TORTURE") else 3):
        folder = tmp_path / f"round-{n}"
        folder.mkdir(mode=0o700)
        arguments = [str(CAP), str(EACH)]
        node = ["node", "--input-type=module", "-e", NODE, str(folder), "node", *arguments]
        writers = [
            subprocess.Popen(namespaced(command), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for command, cwd in (
                ([sys.executable, "-c", PYTHON, str(folder), "python", *arguments], ROOT),
                (node, typescript / "test"),
                ([str(go), str(folder), "go", *arguments], ROOT),
            )
        ]
        for writer in writers:
            assert writer.stdout and writer.stdout.readline() == "ready\n"
        for writer in writers:  # all at once
            assert writer.stdin
            writer.stdin.close()
        assert [writer.wait(300) for writer in writers] == [0, 0, 0]
        book = FileStore(folder).read()
        assert sum(int(e.amount) for e in book.purchases.values()) == CAP
        assert len(book.purchases) == CAP // EACH
        assert sorted(book.payees) == [f"https://{name}.example" for name in ("go", "node", "python")]
        assert book.generation == CAP // EACH + 3
