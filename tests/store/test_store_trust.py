"""The store is believed only while it is whole and its input is the one it was made from."""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope import ingest
from kinetoscope.ingest import load, store
from kinetoscope.ingest.store import Store
from stored import assert_same, document, posix, settle, stores


@posix
def test_another_users_store_is_not_believed(
    path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load(str(path))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    load(str(path))
    assert len(reads) == 2


@posix
@pytest.mark.parametrize("settled", [False, True])
def test_changed_in_place_with_its_times_restored(
    path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    """Same size, same mtime, and the change lies between the samples, so that the store is found."""
    monkeypatch.setattr(store, "_SAMPLES", 2)
    big = document(events=9000)
    path.write_bytes(big)
    if settled:
        settle(path, monkeypatch)
    load(str(path))
    load(str(path))
    assert len(reads) == 1
    before = path.stat()
    at = big.index(b"aten::op1", 5000)
    digest = store._sample_digest(path, None)
    changed = big[:at] + b"aten::OP1" + big[at + 9 :]
    time.sleep(0.02)  # so that the clock of file times moves on
    with open(path, "r+b") as file:
        file.write(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert store._sample_digest(path, None) == digest
    trace = load(str(path))
    assert len(reads) == 2
    assert "OP1" in "".join(trace.names)


@posix
def test_changed_between_the_samples(path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_SAMPLES", 1)
    monkeypatch.setattr(store, "_SAMPLE_BYTES", 16)
    settle(path, monkeypatch)
    load(str(path))
    before = path.stat()
    time.sleep(0.02)
    path.write_bytes(document(2))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    trace = load(str(path))
    assert len(reads) == 2
    assert trace.names[1].startswith("aten::op2")


def test_changed_while_it_was_read(
    path: Path, cache: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even within the time that its stamp cannot tell apart."""
    read = ingest._read

    def changing(source: Any, progress: Any) -> Any:
        found = read(source, progress)
        stat = path.stat()
        path.write_bytes(document(3))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        return found

    frozen = store.Stamp.of(path)
    monkeypatch.setattr(store.Stamp, "of", staticmethod(lambda _: frozen))
    monkeypatch.setattr(ingest, "_read", changing)
    load(str(path))
    assert stores(cache) == []


def test_truncated_anywhere_is_not_believed(path: Path, cache: Path, reads: list[str]) -> None:
    first = load(str(path))
    (file,) = stores(cache)
    whole = file.read_bytes()
    rng = random.Random(0)
    for cut in [0, 1, 10, 30, 40, 100, *(rng.randrange(len(whole)) for _ in range(25)), len(whole) - 65]:
        file.write_bytes(whole[:cut])
        assert_same(first, load(str(path)))
        assert file.read_bytes() == whole, cut  # made anew
    assert len(reads) == 1 + 32


def test_any_byte_flipped_is_not_believed(path: Path, cache: Path) -> None:
    first = load(str(path))
    (file,) = stores(cache)
    whole = file.read_bytes()
    head = len(b"kinetoscope store 2\n") + 16
    rng = random.Random(1)
    places = [*range(head), *(rng.randrange(len(whole)) for _ in range(120))]
    kept = 0
    for at in places:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        found = Store(cache).find(path, None)
        if found is not None:  # between contents and columns lie a few bytes of nothing
            assert whole[at] == 0
            kept += 1
            np.testing.assert_array_equal(found.reading.body.slices.start_ns, first.columns.start_ns)
    assert kept <= 2


def test_another_version_is_not_found(
    path: Path, cache: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load(str(path))
    (file,) = stores(cache)
    monkeypatch.setattr(store, "VERSION", store.VERSION + 1)
    load(str(path))
    assert len(reads) == 2
    # nor believed under the new name
    new = next(one for one in stores(cache) if one != file)
    new.write_bytes(file.read_bytes().replace(b"store 2\n", b"store 1\n"))
    load(str(path))
    assert len(reads) == 3


def test_another_byte_order_is_not_found(
    path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load(str(path))
    monkeypatch.setattr(sys, "byteorder", "big" if sys.byteorder == "little" else "little")
    load(str(path))
    assert len(reads) == 2


@posix
@pytest.mark.parametrize("settled", [False, True])
def test_another_files_store_is_not_believed(
    tmp_path: Path, cache: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    if settled:
        settle(tmp_path, monkeypatch)
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    one.write_bytes(document(1))
    two.write_bytes(document(2))
    assert one.stat().st_size == two.stat().st_size
    load(str(one))
    (of_one,) = stores(cache)
    load(str(two))
    (of_two,) = (file for file in stores(cache) if file != of_one)
    shutil.copy(of_one, of_two)
    assert load(str(two)).names[1].startswith("aten::op2")
    assert len(reads) == 3
