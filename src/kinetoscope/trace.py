"""The trace: every event of one file as frozen columns, in integer nanoseconds.

One `Trace` is one Kineto file (one rank). Complete events are *slices*, ordered by
(track, start, longest first, file order), so that the slices of a track are one
contiguous run and a parent always comes before its children. Columns are read-only NumPy
arrays; the same data as Polars frames is at ``Trace.slices``, ``.flows`` and ``.tracks``.

Names are numbers: ``columns.name`` indexes ``trace.names``. To select by name, ask each
distinct name once (`Strings.where`) and take that answer through the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl

    from kinetoscope.schema import DeviceKind

Int64: TypeAlias = npt.NDArray[np.int64]
Int32: TypeAlias = npt.NDArray[np.int32]
UInt32: TypeAlias = npt.NDArray[np.uint32]
UInt16: TypeAlias = npt.NDArray[np.uint16]
UInt8: TypeAlias = npt.NDArray[np.uint8]
Float64: TypeAlias = npt.NDArray[np.float64]
Bool: TypeAlias = npt.NDArray[np.bool_]

#: "not given" in an int64 column (correlation, device, stream, ids)
NONE = int(np.iinfo(np.int64).min)


class Category(IntEnum):
    """What a slice is, from its ``cat`` (any spelling Kineto has used since 2021)."""

    OTHER = 0
    CPU_OP = 1
    USER_ANNOTATION = 2
    PYTHON = 3  # python_function: only with with_stack
    RUNTIME = 4  # cuda_runtime (also hip*), xpu_runtime, ...
    DRIVER = 5
    OVERHEAD = 6
    TRACE = 7  # the row of the profiler itself, in the pseudo-processes "Spans" and "Traces"
    SYNC = 8  # cuda_sync: waits as seen on the device, not device work
    GPU_ANNOTATION = 9  # gpu_user_annotation: a twin of a user annotation, not device work
    KERNEL = 10
    MEMCPY = 11
    MEMSET = 12

    @property
    def is_device(self) -> bool:
        """Whether the device was at work: kernel, memcpy or memset."""
        return self >= Category.KERNEL

    @property
    def is_call(self) -> bool:
        """Whether it is a call of the runtime or driver API."""
        return self in (Category.RUNTIME, Category.DRIVER)


_CATEGORY_NAMES: Mapping[str, Category] = {
    "cpu_op": Category.CPU_OP,
    "operator": Category.CPU_OP,
    "user_annotation": Category.USER_ANNOTATION,
    "python_function": Category.PYTHON,
    "python function": Category.PYTHON,
    "runtime": Category.RUNTIME,
    "overhead": Category.OVERHEAD,
    "trace": Category.TRACE,
    "cuda_sync": Category.SYNC,
    "gpu_user_annotation": Category.GPU_ANNOTATION,
    "kernel": Category.KERNEL,
    "gpu_memcpy": Category.MEMCPY,
    "memcpy": Category.MEMCPY,
    "gpu_memset": Category.MEMSET,
    "memset": Category.MEMSET,
}


def category_of(cat: str) -> Category:
    """The `Category` of a ``cat`` string; unknown ones are ``OTHER``, never an error."""
    cat = cat.lower()
    known = _CATEGORY_NAMES.get(cat)
    if known is not None:
        return known
    if cat.endswith("_runtime"):
        return Category.RUNTIME
    if cat.endswith("_driver"):
        return Category.DRIVER
    return Category.OTHER


class Flag:
    """Bits of the ``flags`` column of `Slices`."""

    INVALID_TIME = 1  # negative duration, or a device event with ts 0 and dur 0: kept, never measured
    CLIPPED = 2  # a device event that ran past the next start on its stream: duration cut there
    COLLECTIVE = 4  # its args carry collective metadata


@dataclass(frozen=True, eq=False)
class Slices:
    """Complete events (``ph: X``) as columns of one length, ordered as the module says.

    Attributes:
        start_ns: start, relative to ``Trace.origin_ns``.
        dur_ns: duration; 0 where the time is invalid.
        name: index into ``Trace.names``.
        cat: index into ``Trace.cats``.
        category: `Category`.
        track: index into ``Trace.track_list``.
        correlation: ``args.correlation`` or `NONE`.
        external_id: ``args["External id"]`` or `NONE`.
        sequence: ``args["Sequence number"]`` or `NONE`.
        device: ``args.device`` or `NONE`.
        stream: ``args.stream`` or `NONE`.
        event: position of the event in the file's ``traceEvents``, from 0.
        flags: bits of `Flag`.
        depth: nesting depth on its track (0 outermost); python functions nest apart.
        parent: row of the slice around it on its track, or -1.
    """

    start_ns: Int64
    dur_ns: Int64
    name: UInt32
    cat: UInt16
    category: UInt8
    track: UInt32
    correlation: Int64
    external_id: Int64
    sequence: Int64
    device: Int64
    stream: Int64
    event: UInt32
    flags: UInt8
    depth: UInt16
    parent: Int32

    def __len__(self) -> int:
        return len(self.start_ns)

    @cached_property
    def end_ns(self) -> Int64:
        """Start plus duration."""
        return _frozen(self.start_ns + self.dur_ns)

    @cached_property
    def is_device(self) -> Bool:
        """Kernels, memcpys and memsets (invalid times included)."""
        return _frozen(self.category >= Category.KERNEL)

    @cached_property
    def is_call(self) -> Bool:
        """Runtime and driver calls."""
        return _frozen((self.category == Category.RUNTIME) | (self.category == Category.DRIVER))

    @cached_property
    def is_valid(self) -> Bool:
        """Slices whose times can be measured."""
        return _frozen((self.flags & Flag.INVALID_TIME) == 0)

    @cached_property
    def is_cpu(self) -> Bool:
        """Work seen on a CPU thread: operators, annotations, runtime and driver calls, python functions."""
        c = self.category
        return _frozen((c >= Category.CPU_OP) & (c <= Category.DRIVER))


@dataclass(frozen=True, eq=False)
class Flows:
    """Ends of flow arrows (``ph: s, t, f``) in file order.

    ``phase`` is the ASCII code of s, t or f; ``cat`` indexes ``Trace.cats``; ids that are not
    integers are numbered from the top of int64 downwards.
    """

    id: Int64
    time_ns: Int64
    phase: UInt8
    cat: UInt16
    track: UInt32
    event: UInt32

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, eq=False)
class Instants:
    """Instant events (``ph: i, I``) in file order.

    The memory columns are `NONE` except for ``[memory]`` rows.
    ``device_type`` is 0 for the CPU and 1 for CUDA (c10::DeviceType).
    """

    time_ns: Int64
    name: UInt32
    cat: UInt16
    track: UInt32
    event: UInt32
    bytes: Int64
    total_allocated: Int64
    total_reserved: Int64
    device_type: Int64
    device_id: Int64

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, eq=False)
class Counters:
    """Counter samples (``ph: C``), one row a series and time; ``series`` indexes ``Trace.names``."""

    time_ns: Int64
    name: UInt32
    series: UInt32
    track: UInt32
    value: Float64

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class Track:
    """One (process, thread) pair of the file: a CPU thread, or a stream of a device.

    ``pid`` and ``tid`` are kept as the file has them. ``first``:``last`` are its rows in `Slices`.
    """

    pid: int | str
    tid: int | str
    process_name: str | None
    thread_name: str | None
    labels: str | None
    sort_index: int | None
    first: int
    last: int


class Strings(Sequence[str]):
    """Distinct strings, by number."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = tuple(values)

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    @cached_property
    def index(self) -> Mapping[str, int]:  # type: ignore[override]
        """Number of each string."""
        return {value: number for number, value in enumerate(self._values)}

    def where(self, predicate: Callable[[str], object]) -> Bool:
        """Which strings hold, as a bool array to be indexed with a column of numbers."""
        return np.fromiter((bool(predicate(s)) for s in self._values), np.bool_, len(self._values))


@dataclass(frozen=True)
class TraceWarning:
    """Something about the file that a reader of its numbers should know. ``count``: how often it was met."""

    code: str
    message: str
    count: int = 1


@dataclass(frozen=True)
class Device:
    """A device that the file's header describes. ``index`` as in ``args.device``."""

    index: int
    name: str | None


@dataclass(frozen=True)
class Info:
    """What the file says about itself, and what reading it showed."""

    path: str
    events: int  # entries of traceEvents, of any kind
    complete_events: int  # of them ph X
    complete: bool  # False: the end of the file is missing
    device_kind: DeviceKind | None
    devices: tuple[Device, ...] = ()
    versions: Mapping[str, str | None] = field(default_factory=dict)  # by schema.Versions' names
    rank: int | None = None
    world_size: int | None = None
    base_time_ns: int | None = None  # baseTimeNanoseconds: add to origin_ns for epoch time
    header: Mapping[str, Any] = field(default_factory=dict)  # the top-level object without traceEvents
    warnings: tuple[TraceWarning, ...] = ()


class ArgsSource(Protocol):
    """Where raw events can be read again."""

    def __call__(self, events: Sequence[int]) -> list[dict[str, Any]]:
        """The whole JSON objects of these events (positions in traceEvents), in the order asked."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One trace file in memory. See the module's text for how it is ordered."""

    info: Info
    origin_ns: int  # absolute time (as in the file, in ns) of start_ns 0
    columns: Slices
    flow_columns: Flows
    instants: Instants
    counters: Counters
    track_list: tuple[Track, ...]
    names: Strings
    cats: Strings
    args_source: ArgsSource

    @property
    def warnings(self) -> tuple[TraceWarning, ...]:
        """What a reader of the numbers should know about the file."""
        return self.info.warnings

    def name_of(self, row: int) -> str:
        """Name of the slice in ``row``."""
        return str(self.names[int(self.columns.name[row])])

    def args(self, row: int) -> dict[str, Any]:
        """The args of the slice in ``row``, decoded from the file now."""
        return self.args_of([row])[0]

    def args_of(self, rows: Sequence[int] | npt.NDArray[Any]) -> list[dict[str, Any]]:
        """The args of several slices; rows close together in the file are decoded together."""
        events = [int(self.columns.event[int(row)]) for row in rows]
        found = (event.get("args") for event in self.args_source(events))
        return [args if isinstance(args, dict) else {} for args in found]

    @cached_property
    def span_ns(self) -> int:
        """From the first start to the last end of what was measured (the profiler's own row left out)."""
        c = self.columns
        keep = c.is_valid & (c.category != Category.TRACE)
        if not keep.any():
            return 0
        return int(c.end_ns[keep].max() - c.start_ns[keep].min())

    @cached_property
    def slices(self) -> pl.DataFrame:
        """Slices as a Polars frame: names as strings, not-given numbers as null."""
        from kinetoscope.frames import slices_frame

        return slices_frame(self)

    @cached_property
    def flows(self) -> pl.DataFrame:
        """Flow ends as a Polars frame."""
        from kinetoscope.frames import flows_frame

        return flows_frame(self)

    @cached_property
    def tracks(self) -> pl.DataFrame:
        """Tracks as a Polars frame, one row a (process, thread) pair."""
        from kinetoscope.frames import tracks_frame

        return tracks_frame(self)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array
