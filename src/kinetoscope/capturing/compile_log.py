"""Torch's structured compile log, while it is being written.

torch writes the log itself (TORCH_TRACE). What is added here hangs on torch's own handler as a filter: it
counts what is compiled, which is how a run knows that compilation has settled; it takes source code out for
``--no-source``; and it keeps a throw-away compile of ours out of the log.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kinetoscope.capturing.directory import CaptureDirectory
from kinetoscope.capturing.frames import OurFrames
from kinetoscope.capturing.redact import redact_record

__all__ = ["CompileLog", "CudagraphSkips"]

_LOGGER_NAME: Final = "torch.__trace"
_LOG_PREFIX: Final = "dedicated_log_torch_trace_"
_MARK: Final = "_made_by_kinetoscope"
# Monotonic seconds; this module is imported before any log can be written.
_IMPORTED_AT: Final = time.monotonic()


class CompileLog(logging.Filter):
    """Counts compilations; owns the log files of this process."""

    def __init__(
        self, directory: CaptureDirectory, *, keep_source: bool, warn: Callable[[str], None]
    ) -> None:
        super().__init__()
        self.compilations = 0
        """Attempts of Dynamo to compile a frame, so far."""
        self.activity = 0
        """Records written, so far: compiling writes dozens, running compiled code none."""
        self.on_record: Callable[[bool], None] | None = None
        """Hears of each record, and whether it is the beginning of a compilation."""
        self.users_directory: str | None = None
        self.frames = OurFrames()
        self._directory = directory
        self._keep_source = keep_source
        self._warn = warn
        self._muted = False
        self._handler: Any = None
        self._pid = os.getpid()

    def before_import(self) -> None:
        """Set TORCH_TRACE, unless the user has.

        torch reads it only while it is imported; it is then taken away again, so that child processes do not
        write into the capture.
        """
        self.users_directory = os.environ.get("TORCH_TRACE") or os.environ.get("TORCH_DTRACE")
        if self.users_directory is None:
            os.environ["TORCH_TRACE"] = str(self._directory.log_directory)

    def after_import(self) -> None:
        """Take TORCH_TRACE away again and watch the log."""
        ours = str(self._directory.log_directory)
        if os.environ.get("TORCH_TRACE") == ours:
            del os.environ["TORCH_TRACE"]
        self.attach()
        if self.users_directory is None and str(sys.modules["torch"].__version__).startswith("2.6."):
            # 2.6 says this whenever it writes a graph into the log, which the program did not ask for.
            warnings.filterwarnings(
                "ignore", "Skipping serialization of ", UserWarning, r"torch\.utils\._config_module"
            )

    def attach(self) -> None:
        """Watch torch's log handler; make one where torch was imported before us."""
        logger = logging.getLogger(_LOGGER_NAME)
        handlers = [handler for handler in logger.handlers if hasattr(handler, "root_dir")]
        # Not one that an earlier capture in this process made: its log is that capture's.
        writing = [h for h in handlers if getattr(h, "root_dir", None) and not hasattr(h, _MARK)]
        if not writing:
            made = self._make_handler(logger)
            writing = [] if made is None else [made]
        if not writing:
            self._warn(
                "torch's structured compile log could not be turned on; lost: reasons of graph breaks and "
                "recompilations, compile times, source lines of kernels"
            )
            return
        self._handler = writing[0]
        root = os.path.abspath(str(self._handler.root_dir))
        self.users_directory = None if root == str(self._directory.log_directory) else root
        self._handler.addFilter(self)

    def _make_handler(self, logger: logging.Logger) -> Any:
        try:
            from torch._logging import _internal

            handler = _internal.LazyTraceHandler(str(self._directory.log_directory))
            handler.setFormatter(_internal.TorchLogsFormatter(trace=True))
        except (ImportError, AttributeError, TypeError):
            return None
        setattr(handler, _MARK, True)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
        return handler

    def detach(self) -> None:
        """Watch no longer; a handler that torch made for itself stays."""
        if self._handler is not None:
            self._handler.removeFilter(self)

    def remove_handler(self) -> None:
        """Stop the log, where it was ours; for captures of a part of a program."""
        self.detach()
        if self._handler is not None and self.users_directory is None:
            logging.getLogger(_LOGGER_NAME).removeHandler(self._handler)
            self._handler.close()

    def filter(self, record: logging.LogRecord) -> bool:
        """Called by logging for each record that is about to be written."""
        # A forked child inherits the handler and, in older versions of torch, the open file.
        if os.getpid() != self._pid:
            return False
        metadata = getattr(record, "metadata", None)
        if self._muted:
            # File names are numbered once, when they are first met: later records rely on them.
            return isinstance(metadata, dict) and "str" in metadata
        self.activity += 1
        begins = isinstance(metadata, dict) and "dynamo_start" in metadata
        self.compilations += begins
        if self.on_record is not None:
            self.on_record(begins)
        if isinstance(metadata, dict):
            self.frames.cut(metadata)
            if not self._keep_source and self.users_directory is None:
                record.metadata, record.payload = redact_record(metadata, getattr(record, "payload", None))
        return True

    @contextlib.contextmanager
    def muted(self) -> Iterator[None]:
        """Write nothing but file names, and count nothing, in this block."""
        self._muted = True
        try:
            yield
        finally:
            self._muted = False

    def collect(self) -> list[str]:
        """Bring the log files into the capture; their names, relative to it."""
        files = self._open_files()
        if self.users_directory is not None:
            if not self._keep_source:
                self._warn(f"--no-source: the TORCH_TRACE log in {self.users_directory} was not copied")
                return []
            return [self._copy(path) for path in files]
        return [self._name_by_rank(path) for path in files]

    def _open_files(self) -> list[Path]:
        stream = getattr(self._handler, "stream", None)
        if stream is None:
            return []
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
        for name in (getattr(self._handler, "_stream_path", None), getattr(stream, "name", None)):
            if isinstance(name, str) and os.path.exists(name):
                return [Path(name)]
        return self._newest_files()

    def _newest_files(self) -> list[Path]:
        """Log files of this process by their time: for a handler that does not tell its file."""
        root = Path(self.users_directory or self._directory.log_directory)
        started = time.time() - time.monotonic() + _IMPORTED_AT
        return [path for path in sorted(root.glob(f"{_LOG_PREFIX}*")) if path.stat().st_mtime >= started]

    def _copy(self, path: Path) -> str:
        target = self._directory.log_directory / path.name
        with open(path, "rb") as source, self._directory.writing(target) as out:
            shutil.copyfileobj(source, out)
        return f"compile_log/{target.name}"

    def _name_by_rank(self, path: Path) -> str:
        """torch names a file by rank only when the process group existed before the first compilation."""
        rank = self._directory.rank
        marker = f"{_LOG_PREFIX}rank_{rank}_"
        if rank is not None and not path.name.startswith(marker):
            renamed = path.with_name(marker + path.name.removeprefix(_LOG_PREFIX))
            os.replace(path, renamed)
            with contextlib.suppress(AttributeError):
                self._handler._stream_path = str(renamed)
            path = renamed
        return f"compile_log/{path.name}"


class CudagraphSkips:
    """Why Inductor did not use a CUDA graph; torch keeps only a counter and the last reason."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.reasons: dict[str, int] = {}
        self._warn = warn

    def watch(self, module: ModuleType) -> None:
        """Hook ``torch._inductor.cudagraph_utils``, before the modules that use it import from it."""
        original = getattr(module, "log_cudagraph_skip_and_bump_counter", None)
        if not callable(original):
            self._warn(
                "torch._inductor.cudagraph_utils has no log_cudagraph_skip_and_bump_counter; lost: the "
                "reasons why CUDA graphs were skipped (their number is in counters.json)"
            )
            return

        def log_and_keep(message: str) -> Any:
            self.reasons[str(message)] = self.reasons.get(str(message), 0) + 1
            return original(message)

        log_and_keep.__name__ = original.__name__
        module.log_cudagraph_skip_and_bump_counter = log_and_keep  # type: ignore[attr-defined]

    def as_json(self) -> list[dict[str, Any]]:
        """Reasons and counts, the most frequent first."""
        ordered = sorted(self.reasons.items(), key=lambda item: -item[1])
        return [{"reason": reason, "count": count} for reason, count in ordered]
