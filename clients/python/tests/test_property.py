"""Stories that are made up of crashes, lies and lost answers.

After each event no key has two live authorizations, and no day more than its cap. ROAMCARD_SEED and ROAMCARD_RUNS
repeat a story; tools/stories.sh runs thousands.
"""

from __future__ import annotations

import os
import time

import pytest
from world import Clock, World


def test_whatever_happens_nothing_is_paid_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = int(os.environ.get("ROAMCARD_SEED", time.time_ns() % 2**31))
    runs = int(os.environ.get("ROAMCARD_RUNS", "40"))
    print(f"seed {seed}, {runs} runs")
    clock = Clock(monkeypatch)
    events = sent = taken = 0
    for run in range(seed, seed + runs):
        world = World(run, clock)
        world.live()
        if world.wrong:
            story = "\n".join(world.story)
            pytest.fail(
                f"ROAMCARD_SEED={run} ROAMCARD_RUNS=1 repeats it:\n{story}\nwrong: " + "\nwrong: ".join(world.wrong),
                pytrace=False,
            )
        events += len(world.story)
        sent += len(world.sent)
        taken += len(world.service.token.transfers)
    print(f"seed {seed}: {runs} runs, {events} events, {sent} authorizations sent, {taken} transfers")
    # A network that lets nothing through proves nothing.
    assert runs < 5 or (sent > 0 and taken > 0)
