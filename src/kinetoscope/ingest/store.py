"""The store: the columns of a trace kept in the user's cache, so that opening it again is fast.

One file a trace, found by a digest of samples of the input (so a copied or moved trace is found
as well) and believed only if the whole input is still the one it was made from: either its
file was not touched since (size, times, inode), or every block of it has the checksum noted in
the store. The store's own bytes carry a checksum too. A store that does not fit in any way is
ignored and made anew; deleting any or all of them is safe. Files are written beside their
place and renamed into it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from isal import isal_zlib

from kinetoscope.ingest.reader import Reading
from kinetoscope.ingest.store_file import VERSION, Origin, Stored, StoreFile, data_bytes, write

#: traces of fewer events are read again in no time
MIN_EVENTS = 150_000
_BLOCK_BYTES = 8 << 20
_SAMPLES, _SAMPLE_BYTES = 48, 4096
_LIMIT_BYTES = 10 << 30
#: room on the disk that is left to others
_SPARE_BYTES = 1 << 30
#: a file changed this shortly before it was looked at could change again within its time stamp
_RACY_NS = 2_000_000_000
#: a temporary file this old is a dead process's, whatever its number says (it may be another machine's)
_STALE_S = 86_400
_SETTLED_S = 60


class _Stat(msgspec.Struct, frozen=True, array_like=True):
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class _Seen(msgspec.Struct, frozen=True, array_like=True):
    """The input file that a store was last found to fit, and that store's checksum."""

    stat: _Stat
    store: int


@dataclass(frozen=True)
class Stamp:
    """What tells that a file was not touched, and when it was looked at."""

    stat: _Stat
    seen_ns: int

    @staticmethod
    def of(file: Path) -> Stamp:
        """The stamp of a file now."""
        seen = time.time_ns()
        s = os.stat(file)
        return Stamp(_Stat(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns), seen)

    @property
    def tells(self) -> bool:
        """Whether any later change of the file would show in its stamp."""
        # elsewhere ctime is the time of creation; and some file systems have no inodes
        if os.name != "posix" or self.stat.inode == 0:
            return False
        return self.seen_ns - max(self.stat.mtime_ns, self.stat.ctime_ns) >= _RACY_NS


@dataclass(frozen=True)
class Before:
    """A file as it was before it was read; its blocks where the stamp alone would not show a change."""

    stamp: Stamp
    blocks: tuple[int, ...] | None

    @staticmethod
    def of(file: Path) -> Before:
        """The file now."""
        stamp = Stamp.of(file)
        return Before(stamp, None if stamp.tells else tuple(_block_checksums(file)))


def _nothing() -> None:
    """Go on."""


class Store:
    """A directory of stored traces."""

    def __init__(self, where: Path) -> None:
        self._where = where

    def find(self, file: Path, member: str | None) -> Stored | None:
        """The stored reading of this file (or of its ``member``), if there is one that can be believed."""
        try:
            path = self._path(file, member)
            if not path.exists():
                return None
            store = StoreFile(path)
            if not self._believes(path, store, file, member):
                return None
            stored = store.restore()
        except Exception:  # whatever is wrong with a cache: the input is there, and will be read
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # recently used: pruned last
        return stored

    def save(
        self,
        file: Path,
        member: str | None,
        before: Before,
        reading: Reading,
        ends_early: str | None,
        go_on: Callable[[], None] = _nothing,
    ) -> None:
        """Keep a reading; ``before`` is the file from before it was read.

        Nothing is kept of a file that changed meanwhile. ``go_on`` is called between steps and may
        raise to stop. An OSError (disk full, no permission) is the caller's to judge.
        """
        self._where.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shutil.disk_usage(self._where).free < data_bytes(reading) + _SPARE_BYTES:
            raise OSError(errno.ENOSPC, "the disk is nearly full")
        path = self._path(file, member)
        found = []
        for checksum in _block_checksums(file):
            go_on()
            found.append(checksum)
        blocks = tuple(found)
        if Stamp.of(file).stat != before.stamp.stat or before.blocks not in (None, blocks):
            return
        origin = Origin(_member_bytes(member), before.stamp.stat.size, blocks)
        self._prune(keep=path)
        with _replacing(path) as descriptor, open(descriptor, "wb") as out:
            checksum = write(out, origin, reading, ends_early, go_on)
        _trust(path, checksum, before.stamp)

    def _path(self, file: Path, member: str | None) -> Path:
        return self._where / f"{_sample_digest(file, member)}.v{VERSION}-{sys.byteorder}.store"

    @staticmethod
    def _believes(path: Path, store: StoreFile, file: Path, member: str | None) -> bool:
        stamp = Stamp.of(file)
        origin = store.origin
        if stamp.stat.size != origin.size or origin.member != _member_bytes(member):
            return False
        if stamp.tells and _trusted(path) == _Seen(stamp.stat, store.checksum):
            return True
        if tuple(_block_checksums(file)) != origin.blocks:
            return False
        with contextlib.suppress(OSError):  # a cache that can only be read will do
            _trust(path, store.checksum, stamp)
        return True

    def _prune(self, keep: Path) -> None:
        """Delete what dead processes left, and the least recently used beyond the limit."""
        now = time.time()
        found = []
        for entry in os.scandir(self._where):
            path = Path(entry.path)
            try:
                stat = entry.stat()
                if _is_left_over(path, now - stat.st_mtime):
                    path.unlink(missing_ok=True)
                elif path.suffix == ".store" and not entry.name.startswith("."):
                    found.append((stat.st_mtime_ns, stat.st_size, path))
            except OSError:
                continue
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= _LIMIT_BYTES:
                break
            if path != keep:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                    _seen_path(path).unlink(missing_ok=True)
                total -= size


def default_store() -> Store | None:
    """The store in the user's cache directory (KINETOSCOPE_CACHE names another); None if there is no such."""
    try:
        return Store(_cache_home() / "traces")
    except RuntimeError:  # no home directory
        return None


def _cache_home() -> Path:
    if chosen := os.environ.get("KINETOSCOPE_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "kinetoscope" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kinetoscope"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "kinetoscope"


def _member_bytes(member: str | None) -> bytes | None:
    return None if member is None else member.encode("utf-8", "surrogatepass")


def _sample_digest(file: Path, member: str | None) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with open(file, "rb") as source:
        size = os.fstat(source.fileno()).st_size
        digest.update(b"%d|%b|" % (size, b"-" if member is None else b"+" + (_member_bytes(member) or b"")))
        step = max(_SAMPLE_BYTES, size // _SAMPLES)
        for offset in [*range(0, size, step), max(0, size - _SAMPLE_BYTES)]:
            source.seek(offset)
            digest.update(source.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _block_checksums(file: Path) -> Iterator[int]:
    with open(file, "rb") as source:
        while block := source.read(_BLOCK_BYTES):
            yield isal_zlib.crc32(block)


def _seen_path(path: Path) -> Path:
    return path.with_suffix(".seen")


def _trusted(path: Path) -> _Seen | None:
    try:
        return msgspec.msgpack.decode(_seen_path(path).read_bytes(), type=_Seen)
    except (OSError, msgspec.MsgspecError):
        return None


def _trust(path: Path, checksum: int, stamp: Stamp) -> None:
    """Note that the file with this stamp is the one; not if it could still change unseen."""
    if not stamp.tells:
        return
    with _replacing(_seen_path(path)) as descriptor, open(descriptor, "wb") as out:
        out.write(msgspec.msgpack.encode(_Seen(stamp.stat, checksum)))


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[int]:
    """The descriptor of a new file that takes the name ``path`` only when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        yield os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_left_over(path: Path, age_s: float) -> bool:
    """A temporary file of a dead process, or a note on a store that is gone."""
    if path.suffix == ".seen":
        return age_s > _SETTLED_S and not path.with_suffix(".store").exists()
    if not path.name.startswith(".") or (".store." not in path.name and ".seen." not in path.name):
        return False
    number = path.name.split(".")[-2]
    alive = number.isdecimal() and _is_alive(int(number))
    return age_s > (_STALE_S if alive else _SETTLED_S)


def _is_alive(pid: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


__all__ = ["MIN_EVENTS", "Before", "Store", "default_store"]
