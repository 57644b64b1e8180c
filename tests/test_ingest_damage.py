"""Cut and damaged containers: what came before is read, and no damage goes unsaid."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
import zlib
from pathlib import Path

import pytest

from container_files import DOC, all_of, error_of, tarred, write, zipped
from kinetoscope.errors import InputError
from kinetoscope.ingest.text import EndsEarlyError
from kinetoscope.ingest.unpack import gunzip


def noisy(events: int = 4000) -> bytes:
    rng = random.Random(3)
    return json.dumps(
        {
            "traceEvents": [
                {"ph": "X", "cat": "cpu_op", "name": f"{rng.random()}", "pid": 1, "tid": 1, "ts": i, "dur": 1}
                for i in range(events)
            ]
        }
    ).encode()


NOISY = noisy()

#: damaged text is slow to mend
SHORT = noisy(900)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("gz", gzip.compress(NOISY)),
        ("zip", zipped({"a.json": NOISY, "b.json": DOC})),
        ("stored.zip", zipped({"a.json": NOISY, "b.json": DOC}, zipfile.ZIP_STORED)),
        ("tar", tarred({"a.json": NOISY, "b.json": DOC})),
        ("tgz", tarred({"a.json": NOISY, "b.json": DOC}, "w:gz")),
    ],
)
def test_cut_anywhere_is_partial_or_refused(tmp_path: Path, name: str, data: bytes) -> None:
    partial = 0
    for cut in [*range(0, 60, 7), *range(60, len(data), len(data) // 12), len(data) - 30]:
        path = write(tmp_path / name, data[:cut])
        try:
            first, *others = all_of(path)
        except InputError as error:
            assert str(path) in str(error)
            assert str(error).isprintable()
            assert cut < len(data) // 6, error  # several events lie before
            continue
        whole = first.info.complete
        partial += not whole
        assert whole == (first.info.events == 4000)
        assert whole or first.warnings[0].code == "truncated"
        assert all(other.info.events <= 3 for other in others)
    assert partial >= 6


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("gz", gzip.compress(SHORT)),
        ("zip", zipped({"a.json": SHORT})),
        ("tgz", tarred({"a.json": SHORT}, "w:gz")),
    ],
)
def test_damage_anywhere_is_never_a_crash_nor_silent(tmp_path: Path, name: str, data: bytes) -> None:
    rng = random.Random(1)
    told = 0
    for _ in range(12):
        damaged = bytearray(data)
        at = rng.randrange(len(data) // 20, len(data) - len(data) // 20)
        damaged[at] ^= 1 << rng.randrange(8)
        try:
            traces = all_of(write(tmp_path / name, bytes(damaged)))
        except InputError as error:
            assert str(error).isprintable()
            told += 1
            continue
        told += any(trace.warnings for trace in traces)
    assert told >= (12 if name != "tgz" else 9)  # a tar file has no checksum of its members


def test_a_cut_gzip_gives_all_the_text_that_is_there() -> None:
    data = gzip.compress(b"a" * 300_000 + b"xyz" * 50_000 + bytes(200_000), 9)
    for cut in range(60, len(data) - 8, 11):
        blocks: list[bytes] = []
        with pytest.raises(EndsEarlyError):
            blocks.extend(gunzip(io.BytesIO(data[:cut]), "t"))
        assert b"".join(blocks) == zlib.decompressobj(31).decompress(data[:cut])


def test_a_wrong_checksum_of_a_gzip_is_noticed(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(DOC))
    data[-6] ^= 1
    assert "checksum" in error_of(write(tmp_path / "t.gz", bytes(data)))
    data = bytearray(gzip.compress(NOISY))
    data[-6] ^= 1
    (trace,) = all_of(write(tmp_path / "t.gz", bytes(data)))
    assert not trace.info.complete
    assert trace.info.events > 2000
