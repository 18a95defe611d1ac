"""A model for generated stories: the service, the wallet, its journal on disk, processes that crash, and the checks."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from typing import Any, TypeVar

import pytest
from lies import Exchange, purchase_of
from pyqwest import Headers, ReadError, SyncRequest, SyncResponse

from roamcard import Book, JournalError, MemoryStore, Policy, Roamcard, RoamcardError
from roamcard.testing import FakeService
from roamcard.testing.faults import Answered, Incoming

T = TypeVar("T")
WALLET = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
PER_PAYMENT = 25_000_000
OPERATIONS = ("esim", "card", "topup")
SKEWS = (0, 55, -5, -55)
"""How many seconds a machine's clock may be ahead of the world's and still be let pass."""
FAR = 200
"""Further ahead than that, and longer than a payment is good for."""


class Clock:
    """A clock that goes on when somebody waits, or when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_900_000_000.0
        """The world's time."""
        self.skew = 0
        """How many seconds this machine's clock is ahead of it."""
        self._lock = threading.Lock()
        self._yield = time.sleep
        clock = self

        class Dates(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Any:
                return datetime.fromtimestamp(clock.now + clock.skew, tz)

        monkeypatch.setattr(time, "time", lambda: clock.now + clock.skew)
        monkeypatch.setattr(time, "sleep", self.sleep)
        monkeypatch.setattr("roamcard.payer.datetime", Dates)

    def sleep(self, seconds: float) -> None:
        """Lets time pass."""
        with self._lock:
            self.now += seconds
        self._yield(0)


@dataclass(frozen=True)
class Sent:
    """An authorization that left a process."""

    key: str
    header: str
    nonce: str
    amount: int
    signed_at: int
    sent_at: float
    """By the world's time."""
    valid_before: int


class World:
    """What outlives a process."""

    def __init__(self, seed: int, clock: Clock) -> None:
        self.clock = clock
        clock.skew = 0
        self.random = random.Random(seed)
        self.service = FakeService(verify=lambda *_: True, now=lambda: clock.now)
        self.disk = MemoryStore()
        self.cap = ("1", "5", "30", "60")[self.draw(4)]
        self.story: list[str] = []
        self.wrong: list[str] = []
        self.sent: list[Sent] = []
        self.dead: dict[str, int] = defaultdict(int)
        """How often the service called a payment of a key dead."""
        self._lock = threading.RLock()

    def draw(self, n: int) -> int:
        return self.random.randrange(n)

    def tell(self, event: str) -> None:
        self.story.append(f"{datetime.fromtimestamp(time.time(), timezone.utc):%d %H:%M:%S} {event}")

    def live(self) -> None:
        """Makes up one story."""
        self.tell(f"cap {self.cap}")
        process = Process(self)
        for _ in range(10 + self.draw(15)):
            if process.crashed or self.draw(12) == 0:
                process = Process(self)
            process.plan(self.draw(3), self.draw(6))
            match self.draw(11):
                case 0:
                    process = self._together(process)
                case 1:
                    process.resume()
                case 2 | 3:
                    self.clock.sleep((5, 60, 110, 181, 3600, 25 * 3600)[self.draw(6)])
                case 4:
                    self._steal()
                case 5:
                    self.jump((*SKEWS, FAR))
                case _:
                    process.buy(max(0, self.draw(5) - 2), self.draw(4))
            self._look()
            if self.wrong:
                return

    def _together(self, process: Process) -> Process:
        """Makes calls of one key at the same time, in one process and in another one on the same disk."""
        what, key = max(0, self.draw(5) - 2), self.draw(3)
        other = Process(self)
        other.plan(self.draw(3), self.draw(6))
        with ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(p.buy, what, key) for p in (process, other, process)[: 2 + self.draw(2)]]
        for call in calls:
            call.result()
        return other

    def jump(self, to: tuple[int, ...]) -> None:
        """Sets the machine's clock forward or back, or lets a machine sleep past the end of its payments."""
        kind = self.draw(len(to) + 1)
        if kind < len(to):
            self.clock.skew = to[kind]
            self.tell(f"the clock is {to[kind]} s ahead")
        else:
            self.clock.sleep(FAR)
            self.tell("the machine was suspended")

    def _steal(self) -> None:
        if self.sent:
            one = self.sent[self.draw(len(self.sent))]
            self.tell(f"the payment of {one.key} is taken: {self.service.token.take(one.header)}")

    def seen(self, key: str, header: str) -> None:
        """Watches a payment leave a process."""
        with self._lock:
            if any(s.header == header for s in self.sent):
                return
            a = json.loads(base64.b64decode(header))["payload"]["authorization"]
            signed_at, now = int(a["validAfter"]) + 600, self.clock.now
            one = Sent(key, header, a["nonce"], int(a["value"]), signed_at, now, int(a["validBefore"]))
            self.sent.append(one)
            # One that is over may come again from a process that had it before another one signed again.
            if all(e.header != header for e in self.disk.read().purchases.values()):
                self.wrong.append(f"{key}: an authorization was sent that the journal does not have")
            if a["from"] != WALLET or a["to"] != self.service.pay_to or one.amount > PER_PAYMENT:
                self.wrong.append(f"{key}: {a}")
            live = [s for s in self.sent if s.key == key and now < s.valid_before]
            if len(live) > 1:
                self.wrong.append(f"{key} has {len(live)} live authorizations")
            for last in self.sent:
                self._holds_cap(last)

    def _holds_cap(self, last: Sent) -> None:
        """Checks the day that ends with an authorization.

        The token takes a nonce once: of those that share one, the largest counts.
        """
        most: dict[str, int] = {}
        for s in self.sent:
            if 0 <= last.signed_at - s.signed_at < 24 * 60 * 60:
                most[s.nonce] = max(most.get(s.nonce, 0), s.amount)
        if sum(most.values()) > int(self.cap) * 1_000_000:
            self.wrong.append(f"{sum(most.values())} units were signed for in a day, and the cap is {self.cap}")

    def _look(self) -> None:
        """Checks what the token took.

        It was sent, and of a key there is only one, unless the service called the one before dead and its time was over
        when the next one was sent, as the clients' rules have it.
        """
        last: dict[str, Sent] = {}
        counts: dict[str, int] = defaultdict(int)
        for moved in self.service.token.transfers:
            one = next((s for s in reversed(self.sent) if s.nonce == moved.nonce), None)
            if one is None:
                self.wrong.append(f"the token took {moved.nonce}, which nobody sent")
                continue
            before = last.get(one.key)
            last[one.key] = one
            counts[one.key] += 1
            overlap = before is not None and one.sent_at < before.valid_before and before.sent_at < one.valid_before
            if overlap or counts[one.key] > 1 + self.dead[one.key]:
                self.wrong.append(
                    f"{one.key} has {counts[one.key]} transfers, "
                    f"and {self.dead[one.key]} of its payments were called dead"
                )


class Crashed(Exception):
    """The process is no more."""


class Process:
    """A program that buys, until it crashes; from then on it does nothing. It is its own wallet, disk and network."""

    address = WALLET

    def __init__(self, world: World) -> None:
        self.world = world
        self.crashed = False
        self._lock = threading.Lock()
        self._mood = self._crash_in = self._full_in = self._jump_in = 0
        policy = Policy("autonomous", max_per_payment_usd="25", max_per_day_usd=world.cap)
        self.client = Roamcard(world.service.url, self, policy, store=self, http_transport=self, max_replays=2)

    def plan(self, mood: int, accident: int) -> None:
        """Says what is to go wrong next. Mood 0 is a good network, 1 a bad one, 2 a thief."""
        self._mood = mood
        self._crash_in = 1 + self.world.draw(30) if accident == 0 else 0
        self._full_in = 1 + self.world.draw(5) if accident == 1 else 0
        self._jump_in = 1 + self.world.draw(20) if accident == 2 else 0
        self.world.tell(f"mood {mood}, crash in {self._crash_in}, full in {self._full_in}, jump in {self._jump_in}")

    def buy(self, what: int, k: int) -> None:
        """Buys under one of three keys, or under none."""
        operation, before = OPERATIONS[what], len(self.world.sent)
        key = f"{operation}-{k}" if k < 3 else None
        calls: dict[str, Callable[[], Any]] = {
            "esim": lambda: self.client.esim.purchase(idempotency_key=key),
            "card": lambda: self.client.cards.purchase(idempotency_key=key),
            "topup": lambda: self.client.cards.top_up(2500, idempotency_key=key),
        }
        try:
            self.world.tell(f"buy {operation} {key}: {calls[operation]().order_id}")
        except (RoamcardError, Crashed) as error:
            self.world.tell(f"buy {operation} {key}: {error!r}")
            # Under a key that others use at the same time, what was sent before this call.
            earlier = [s for s in self.world.sent[:before] if s.key.endswith(f" {key}")]
            sent = self.world.sent[before:] if key is None else earlier
            if sent and not self.crashed and not getattr(error, "idempotency_key", None):
                self.world.wrong.append(f"an authorization was sent under a key that is not told: {error!r}")

    def resume(self) -> None:
        """Takes up what is open."""
        try:
            self.world.tell(f"resume all: {len(self.client.resume_all())}")
        except (RoamcardError, Crashed) as error:
            self.world.tell(f"resume all: {error!r}")

    def sign_typed_data(self, data: dict[str, Any]) -> str:
        """Makes a signature up: the fake believes it, and the client does not look."""
        self._step("before it signs")
        signature = hashlib.sha512(json.dumps(data).encode()).hexdigest()
        self._step("after it signed")
        return f"0x{signature}1b"

    def read(self) -> Book:
        """Implements Store."""
        self._step("before it reads the journal")
        return self.world.disk.read()

    def update(self, change: Callable[[Book], T]) -> T:
        """Implements Store."""
        self._step("before it writes the journal")
        with self._lock:
            self._full_in -= 1
            full = self._full_in == 0
        if full:
            self.world.tell("the disk is full")
            raise JournalError("journal.json", "full", "no space left")
        result = self.world.disk.update(change)
        self._step("after it wrote the journal")
        return result

    def execute_sync(self, request: SyncRequest) -> SyncResponse:
        """Implements SyncTransport."""
        path = request.url.removeprefix(self.world.service.url)
        self._step(f"before it sends {path}")
        content = request.content
        body = content if isinstance(content, bytes) else b"".join(content)
        headers = {name.lower(): value for name, value in request.headers.items()}
        key, header = purchase_of(path, body), headers.get("payment-signature")
        if header is not None:
            self.world.seen(key, header)
        lost: ReadError | None = None
        try:
            answered = Exchange(self.world, Incoming(request.method, path, headers, body), key, header).answer(
                self._mood
            )
        except ReadError as error:
            lost = error
        self._step(f"after it sent {path}")
        if lost is not None:
            raise lost
        return SyncResponse(
            status=answered.status, headers=Headers(list(answered.headers.items())), content=_parts(answered)
        )

    def _step(self, at: str) -> None:
        with self._lock:
            self._jump_in -= 1
            if self._jump_in == 0:
                self.world.jump(SKEWS)
            self._crash_in -= 1
            if self._crash_in == 0 and not self.crashed:
                self.crashed = True
                self.world.tell(f"crash: {at}")
        if self.crashed:
            raise Crashed(at)


def _parts(answered: Answered) -> Any:
    yield answered.body[: answered.cut]
    if answered.cut is not None:
        raise ReadError("the connection was lost")
