"""Lists whose pages are awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..paging import BasePage, Source, emitting
from .engine import AsyncEngine

T = TypeVar("T")


@dataclass(frozen=True)
class AsyncPage(BasePage[T]):
    """One page of a list."""

    _listing: AsyncListing[T] = field(repr=False, compare=False)
    _size: int | None = field(repr=False, compare=False)

    async def next(self) -> AsyncPage[T] | None:
        """Reads the page after this one; None when this is the last one."""
        if self.next_page_token is None:
            return None
        return await self._listing.page(size=self._size, token=self.next_page_token)


class AsyncListing(AsyncIterator[T]):
    """A list: iterate over all of it, which reads each page when it is needed, or read pages one by one."""

    def __init__(self, engine: AsyncEngine, source: Source[T]) -> None:
        self._engine, self._source = engine, source
        self._each: AsyncIterator[Any] = engine.each(emitting(source))

    async def __anext__(self) -> T:
        item: T = await anext(self._each)
        return item

    async def page(self, *, size: int | None = None, token: str | None = None) -> AsyncPage[T]:
        """Reads the first page, or the one of a token: 1 to 100 items, 50 when size is None."""
        items, following = await self._engine.run(self._source(size, token))
        return AsyncPage(items, following, self, size)
