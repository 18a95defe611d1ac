"""A service that lies gains nothing."""

from __future__ import annotations

from typing import Any

import pytest
from cases import CASES, play
from conftest import Dev, Hostile, Side


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_a_hostile_service_gains_nothing(
    case: dict[str, Any], dev: Dev, side: Side, hostile: Hostile, request: pytest.FixtureRequest
) -> None:
    play(case, dev, side, hostile, request)
