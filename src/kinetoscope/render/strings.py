"""Every string of a report at once.

A report is cleaned as a whole before anything is laid out, so that no place in a renderer can forget it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def map_strings(value: T, function: Callable[[str], str]) -> T:
    """A copy of a report (or a part of one) with ``function`` applied to every string in it.

    ``function`` is asked once for each distinct string: the names in a report repeat.
    """
    return _map(value, cache(function))  # type: ignore[no-any-return]


def _map(value: Any, function: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return function(value)
    if isinstance(value, list | tuple):
        return type(value)(_map(item, function) for item in value)
    if isinstance(value, dict):
        return {_map(key, function): _map(item, function) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return type(value)(**{name: _map(getattr(value, name), function) for name in fields})
    return value
