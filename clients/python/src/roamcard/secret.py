"""Values that must not end in a log."""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")


class Secret(Generic[T]):
    """A value that shows itself as "[redacted]", and cannot be pickled. Copies of a result share it."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        """The value itself. Hand it to nobody but who it is for."""
        return self._value

    def __repr__(self) -> str:
        return "[redacted]"

    def __copy__(self) -> Secret[T]:
        return self

    def __deepcopy__(self, _memo: dict[int, object]) -> Secret[T]:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written down")
