"""A program that runs ``torch.profiler`` itself.

Only one profiler can be on. When the program starts its own, ours stops and stays off; the traces that the
program exports are copied into the capture, and one that it never exported is saved when it ends.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kinetoscope.capturing.directory import CaptureDirectory
from kinetoscope.capturing.session import is_ours

__all__ = ["ForeignProfiler"]

_STARTERS: Final = ("_prepare_profiler", "_enable_profiler")
_MAX_COPIES: Final = 16


class ForeignProfiler:
    """Hears of the program's own profiler and collects its traces."""

    def __init__(
        self, directory: CaptureDirectory, on_start: Callable[[], None], warn: Callable[[str], None]
    ) -> None:
        self.seen = False
        """The program has started a profiler."""
        self.traces: list[tuple[Path, str]] = []
        """Copies of exported traces, in the order of export, with the names that the program gave them."""
        self._directory = directory
        self._on_start = on_start
        self._warn = warn
        self._unexported: Any = None
        self._exporting = False
        self._left_out = 0

    def watch(self, autograd_profiler: ModuleType) -> None:
        """Hook ``torch.autograd.profiler``, through which every profiler of torch goes."""
        module: Any = autograd_profiler
        hooked = [self._hook_start(module, name) for name in _STARTERS]
        if not any(hooked):
            self._warn("a profiler of the program cannot be seen; do not capture a program that has one")
        self._hook_stop(module)
        profile = getattr(module, "profile", None)
        if hasattr(profile, "export_chrome_trace"):
            self._hook_export(profile)
        else:
            self._warn("profile has no export_chrome_trace; lost: traces that the program exports")

    def watch_kineto(self, profiler: ModuleType) -> None:
        """Hook ``torch.profiler.profiler``, whose export packs what the one above has written."""
        kineto = getattr(profiler, "_KinetoProfile", None)
        if hasattr(kineto, "export_chrome_trace"):
            self._hook_export(kineto)

    def began(self) -> None:
        """The program is about to start a profiler."""
        self.seen = True
        self._on_start()

    def finish(self) -> None:
        """Save a profile that the program took and never exported."""
        results, self._unexported = self._unexported, None
        if results is None:
            return
        path = self._directory.temporary_trace()
        try:
            results.save(str(path))
            self._keep(path, "not exported by the program", move=True)
        except (OSError, RuntimeError) as error:
            self._warn(f"the program's own profile could not be saved: {error}")
        if self._left_out:
            self._warn(f"{self._left_out} traces beyond the program's first {_MAX_COPIES} were not copied")

    def _hook_start(self, module: Any, name: str) -> bool:
        original = getattr(module, name, None)
        if not callable(original):
            return False

        @functools.wraps(original)
        def start(*arguments: Any, **keywords: Any) -> Any:
            if not is_ours():
                self.began()
            return original(*arguments, **keywords)

        setattr(module, name, start)
        return True

    def _hook_stop(self, module: Any) -> None:
        original = getattr(module, "_disable_profiler", None)
        if not callable(original):
            return

        @functools.wraps(original)
        def stop(*arguments: Any, **keywords: Any) -> Any:
            results = original(*arguments, **keywords)
            if not is_ours() and hasattr(results, "save"):
                self._unexported = results
            return results

        module._disable_profiler = stop

    def _hook_export(self, owner: Any) -> None:
        original = owner.export_chrome_trace

        @functools.wraps(original)
        def export_chrome_trace(profile: Any, path: Any, *arguments: Any, **keywords: Any) -> Any:
            if is_ours() or self._exporting:
                return original(profile, path, *arguments, **keywords)
            self._exporting = True
            try:
                result = original(profile, path, *arguments, **keywords)
            finally:
                self._exporting = False
            self._unexported = None
            self._copy(path)
            return result

        owner.export_chrome_trace = export_chrome_trace

    def _copy(self, path: Any) -> None:
        # At once: programs export to one name again and again, or upload the file and delete it.
        try:
            if len(self.traces) >= _MAX_COPIES:
                self._left_out += 1
                return
            self._keep(Path(os.fspath(path)), os.path.basename(os.fspath(path)), move=False)
        except (OSError, TypeError, ValueError) as error:
            self._warn(f"a trace that the program exported could not be copied: {error}")

    def _keep(self, path: Path, name: str, *, move: bool) -> None:
        number = len(self.traces) + 1
        target = self._directory.file(f".program-{number}", ".json.tmp")
        if move:
            os.replace(path, target)
        else:
            shutil.copyfile(path, target)
        self.traces.append((target, name))
