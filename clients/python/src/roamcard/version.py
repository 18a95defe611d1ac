"""Which package asks."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version


def _version() -> str:
    try:
        return version("roamcard")
    except PackageNotFoundError:  # run from a copy of the sources
        return "0"


VERSION = _version()
"""The version of this package; "0" in a copy of the sources that is not installed."""

USER_AGENT = f"roamcard-python/{VERSION} (Python {platform.python_version()})"
"""What every request of this package names itself by."""
