"""From a trace to a model: segments, launches and waits of a bounded number of steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinetoscope.analyses.idle_causes import LONGEST_LATENCY_NS, launching_lines
from kinetoscope.analyses.idle_causes_host import Line
from kinetoscope.analyses.idle_causes_names import WAITS, Cause, State
from kinetoscope.analyses.launch_bound import late_starts, queue_depth
from kinetoscope.analyses.origins import has_cpu_rows
from kinetoscope.analyses.steps import steps, usual_steps
from kinetoscope.link import Links
from kinetoscope.link.launches import Launches
from kinetoscope.link.names import Mark, marked
from kinetoscope.replay.model import (
    Blocks,
    Events,
    Host,
    Item,
    Items,
    Model,
    Waits,
    lengths_of_blocks,
)
from kinetoscope.replay.waiting import Waiting, Work, find_waits, find_work, other_streams
from kinetoscope.trace import Bool, Category, Int64

#: so many steps and launches are replayed at most: a change is asked for many times
MOST_STEPS, MOST_LAUNCHES = 32, 12_000
#: launches that CUDA takes before the host has to wait
_QUEUE = 1024
# Where a trace shows no free (or no busy) device to measure them on.
_LATENCY_NS, _GAP_NS, _ENOUGH = 1_500, 700, 3
#: what waits longer behind its own stream waits for something else
_LONGEST_GAP_NS = 20_000


def build(links: Links) -> Model | None:
    """The model of ``links``' steps; None without steps, launches or device events."""
    launches = links.launches
    chosen = _choose_steps(links)
    if chosen is None or not launches.are_device_events_recorded or not has_cpu_rows(links):
        return None
    first, last = chosen
    found = links.steps
    low, high = int(found.start_ns[first]), int(found.end_ns[last])
    lines = launching_lines(links)
    called = _calls_in(launches, low, high)
    if not lines or not len(called):
        return None
    work = find_work(links, called)
    waiting = find_waits(links, low, high, called, work)
    call_end = (launches.call_start_ns + launches.call_dur_ns)[called]
    # A copy that blocks the host is launched at the start of its call, which then waits.
    issue = np.where(waiting.blocks_in_call, launches.call_start_ns[called], call_end)
    issue = np.minimum(issue, high)
    marks = np.append(found.start_ns[first : last + 1], high)
    borders = (
        *(issue, waiting.begin_ns, waiting.end_ns, waiting.record_ns, waiting.stream_ns, marks),
        *_optimizer_borders(links),
    )
    host = _host(lines, np.concatenate(borders), low, high, found.start_ns[first : last + 1], first)
    waits = _take_waits(links, host, waiting)
    blocks, events = _blocks(links, called, work, waiting.blocks_in_call, issue)
    items = _items(
        host.recorded_ns,
        (Item.LAUNCH, issue, np.arange(len(called))),
        (Item.RECORD, waiting.record_ns, np.zeros(len(waiting.record_ns), np.int64)),
        (Item.STREAM_WAIT, waiting.stream_ns, np.zeros(len(waiting.stream_ns), np.int64)),
        (Item.WAIT, waiting.end_ns, np.arange(len(waiting.end_ns))),
        (Item.STEP, marks, np.arange(first, last + 2)),
    )
    return Model(
        links=links,
        first_step=first,
        last_step=last,
        usual=usual_steps(found),
        host=host,
        items=items,
        waits=waits,
        blocks=blocks,
        events=events,
        queue=_queue(links),
        backlog_ns=_backlog(links, work, low),
    )


def _choose_steps(links: Links) -> tuple[int, int] | None:
    """First and last of a run of usual steps, few enough, whose median is that of all."""
    found = links.steps
    if not len(found):
        return None
    usual = usual_steps(found)
    if not len(usual) or (np.diff(usual) != 1).any():
        usual = np.arange(len(found))[1 if len(found) > 2 else 0 :]
    calls = np.bincount(found.of_call[found.of_call >= 0], minlength=len(found))[usual]
    each = max(1, int(np.median(calls)))
    count = max(2, min(MOST_STEPS, MOST_LAUNCHES // each, len(usual)))
    if count >= len(usual):
        return int(usual[0]), int(usual[-1])
    duration = (found.end_ns - found.start_ns)[usual]
    median = steps(links).median_ns or float(np.median(duration))
    windows = np.lib.stride_tricks.sliding_window_view(duration, count)
    medians = np.median(windows, axis=1)
    # the run should also not contain a step far off: of equally good ones the steadiest
    best = int(np.argmin(np.abs(medians - median) + 0.01 * np.abs(windows.mean(axis=1) - median)))
    return int(usual[best]), int(usual[best + count - 1])


def _calls_in(launches: Launches, low: int, high: int) -> Int64:
    """Launch calls of the window that have device events, in order of their ends."""
    start, end = launches.call_start_ns, launches.call_start_ns + launches.call_dur_ns
    called = np.flatnonzero((start >= low) & (start < high) & (launches.events_per_call > 0))
    ordered: Int64 = called[np.lexsort((called, end[called]))]
    return ordered


def _host(
    lines: dict[int, Line], borders: Int64, low: int, high: int, step_starts: Int64, first_step: int
) -> Host:
    """The segments between all borders, each with what the first thread that does anything does.

    One that waits for the device does something only if no other does.
    """
    at = np.concatenate([borders, *(line.at_ns for line in lines.values()), [low, high]])
    at = np.unique(at[(at >= low) & (at <= high)])
    begin = at[:-1]
    cause = np.full(len(begin), Cause.PYTHON, np.uint8)
    row = np.full(len(begin), -1, np.int64)
    quiet: Bool = np.ones(len(begin), np.bool_)
    is_wait = np.isin(np.arange(len(State)), WAITS)
    at_work = ~is_wait
    at_work[State.NOTHING] = False
    for counts in (at_work, is_wait):
        for line in lines.values():
            if not len(line.at_ns):
                continue
            index = np.searchsorted(line.at_ns, begin, side="right") - 1
            busy = quiet & (index >= 0) & counts[line.state[np.maximum(index, 0)]]
            cause[busy], row[busy] = line.cause[index[busy]], line.row[index[busy]]
            quiet &= ~busy
    step = np.searchsorted(step_starts, begin, side="right") - 1 + first_step
    return Host(np.diff(at), cause, row, step, begin)


def _queue(links: Links) -> int:
    """How many launches the host may be ahead: the usual, or as many as the trace shows."""
    _, depth = queue_depth(links, late_starts(links)[1])
    return max(_QUEUE, int(depth.max()) if len(depth) else 0)


def _backlog(links: Links, work: Work, low: int) -> Int64:
    """Per stream: the end of what it runs before its first block of the window, from the window's start.

    A device that lags goes on with that while the window's first step is launched.
    """
    c, rows = links.trace.columns, links.launches.device_rows
    rows = rows[c.is_valid[rows]]
    found = np.full(len(work.tracks), -(2**62), np.int64)
    for stream, track in enumerate(work.tracks.tolist()):
        first = work.start_ns[(work.stream == stream) & (work.start_ns < 2**62)].min()
        earlier = c.end_ns[rows[(c.track[rows] == track) & (c.start_ns[rows] < first)]]
        if len(earlier):
            found[stream] = min(int(earlier.max()), int(first)) - low
    return found


def _take_waits(links: Links, host: Host, waiting: Waiting) -> Waits:
    """Takes the time of waits out of the segments, but not that in which another thread worked meanwhile:
    that is host time, and so much less is left for the call itself."""
    track = links.trace.columns.track[np.maximum(host.row, 0)]
    own_ns = waiting.waits.own_ns.copy()
    for number, (begin, end, thread) in enumerate(
        zip(waiting.begin_ns.tolist(), waiting.end_ns.tolist(), waiting.track.tolist(), strict=True)
    ):
        inside = slice(*np.searchsorted(host.recorded_ns, [begin, end]))
        others = (host.row[inside] >= 0) & (track[inside] != thread)
        host.dur_ns[inside] = np.where(others, host.dur_ns[inside], 0)
        own_ns[number] = max(0, own_ns[number] - int(host.dur_ns[inside].sum()))
    return replace(waiting.waits, own_ns=own_ns)


def _items(begin_ns: Int64, *groups: tuple[Item, Int64, Int64]) -> Items:
    """Items at these times, in order; at one time in the order of the groups."""
    times = np.concatenate([group[1] for group in groups])
    kind = np.concatenate([np.full(len(group[1]), group[0], np.uint8) for group in groups])
    rank = np.concatenate([np.full(len(group[1]), number) for number, group in enumerate(groups)])
    argument = np.concatenate([group[2] for group in groups])
    order = np.lexsort((rank, times))
    after = np.searchsorted(begin_ns, times[order], side="left")
    return Items(kind[order].astype(np.uint8), after, argument[order])


def _blocks(links: Links, called: Int64, work: Work, in_call: Bool, issue_ns: Int64) -> tuple[Blocks, Events]:
    """What these calls launched."""
    launches, c = links.launches, links.trace.columns
    number = np.full(len(launches.call_rows), -1, np.int64)
    number[called] = np.arange(len(called))
    mine = np.flatnonzero(launches.call_of >= 0)
    mine = mine[(number[launches.call_of[mine]] >= 0) & c.is_valid[launches.device_rows[mine]]]
    rows = launches.device_rows[mine]
    block = number[launches.call_of[mine]]
    order = np.lexsort((c.start_ns[rows], block))
    rows, block = rows[order], block[order]
    start, end = c.start_ns[rows], c.end_ns[rows]
    # the latest end so far within each block, by a running maximum over shifted times
    width = int(end.max() - start.min()) + 1 if len(rows) else 1
    shift = block * width
    reached = np.maximum.accumulate(end + shift) - shift
    first = np.append(True, block[1:] != block[:-1])[: len(block)]
    gap = np.where(first, 0, start - np.concatenate(([0], reached[:-1])))
    events = Events(block, rows, c.dur_ns[rows], gap)
    heads = np.flatnonzero(first)
    kind = np.zeros(len(called), np.int64)
    kind[block[heads]] = c.category[rows[heads]].astype(np.int64)
    kind[launches.is_graph_call[called]] = len(Category)
    by_kind, between = _latencies(links)
    # nothing starts before its call does; what is launched at the start of its call starts when it did
    latency = np.maximum(by_kind[kind], -launches.call_dur_ns[called])
    until = c.start_ns[rows[heads]] - launches.call_start_ns[called[block[heads]]]
    own = np.full(len(called), _LATENCY_NS, np.int64)
    own[block[heads]] = np.clip(until, 0, np.maximum(_gap_before_rows(links, rows[heads]), _LATENCY_NS))
    latency = np.where(in_call, own, latency)
    length = lengths_of_blocks(events, len(called))
    behind, behind_ns = other_streams(work.stream, work.start_ns, length, issue_ns + latency)
    extra = _unexplained(links, rows[heads], block[heads], issue_ns + latency)
    return (
        Blocks(
            stream=work.stream,
            length_ns=length,
            latency_ns=latency,
            gap_ns=between[kind],
            extra_ns=np.where(behind >= 0, 0, extra),
            behind=behind,
            behind_ns=behind_ns,
            step=links.steps.of_call[called],
            row=launches.call_rows[called],
        ),
        events,
    )


def _unexplained(links: Links, heads: Int64, block: Int64, ready_ns: Int64) -> Int64:
    """Per block: how long an idle device left it lying, beyond the usual; 0 if not much longer."""
    c = links.trace.columns
    extra = np.zeros(len(ready_ns), np.int64)
    for events in links.devices:
        until = np.maximum.accumulate(events.end_ns)
        # what started before a head, at the latest
        before = np.searchsorted(events.start_ns, c.start_ns[heads], side="left") - 1
        idle_since = np.where(before >= 0, until[np.maximum(before, 0)], np.iinfo(np.int64).min)
        mine = np.isin(heads, events.rows)
        left = c.start_ns[heads] - np.maximum(ready_ns[block], idle_since)
        late = mine & (left > LONGEST_LATENCY_NS)
        extra[block[late]] = left[late]
    return extra


def _optimizer_borders(links: Links) -> tuple[Int64, Int64]:
    """Starts and ends of optimizer steps, which are annotations and so no borders by themselves."""
    c = links.trace.columns
    rows = np.flatnonzero(marked(links.marks, c.name, Mark.OPTIMIZER) & c.is_cpu & c.is_valid)
    return c.start_ns[rows], c.end_ns[rows]


def _gap_before_rows(links: Links, rows: Int64) -> Int64:
    """`_gap_before` of device events by row; a first one has all the time in the world."""
    gap = _gap_before(links)[np.searchsorted(links.launches.device_rows, rows)]
    return np.where(gap < 0, np.iinfo(np.int64).max, gap)


def _latencies(links: Links) -> tuple[Int64, Int64]:
    """By category of the work (last: graphs): median time from a call's return to its start on a free
    device, and from the end of the work before it on its stream where it had been launched in time."""
    launches, c = links.launches, links.trace.columns
    late, first = late_starts(links)
    latency = np.full(len(Category) + 1, _LATENCY_NS, np.int64)
    between = np.full(len(Category) + 1, _GAP_NS, np.int64)
    rows, call = launches.device_rows, launches.call_of
    keep = np.flatnonzero(first & c.is_valid[rows])
    kind = c.category[rows[keep]].astype(np.int64)
    if launches.is_graph_call.any():
        kind[launches.is_graph_call[call[keep]]] = len(Category)
    returned = (launches.call_start_ns + launches.call_dur_ns)[call[keep]]
    wait = c.start_ns[rows[keep]] - returned
    # a copy may be made within its call: it was there when the call began
    in_call = kind == Category.MEMCPY
    ready = np.where(in_call, c.start_ns[rows[keep]] - launches.call_start_ns[call[keep]], wait)
    gap = _gap_before(links)[keep]
    for number in np.flatnonzero(np.bincount(kind)).tolist():
        mine = kind == number
        free = wait[mine & late[keep]]
        if len(free) >= _ENOUGH:
            latency[number] = round(float(np.median(free)))
        queued = gap[mine & (ready > gap) & (gap >= 0) & (gap < _LONGEST_GAP_NS)]
        if len(queued) >= _ENOUGH:
            between[number] = round(float(np.median(queued)))
    return latency, between


def _gap_before(links: Links) -> Int64:
    """[d] time since the work before it on its stream ended; -1 for none."""
    return links.once(_find_gap_before)


def _find_gap_before(links: Links) -> Int64:
    launches, c = links.launches, links.trace.columns
    rows = launches.device_rows
    gap = np.full(len(rows), -1, np.int64)
    # rows are ordered by stream, then start
    same = c.track[rows[1:]] == c.track[rows[:-1]]
    gap[1:] = np.where(same, c.start_ns[rows[1:]] - c.end_ns[rows[:-1]], -1)
    return gap
