"""Steps: where the program says them, else where it shows them.

In this order: ``ProfilerStep`` annotations; another annotation that repeats; optimizer steps; a
repeating sequence of top-level compiled regions; a repeating sequence of launches. A step lasts
until the next one starts, the last until its own end. Device work belongs to the step in whose
time it was launched, on whatever thread (the backward has one of its own).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from kinetoscope.ingest.nesting import nest
from kinetoscope.link.compiles import Compiles
from kinetoscope.link.launches import Launches
from kinetoscope.link.loops import Loop, loop_of_launches, loop_of_regions
from kinetoscope.link.names import Mark, marked
from kinetoscope.link.regions import Regions
from kinetoscope.trace import Category, Int64, Trace, UInt32

StepSource: TypeAlias = Literal["profiler_step", "annotation", "region", "optimizer", "repetition"]

#: annotations of PyTorch itself: parts of a step, or once per something else than a step
_NOT_A_STEP = re.compile(
    r"Optimizer\.|(nccl|gloo|mpi|ucc|xccl|hccl|c10d):|DistributedDataParallel\.|FullyShardedDataParallel"
    r"|FSDP:|enumerate\(DataLoader\)|Torch-Compiled Region|TorchDynamo |Pregraph bytecode|AOTDispatcher"
    r"|ProfilerStep|PyTorch Profiler"
)
_STEP_WORD = re.compile(r"(^|[^a-z])(step|iter|iteration|batch)s?([^a-z]|$)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_STEP_NUMBER = re.compile(r"#(\d+)")


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of a trace, in time order.

    Attributes:
        launches: the launches that are placed in them.
        source: how they were found; None: there are none.
        names: what each is called.
        start_ns: start of each.
        end_ns: start of the next; of the last, its own end.
        complete: False for a step that the end of the trace cut.
    """

    launches: Launches
    source: StepSource | None
    names: tuple[str, ...]
    start_ns: Int64
    end_ns: Int64
    complete: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    def between(self, first: int, last: int) -> StepSpans | None:
        """The steps from ``first`` to ``last``, both included."""
        if self.source is None:
            return None
        chosen = slice(first, last + 1)
        return StepSpans(
            self.source, self.names[chosen], self.start_ns[chosen], self.end_ns[chosen], self.complete[chosen]
        )

    def at(self, time_ns: Int64) -> Int64:
        """Index of the step at each time, or -1."""
        if len(self) == 0:
            return np.full(len(time_ns), -1, np.int64)
        index = np.searchsorted(self.start_ns, time_ns, side="right") - 1
        return np.where((index >= 0) & (time_ns < self.end_ns[np.maximum(index, 0)]), index, -1)

    @cached_property
    def of_device(self) -> Int64:
        """[d] index of the step that launched each device event, or -1."""
        return np.where(self.launches.is_linked, self.at(self.launches.launch_start_ns), -1)

    @cached_property
    def of_call(self) -> Int64:
        """[c] index of the step that made each launch call, or -1."""
        return self.at(self.launches.call_start_ns)


@dataclass(frozen=True, eq=False)
class StepSpans:
    """Steps apart from what was launched in them; fields as in `Steps`."""

    source: StepSource
    names: tuple[str, ...]
    start_ns: Int64
    end_ns: Int64
    complete: tuple[bool, ...]

    def of(self, launches: Launches) -> Steps:
        """These steps, with the launches that are placed in them."""
        return Steps(launches, self.source, self.names, self.start_ns, self.end_ns, self.complete)


def find_steps(
    trace: Trace, marks: UInt32, launches: Launches, regions: Regions, compiles: Compiles
) -> Steps:
    """Find the steps of ``trace``, which may be a window of a longer one."""
    rows = _profiler_steps(trace, marks)
    if len(rows):
        return _of_rows(trace, launches, "profiler_step", rows, _ends_of_profiler_steps(trace, rows))
    rows = _repeating_annotation(trace, marks, launches)
    if len(rows):
        return _of_rows(trace, launches, "annotation", rows, _ends(trace, rows))
    ends = _ends_of_optimizer_steps(trace, marks, launches)
    if len(ends):
        start = np.append(min(_first_work(trace), int(ends[0])), ends[:-1])
        return _steps(trace, launches, "optimizer", start, ends, is_last_complete=True)
    loop = loop_of_regions(trace, regions, compiles)
    if loop is not None:
        return _of_loop(trace, launches, "region", loop)
    loop = loop_of_launches(trace, regions, compiles)
    if loop is not None:
        return _of_loop(trace, launches, "repetition", loop)
    nothing = np.empty(0, np.int64)
    return Steps(launches, None, (), nothing, nothing, ())


def _steps(
    trace: Trace,
    launches: Launches,
    source: StepSource,
    start_ns: Int64,
    end_ns: Int64,
    *,
    is_last_complete: bool,
    names: tuple[str, ...] = (),
) -> Steps:
    count = len(start_ns)
    # of a file whose end is missing nobody knows what the last step still did
    is_last_complete = is_last_complete and trace.info.complete
    return Steps(
        launches=launches,
        source=source,
        names=names or tuple(f"step {number}" for number in range(count)),
        start_ns=start_ns,
        end_ns=end_ns,
        complete=(*[True] * (count - 1), is_last_complete),
    )


def _of_rows(trace: Trace, launches: Launches, source: StepSource, rows: Int64, end_ns: Int64) -> Steps:
    names = tuple(trace.name_of(row) for row in rows.tolist())
    start = trace.columns.start_ns[rows]
    return _steps(trace, launches, source, start, end_ns, is_last_complete=True, names=names)


def _of_loop(trace: Trace, launches: Launches, source: StepSource, loop: Loop) -> Steps:
    end = np.append(loop.start_ns[1:], loop.end_ns)
    return _steps(trace, launches, source, loop.start_ns, end, is_last_complete=loop.is_last_complete)


def _ends(trace: Trace, rows: Int64) -> Int64:
    """Start of the next row; of the last, its own end."""
    c = trace.columns
    return np.append(c.start_ns[rows[1:]], c.end_ns[rows[-1]])


def _on_main_track(trace: Trace, rows: Int64) -> Int64:
    """Those rows that are on the track which has most of them, in time order."""
    if len(rows) == 0:
        return rows
    tracks, counts = np.unique(trace.columns.track[rows], return_counts=True)
    main: Int64 = rows[trace.columns.track[rows] == tracks[np.argmax(counts)]]
    return main


def _profiler_steps(trace: Trace, marks: UInt32) -> Int64:
    c = trace.columns
    kind = (c.category == Category.USER_ANNOTATION) | (c.category == Category.CPU_OP)
    rows = np.flatnonzero(marked(marks, c.name, Mark.STEP) & kind & c.is_valid)
    return _on_main_track(trace, rows)


def _ends_of_profiler_steps(trace: Trace, rows: Int64) -> Int64:
    """As `_ends`; a step whose number is not followed by the next one ends itself (a schedule waited)."""
    ends = _ends(trace, rows)
    found = [_STEP_NUMBER.search(trace.name_of(row)) for row in rows.tolist()]
    number = np.array([int(match.group(1)) if match else -1 for match in found])
    followed = np.append(np.diff(number) == 1, False)
    return np.where(followed, ends, np.minimum(trace.columns.end_ns[rows], ends))


def own_annotations(trace: Trace, marks: UInt32) -> Int64:
    """Rows of the annotations that the program made itself; those of PyTorch are left out."""
    c = trace.columns
    wanted = trace.names.where(lambda name: _NOT_A_STEP.match(name) is None)
    wanted &= (marks & np.uint32(Mark.PHASE | Mark.PHASE_DATA | Mark.GRAPH)) == 0
    return np.flatnonzero((c.category == Category.USER_ANNOTATION) & wanted[c.name] & c.is_valid)


def _repeating_annotation(trace: Trace, marks: UInt32, launches: Launches) -> Int64:
    """Rows of the annotation that looks most like a step, or none.

    It must come at least twice on one thread without overlapping itself, and most of its turns must
    launch something if anything does. Preferred are names that speak of steps, then those inside no
    other candidate, then those that cover most time; of several that take turns (forward,
    backward), the first. Names that differ only in their numbers can be one annotation.
    """
    c = trace.columns
    rows = own_annotations(trace, marks)
    if len(rows) < 2:
        return rows[:0]
    names, which = np.unique(c.name[rows], return_inverse=True)
    numbers: dict[str, int] = {}
    families = (_NUMBER.sub("#", trace.names[int(name)]) for name in names)
    family = np.array([numbers.setdefault(text, len(numbers)) for text in families])[which]
    launch_ns = np.sort(launches.call_start_ns)
    candidates = [mine for label in (which, family) for mine in _candidates(trace, rows, label, launch_ns)]
    return _most_like_a_step(trace, candidates) if candidates else rows[:0]


def _most_like_a_step(trace: Trace, candidates: list[Int64]) -> Int64:
    c = trace.columns
    every = np.unique(np.concatenate(candidates))
    _, parent = nest(c.track[every].astype(np.int64), c.start_ns[every], c.end_ns[every])

    def rank(mine: Int64) -> tuple[bool, bool]:
        says_so = _STEP_WORD.search(trace.name_of(int(mine[0]))) is not None
        return says_so, bool((parent[np.searchsorted(every, mine)] < 0).mean() > 0.5)

    ranks = [rank(mine) for mine in candidates]
    best = max(ranks)
    among = [mine for mine, its in zip(candidates, ranks, strict=True) if its == best]
    longest = max(among, key=lambda mine: int(c.dur_ns[mine].sum()))
    peers = [m for m in among if len(m) == len(longest) and c.track[m[0]] == c.track[longest[0]]]
    return min(peers, key=lambda mine: int(c.start_ns[mine[0]]))


def _candidates(trace: Trace, rows: Int64, label: Int64, launch_ns: Int64) -> list[Int64]:
    """Rows of equal label on one thread that could be steps, each in time order."""
    c = trace.columns
    track = c.track[rows].astype(np.int64)
    group = np.unique(track * (int(label.max()) + 1) + label, return_inverse=True)[1]
    order = np.argsort(group, kind="stable")
    found = []
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        mine = rows[members]
        if (
            len(mine) > 1
            and (c.start_ns[mine[1:]] >= c.end_ns[mine[:-1]]).all()
            and _are_busy(launch_ns, c.start_ns[mine], _ends(trace, mine))
        ):
            found.append(mine)
    return found


def _are_busy(launch_ns: Int64, start_ns: Int64, end_ns: Int64) -> bool:
    """Whether launches are spread over these turns (or there are none at all)."""
    if len(launch_ns) == 0:
        return True
    launched = np.searchsorted(launch_ns, end_ns) - np.searchsorted(launch_ns, start_ns)
    if len(launched) > 2:
        launched = launched[:-1]  # the last ends itself, which may be soon
    few, usual = np.percentile(launched, [25, 50])
    return bool(usual > 0 and few >= 0.25 * usual and (launched == 0).mean() <= 0.2)


def _ends_of_optimizer_steps(trace: Trace, marks: UInt32, launches: Launches) -> Int64:
    """Ends of the optimizer steps; several optimizers stepping one after the other are one."""
    c = trace.columns
    kind = (c.category == Category.USER_ANNOTATION) | (c.category == Category.CPU_OP)
    rows = np.flatnonzero(marked(marks, c.name, Mark.OPTIMIZER) & kind & c.is_valid)
    rows = _on_main_track(trace, rows)
    if len(rows) == 0:
        return rows
    _, parent = nest(c.track[rows].astype(np.int64), c.start_ns[rows], c.end_ns[rows])
    rows = rows[parent < 0]
    start, end = c.start_ns[rows], c.end_ns[rows]
    calls = np.sort(launches.call_start_ns)
    if len(calls):
        launched = np.searchsorted(calls, start[1:]) - np.searchsorted(calls, end[:-1])
        end = end[np.append(launched > 0, True)]
    return end


def _first_work(trace: Trace) -> int:
    """When the first operator of any thread started."""
    c = trace.columns
    ops = (c.category == Category.CPU_OP) & c.is_valid
    return int(c.start_ns[ops].min()) if ops.any() else 0
