"""A property made when it is first asked for, once, whoever else asks meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class _Made:
    def __init__(self) -> None:
        self.lock = Lock()
        self.values: list[Any] = []


class once(Generic[T]):
    """Like `functools.cached_property`; but threads that ask while it is being made wait for it.

    (That one, since Python 3.12, makes it once for each of them.) What the function raises is
    raised to whoever asked, and the next one to ask makes it anew.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}_made_once"

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        made: _Made = instance.__dict__.setdefault(self._name, _Made())
        with made.lock:
            if not made.values:
                made.values.append(self._make(instance))
        found: T = made.values[0]
        return found

    def if_made(self, instance: object) -> T | None:
        """The value of an object if it is there already."""
        made = instance.__dict__.get(self._name)
        return made.values[0] if made is not None and made.values else None
