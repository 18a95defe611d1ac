"""A lock between the programs of all languages, of this machine and of its containers."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from .custody import NO_WRITERS, open_in

try:
    import fcntl
except ImportError:  # a system without locks of files
    fcntl = None  # type: ignore[assignment]

_TIMEOUT = 30.0
"""How long one holder is waited for: what is done under the lock takes milliseconds."""
_RETRY = 0.005
_HAS_PROC = sys.platform == "linux"


class LockedError(Exception):
    """The lock stays with its holder."""


class LostError(Exception):
    """The lock was given to another program, which only a person does."""

    def __init__(self) -> None:
        super().__init__("the lock was given to another program meanwhile; nothing was changed")


class Lock:
    """A turn at a folder.

    Holders are numbered files: who makes lock-N holds the lock once the holder before has made its free-N, or is known
    to be dead. A number is made by link(2), which one program wins, with its content in place; the highest one is never
    removed. Where the system has locks of files, lock-N is locked, and the system lets it go with the process.
    """

    def __init__(self, folder: Path, number: int, record: int) -> None:
        self.folder, self.number, self._record = folder, number, record

    def check(self) -> None:
        """Raises when the lock is no longer this program's."""
        numbers, free = _numbers(self.folder)
        if max(numbers, default=0) != self.number or self.number in free:
            raise LostError

    def sweep(self) -> None:
        """Removes what earlier holders have left.

        A holder that was stopped, and whose lock a person has given away, finds its draft gone: what is read from here
        on stays as it is.
        """
        for name in os.listdir(self.folder):
            left = re.fullmatch(r"(?:lock-|free-|.*\.draft-)([1-9][0-9]*)", name)
            if left and int(left[1]) < self.number:
                (self.folder / name).unlink(missing_ok=True)

    def release(self) -> None:
        """Lets go. It makes a name only: after a power cut no file is half written."""
        lock = self.folder / f"lock-{self.number}"
        try:
            os.link(lock, self.folder / f"free-{self.number}")
        except FileExistsError:
            pass
        except OSError:
            with suppress(OSError):
                lock.write_text("0")
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(self._record, fcntl.LOCK_UN)  # also for children that have the descriptor
        os.close(self._record)


@contextmanager
def locked(folder: Path) -> Iterator[Lock]:
    """Holds the folder, alone among all programs."""
    last, waited = 0, time.monotonic()
    while not isinstance(lock := _try(folder), Lock):
        if lock.number != last:
            last, waited = lock.number, time.monotonic()
        if time.monotonic() - waited > _TIMEOUT or (lock.state == "unknown" and lock.age > _TIMEOUT):
            raise LockedError(lock.refusal(folder))
        time.sleep(_RETRY * (1 + random.random()))
    try:
        lock.sweep()
        yield lock
    finally:
        lock.release()


class _Holder:
    """Who holds a lock, as far as that can be seen from here."""

    def __init__(self, number: int, state: Literal["alive", "gone", "unknown"] = "alive") -> None:
        self.number, self.state, self.age = number, state, 0.0
        self.record: dict[str, Any] = {}

    def refusal(self, folder: Path) -> str:
        """What tells a person why the lock is not taken, and what can be done."""
        lock, free = folder / f"lock-{self.number}", folder / f"free-{self.number}"
        who = f'process {self.record.get("pid")} of host "{self.record.get("host")}"'
        if not self.record:
            who = "a program that did not write its name"
        if self.state == "alive":
            return f"{lock} is held by {who}, which is alive; wait for it, or end it"
        return (
            f"{lock} is held by {who}, which cannot be seen from here, as in another container, machine or boot; "
            f"if it has ended, make the empty file {free}"
        )


def _try(folder: Path) -> Lock | _Holder:
    numbers, free = _numbers(folder)
    highest = max(numbers, default=0)
    if highest and highest not in free:
        holder = _holder(folder, highest)
        if holder.state != "gone":
            return holder
    number, draft = highest + 1, folder / f"draft-{os.getpid()}-{uuid.uuid4()}"
    record = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        own = {**_this_process(), "locked": _lock_file(record)}  # locked before anybody can see it
        os.write(record, json.dumps(own).encode())
        os.link(draft, folder / f"lock-{number}")
        lock = Lock(folder, number, record)
        try:
            lock.check()
        except LostError:  # made late: there is a higher one
            (folder / f"lock-{number}").unlink(missing_ok=True)
            raise
    except (FileExistsError, LostError):
        os.close(record)
        return _Holder(number)
    except BaseException:
        os.close(record)
        raise
    finally:
        draft.unlink(missing_ok=True)
    return lock


def _numbers(folder: Path) -> tuple[set[int], set[int]]:
    """The numbers of all holders, and those that are free."""
    named = [re.fullmatch(r"(lock|free)-([1-9][0-9]*)", name) for name in os.listdir(folder)]
    found = [(match[1], int(match[2])) for match in named if match]
    return {n for _, n in found}, {n for kind, n in found if kind == "free"}


def _holder(folder: Path, number: int) -> _Holder:
    holder = _Holder(number)
    try:
        file = open_in(folder / f"lock-{number}", NO_WRITERS)
    except OSError:
        return holder  # a higher one has taken its place
    try:
        holder.age = time.time() - os.fstat(file).st_mtime
        text = os.read(file, 4096)
        if text == b"0":  # as the clients of before let go
            holder.state = "gone"
            return holder
        try:
            record = json.loads(text)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            holder.state = "unknown"
            return holder
        holder.record = record
        holder.state = _seen(record, file)
        return holder
    finally:
        os.close(file)


def _seen(record: dict[str, Any], file: int) -> Literal["alive", "gone", "unknown"]:
    own = _this_process()
    if not record.get("boot") or record["boot"] != own["boot"]:
        return "unknown"
    if record.get("locked") and fcntl is not None:
        # The same kernel keeps the lock, whatever container its process is in. Shared: who looks hides nothing.
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return "gone"
        except BlockingIOError:
            return "alive"
        except OSError:
            pass
    pid, namespace = record.get("pid"), record.get("namespace")
    if record.get("host") != own["host"] or not namespace or namespace != own["namespace"]:
        return "unknown"
    if type(pid) is not int or pid <= 0:
        return "unknown"
    return "alive" if _is_alive(pid) and not _is_replaced(pid, record.get("started")) else "gone"


def _this_process() -> dict[str, Any]:
    """What a lock says of its holder, in all languages.

    The kernel of the boot knows which processes there are; the namespace is where the pid counts, as a container has
    its own; when it started tells processes apart that had the same pid.
    """
    host = socket.gethostname()
    if not _HAS_PROC:
        # One space of pids, whose reboots cannot be told from here.
        return {"pid": os.getpid(), "host": host, "boot": f"host:{host}", "namespace": f"host:{host}", "started": ""}
    boot = namespace = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")
    stat = _process_stat("self")
    return {
        "pid": os.getpid(),
        "host": host,
        "boot": boot,
        "namespace": namespace,
        "started": stat[1] if stat else "",
    }


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # of another user
    return True


def _is_replaced(pid: int, started: Any) -> bool:
    """Whether the pid is another process's by now, or that of one that has ended."""
    try:
        # A /proc of another namespace tells of others.
        if not _HAS_PROC or os.readlink("/proc/self") != str(os.getpid()):
            return False
    except OSError:
        return False
    stat = _process_stat(str(pid))
    return stat is not None and (stat[0] in "ZX" or (bool(started) and stat[1] != started))


def _process_stat(name: str) -> tuple[str, str] | None:
    """Reads proc_pid_stat(5): the state of a process, and when it started in ticks since the boot."""
    try:
        # The second field is the program's name, which may have anything in it.
        fields = Path(f"/proc/{name}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return (fields[0], fields[19]) if len(fields) >= 20 else None


def _lock_file(file: int) -> bool:
    """Locks a file until it is closed, or says that its file system cannot."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
