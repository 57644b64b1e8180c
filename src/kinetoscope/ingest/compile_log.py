"""Read a TORCH_TRACE log: the structured record of everything ``torch.compile`` did.

``read_compile_log(path)`` takes a file (plain or gzip, told apart by content) or a directory with one file
per process, and returns a :class:`CompileLog`. Reading is one pass, record by record; of large texts
(generated code, graphs) only the first 96 MB are held, the others are read again when asked for. The types
are in ``log_types``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kinetoscope.errors import InputError
from kinetoscope.ingest.log_builder import FileBuilder
from kinetoscope.ingest.log_names import name_continuations
from kinetoscope.ingest.log_records import Payload, ReadState, iter_records
from kinetoscope.ingest.log_state import TextKeeper
from kinetoscope.ingest.log_types import (
    AotGraph,
    BreakRecord,
    CacheResult,
    Compilation,
    CompileLog,
    FxGraph,
    GuardFailure,
    LogWarning,
    SourceFrame,
    Span,
)

__all__ = [
    "AotGraph",
    "BreakRecord",
    "CacheResult",
    "Compilation",
    "CompileLog",
    "FxGraph",
    "GuardFailure",
    "LogWarning",
    "Payload",
    "SourceFrame",
    "Span",
    "read_compile_log",
]

_RANK = re.compile(r"rank[_-]?(\d+)")
_LOG_NAME = re.compile(r"\.log(\.gz)?$|torch_trace")


def read_compile_log(path: str | Path, *, keep_source: bool = True) -> CompileLog:
    """Read one log file, or every log file of a directory (or of its ``compile_log`` folder).

    ``keep_source=False`` leaves out generated code, graphs and lines of source text; files and line numbers
    stay. Raises InputError when there is no log to read; damage inside a log is a warning of the result.
    """
    files = _find(Path(path))
    keeper = TextKeeper(keep_source)
    builders: list[FileBuilder] = []
    warnings: list[LogWarning] = []
    for file in files:
        builder, found = _read_file(file, keeper)
        warnings.extend(found)
        if builder is not None:
            builders.append(builder)
    if not builders:
        raise InputError(f"{path}: not a TORCH_TRACE log; give a file or folder that TORCH_TRACE=... wrote")
    compilations = [item for builder in builders for item in name_continuations(builder.finish())]
    return CompileLog(
        compilations=_in_time_order(compilations),
        files=tuple(builder.source for builder in builders),
        counts=dict(sum((b.counts for b in builders), Counter())),
        unknown=dict(sum((b.unknown for b in builders), Counter())),
        warnings=tuple(warnings),
        torch_version=next((b.torch_version for b in builders if b.torch_version), None),
        framework_root=next((b.framework_root for b in builders if b.framework_root), None),
        loose_spans=tuple(span for b in builders for span in b.loose_spans()),
    )


def _find(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            if not path.exists():
                raise InputError(f"{path}: no such file or folder")
            return [path]
        for folder in (path, path / "compile_log"):
            if folder.is_dir():
                files = sorted(p for p in folder.iterdir() if p.is_file() and _LOG_NAME.search(p.name))
                if files:
                    return files
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    raise InputError(f"{path}: no compile log in this folder (expected dedicated_log_torch_trace_*.log)")


def _read_file(file: Path, keeper: TextKeeper) -> tuple[FileBuilder | None, list[LogWarning]]:
    match = _RANK.search(file.name)
    builder = FileBuilder(str(file), int(match.group(1)) if match else None, keeper)
    state = ReadState()
    for record in iter_records(file, state):
        builder.feed(record)
    warnings = []
    name = file.name
    if state.truncated:
        warnings.append(
            LogWarning("log-truncated", f"{name}: {state.truncated}; read to the last whole record")
        )
    if state.malformed:
        warnings.append(LogWarning("log-malformed", f"{name}: lines that are no record", state.malformed))
    if builder.bad_payloads:
        warnings.append(
            LogWarning("log-record-unread", f"{name}: records with unexpected content", builder.bad_payloads)
        )
    if not state.records:
        warnings.append(LogWarning("log-empty", f"{name}: not one record"))
        return None, warnings
    return builder, warnings


def _in_time_order(items: Sequence[Compilation]) -> tuple[Compilation, ...]:
    keyed: list[tuple[int, int, Compilation]] = []
    last: dict[str, int] = {}
    for order, item in enumerate(items):
        start = item.start_ns if item.start_ns is not None else last.get(item.source, 0)
        last[item.source] = start
        keyed.append((start, order, item))
    return tuple(item for _, _, item in sorted(keyed, key=lambda k: k[:2]))
