"""The client that blocks."""

from ._sync.client import PayingInterceptor, Roamcard

__all__ = ["PayingInterceptor", "Roamcard"]
