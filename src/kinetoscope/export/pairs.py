"""Entries of a file that belong together: the ends of an arrow, and begin and end of a stretch.

Each of the two has its own time, so that a part of the trace can hold one and not the other. A reader
would draw an arrow to nowhere, or take everything up to the next end for nested. So an arrow or a
stretch belongs to the part in which it begins, as slices do, with all that is written of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kinetoscope.link.select import Interval
from kinetoscope.trace import Bool, Int64, Trace

_NS = 1000
_BEGIN, _END = "BbS", "EeF"
#: steps of a stretch in progress, in the old form of asynchronous events
_STEP = "Tp"
_PHASES = frozenset(_BEGIN + _END + _STEP)


#: about 285 years, which whole nanoseconds of 64 bits just hold
_LONGEST_US = 9 * 10**15


class Head(msgspec.Struct):
    """What says where an entry belongs; what is not looked into may be anything."""

    ph: str = ""
    ts: Decimal | None = None
    pid: Any = ""
    tid: Any = ""
    cat: Any = ""
    name: Any = ""
    id: Any = None
    id2: Any = None

    def time_ns(self, origin_ns: int) -> int | None:
        """Time from the trace's origin, if it has one that can be measured."""
        if self.ts is None or not self.ts.is_finite() or self.ts.copy_abs() > _LONGEST_US:
            return None
        return int(self.ts * _NS) - origin_ns


_HEAD = msgspec.json.Decoder(Head, strict=False)


def head(text: bytes) -> Head | None:
    """The head of an entry, or None where it is not written as one."""
    try:
        return _HEAD.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def inside(time_ns: Int64, intervals: Sequence[Interval]) -> Bool:
    """Which of these times (ns from the trace's origin) lie in the intervals; their ends do not."""
    starts = np.array([start for start, _ in intervals], np.int64)
    ends = np.array([end for _, end in intervals], np.int64)
    at = np.searchsorted(starts, time_ns, side="right") - 1
    found: Bool = (at >= 0) & (time_ns < ends[np.maximum(at, 0)])
    return found


def arrows_inside(trace: Trace, rows: Bool, intervals: Sequence[Interval]) -> Bool:
    """Per entry of the trace's flows: whether its arrow lies in the part that has these ``rows``.

    That is where each of its entries lies inside or at a slice of the part: the device work of a launch is
    part of it whenever it ran. An entry whose arrow has no start in the file goes by itself.
    """
    flows = trace.flow_columns
    lies = inside(flows.time_ns, intervals) | _at_slices(trace, rows)
    _, ids = np.unique(np.stack((flows.cat.astype(np.int64), flows.id)), axis=1, return_inverse=True)
    ids = ids.ravel().astype(np.int64)
    starts = np.flatnonzero(flows.phase == ord("s"))
    starts = starts[np.lexsort((flows.event[starts], ids[starts]))]
    arrow = last_before(ids[starts], flows.event[starts], ids, flows.event)
    known = np.flatnonzero(arrow >= 0)
    whole = np.ones(len(starts), np.bool_)
    np.logical_and.at(whole, arrow[known], lies[known])
    lies[known] = whole[arrow[known]]
    return lies


def _at_slices(trace: Trace, rows: Bool) -> Bool:
    """Per entry of the trace's flows: whether one of these slices starts there."""
    flows, c = trace.flow_columns, trace.columns
    found = np.zeros(len(flows), np.bool_)
    for track in np.unique(flows.track).tolist():
        about = trace.track_list[track]
        starts = c.start_ns[about.first : about.last][rows[about.first : about.last]]
        here = np.flatnonzero(flows.track == track)
        found[here] = np.isin(flows.time_ns[here], starts)
    return found


def last_before(ids: Int64, events: npt.NDArray[Any], wanted: Int64, at: npt.NDArray[Any]) -> Int64:
    """For each wanted id, the number of its entry: the last one up to ``at``, else the first, else -1.

    ``ids`` ascend, and ``events`` inside each of them: a number can be used again later in the file.
    """
    found = np.full(len(wanted), -1, np.int64)
    first = np.searchsorted(ids, wanted, side="left")
    last = np.searchsorted(ids, wanted, side="right")
    found[:] = np.where(last > first, first, -1)
    for number in np.flatnonzero(last - first > 1).tolist():  # ids used twice are rare
        some = events[first[number] : last[number]]
        before = int(np.searchsorted(some, at[number], side="right")) - 1
        found[number] = first[number] + max(before, 0)
    return found


def stretches_inside(
    texts: Iterable[tuple[int, bytes]], trace: Trace, intervals: Sequence[Interval]
) -> dict[int, bool]:
    """By the number of an entry: whether the stretch that it begins or ends begins inside.

    ``texts`` are the entries that are not in the trace's columns, with their numbers; of those that are
    no part of a stretch nothing is said.
    """
    groups: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
    found: dict[int, bool] = {}
    for number, text in texts:
        about = head(text)
        if about is None or about.ph not in _PHASES:
            continue
        time = about.time_ns(trace.origin_ns)
        found[number] = False
        if time is not None:
            groups.setdefault(_owner(about), []).append((time, number, about.ph))
    for entries in groups.values():
        open_: list[bool] = []
        for time, number, phase in sorted(entries):
            if phase in _BEGIN:
                open_.append(bool(inside(np.array([time], np.int64), intervals)[0]))
                found[number] = open_[-1]
            elif open_:
                # an end without a begin began before the recording, and so before the part
                found[number] = open_[-1] if phase in _STEP else open_.pop()
    return found


def _owner(about: Head) -> tuple[str, ...]:
    """Whose begins and ends nest: a thread's, or those of one asynchronous id."""
    if about.ph in "BE":
        return "thread", str(about.pid), str(about.tid)
    own = about.id2 if isinstance(about.id2, dict) else {"global": about.id}
    whose = str(about.pid) if "local" in own else ""
    # the old form tells its stretches apart by name as well
    name = "" if about.ph in "be" else str(about.name)
    return "id", whose, str(about.cat), str(own.get("local", own.get("global"))), name
