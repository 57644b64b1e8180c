"""Graph breaks as far as a trace without a compile log tells them.

A break leaves a trace only where a region runs inside another: the function was left in the
middle and its continuation, or a callee that was no longer inlined, is a compiled region of its
own. So the count is an estimate: distinct frames seen nested. What looks alike and is none:

- regions side by side: functions compiled one by one, or pieces of a frame that was skipped;
- a region with ``compile_wrapper`` of ``eval_frame.py`` between it and the region around it
  (needs with_stack): the program's own ``torch.compile``, called from eager or disabled code;
- ``!0/1/0``: a backward that compiled autograd compiled.

What a trace cannot show: a break followed only by ``return``, a frame skipped whole, whether a
nested frame is torch's own (an optimizer, DDP), and where in the source a break is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.link import Links
from kinetoscope.link.intervals import Cover
from kinetoscope.link.names import Mark
from kinetoscope.link.regions import Calls
from kinetoscope.schema import BreakSite, GraphBreaks
from kinetoscope.trace import Bool, Category, Int64

_WRAPPER = re.compile(r"\beval_frame\.py(?:\(\d+\))?: compile_wrapper$")
_PLACE = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.+)$")
_RESUME = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")


@dataclass(frozen=True, eq=False)
class Nesting:
    """How the regions of a trace stand to each other.

    ``[r]`` marks columns of one entry a region call, as in ``links.regions.calls``.
    """

    links: Links

    @cached_property
    def frame_of_label(self) -> tuple[str, ...]:
        """Frame of each region id: ``0`` of ``0/1``; an id of another form is a frame of its own."""
        return tuple(frame_of(label) for label in self.links.regions.calls.labels)

    @cached_property
    def is_backward(self) -> Bool:
        """[r] compiled by compiled autograd."""
        calls = self.links.regions.calls
        starred = np.array([label.startswith("!") for label in calls.labels], np.bool_)
        return starred[calls.label] if len(calls) else np.zeros(0, np.bool_)

    @cached_property
    def own_compile(self) -> Bool:
        """[r] nested, and called through a torch.compile of its own (known only with stacks)."""
        calls = self.links.regions.calls
        found = np.zeros(len(calls), np.bool_)
        nested = np.flatnonzero(calls.parent >= 0)
        wrappers = self._wrappers
        if not len(nested) or not len(wrappers):
            return found
        c = self.links.trace.columns
        cover = Cover.of(c.track[wrappers].astype(np.int64), c.start_ns[wrappers], c.end_ns[wrappers])
        around = cover.innermost(calls.track[nested], calls.start_ns[nested])
        opened = c.start_ns[wrappers[np.maximum(around, 0)]]
        found[nested] = (around >= 0) & (opened >= calls.start_ns[calls.parent[nested]])
        return found

    @cached_property
    def _wrappers(self) -> Int64:
        c = self.links.trace.columns
        is_wrapper = self.links.trace.names.where(_WRAPPER.search)
        return np.flatnonzero(is_wrapper[c.name] & (c.category == Category.PYTHON))

    @cached_property
    def continuations(self) -> Int64:
        """Region calls that are the other side of a break."""
        calls = self.links.regions.calls
        return np.flatnonzero((calls.parent >= 0) & ~self.is_backward & ~self.own_compile)

    @cached_property
    def root(self) -> Int64:
        """[r] the outermost region call around each; an outermost one gives itself."""
        parent = self.links.regions.calls.parent
        found = np.arange(len(parent))
        while (nested := parent[found] >= 0).any():  # as often as the deepest nesting
            found[nested] = parent[found[nested]]
        return found

    def entered_again(self, inner: Calls) -> Int64:
        """Of the graph calls or compiled functions ``inner``, those that are only entered because of a break.

        The first directly in each continuation, unless nothing compiled ran before it in the outermost
        region. The others there are no pieces of a break: DDP divides what it compiles by its buckets.
        """
        calls = self.links.regions.calls
        if not len(calls) or not len(inner):
            return np.empty(0, np.int64)
        around = calls.at_rows(inner.rows)
        mine = np.flatnonzero(around >= 0)
        mine = mine[np.argsort(inner.start_ns[mine], kind="stable")]
        around = around[mine]
        _, in_region = np.unique(around, return_index=True)
        _, in_root = np.unique(self.root[around], return_index=True)
        again = np.setdiff1d(in_region, in_root)
        found: Int64 = np.sort(mine[again[np.isin(around[again], self.continuations)]])
        return found

    @cached_property
    def lost_ns(self) -> Int64:
        """Per continuation: CPU time from the end of compiled code before it to its own first graph.

        The eager code of the break, guard checks, and the way in and out of compiled code; not the
        time in which the continuation was being compiled.
        """
        regions = self.links.regions
        calls = regions.calls
        inner = self.continuations
        outer = calls.parent[inner]
        # ends of compiled code: graphs, and regions (a sibling before this one)
        last_end = _last_before(
            np.concatenate((regions.graphs.track, regions.forwards.track, calls.track)),
            np.concatenate((regions.graphs.end_ns, regions.forwards.end_ns, calls.end_ns)),
            calls.track[inner],
            calls.start_ns[inner],
        )
        left = np.maximum(last_end, calls.start_ns[outer])
        first = _first_within(
            np.concatenate((regions.graphs.track, regions.forwards.track)),
            np.concatenate((regions.graphs.start_ns, regions.forwards.start_ns)),
            calls.track[inner],
            calls.start_ns[inner],
            calls.end_ns[inner],
        )
        compiling = _spent_between(self.links.compiles.phases, calls.track[inner], left, first)
        lost: Int64 = np.maximum(first - left - compiling, 0)
        return lost


def frame_of(region_id: str) -> str:
    """The frame of a region id."""
    frame, slash, number = region_id.rpartition("/")
    return frame if slash and number.isdigit() else region_id


def graph_breaks(links: Links, steps: int | None = None) -> GraphBreaks:
    """Breaks that the nesting of regions shows; ``steps`` is their number, for the cost of one step."""
    regions = links.regions
    calls = regions.calls
    if not _can_tell(links):
        return GraphBreaks(count=None, bound="estimate", source=None)
    nesting = Nesting(links)
    inner = nesting.continuations
    frames = nesting.frame_of_label
    of_call = np.array([frames[label] for label in calls.label[inner]], dtype=object)
    sites = []
    for frame in dict.fromkeys(of_call.tolist()):
        mine = inner[of_call == frame]
        around = calls.label[calls.parent[mine]]
        ids = [
            calls.labels[label] for label in dict.fromkeys([*around.tolist(), *calls.label[mine].tolist()])
        ]
        lost = int(nesting.lost_ns[of_call == frame].sum())
        sites.append(
            BreakSite(
                hits=len(mine),
                regions=ids,
                kind="break",
                cost_ns_per_step=round(lost / steps) if steps else None,
            )
        )
    sites.sort(key=lambda site: -(site.cost_ns_per_step or 0))
    return GraphBreaks(count=len(sites), bound="estimate", source="trace", sites=sites)


def _can_tell(links: Links) -> bool:
    """Whether a break would show: CPU threads are recorded, and compiled code leaves regions (torch 2.2)."""
    regions = links.regions
    if len(regions.calls):
        return True
    if len(regions.forwards) or len(regions.backwards):
        return False
    return bool((links.trace.columns.category == Category.CPU_OP).any())


@dataclass(frozen=True, eq=False)
class Boundaries:
    """Places where one outermost region follows another on its thread; rows index region calls."""

    before: Int64
    after: Int64

    def __len__(self) -> int:
        return len(self.before)


def boundaries(links: Links, step_of_call: Int64 | None = None) -> Boundaries:
    """Outermost regions of different frames side by side: maybe the two sides of a break.

    Two regions of one frame are two calls of one function. Nothing is said across the start of
    a step (``step_of_call``: per region call, -1 outside), or where a backward or an optimizer
    step ran between: no function is left in the middle there.
    """
    regions = links.regions
    calls = regions.calls
    nesting = Nesting(links)
    outer = np.flatnonzero((calls.parent < 0) & ~nesting.is_backward)
    before, after = outer[:-1], outer[1:]
    frames = np.array(_numbers(nesting.frame_of_label), np.int64)
    keep = (calls.track[before] == calls.track[after]) if len(outer) else np.zeros(0, np.bool_)
    if len(outer):
        keep = keep & (frames[calls.label[before]] != frames[calls.label[after]])
        if step_of_call is not None:
            keep = keep & (step_of_call[before] == step_of_call[after])
        divider = _dividers(links)
        between = np.searchsorted(divider, calls.start_ns[after]) > np.searchsorted(
            divider, calls.end_ns[before]
        )
        keep = keep & ~between
    return Boundaries(before[keep], after[keep])


def _numbers(texts: tuple[str, ...]) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(text, len(numbers)) for text in texts]


def _dividers(links: Links) -> Int64:
    """Start times of backward and optimizer work, on any thread, ascending."""
    trace = links.trace
    c = trace.columns
    divides = trace.names.where(lambda name: name.startswith("autograd::engine::evaluate_function"))
    divides |= (links.marks & np.uint32(Mark.OPTIMIZER | Mark.BACKWARD)) != 0
    return np.sort(c.start_ns[divides[c.name] & c.is_cpu])


def _last_before(track: Int64, time_ns: Int64, at_track: Int64, at_ns: Int64) -> Int64:
    """For each place, the latest of the times on its track that is not after it, or the lowest number."""
    none = np.iinfo(np.int64).min
    found = np.full(len(at_ns), none, np.int64)
    for one in np.unique(at_track):
        times = np.sort(time_ns[track == one])
        here = at_track == one
        at = np.searchsorted(times, at_ns[here], side="right") - 1
        found[here] = np.where(at >= 0, times[np.maximum(at, 0)] if len(times) else none, none)
    return found


def _spent_between(calls: Calls, at_track: Int64, start_ns: Int64, end_ns: Int64) -> Int64:
    """For each interval, the time of the outermost calls that start inside it on its track."""
    found = np.zeros(len(start_ns), np.int64)
    outer = calls.outermost
    for one in np.intersect1d(at_track, calls.track[outer]):
        here, mine = at_track == one, outer[calls.track[outer] == one]
        spent = np.append(0, np.cumsum(calls.dur_ns[mine]))
        first, last = (np.searchsorted(calls.start_ns[mine], at[here]) for at in (start_ns, end_ns))
        found[here] = spent[np.maximum(first, last)] - spent[first]
    return found


def _first_within(track: Int64, time_ns: Int64, at_track: Int64, start_ns: Int64, end_ns: Int64) -> Int64:
    """For each interval, the earliest of the times inside it on its track, else its start."""
    found: Int64 = start_ns.copy()
    for one in np.unique(at_track):
        times = np.sort(time_ns[track == one])
        if not len(times):
            continue
        here = np.flatnonzero(at_track == one)
        at = np.minimum(np.searchsorted(times, start_ns[here]), len(times) - 1)
        inside = (times[at] >= start_ns[here]) & (times[at] < end_ns[here])
        found[here[inside]] = times[at[inside]]
    return found
