"""Lists by pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from .model import Model
from .programs import Emit, Program

if TYPE_CHECKING:
    from .aio_engine import AsyncEngine
    from .engine import Engine

T = TypeVar("T")

Slice: TypeAlias = "tuple[list[T], str | None]"
"""The items of a page, and the token of the one after it."""
Source: TypeAlias = "Callable[[int | None, str | None], Program[Slice[T]]]"
"""Reads a page of so many items, under a token; of as many as the service likes, and the first one, when they are None."""


@dataclass(frozen=True)
class _Page(Model, Generic[T]):
    items: list[T]
    next_page_token: str | None
    """Names the page after this one, also to another process; None when this is the last one."""


@dataclass(frozen=True)
class Page(_Page[T]):
    """One page of a list."""

    _listing: Listing[T] = field(repr=False, compare=False)
    _size: int | None = field(repr=False, compare=False)

    def next(self) -> Page[T] | None:
        """Reads the page after this one; None when this is the last one."""
        return None if self.next_page_token is None else self._listing.page(size=self._size, token=self.next_page_token)


@dataclass(frozen=True)
class AsyncPage(_Page[T]):
    """One page of a list."""

    _listing: AsyncListing[T] = field(repr=False, compare=False)
    _size: int | None = field(repr=False, compare=False)

    async def next(self) -> AsyncPage[T] | None:
        """Reads the page after this one; None when this is the last one."""
        return None if self.next_page_token is None else await self._listing.page(size=self._size, token=self.next_page_token)


class Listing(Iterator[T]):
    """A list: iterate over all of it, which asks for each page when it is taken, or take pages by yourself."""

    def __init__(self, engine: Engine, source: Source[T]) -> None:
        self._engine, self._source = engine, source
        self._each: Iterator[Any] = engine.each(_emitting(source))

    def __next__(self) -> T:
        item: T = next(self._each)
        return item

    def page(self, *, size: int | None = None, token: str | None = None) -> Page[T]:
        """Reads the first page, or the one of a token: 1 to 100 items, 50 when size is None."""
        items, following = self._engine.run(self._source(size, token))
        return Page(items, following, self, size)


class AsyncListing(AsyncIterator[T]):
    """A list: iterate over all of it, which asks for each page when it is taken, or take pages by yourself."""

    def __init__(self, engine: AsyncEngine, source: Source[T]) -> None:
        self._engine, self._source = engine, source
        self._each: AsyncIterator[Any] = engine.each(_emitting(source))

    async def __anext__(self) -> T:
        item: T = await anext(self._each)
        return item

    async def page(self, *, size: int | None = None, token: str | None = None) -> AsyncPage[T]:
        """Reads the first page, or the one of a token: 1 to 100 items, 50 when size is None."""
        items, following = await self._engine.run(self._source(size, token))
        return AsyncPage(items, following, self, size)


def _emitting(source: Source[T]) -> Program[None]:
    """Emits a list, page by page as they are taken."""
    items, token = yield from source(None, None)
    while True:
        for item in items:
            yield Emit(item)
        if token is None:
            return
        items, token = yield from source(None, token)
