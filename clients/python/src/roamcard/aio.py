"""The client that awaits, for asyncio: the same methods as roamcard.client."""

from ._async.client import AsyncPayingInterceptor, AsyncRoamcard

__all__ = ["AsyncPayingInterceptor", "AsyncRoamcard"]
