"""Money as integers: USDC has six decimals, a cent is ten thousand of its units."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeAlias

Dollars: TypeAlias = "str | int | Decimal"
"""US dollars as a decimal string ("25.00"), a whole number or a Decimal. Floats are refused: they are not exact."""

_UNITS_PER_DOLLAR = 1_000_000
_UNITS_PER_CENT = 10_000


def units_of_dollars(dollars: Dollars) -> int:
    """An amount in USDC's smallest unit."""
    match = re.fullmatch(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?", str(dollars))
    if match is None or not isinstance(dollars, (str, int, Decimal)) or isinstance(dollars, bool):
        raise TypeError(f'{dollars!r} is not an amount in US dollars: write it as a decimal string, such as "25.00"')
    whole, fraction = match.groups()
    return int(whole) * _UNITS_PER_DOLLAR + int((fraction or "").ljust(6, "0"))


def units_of_cents(cents: int) -> int:
    """An amount of cents in USDC's smallest unit."""
    return cents * _UNITS_PER_CENT


def dollars_of(units: int) -> str:
    """An amount in USDC's smallest unit as dollars, exactly."""
    whole, rest = divmod(units, _UNITS_PER_DOLLAR)
    digits = f"{rest:06d}"
    return f"{whole}.{digits[:2]}{digits[2:].rstrip('0')}"
