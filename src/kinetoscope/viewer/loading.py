"""Importing the larger part of the program while something else is already going on.

The trace is read and the page's files are served meanwhile. Two threads must not import it at once:
from two ends of packages that know each other, each would find the other's half.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

T = TypeVar("T")

_ONE_AT_A_TIME = Lock()


def loaded(load: Callable[[], T]) -> T:
    """What ``load`` imports and returns; one thread at a time."""
    with _ONE_AT_A_TIME:
        return load()
