"""The capture directory: what is written where, and never half.

``manifest.json`` is written first with ``"status": "running"`` and again whenever something was added, each
time to a temporary file that then takes the name. A reader that finds ``running`` in a capture of a dead
process has a capture that was cut short; every file that the manifest lists is whole.

Under ``torchrun`` every rank writes into the same directory; its files carry ``.rank<N>`` before the ending.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from kinetoscope.errors import CaptureError

__all__ = ["SCHEMA", "CaptureDirectory", "json_safe"]

SCHEMA: Final = "kinetoscope.capture/1"
# Level 4 is three times as fast as zlib's default on traces and loses a few per cent of size.
_GZIP_LEVEL: Final = 4
_CHUNK_BYTES: Final = 1 << 20


class CaptureDirectory:
    """One directory, and the names and the atomic writing of the files in it."""

    def __init__(self, path: str | os.PathLike[str], rank: int | None = None) -> None:
        # Absolute, because the program may change its working directory.
        self.path = Path(path).absolute()
        self.rank = rank
        self._suffix = "" if rank is None else f".rank{rank}"

    @property
    def log_directory(self) -> Path:
        """Where TORCH_TRACE writes; shared by all ranks, whose log files have names of their own."""
        return self.path / "compile_log"

    def file(self, stem: str, ending: str) -> Path:
        """The path of a file of this rank: ``manifest.json``, ``manifest.rank3.json``."""
        return self.path / f"{stem}{self._suffix}{ending}"

    def prepare(self) -> None:
        """Make the directory; files that an earlier capture of this rank left in it are removed."""
        try:
            self.log_directory.mkdir(parents=True, exist_ok=True)
            # The manifest goes first: without it the rest is no capture.
            for pattern in ("manifest", "trace*", "counters", "compile_times", "cudagraph_skips"):
                for ending in (".json", ".json.gz", ".txt"):
                    for old in self.path.glob(f"{pattern}{self._suffix}{ending}"):
                        if self.rank is not None or ".rank" not in old.name:
                            old.unlink(missing_ok=True)
            # What a run that was killed was writing. Path.glob finds names with a dot only if asked.
            for old in self.path.glob(f".*{self._suffix}.*tmp"):
                old.unlink(missing_ok=True)
            wanted = f"*torch_trace_rank_{self.rank}_*" if self.rank is not None else "*"
            for log in glob.glob(os.path.join(glob.escape(str(self.log_directory)), wanted)):
                with contextlib.suppress(OSError):
                    os.unlink(log)
        except OSError as error:
            raise CaptureError(
                f"cannot write the capture to {self.path}: {error.strerror or error}; choose another with -o"
            ) from error

    @contextlib.contextmanager
    def writing(self, path: Path) -> Iterator[IO[bytes]]:
        """A binary file that takes the name ``path`` only when the block ends without an error."""
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fchmod(stream.fileno(), 0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def write_json(self, stem: str, value: Any) -> Path:
        """Write ``value`` as strict JSON."""
        path = self.file(stem, ".json")
        with self.writing(path) as stream:
            stream.write(json.dumps(json_safe(value), indent=1, allow_nan=False).encode())
            stream.write(b"\n")
        return path

    def write_text(self, stem: str, text: str) -> Path:
        """Write a text file."""
        path = self.file(stem, ".txt")
        with self.writing(path) as stream:
            stream.write(text.encode("utf-8", "replace"))
        return path

    def temporary_trace(self) -> Path:
        """A name in this directory for a trace that torch is about to export."""
        return self.path / f".trace{self._suffix}.{os.getpid()}.json.tmp"

    def take_trace(self, source: Path, stem: str, *, keep_source: bool = False) -> tuple[Path, int]:
        """Store a trace as ``<stem>.json.gz``; returns its path and the number of its events.

        ``source`` may be gzipped already (then it is copied as it is). The count is of ``"ph"`` keys, which
        every event has once.
        """
        path = self.file(stem, ".json.gz")
        events = 0
        with open(source, "rb") as raw:
            gzipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            with self.writing(path) as out:
                if gzipped:
                    shutil.copyfileobj(raw, out, _CHUNK_BYTES)
                else:
                    with gzip.GzipFile("", "wb", _GZIP_LEVEL, out, mtime=0) as packed:
                        events = _copy_counting(raw, packed)
        if gzipped:
            with gzip.open(path, "rb") as unpacked:
                events = _copy_counting(unpacked, None)
        if not keep_source:
            with contextlib.suppress(OSError):
                source.unlink()
        return path, events


def _copy_counting(source: Any, target: Any) -> int:
    events, tail = 0, b""
    while chunk := source.read(_CHUNK_BYTES):
        if target is not None:
            target.write(chunk)
        window = tail + chunk
        events += window.count(b'"ph":')
        # One byte less than the key, so that a key cut by the chunks' edge is counted once.
        tail = window[-4:]
    return events


def json_safe(value: Any) -> Any:
    """``value`` in the types that strict JSON knows; what it cannot say (NaN) becomes null."""
    if isinstance(value, dict):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_safe(item) for item in value]
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)
