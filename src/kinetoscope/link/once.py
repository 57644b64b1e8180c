"""Results that several analyses of one trace share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Any, Generic, TypeVar

_Of = TypeVar("_Of")
_Result = TypeVar("_Result")


class Once(Generic[_Of]):
    """Results of pure functions of one thing, each made when it is first asked for.

    Safe with threads: who asks for what another thread is making waits for that.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[Callable[[_Of], Any], Future[Any]] = {}

    def get(self, make: Callable[[_Of], _Result], of: _Of) -> _Result:
        """``make(of)``; an exception of it is kept and raised again as a result would be.

        ``make`` must not ask for itself: it would wait forever.
        """
        with self._lock:
            found = self._found.get(make)
            if mine := found is None:
                found = self._found[make] = Future()
        assert found is not None
        if mine:
            try:
                found.set_result(make(of))
            except BaseException as error:
                found.set_exception(error)
                raise
        result: _Result = found.result()
        return result
