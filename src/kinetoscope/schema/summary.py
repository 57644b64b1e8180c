"""What was read, and its steps."""

from __future__ import annotations

import builtins

import msgspec

from kinetoscope.schema.words import DeviceKind, StepSource


class WarningNote(msgspec.Struct, frozen=True, kw_only=True):
    """Something about the file that a reader of its numbers should know; ``count``: how often it was met."""

    code: str
    message: str
    count: int = 1


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A device that the file's header describes."""

    index: int
    name: str | None = None


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """Versions as the file states them."""

    torch: str | None = None
    cuda_runtime: str | None = None
    cuda_driver: str | None = None
    cupti: str | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the trace that was asked for: from ``start_ns`` to ``end_ns``.

    ``steps`` holds the first and last step (counted from 0, both included) and ``annotation`` the
    name, where the window was given that way.
    """

    start_ns: int
    end_ns: int
    steps: tuple[int, int] | None = None
    annotation: str | None = None


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What was read. ``events`` are entries of any kind, ``complete_events`` those with a duration.

    ``complete`` is false where the end of the file is missing: everything is then PARTIAL.
    """

    path: str
    events: int
    complete_events: int
    span_ns: int
    device_kind: DeviceKind | None = None
    devices: list[DeviceInfo] = []
    versions: Versions = Versions()
    rank: int | None = None
    world_size: int | None = None
    complete: bool
    window: Window | None = None
    warnings: list[WarningNote] = []


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step. ``dur_ns`` is start to next start (the last step: to its own end).

    ``device_busy_ns`` is the busy time of the work that the step launched, whenever it ran.
    ``complete`` is false for a step that the window or the file's end cut.
    """

    name: str
    start_ns: int
    dur_ns: int
    device_busy_ns: int | None = None
    complete: bool = True


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps, ``list`` in time order; mean and median leave the first out when there are more than two.

    ``source`` says how they were found; without any, ``count`` is None. Times are those of the trace, so of
    profiled steps; ``unprofiled_mean_ns`` is of the steps that a capture timed before its profiler started,
    and ``unprofiled_ns`` their usual time, without moments in which others slowed the host down: what costs
    and savings of steps without the profiler start from.
    """

    source: StepSource | None = None
    count: int | None = None
    mean_ns: int | None = None
    median_ns: int | None = None
    unprofiled_mean_ns: int | None = None
    unprofiled_ns: int | None = None
    list: builtins.list[Step] = []
