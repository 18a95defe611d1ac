"""Lists by pages: what both clients share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from .model import Model
from .programs import Emit, Program

T = TypeVar("T")

Slice: TypeAlias = "tuple[list[T], str | None]"
"""The items of a page, and the token of the next one."""
Source: TypeAlias = "Callable[[int | None, str | None], Program[Slice[T]]]"
"""Reads a page by its size and token. None is the service's default size, and the first page."""


@dataclass(frozen=True)
class BasePage(Model, Generic[T]):
    """The data of a page."""

    items: list[T]
    next_page_token: str | None
    """Names the page after this one, also to another process; None when this is the last one."""


def emitting(source: Source[T]) -> Program[None]:
    """Emits the items of a list, reading each page when its first item is asked for."""
    items, token = yield from source(None, None)
    while True:
        for item in items:
            yield Emit(item)
        if token is None:
            return
        items, token = yield from source(None, token)
