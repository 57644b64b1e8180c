"""Files to be read: small traces, and what they are packed in."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.errors import InputError
from kinetoscope.ingest import find_sources, load_source
from kinetoscope.trace import Trace

posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")


def document(events: int = 3, rank: int | None = None, **header: Any) -> bytes:
    about = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 2}}
    listed = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{i}", "pid": 1, "tid": 1, "ts": i * 10, "dur": 3}
        for i in range(events)
    ]
    return json.dumps(
        {"schemaVersion": 1, **about, **header, "traceEvents": listed, "traceName": "x"}
    ).encode()


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(members: dict[str, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def all_of(path: str) -> list[Trace]:
    return [load_source(source, use_store=False) for source in find_sources(path)]


def error_of(path: str) -> str:
    """The one line that reading it gives."""
    with pytest.raises(InputError) as caught:
        all_of(path)
    line = str(caught.value)
    assert line.isprintable(), line
    return line


DOC = document()
