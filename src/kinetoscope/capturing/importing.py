"""Running code right after a module was imported, without importing it.

A capture must not import torch before the program does: the program may set environment variables first that
torch reads only once. So the switches and hooks wait for the import, and for the lazy imports of torch's
compiler, which a program that never compiles should not pay for.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["ImportWatcher"]

_Callback = Callable[[ModuleType], None]


class ImportWatcher:
    """A finder that finds nothing itself, and sees when one of the watched modules has been executed."""

    def __init__(self, on_error: Callable[[str, Exception], None]) -> None:
        self._before: dict[str, list[Callable[[], None]]] = {}
        self._after: dict[str, list[_Callback]] = {}
        self._on_error = on_error
        self._finding: set[str] = set()

    def install(self) -> None:
        """Begin to watch."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def before(self, name: str, callback: Callable[[], None]) -> None:
        """Call ``callback`` just before module ``name`` is executed; not if it has been."""
        if name not in sys.modules:
            self._before.setdefault(name, []).append(callback)

    def after(self, name: str, callback: _Callback) -> None:
        """Call ``callback`` with module ``name`` once it is imported; at once if it is already."""
        module = sys.modules.get(name)
        initializing = getattr(getattr(module, "__spec__", None), "_initializing", False)
        if module is not None and not initializing:
            self._call(name, lambda: callback(module))
        else:
            self._after.setdefault(name, []).append(callback)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the other finders find ``name``, and mark its loader; part of the import protocol."""
        if (name not in self._after and name not in self._before) or name in self._finding:
            return None
        self._finding.add(name)
        try:
            for finder in sys.meta_path:
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec = None if find is None else find(name, path, target)
                if spec is not None:
                    self._mark(name, spec)
                    return spec  # type: ignore[no-any-return]
            return None
        finally:
            self._finding.discard(name)

    def _mark(self, name: str, spec: ModuleSpec) -> None:
        loader: Any = spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # The mark is taken off first: a reload, or a look at the loader, meets the original.
            with contextlib.suppress(AttributeError):
                del loader.exec_module
            for early in self._before.pop(name, []):
                self._call(name, early)
            execute(module)
            for callback in self._after.pop(name, []):
                self._call(name, lambda callback=callback: callback(module))  # type: ignore[misc]

        try:
            # On the instance, so that type(loader) and all its other methods stay what they were.
            loader.exec_module = exec_module
        except AttributeError as error:
            self._on_error(name, error)

    def _call(self, name: str, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            self._on_error(name, error)
