"""What the page asks and the server answers, as functions of a session and the request's parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinetoscope.errors import UsageError
from kinetoscope.reporting import summary
from kinetoscope.trace import Int64, Trace, UInt8
from kinetoscope.viewer import area, causes, details, flows, meaning, overlays, story, tracks
from kinetoscope.viewer.analysis import Analysis
from kinetoscope.viewer.encode import Drawn, label, viewport
from kinetoscope.viewer.lanes import Lanes
from kinetoscope.viewer.pyramid import Pyramid
from kinetoscope.viewer.session import Session
from kinetoscope.viewer.tiles import query
from kinetoscope.viewer.timeline import Timeline

Parameters = Mapping[str, str]
_PIXELS = 32_768
_NUMBER = re.compile("[0-9]{1,12}")


def number(given: Parameters, name: str) -> float:
    """A finite number among the parameters."""
    try:
        value = float(given[name])
    except (KeyError, ValueError):
        raise UsageError(f"{name}: a number is needed") from None
    if not np.isfinite(value) or abs(value) > 2**62:
        raise UsageError(f"{name}: out of range")
    return value


def row_number(given: Parameters, timeline: Timeline, name: str = "row") -> int:
    """The number of a slice that exists."""
    row = int(number(given, name))
    if not 0 <= row < len(timeline.trace.columns):
        raise UsageError(f"{name}: there is no such slice")
    return row


def window(given: Parameters) -> tuple[float, float]:
    """Begin and end, in order."""
    begin, end = number(given, "begin"), number(given, "end")
    if end <= begin:
        raise UsageError("end: must be after begin")
    return begin, end


def view(given: Parameters) -> tuple[float, float, float]:
    """Begin and end of a picture, and how long one of its pixels is."""
    begin, end = window(given)
    pixel = number(given, "pixel")
    if pixel <= 0 or (end - begin) / pixel > _PIXELS:
        raise UsageError(f"pixel: at most {_PIXELS} pixels at a time")
    return begin, end, pixel


def numbers(text: str, limit: int) -> Int64:
    """``0-3,7`` as numbers below ``limit``, ascending."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        # neither endless texts of digits nor signs of other scripts are numbers of anything here
        if not all(_NUMBER.fullmatch(each) for each in (first, last or first)):
            raise UsageError("expected numbers and ranges, as in 0-3,7")
        found.update(range(int(first), min(int(last or first), limit - 1) + 1))
    return np.array(sorted(n for n in found if n < limit), np.int64)


def tiles(session: Session, given: Parameters) -> bytes:
    """One viewport."""
    timeline, analysis = session.timeline, session.analysis_if_ready
    begin, end, pixel = view(given)
    own = len(timeline.lanes)
    idle = analysis.idle_if_known if analysis is not None else None
    every = numbers(given.get("lanes", ""), own + (len(idle.lanes) if idle else 0))
    parts = [_drawn(session, every[every < own], begin, end, pixel, given.get("q", ""), "deep" in given)]
    texts: list[str] | Any = timeline.trace.names
    if idle is not None and (every >= own).any():
        parts.append(
            _gaps(idle.pyramid, every[every >= own] - own, begin, end, pixel, own, idle.cause, len(texts))
        )
        texts = [*texts, *idle.causes]
    return viewport(parts, texts, begin, pixel, {"analysed": analysis is not None})


def _drawn(
    session: Session, lanes: Int64, begin: float, end: float, pixel: float, searched: str, deep: bool
) -> Drawn:
    timeline, analysis = session.timeline, session.analysis_if_ready
    pieces = query(timeline.pyramid, lanes, begin, end, pixel)
    ordered = timeline.lanes
    row = ordered.row[pieces.longest]
    c = timeline.trace.columns
    meant = analysis.meaning[row] if analysis is not None else _rough_meaning(timeline, row)
    hit = np.zeros(len(pieces), np.uint8)
    if searched:
        before = session.searches.best(searched, deep).before
        hit = (before[pieces.last + 1] > before[pieces.first]).astype(np.uint8)
    return Drawn(
        pieces,
        pieces.lane,
        ordered.start_ns[pieces.first],
        ordered.end_ns[pieces.last],
        row,
        c.name[row],
        meant,
        hit,
    )


def _rough_meaning(timeline: Timeline, row: Any) -> Any:
    """By category alone, while the analysis is still being made."""
    table = np.zeros(256, np.uint8)
    for category, name in meaning.OF_CATEGORY.items():
        table[category] = meaning.NUMBER[name]
    return table[timeline.trace.columns.category[row]]


def _gaps(
    pyramid: Pyramid, lanes: Int64, begin: float, end: float, pixel: float, own: int, cause: UInt8, names: int
) -> Drawn:
    pieces = query(pyramid, lanes, begin, end, pixel)
    ordered: Lanes = pyramid.lanes
    gap = ordered.row[pieces.longest]
    return Drawn(
        pieces,
        pieces.lane + own,
        ordered.start_ns[pieces.first],
        ordered.end_ns[pieces.last],
        gap,
        cause[gap].astype(np.int64) + names,
        np.full(len(pieces), meaning.NUMBER["idle"], np.uint8),
        np.zeros(len(pieces), np.uint8),
    )


def slice_(session: Session, given: Parameters) -> dict[str, Any]:
    """Details of one slice, its args left out."""
    timeline, analysis = session.timeline, session.analysis_if_ready
    row = row_number(given, timeline)
    found = details.basics(timeline, row)
    if analysis is not None:
        found.update(details.linked(timeline, analysis, row))
    return found


def args(session: Session, given: Parameters) -> dict[str, Any]:
    """The args of one slice, decoded from the file now."""
    timeline = session.timeline
    return {"args": timeline.trace.args(row_number(given, timeline))}


def kernel(session: Session, given: Parameters) -> dict[str, Any]:
    """Source, code and next commands of a kernel run."""
    return details.kernel(session.analysis, row_number(given, session.timeline))


def at(session: Session, given: Parameters) -> dict[str, Any]:
    """The slice (or idle gap) of a lane at a time."""
    timeline = session.timeline
    lane, time, within = int(number(given, "lane")), number(given, "time"), number(given, "within")
    own = len(timeline.lanes)
    if 0 <= lane < own:
        position = timeline.lanes.at(lane, time, within)
        return {"row": int(timeline.lanes.row[position]) if position is not None else None}
    idle = session.analysis.idle
    if idle is None or not 0 <= lane - own < len(idle.lanes):
        raise UsageError("lane: there is no such lane")
    position = idle.lanes.at(lane - own, time, within)
    if position is None:
        return {"row": None}
    gap = int(idle.lanes.row[position])
    start = int(idle.lanes.start_ns[position])
    next_row, because = int(idle.next_row[gap]), int(idle.because[gap])
    cause = idle.causes[int(idle.cause[gap])]
    did, helps = causes.ABOUT[cause]
    return {
        "row": None,
        "gap": {
            "lane": lane,
            "cause": cause,
            "did": did,
            "helps": helps,
            "device": idle.devices[lane - own],
            "start_ns": start,
            "dur_ns": int(idle.lanes.end_ns[position]) - start,
            "because": details.brief(timeline, because) if because >= 0 else None,
            "next": details.brief(timeline, next_row),
        },
    }


def names(session: Session, given: Parameters) -> dict[str, Any]:
    """Labels of names by their numbers; those past the trace's own are causes of idle time."""
    known = session.timeline.trace.names
    analysis = session.analysis_if_ready
    idle = analysis.idle_if_known if analysis is not None else None
    causes = list(idle.causes) if idle is not None else []
    found = {}
    for which in numbers(given.get("ids", ""), len(known) + len(causes)).tolist():
        found[str(which)] = label(known[which]) if which < len(known) else causes[which - len(known)]
    return {"names": found}


def neighbour(session: Session, given: Parameters) -> dict[str, Any]:
    """The next or previous slice of a lane."""
    timeline = session.timeline
    row = row_number(given, timeline)
    return {"row": timeline.neighbour(row, given.get("direction") != "back")}


def search(session: Session, given: Parameters) -> dict[str, Any]:
    """Hits of a text."""
    begin, end = window(given)
    text = given.get("q", "")
    if not text:
        raise UsageError("q: a text is needed")
    buckets = min(4096, max(1, int(number(given, "buckets"))))
    deep, asker = "deep" in given, given.get("by", "")[:64]
    return session.searches.summary(text, begin, end, buckets, deep=deep, asker=asker)


def search_step(session: Session, given: Parameters) -> dict[str, Any]:
    """The next or previous hit."""
    timeline = session.timeline
    row = row_number(given, timeline) if "row" in given else None
    forward = given.get("direction") != "back"
    found = session.searches.step(
        given.get("q", ""), number(given, "time"), row, forward, deep="deep" in given
    )
    return {"hit": found}


def area_(session: Session, given: Parameters) -> dict[str, Any]:
    """Statistics of a stretch of time on some tracks."""
    begin, end = window(given)
    timeline = session.timeline
    chosen = numbers(given.get("strips", ""), len(timeline.strips)).tolist()
    strips = {(timeline.strips[n].track, timeline.strips[n].kind) for n in chosen}
    return area.statistics(timeline.trace, session.analysis.meaning, strips, int(begin), int(np.ceil(end)))


def flows_in_view(session: Session, given: Parameters) -> dict[str, Any]:
    """All arrows of a viewport."""
    timeline = session.timeline
    begin, end, pixel = view(given)
    shown = np.zeros(len(timeline.lanes) + 1, np.bool_)
    shown[numbers(given.get("lanes", ""), len(timeline.lanes))] = True
    return flows.in_view(timeline, session.analysis.flows, begin, end, pixel, shown)


def counter(session: Session, given: Parameters) -> dict[str, Any]:
    """One counter, pixel by pixel."""
    begin, end = window(given)
    series, which = session.analysis.series, int(number(given, "id"))
    if not 0 <= which < len(series):
        raise UsageError("id: there is no such counter")
    return series[which].pixels(begin, end, min(_PIXELS, max(1, int(number(given, "pixels")))))


def overview(session: Session, given: Parameters) -> dict[str, Any]:
    """What the overview page begins with."""
    return story.overview(session.timeline, session.analysis)


def bars(session: Session, given: Parameters) -> dict[str, Any]:
    """Where the time goes."""
    return story.bars(session.timeline, session.analysis)


def locate(session: Session, given: Parameters) -> dict[str, Any]:
    """The slice that a piece of evidence names: track, start and name."""
    trace = session.timeline.trace
    row = find_event(trace, given.get("track", ""), int(number(given, "start")), given.get("name", ""))
    return {"row": row}


def find_event(trace: Trace, track: str, start_ns: int, name: str) -> int | None:
    """Row of the event with this name that starts then on the track ``pid/tid``."""
    c = trace.columns
    for about in trace.track_list:
        if f"{about.pid}/{about.tid}" != track:
            continue
        first, last = np.searchsorted(c.start_ns[about.first : about.last], [start_ns, start_ns + 1])
        rows = range(about.first + int(first), about.first + int(last))
        same = [row for row in rows if trace.name_of(row) == name]
        if same or rows:
            return same[0] if same else rows[0]
    return None


def about(session: Session, given: Parameters) -> dict[str, Any]:
    """What the page needs to lay out the timeline: summary, tracks, extent."""
    timeline = session.timeline
    low, high = timeline.extent_ns
    return {
        "summary": summary(timeline.trace),
        "begin_ns": low,
        "end_ns": high,
        "lanes": len(timeline.lanes),
        "rows": tracks.rows(timeline),
        "tracks": [tracks.label_of(timeline, number) for number in range(len(timeline.trace.track_list))],
        "meanings": [{"key": key, "label": label} for key, label in meaning.MEANINGS],
    }


def overlaid(session: Session, given: Parameters) -> dict[str, Any]:
    """Steps, breaks, phases, idle lanes (numbered after the others) and counters."""
    timeline, analysis = session.timeline, session.analysis
    idle, first_lane = analysis.idle, len(timeline.lanes)
    return {
        "steps": overlays.steps(analysis.links),
        "breaks": overlays.breaks(timeline, analysis.links, analysis.report),
        "phases": overlays.phases(analysis.links),
        "idle": [
            {"device": device, "lane": first_lane + number, "gaps": gaps, "tracks": _tracks(analysis, number)}
            for number, (device, gaps) in enumerate(_gap_counts(idle))
        ],
        "causes": list(idle.causes) if idle else [],
        "counters": [series.summary(number) for number, series in enumerate(analysis.series)],
    }


def _gap_counts(idle: overlays.IdleLanes | None) -> Sequence[tuple[str, int]]:
    if idle is None:
        return []
    offset = idle.lanes.offset.tolist()
    return [(device, offset[n + 1] - offset[n]) for n, device in enumerate(idle.devices)]


def _tracks(analysis: Analysis, device: int) -> list[int]:
    rows = analysis.links.devices[device].rows
    found: list[int] = sorted(set(analysis.links.trace.columns.track[rows].tolist()))
    return found
