"""A store of its own for each test, a trace to read, and what was read of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kinetoscope import ingest
from kinetoscope.ingest import saving, store
from stored import document


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of its own for each test, for traces of any size, that is written before `load` returns."""
    monkeypatch.setenv("KINETOSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ingest, "_STORE_FROM_BYTES", 0)
    monkeypatch.setattr(store, "MIN_EVENTS", 1)
    monkeypatch.setattr(saving, "in_background", lambda save: save(lambda: None))
    return tmp_path / "cache" / "traces"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Labels of the inputs that were really read."""
    found: list[str] = []
    read = ingest._read

    def counted(source: Any, progress: Any) -> Any:
        found.append(source.label)
        return read(source, progress)

    monkeypatch.setattr(ingest, "_read", counted)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "trace.json"
    where.write_bytes(document())
    return where
