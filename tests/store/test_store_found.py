"""The store: the same trace again, wherever it lies now, and also without a store."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kinetoscope import ingest
from kinetoscope.ingest import load, store
from kinetoscope.ingest.store import default_store
from kinetoscope.trace import Trace
from stored import assert_same, document, posix, settle, stores


def test_the_second_opening_gives_the_same(path: Path, cache: Path, reads: list[str]) -> None:
    first = load(str(path))
    second = load(str(path))
    assert reads == [str(path)]
    assert_same(first, second)
    assert second.info.header["big"] == 2**80
    assert second.warnings
    assert len(stores(cache)) == 1


@posix
def test_it_is_private(path: Path, cache: Path) -> None:
    load(str(path))
    assert cache.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in cache.iterdir()} == {0o600}


@pytest.mark.parametrize("name", ["t.json.gz", "t.zip", "t.json"])
def test_partial_stays_partial(tmp_path: Path, reads: list[str], name: str) -> None:
    where = tmp_path / name
    text = document(events=4000)
    if name.endswith("gz"):
        where.write_bytes(gzip.compress(text)[:-2000])
    elif name.endswith("zip"):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.json", text)
        where.write_bytes(out.getvalue()[:-3000])
    else:
        where.write_bytes(text[:-3000])
    first = load(str(where))
    second = load(str(where))
    assert len(reads) == 1
    assert not second.info.complete
    assert second.warnings[0].code == "truncated"
    assert_same(first, second)


def test_members_of_an_archive(tmp_path: Path, cache: Path, reads: list[str]) -> None:
    where = tmp_path / "ranks.zip"
    with zipfile.ZipFile(where, "w") as archive:
        archive.writestr("r0.json", document(1))
        archive.writestr("r1.json", document(2))
    first = [ingest.load_source(source) for source in ingest.find_sources(str(where))]
    second = [ingest.load_source(source) for source in ingest.find_sources(str(where))]
    assert len(reads) == 2
    for one, other in zip(first, second, strict=True):
        assert_same(one, other)
    assert first[0].name_of(10) != first[1].name_of(10)
    assert len(stores(cache)) == 2


def test_copied_and_moved_files_hit(path: Path, tmp_path: Path, reads: list[str]) -> None:
    first = load(str(path))
    copy = tmp_path / "copy with space.json"
    shutil.copy(path, copy)
    assert_same_but_path(first, load(str(copy)))
    path.rename(tmp_path / "moved.json")
    assert_same_but_path(first, load(str(tmp_path / "moved.json")))
    assert len(reads) == 1


def assert_same_but_path(one: Trace, other: Trace) -> None:
    assert one.info.path != other.info.path
    assert one.info.events == other.info.events
    np.testing.assert_array_equal(one.columns.start_ns, other.columns.start_ns)


@posix
def test_an_untouched_file_is_not_read_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(path, monkeypatch)
    load(str(path))

    def no(_: Any) -> Any:
        raise AssertionError("the blocks were read")

    monkeypatch.setattr(store, "_block_checksums", no)
    assert load(str(path)).info.events == 403


def test_without_inodes_the_blocks_are_always_looked_at(
    path: Path, cache: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(path, monkeypatch)
    real = store.Stamp.of

    def without(file: Path) -> store.Stamp:
        found = real(file)
        return store.Stamp(msgspec.structs.replace(found.stat, inode=0), found.seen_ns)

    monkeypatch.setattr(store.Stamp, "of", staticmethod(without))
    load(str(path))
    load(str(path))
    assert len(reads) == 1
    assert not list(cache.glob("*.seen"))


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def where() -> Path:
        found = default_store()
        assert found is not None
        return found._where

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("KINETOSCOPE_CACHE", str(tmp_path))
    assert where() == tmp_path / "traces"
    monkeypatch.delenv("KINETOSCOPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert where() == tmp_path / "xdg" / "kinetoscope" / "traces"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert where() == tmp_path / "home" / ".cache" / "kinetoscope" / "traces"

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", staticmethod(homeless))
    assert default_store() is None


def test_without_a_home_it_works_without(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "default_store", lambda: None)
    assert load(str(path)).info.events == 403


def test_a_cache_that_can_only_be_read_is_used(
    path: Path, cache: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load(str(path))

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    settle(path, monkeypatch)
    for name in ("utime", "replace"):
        monkeypatch.setattr(os, name, refuse)
    load(str(path))
    assert len(reads) == 1


@posix
def test_it_may_be_deleted_while_open(path: Path, cache: Path) -> None:
    first = load(str(path))
    second = load(str(path))
    shutil.rmtree(cache)
    assert_same(first, second)
    load(str(path))
    assert len(stores(cache)) == 1


def test_two_at_once(path: Path, cache: Path) -> None:
    first = load(str(path))
    shutil.rmtree(cache)
    found: list[Trace] = []
    threads = [
        threading.Thread(target=lambda: found.extend(load(str(path)) for _ in range(6))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 24
    assert {len(trace.columns) for trace in found} == {len(first.columns)}
    assert_same(first, found[-1])
    assert [file.suffix for file in cache.iterdir() if file.name.startswith(".")] == []
    assert len(stores(cache)) == 1


def test_small_traces_are_not_kept(path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MIN_EVENTS", 404)
    load(str(path))
    monkeypatch.setattr(store, "MIN_EVENTS", 1)
    monkeypatch.setattr(ingest, "_STORE_FROM_BYTES", 1 << 20)
    load(str(path))
    load(str(path), use_store=False)
    assert not cache.exists()
